"""Drawings of ownership as a browser shows them: on a phone and on a desk, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.browser import Chromium, chromium
from tests.unit.drawing.test_ownership_drawing import drawn

from kohort.drawing.html_page import document
from kohort.drawing.ownership_drawing import inline_svg, svg_file

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module", params=["file", "page"])
def written(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a drawing as a file of its own, and within a page."""
    path = tmp_path_factory.mktemp("drawing") / {"file": "drawn.svg", "page": "drawn.html"}[request.param]
    text = svg_file(drawn()) if request.param == "file" else document("orders", inline_svg(drawn()))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 800])
def test_a_drawing_fits_and_no_text_runs_into_another(browser: Chromium, written: Path, width: int) -> None:
    browser.open(written, width=width, is_phone=written.suffix == ".html")
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
