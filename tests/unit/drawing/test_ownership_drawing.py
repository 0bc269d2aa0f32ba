"""Drawings of ownership: well-formed whatever the names are, of bounded size, and readable at the width of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from tests.unit.fleet.reports import HOSTILE

from kohort.drawing.display_text import TimeAxis
from kohort.drawing.ownership_drawing import (
    EVENTS,
    LANES,
    DrawnEvent,
    Lane,
    LaneGroup,
    OwnedSpan,
    OwnershipDrawing,
    RateColumns,
    ValueLine,
    inline_svg,
    svg_file,
)

SVG = "{http://www.w3.org/2000/svg}"
HOUR_MS = 3_600_000
START_MS = 1_793_664_000_000
"""3 November 2026 00:00 UTC."""

LETTER_PX = 7
PHONE_PX = 328
"""360 pixels without the margins of a page."""


def drawn(seed: int = 1, partitions: int = 12, spans: int = 8, names: tuple[str, ...] = ()) -> OwnershipDrawing:
    """Return a drawing of an hour of one group, with gaps and events; times lie a little outside of it too."""
    draw = Random(seed)
    owners = [*names, *(f"worker-{place}" for place in range(5))]
    lanes = []
    for partition in range(partitions):
        times = sorted(START_MS + draw.randrange(-60_000, HOUR_MS + 60_000) for _ in range(2 * spans))
        owned = [OwnedSpan(draw.choice(owners), *times[at : at + 2]) for at in range(0, 2 * spans, 2)]
        gaps = [(before.until_ms, after.from_ms) for before, after in pairwise(owned)]
        lanes.append(Lane(f"orders-{partition}", owned, gaps, [(START_MS, START_MS + 1000)]))
    lanes += [Lane(name, [OwnedSpan(name, START_MS, START_MS + 1)]) for name in names]
    points = [(START_MS + at * 1000.0, float(draw.randrange(900))) for at in range(3600)]
    columns = {owner: {second: float(draw.randrange(90)) for second in range(3601)} for owner in owners}
    events = [DrawnEvent(START_MS + at * 60_000, f"member {at} joined " * 6, "alarm") for at in range(9)]
    events += [DrawnEvent(START_MS, name) for name in names]
    return OwnershipDrawing(
        names[0] if names else "orders",
        TimeAxis(START_MS, START_MS + HOUR_MS, is_clock=True),
        owners,
        [LaneGroup("group orders", lanes, [(START_MS + at * 5000, f"g{at}") for at in range(700)])],
        [ValueLine("Lag", points), RateColumns("Records per second", 1000, columns)],
        events,
    )


def elements(text: str, name: str) -> Iterator[Element]:
    return ElementTree.fromstring(text).iter(f"{SVG}{name}")


def texts(text: str) -> list[str]:
    return [element.text or "" for element in elements(text, "text")]


def stretched(text: str) -> list[Element]:
    """Return the inner pictures that take the width of the page."""
    return [each for each in elements(text, "svg") if each.get("viewBox")]


def test_names_that_are_elements_scripts_or_invisible_are_only_text() -> None:
    text = svg_file(drawn(names=HOSTILE))
    root = ElementTree.fromstring(text)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        "svg", "title", "style", "rect", "text", "line", "path",
    }  # fmt: skip
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on") or "href" in name]
    assert {"'; --", "&lt;b&gt;", "(empty name)", "billing\\u202egnillib"} <= set(texts(text))
    assert "\u202e" not in text


@pytest.mark.parametrize("seed", range(5))
def test_nothing_lies_outside_of_the_box(seed: int) -> None:
    text = svg_file(drawn(seed))
    for picture in stretched(text):
        for each in picture.iter(f"{SVG}rect"):
            x, width = float(each.get("x", 0)), float(each.get("width", 0))
            y, height = float(each.get("y", 0)), float(each.get("height", 0))
            assert 0 <= x <= x + width <= 1000.01
            assert 0 <= y <= y + height <= 10.01
        for path in picture.iter(f"{SVG}path"):
            numbers = [float(number) for number in re.findall(r"[\d.]+", path.get("d", ""))]
            assert max(numbers[::2]) <= 1000
            assert max(numbers[1::2]) <= 10
    height = int(ElementTree.fromstring(text).get("height", "0"))
    for each in elements(text, "svg"):
        assert float(each.get("y", 0)) + float(each.get("height", 0)) <= height
    assert all(float(each.get("x", "0").rstrip("%")) <= 100 for each in elements(text, "text"))


def bars(text: str) -> list[tuple[float, float, float, float]]:
    """Return the boxes of one lane's owners: from, to, above, below."""
    (lane,) = [each for each in stretched(text) if "owned" in each.get("class", "")]
    boxes = [each for each in lane.iter(f"{SVG}rect") if each.get("class", "").startswith("m")]
    places = ([float(each.get(name, 0)) for name in ("x", "width", "y", "height")] for each in boxes)
    return [(x, x + width, y, y + height) for x, width, y, height in places]


