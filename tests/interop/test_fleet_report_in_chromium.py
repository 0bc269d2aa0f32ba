"""The report as a browser shows it: on a phone and on a desk, by keyboard, with names that are scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.browser import Chromium, chromium
from tests.unit.fleet.reports import SCRIPT, report

from kohort.fleet.report.page import page

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PHONE: dict[str, Any] = {"width": 390, "height": 844, "is_phone": True}
DESK: dict[str, Any] = {"width": 1280, "height": 900}

UNDRAWN = """[...document.querySelectorAll("[data-plot]")].filter((plot) => {
  const strips = [...plot.querySelectorAll("svg.strip, svg.owned")];
  return !strips.length || !strips.every((svg) => svg.getBoundingClientRect().width > 40)
    || !strips.some((svg) => [...svg.querySelectorAll("rect")].some((rect) => {
      const box = rect.getBoundingClientRect();
      return box.width > 0 && box.height > 0 && getComputedStyle(rect).fill !== "none";
    }));
}).map((plot) => plot.dataset.plot)"""

WIDER = """[...document.querySelectorAll("body *")].filter((each) =>
  each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scrolls, nav, svg")
  && getComputedStyle(each).position !== "absolute").map((each) => each.outerHTML.slice(0, 200))"""


def searched(words: str) -> str:
    """Return what types words into the search."""
    typed = f"box.value = {json.dumps(words)}; box.dispatchEvent(new Event('input', {{ bubbles: true }}))"
    return f"(() => {{ const box = document.getElementById('group-search'); {typed}; }})()"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "report.html"
    path.write_text(page(report(groups=300)), encoding="utf-8")
    return path


@pytest.fixture
def shown(browser: Chromium, written: Path) -> Chromium:
    """The report in a desktop window, without interaction so far."""
    browser.console.clear()
    browser.dialogs.clear()
    browser.requests.clear()
    browser.open(written, **DESK)
    return browser


@pytest.mark.parametrize("device", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_and_every_plot_is_drawn(
    browser: Chromium, written: Path, device: dict[str, Any], is_dark: bool
) -> None:
    browser.console.clear()
    browser.requests.clear()
    browser.open(written, **device, is_dark=is_dark)
    assert browser.value("document.documentElement.scrollWidth") <= device["width"]
    assert browser.value(WIDER) == []
    assert (
        browser.value("document.querySelectorAll('[data-plot]').length") == 3 + 8
    )  # heat, ranking, readiness, 8 groups
    assert browser.value(UNDRAWN) == []
    assert browser.console == []
    assert browser.requests == [written.as_uri()]


def test_opening_everything_does_not_make_it_wider(browser: Chromium, written: Path) -> None:
    browser.open(written, **PHONE)
    browser.value("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.value("new Promise((done) => setTimeout(done, 50))")  # toggle events come after it
    assert browser.value("document.documentElement.scrollWidth") <= PHONE["width"]
    assert browser.value(WIDER) == []


def test_names_that_are_scripts_are_only_names(shown: Chromium) -> None:
    shown.value("for (const each of document.querySelectorAll('details')) each.open = true")
    assert shown.value("document.querySelectorAll('img, iframe, object').length") == 0
    assert shown.value("document.scripts.length") == 2
    assert shown.dialogs == []
    assert shown.console == []
    assert SCRIPT in shown.value("document.querySelector('.heat').textContent")


def test_a_script_that_got_in_would_not_run(browser: Chromium, written: Path) -> None:
    """Belt and braces: the page's policy names the one script that it has."""
    broken = written.with_name("broken.html")
    text = written.read_text(encoding="utf-8")
    broken.write_text(
        text.replace("</body>", "<script>window.got_in = 1</script><img src='x' onerror='got_in = 1'></body>")
    )
    browser.open(broken, **DESK)
    assert browser.value("typeof window.got_in") == "undefined"


def test_search_and_filters_answer_at_once(shown: Chromium) -> None:
    shown.value(searched("service-42"))
    names = shown.value("[...document.querySelectorAll('.group .name bdi')].map((each) => each.textContent)")
    assert names
    assert all("service-42" in name for name in names)
    assert shown.value("document.getElementById('group-count').textContent").endswith("of 300")


def test_a_link_to_a_group_opens_it_with_what_was_found(shown: Chromium) -> None:
    shown.value("document.querySelector('.todo a[data-group]').click()")
    shown.value("new Promise((done) => setTimeout(done, 100))")
    opened = shown.value("[...document.querySelectorAll('.group[open] .inside')].map((each) => each.textContent)")
    assert len(opened) == 1
    assert "Rebalance storm" in opened[0]
    assert "To do:" in opened[0]


def test_a_plot_is_read_with_the_arrow_keys(shown: Chromium) -> None:
    shown.value("document.querySelector('[data-cells=\"0\"]').focus()")
    first = shown.value("document.querySelector('[data-reading=heat]').textContent")
    shown.press("ArrowRight")
    second = shown.value("document.querySelector('[data-reading=heat]').textContent")
    assert "rebalance" in first
    assert first != second
    shown.value("document.querySelector('svg.owned').focus()")
    assert "00:00:00 to " in shown.value("document.querySelector('[data-reading=timeline-0]').textContent")


def test_ten_thousand_groups_are_listed_in_pages_and_searched(browser: Chromium, tmp_path: Path) -> None:
    large = tmp_path / "large.html"
    large.write_text(page(report(groups=10_000, hours=168)), encoding="utf-8")
    assert large.stat().st_size < 3_000_000
    browser.open(large, **DESK)
    browser.value(searched("team-3"))
    assert 0 < browser.value("document.querySelectorAll('.group').length") <= 50
    browser.value(searched(""))
    assert browser.value("document.querySelectorAll('.group').length") == 50
    browser.value("document.getElementById('group-more').click()")
    assert browser.value("document.querySelectorAll('.group').length") == 100
    assert "6,000 groups without anything remarkable" in browser.value("document.querySelector('#groups').textContent")
