"""Who owned what when, as SVG: a lane for each partition, a colour for each owner, a line through all for each event.

Below the lanes stand panels over the same time: a value such as the lag, or a rate by owner. Positions in time are
parts of an inner picture that stretches, positions of texts are percentages: a drawing takes the width of its page, and
its text has one size, at 360 pixels as at 1600. The size of a drawing is limited, and it counts what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from textwrap import wrap
from typing import NamedTuple

from kohort.drawing.display_text import TimeAxis, counted, display_name, duration, visible
from kohort.drawing.markup import Content, Markup, tag

LANES = 100
"""Lanes of a drawing; those with most spans are drawn."""

SPANS = 4000
"""Spans of a drawing; each lane has its part of them, the last ones."""

EVENTS = 60
"""Lines of events; the last ones are drawn."""

OWNERS = 20
"""Owners in the legend."""

COLOURS = 8
_SHADES = ("", " lighter", " lightest")
_WIDE = 1000
"""Units of the inner pictures from the beginning to the end."""

_COLUMNS = 120
"""Columns of a panel; more are joined, so that each is two pixels wide on a phone."""

_STRETCHED = {"viewBox": f"0 0 {_WIDE} 10", "preserveAspectRatio": "none"}
_LANE_HEIGHT, _BAR_HEIGHT, _LINE_HEIGHT, _PANEL_HEIGHT = 18, 14, 17, 60
_LEAST_SPAN, _LEAST_GAP = 1.0, 2.0
"""Units of the shortest: a gap of a second in an hour is drawn wide enough to be seen."""

_LINE_LENGTH, _HALF_LINE = 44, 20
"""Characters that fit beside each other on a phone, and in half of its width beside a colour."""

_MOST_TEXT = 300
_NO_MEMBERS = "the group had no members"


class OwnedSpan(NamedTuple):
    """A time in which `owner` owned a partition, or was up; in milliseconds."""

    owner: str
    from_ms: float
    until_ms: float


class DrawnEvent(NamedTuple):
    """A line through all lanes with a number, which is listed below with its text; `kind`: "", "alarm" or "good"."""

    at_ms: float
    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition: its owners, the times without an owner, and those in which the group had no members."""

    name: str
    spans: Sequence[OwnedSpan]
    gaps: Sequence[tuple[float, float]] = ()
    empty: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Lanes under a heading; `steps` are short texts above them, such as the generations of their group."""

    heading: str
    lanes: Sequence[Lane]
    steps: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, slots=True)
class ValueLine:
    """A panel with a value over time: from point to point, or `is_stepped` until the next. `highest` is its scale."""

    title: str
    points: Sequence[tuple[float, float]]
    is_stepped: bool = False
    highest: float = 0


@dataclass(frozen=True, slots=True)
class RateColumns:
    """A panel with stacked columns: by owner and by the number of `step_ms` since the beginning."""

    title: str
    step_ms: float
    values: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class OwnershipDrawing:
    """What is drawn. `owners` are in the order of their colours; `title` is for screen readers, and heads a file."""

    title: str
    axis: TimeAxis
    owners: Sequence[str] = ()
    groups: Sequence[LaneGroup] = ()
    panels: Sequence[ValueLine | RateColumns] = ()
    events: Sequence[DrawnEvent] = ()


def style() -> str:
    """Return the style of drawings: a page has it once, a file of its own contains it."""
    return files("kohort.drawing").joinpath("ownership.css").read_text(encoding="utf-8")


def inline_svg(drawing: OwnershipDrawing) -> Markup:
    """Return a drawing as a part of a page that has `style`."""
    canvas = _Canvas(drawing)
    canvas.draw()
    label = display_name(drawing.title)
    return tag("svg", canvas.body, class_="ownership", width="100%", height=canvas.y, role="group", aria_label=label)


def svg_file(drawing: OwnershipDrawing) -> str:
    """Return a drawing as a file of its own, as wide as a window and at most 960 pixels."""
    canvas = _Canvas(drawing)
    canvas.y = 16
    for line in wrap(display_name(drawing.title), _LINE_LENGTH):
        canvas.write(line, kind="heading")
    canvas.draw()
    file = tag(
        "svg",
        tag("title", display_name(drawing.title)),
        tag("style", Markup(style())),
        tag("rect", width="100%", height="100%", class_="page"),
        tag("svg", canvas.body, class_="whole", x="2%", width="96%", height=canvas.y, overflow="visible"),
        xmlns="http://www.w3.org/2000/svg",
        class_="ownership",
        width=960,
        height=canvas.y + 12,
    )
    return f"{file}\n"


class _Canvas:
    """A drawing from above to below: `y` is where the next part begins."""

    def __init__(self, drawing: OwnershipDrawing) -> None:
        self.body: list[Markup] = []
        self.y = 0
        self._drawing = drawing
        self._axis = drawing.axis
        self._events = sorted(drawing.events)[-EVENTS:]
        self._kinds = {
            owner: f"m{place % COLOURS}{_SHADES[place // COLOURS % len(_SHADES)]}"
            for place, owner in enumerate(drawing.owners)
        }

    def draw(self) -> None:
        """Draw everything."""
        groups, lanes_left, spans_left = _limited(self._drawing.groups)
        self._draw_legend([lane for group in groups for lane in group.lanes])
        self._write_numbers()
        top, below_grid = self.y, len(self.body)
        for group in groups:
            self._draw_group(group)
        for panel in self._drawing.panels:
            self._draw_panel(panel)
        ticks = list(self._axis.ticks())
        grid, events = (
            _inner([self._line_at(at_ms, kind) for at_ms, kind in lines], top, self.y - top, "lines", **_STRETCHED)
            for lines in (
                [(at_ms, "grid") for at_ms, _ in ticks],
                [(event.at_ms, f"event {event.kind}".strip()) for event in self._events],
            )
        )
        self.body.insert(below_grid, grid)
        self.body.append(events)
        if self._axis.is_clock:
            self._write_name("UTC", 13)
        labels = [
            _at(self._axis.share(at_ms), 13, text, "minor" if place % 2 else None, edge=0.12)
            for place, (at_ms, text) in enumerate(ticks)
        ]
        self._place(labels, _LINE_HEIGHT + 4)
        self._list_events()
        for count, what in (
            (lanes_left, "lanes with fewer changes of owner"),
            (spans_left, "earlier times of ownership"),
            (len(self._drawing.events) - len(self._events), "earlier events"),
        ):
            if count:
                self.write(f"Not drawn: {count:,} {what}")

    def write(self, text: str, *, kind: str = "", x: int = 0) -> None:
        """Write one line."""
        self.y += _LINE_HEIGHT
        self.body.append(tag("text", text, x=x, y=self.y - 4, class_=kind or None))

    # -- around the lanes

    def _draw_legend(self, lanes: Sequence[Lane]) -> None:
        owners = self._drawing.owners
        entries = [(self._kinds[owner], display_name(owner)) for owner in owners[:OWNERS]]
        if len(owners) > OWNERS:
            entries.append(("", f"and {len(owners) - OWNERS:,} more; {COLOURS * len(_SHADES)} colours, then again"))
        entries += [("gap", "no owner")] if any(lane.gaps for lane in lanes) else []
        entries += [("empty", _NO_MEMBERS)] if any(lane.empty for lane in lanes) else []
        beside = 1 if any(len(text) > _HALF_LINE for _, text in entries) else 2
        for place, (kind, text) in enumerate(entries):
            key = tag("rect", x=0, y=3, width=12, height=12, rx=2, class_=kind) if kind else None
            entry = [tag("title", text), key, tag("text", text, x=18, y=13, class_="name")]
            x, y = "50%" if place % beside else "0", self.y + _LINE_HEIGHT * (place // beside)
            self.body.append(tag("svg", entry, x=x, y=y, width="49%" if beside > 1 else "100%", height=_LINE_HEIGHT))
        self.y += _LINE_HEIGHT * -(-len(entries) // beside) + 4

    def _write_numbers(self) -> None:
        written = []
        free_from = [-1.0] * 3
        for number, event in enumerate(self._events, 1):
            share = self._axis.share(event.at_ms)
            # A number that would run into the one before it is one line lower; where all are taken, the list has it.
            level = next((each for each, free in enumerate(free_from) if share >= free), None)
            if level is not None:
                free_from[level] = share + 0.025 * len(str(number)) + 0.02
                written.append(_at(share, 11 + 12 * level, str(number), event.kind or None))
        self._place(written, 12 * sum(free >= 0 for free in free_from) + 4)

    def _list_events(self) -> None:
        for number, event in enumerate(self._events, 1):
            text = f"{number}  {self._axis.text(event.at_ms)}  {visible(event.text[:_MOST_TEXT])}"
            for place, line in enumerate(wrap(text, _LINE_LENGTH)):
                self.write(line, kind=f"name {event.kind}".strip(), x=20 if place else 0)

    def _line_at(self, at_ms: float, kind: str) -> Markup:
        x = _short(_WIDE * self._axis.share(at_ms))
        return tag("line", x1=x, y1=0, x2=x, y2=10, class_=kind, vector_effect="non-scaling-stroke")

    # -- lanes

    def _draw_group(self, group: LaneGroup) -> None:
        if group.heading:
            self.write(display_name(group.heading), kind="heading")
        written, free_from = [], 0.0
        for at_ms, text in group.steps:
            share, width = self._axis.share(at_ms), 0.03 * len(text) + 0.01
            if free_from <= share <= 1 - width:  # of those close together, the first one is written
                written.append(tag("text", visible(text), x=f"{_short(100 * share)}%", y=11))
                free_from = share + width
        if written:
            self._place(written, 14)
        for lane in group.lanes:
            self._draw_lane(lane)
        self.y += 6

    def _draw_lane(self, lane: Lane) -> None:
        name = display_name(lane.name)
        text = f"{name}: {counted(len({span.owner for span in lane.spans}), 'owner')}"
        if lane.gaps:
            text += f", {duration(sum(until - start for start, until in lane.gaps) / 1000)} without one"
        drawn = [tag("rect", width=_WIDE, height=10, class_="track")]
        drawn += [self._bar(*times, "empty", _NO_MEMBERS) for times in lane.empty]
        for (owner, from_ms, until_ms), place, places in _side_by_side(lane.spans):
            kind = self._kinds.get(owner, "other")
            drawn.append(self._bar(from_ms, until_ms, kind, display_name(owner), place, places))
        drawn += [self._bar(*times, "gap", "no owner") for times in lane.gaps]
        self._write_name(name, 11)
        self._place(drawn, _BAR_HEIGHT, "owned", role="img", aria_label=text, data_lane=name, **_STRETCHED)
        self.y += _LANE_HEIGHT - _BAR_HEIGHT

    def _bar(self, from_ms: float, until_ms: float, kind: str, what: str, place: int = 0, places: int = 1) -> Markup:
        start, end = (_WIDE * self._axis.share(at_ms) for at_ms in (from_ms, until_ms))
        width = max(end - start, _LEAST_GAP if kind == "gap" else _LEAST_SPAN)
        took = duration((until_ms - from_ms) / 1000)
        title = f"{what}: {self._axis.text(from_ms)} to {self._axis.text(until_ms)}, {took}"
        return _box(min(start, _WIDE - width), 10 * place / places, width, 10 / places, kind, title)

    # -- panels

    def _draw_panel(self, panel: ValueLine | RateColumns) -> None:
        self.write(display_name(panel.title), kind="heading")
        drawn, highest = self._line(panel) if isinstance(panel, ValueLine) else self._columns(panel)
        self._write_name(f"{highest:,.0f}" if highest >= 10 or highest == round(highest) else f"{highest:.1f}", 11)
        self._write_name("0", _PANEL_HEIGHT)
        text = f"{display_name(panel.title)}: at most {highest:,.0f}"
        self._place(drawn, _PANEL_HEIGHT, "panel", role="img", aria_label=text, **_STRETCHED)
        self.y += 6

    def _line(self, panel: ValueLine) -> tuple[list[Markup], float]:
        points = list(_thinned((_WIDE * self._axis.share(at_ms), value) for at_ms, value in panel.points))
        highest = max(panel.highest, *(value for _, value in points), 0) or 1
        path, last = [], ""
        for x, value in points:
            y = _short(10 * (1 - value / highest))
            path += [f"{_short(x)} {last}"] if panel.is_stepped and last else []
            path.append(f"{_short(x)} {y}")
            last = y
        if not path:
            return [], highest
        ends = [f"{_short(points[0][0])} 10", *path, f"{_short(points[-1][0])} 10"]
        return [
            tag("path", d=f"M{' L'.join(ends)} Z", class_="area-of-line"),
            tag("path", d=f"M{' L'.join(path)}", class_="line", vector_effect="non-scaling-stroke"),
        ], highest

    def _columns(self, panel: RateColumns) -> tuple[list[Markup], float]:
        joined = -(-self._axis.duration_ms // (panel.step_ms * _COLUMNS))
        stacks: dict[int, dict[str, float]] = {}
        for owner, values in panel.values.items():
            for column, value in values.items():
                stack = stacks.setdefault(int(column // joined), {})
                stack[owner] = stack.get(owner, 0) + value / joined
        highest = max((sum(stack.values()) for stack in stacks.values()), default=0) or 1
        drawn = []
        for column, stack in sorted(stacks.items()):
            from_ms = self._axis.from_ms + column * panel.step_ms * joined
            start, end = (_WIDE * self._axis.share(from_ms + part * panel.step_ms * joined) for part in (0, 0.9))
            top = 10.0
            for owner, value in stack.items():
                height = 10 * value / highest
                top = max(top - height, 0)
                title = f"{display_name(owner)}: {value:,.0f} at {self._axis.text(from_ms)}"
                drawn.append(_box(start, top, end - start, height, self._kinds.get(owner, "other"), title))
        return drawn, highest

    # -- places

    def _write_name(self, text: str, below: int) -> None:
        """Write a name left of what is plotted; what is too long loses its beginning, and the title has it whole."""
        name = [tag("title", text), tag("text", text, x="100%", y=below, text_anchor="end", class_="name")]
        self.body.append(tag("svg", name, class_="names", x=0, y=self.y, width="19%", height=below + 4))

    def _place(self, drawn: Content, height: int, kind: str = "whole", **attributes: str) -> None:
        self.body.append(_inner(drawn, self.y, height, kind, **attributes))
        self.y += height


def _inner(drawn: Content, y: int, height: int, kind: str, **attributes: str) -> Markup:
    """Return what is plotted over time, beside the names."""
    return tag("svg", drawn, class_=f"plotted {kind}", x="20%", y=y, width="79%", height=height, **attributes)


def _at(share: float, y: int, text: str, kind: str | None = None, edge: float = 0.06) -> Markup:
    """Return a text at a place in time that does not reach over the ends; half of it is `edge` wide on a phone."""
    anchor = "start" if share < edge else "end" if share > 1 - edge else "middle"
    return tag("text", text, x=f"{_short(100 * share)}%", y=y, text_anchor=anchor, class_=kind)


def _box(x: float, y: float, width: float, height: float, kind: str, title: str) -> Markup:
    places = {"x": _short(x), "y": _short(y), "width": _short(width), "height": _short(height)}
    return tag("rect", tag("title", title), class_=kind, **places)


def _limited(groups: Sequence[LaneGroup]) -> tuple[list[LaneGroup], int, int]:
    """Return groups with the lanes and spans that are drawn, and how many lanes and spans are not."""
    lanes = [lane for group in groups for lane in group.lanes]
    largest = sorted(lanes, key=lambda lane: -len(lane.spans) - len(lane.gaps))[:LANES]
    drawn, most = {id(lane) for lane in largest}, SPANS // max(len(largest), 1)

    def limited(lane: Lane) -> Lane:
        return replace(lane, spans=lane.spans[-most:], gaps=lane.gaps[-most:], empty=lane.empty[-most:])

    smaller = [replace(group, lanes=[limited(lane) for lane in group.lanes if id(lane) in drawn]) for group in groups]
    return smaller, len(lanes) - len(largest), sum(max(0, len(lane.spans) - most) for lane in largest)


def _side_by_side(spans: Sequence[OwnedSpan]) -> Iterator[tuple[OwnedSpan, int, int]]:
    """Yield spans with their place and the number of places: two owners at one time stand one above the other."""
    ends: list[float] = []
    placed = []
    for span in sorted(spans, key=lambda span: span[1:]):
        place = next((each for each, end in enumerate(ends) if span.from_ms >= end), len(ends))
        ends[place : place + 1] = [span.until_ms]
        placed.append((span, place))
    yield from ((span, place, len(ends)) for span, place in placed)


def _thinned(points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield of all points in one unit of time the highest and the last one."""
    for _, unit in groupby(points, lambda point: int(point[0])):
        inside = list(unit)
        yield from dict.fromkeys((max(inside, key=lambda point: point[1]), inside[-1]))


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
