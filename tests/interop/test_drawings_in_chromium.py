"""Drawings of ownership as a browser shows them: on a phone and on a desk, light and dark."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop.browser import Chromium, chromium
from tests.unit.drawing.test_ownership_drawing import drawn
from tests.unit.what_if.groups import group

from kohort.assign.server.catalog import server_assignors
from kohort.cli.what_if.what_if_inputs import GroupInputs
from kohort.cli.what_if.what_if_page import forecast_page
from kohort.console.history.explanation_page import explanation_page
from kohort.drawing.html_page import document
from kohort.drawing.markup import tag
from kohort.drawing.ownership_drawing import inline_svg, svg_file
from kohort.group.explain.explain import explain
from kohort.group.migration.migration_plan import Limits
from kohort.what_if.change import PlannedChange
from kohort.what_if.group_facts import GroupFacts, Times, roster_of
from kohort.what_if.simulation import simulate

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

UNIFORM = server_assignors(["uniform"])["uniform"]
SAVED = Path(__file__).resolve().parents[2] / "examples" / "billing_events.jsonl"

TEXTS = """[...document.querySelectorAll("svg.ownership text")]
  .filter((text) => getComputedStyle(text).display !== "none")"""

OUTSIDE = f"""{TEXTS}.filter((text) => {{
  const box = text.getBoundingClientRect();
  return box.right > innerWidth + 1 || box.left < -1;
}}).map((text) => text.textContent)"""

OVERLAPPING = f"""(() => {{
  const boxes = {TEXTS}.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const pairs = boxes.flatMap(([name, one], at) => boxes.slice(at + 1).map(([other, two]) => [name, one, other, two]));
  return pairs.filter(([, one, , two]) => one.left < two.right - 1 && two.left < one.right - 1
    && one.top < two.bottom - 3 && two.top < one.bottom - 3).map(([name, , other]) => `${{name}} / ${{other}}`);
}})()"""

PLOTTED = """[...document.querySelectorAll("svg.owned .track")].map((each) => each.getBoundingClientRect())
  .every((box) => box.width > 0.6 * innerWidth && box.right <= innerWidth && box.height > 8)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as running:
        yield running


def explained() -> str:
    """Return the page of `kohort explain`, of a group whose members died and joined."""
    events = map(json.loads, SAVED.read_text(encoding="utf-8").splitlines())
    report = explain(list(events), "billing", now_ms=0)
    return explanation_page(report, report.rebalances, [], 0, lambda each: tag("code", *each.verb, *each.options))


def forecast_in(*protocols: str) -> str:
    """Return the page of `kohort what-if`, of a group of three with long names."""
    live = group(*(f"{name}-of-the-service-that-writes-invoices" for name in ("first", "second", "third")))
    found = GroupInputs(
        GroupFacts(live), Times(), Limits(True, UNIFORM), ["a message is 1 ms on its way"], ["callbacks take no time"]
    )
    args = Namespace(kill=["first"], stop=[], goal=None, assignor=None)
    change = PlannedChange(add=1, kill=("first-of-the-service-that-writes-invoices-id",))
    played = simulate(found.facts, roster_of(live), found.times, change, "", lambda _: None)
    return forecast_page(args, found, change, [replace(played, label=name) for name in protocols])


WRITTEN: dict[str, Callable[[], str]] = {
    "drawn.svg": lambda: svg_file(drawn()),
    "drawn.html": lambda: document("orders", inline_svg(drawn())),
    "explained.html": explained,
    "forecast.html": lambda: forecast_in(""),
    "compared.html": lambda: forecast_in("eager", "cooperative"),
}


@pytest.fixture(scope="module", params=list(WRITTEN))
def written(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a drawing as a file of its own, and within pages."""
    name = str(request.param)
    path = tmp_path_factory.mktemp("drawing") / name
    path.write_text(WRITTEN[name](), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 800])
def test_a_drawing_fits_and_no_text_runs_into_another(browser: Chromium, written: Path, width: int) -> None:
    browser.requests.clear()
    browser.console.clear()
    browser.open(written, width=width, is_phone=written.suffix == ".html")
    browser.value("for (const each of document.querySelectorAll('details')) each.open = true")
    assert (browser.requests, browser.console) == ([written.as_uri()], [])
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(OUTSIDE) == []
    assert browser.value(OVERLAPPING) == []
    assert browser.value(PLOTTED)


def test_text_differs_from_its_background_in_light_and_dark(browser: Chromium, written: Path) -> None:
    inks = []
    for is_dark in (False, True):
        browser.open(written, width=360, is_dark=is_dark)
        inks.append(browser.value(f"getComputedStyle({TEXTS}[0]).fill"))
    assert len(set(inks)) == 2