def one_lane(*spans: OwnedSpan, gaps: tuple[tuple[float, float], ...] = ()) -> str:
    owners = sorted({span.owner for span in spans})
    lanes = [LaneGroup("", [Lane("t-0", spans, gaps)])]
    return svg_file(OwnershipDrawing("one", TimeAxis(0, 100_000, is_clock=False), owners, lanes))


def test_two_owners_at_one_time_stand_one_above_the_other() -> None:
    first, second, third = bars(
        one_lane(OwnedSpan("a", 0, 50_000), OwnedSpan("b", 40_000, 90_000), OwnedSpan("a", 50_000, 60_000))
    )
    assert first == (0, 500, 0, 5)
    assert second == (400, 900, 5, 10)
    assert third == (500, 600, 0, 5)


def test_owners_one_after_another_take_the_whole_height() -> None:
    assert bars(one_lane(OwnedSpan("a", 0, 50_000), OwnedSpan("b", 50_000, 90_000))) == [
        (0, 500, 0, 10),
        (500, 900, 0, 10),
    ]


def test_a_short_gap_is_drawn_wide_enough_to_be_seen_with_its_true_times() -> None:
    text = one_lane(OwnedSpan("a", 0, 50_000), OwnedSpan("b", 50_001, 90_000), gaps=((50_000, 50_001),))
    (gap,) = [each for each in elements(text, "rect") if each.get("class") == "gap" and each.get("rx") is None]
    assert float(gap.get("width", 0)) == 2
    assert gap.findtext(f"{SVG}title") == "no owner: 50.000 s to 50.001 s, under 0.1 s"


def test_each_lane_has_its_summary_for_screen_readers() -> None:
    labels = [each.get("aria-label") for each in stretched(svg_file(drawn(partitions=1, spans=1)))]
    assert "orders-0: 1 owner" in labels
    assert any(label and label.startswith("Lag: at most") for label in labels)


def test_texts_fit_on_a_phone_or_are_cut_within_their_places() -> None:
    text = svg_file(drawn(names=HOSTILE))
    root = ElementTree.fromstring(text)
    parents = {child: parent for parent in root.iter() for child in parent}
    free = [
        each
        for each in root.iter(f"{SVG}text")
        if "names" not in parents[each].get("class", "") and parents[each].get("width") not in ("49%", "100%")
    ]
    assert free
    for each in free:
        x = each.get("x", "0")
        at_px = 0 if x.endswith("%") else float(x)
        assert at_px + LETTER_PX * len(each.text or "") <= PHONE_PX


def test_thousands_of_partitions_owners_and_events_make_no_large_file_and_are_counted() -> None:
    names = tuple(f"member-{place}" for place in range(3000))
    lanes = [Lane(name, [OwnedSpan(name, at, at + 1) for at in range(90)]) for name in names]
    events = [DrawnEvent(at, "joined") for at in range(1000)]
    text = svg_file(
        OwnershipDrawing("", TimeAxis(0, 90, is_clock=False), names, [LaneGroup("g", lanes)], events=events)
    )
    assert len(text) < 1_000_000
    assert len([each for each in stretched(text) if "owned" in each.get("class", "")]) == LANES
    written = texts(text)
    assert "Not drawn: 2,900 lanes with fewer changes of owner" in written
    assert "Not drawn: 5,000 earlier times of ownership" in written
    assert f"Not drawn: {1000 - EVENTS} earlier events" in written
    assert "and 2,980 more; 24 colours, then again" in written


def test_joined_columns_keep_the_rate_and_thinned_lines_their_highest_point() -> None:
    axis = TimeAxis(0, 1_000_000, is_clock=False)
    rates = RateColumns("per second", 1000, {"a": dict.fromkeys(range(1000), 7.0)})
    lag = ValueLine("lag", [(at, 1.0) for at in range(0, 1_000_000, 50)] + [(500_001, 900)])
    text = svg_file(OwnershipDrawing("", axis, ["a"], panels=[rates, lag]))
    labels = [each.get("aria-label") for each in stretched(text)]
    assert {"per second: at most 7", "lag: at most 900"} <= set(labels)
    assert len(text) < 150_000


def test_a_drawing_of_nothing_is_a_picture_too() -> None:
    nothing = OwnershipDrawing("", TimeAxis(5, 5, is_clock=False), panels=[ValueLine("lag", [])])
    assert ElementTree.fromstring(svg_file(nothing)).tag == f"{SVG}svg"


def test_a_drawing_in_a_page_has_no_style_of_its_own_and_takes_its_width() -> None:
    root = ElementTree.fromstring(inline_svg(drawn()))
    assert root.get("width") == "100%"
    assert root.find("style") is None
    assert root.get("aria-label") == "orders"
