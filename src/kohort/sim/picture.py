"""A picture of a world: who owned each partition when, as one SVG file that needs nothing else.

Time goes to the right, each partition of each group is a row, each member a colour. Above stand the broker's life and
the generations or epochs of the group; a tick with a number is a fault, named in the list below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple

from kohort.group.events import ConsumerGroupStored, Event, GroupStored
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import SeenMember, SeenNode, TimedObserver

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#3ca951", "#a463f2", "#6cc5b0", "#97bbf5", "#9c6b4e", "#ff8ab7", "#6e7787")
GREY = "#d8dce2"
LEFT, RIGHT, ROW, GAP = 130, 24, 18, 4
WIDTH = 1200
_QUIET = frozenset({"burst", "drift", "packets", "start"})
"""Steps that are no marks: they are many, or last for the whole time."""


class Span(NamedTuple):
    """A member owned a partition, or a node ran, from one time to another."""

    who: str
    start_us: int
    end_us: int


class Mark(NamedTuple):
    """Something happened to the world."""

    at_us: int
    text: str


class Picture(TimedObserver):
    """Remembers what a picture shows; `svg` draws it."""

    def __init__(self, title: str = "") -> None:
        self.title = title
        self._members: dict[str, str] = {}
        self._owned: dict[str, Partitions] = {}
        self._since: dict[tuple[str, TopicPartition, str], int] = {}
        self._spans: dict[tuple[str, TopicPartition], list[Span]] = {}
        self._epochs: dict[str, list[Mark]] = {}
        self._marks: list[Mark] = []
        self._up: dict[str, int] = {}
        self._lives: list[Span] = []
        self._healed_us: int | None = None

    # -- what it sees

    def fault(self, name: str, subject: str, detail: str) -> None:
        if name not in _QUIET and not name.endswith("answered"):
            self._marks.append(Mark(self.now_us, f"{name} {subject} {detail}".strip()))

    def healed(self) -> None:
        self._healed_us = self.now_us

    def node_started(self, node: SeenNode) -> None:
        self._up[node.name] = self.now_us

    def node_stopped(self, node: SeenNode, how: str) -> None:
        if node.name in self._up:
            self._lives.append(Span(node.name, self._up.pop(node.name), self.now_us))

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        if isinstance(event, GroupStored):
            self._note_epoch(event.group_id, f"g{event.generation}")
        elif isinstance(event, ConsumerGroupStored):
            self._note_epoch(event.group_id, f"e{event.epoch}")

    def _note_epoch(self, group: str, text: str) -> None:
        marks = self._epochs.setdefault(group, [])
        if not marks or marks[-1].text != text:
            marks.append(Mark(self.now_us, text))

    def member_started(self, member: SeenMember) -> None:
        self._members.setdefault(member.name, member.group_id)

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        before = self._owned.get(member.name, frozenset())
        for partition in sorted(before - partitions):
            start_us = self._since.pop((member.group_id, partition, member.name))
            row = self._spans.setdefault((member.group_id, partition), [])
            row.append(Span(member.name, start_us, self.now_us))
        for partition in sorted(partitions - before):
            self._since[member.group_id, partition, member.name] = self.now_us
            self._spans.setdefault((member.group_id, partition), [])
        self._owned[member.name] = partitions

    # -- what it shows

    def svg(self) -> str:
        """Return the picture of what was seen so far."""
        end_us = max(self.now_us, 1)
        rows = {key: list(spans) for key, spans in sorted(self._spans.items())}
        for (group, partition, name), start_us in self._since.items():
            rows[group, partition].append(Span(name, start_us, end_us))
        lives = [*self._lives, *(Span(name, since_us, end_us) for name, since_us in self._up.items())]
        return "\n".join(_Drawing(self, end_us).lines(rows, lives)) + "\n"


class _Drawing:
    """One picture that is being drawn, from above to below: `y` is how far it has come."""

    def __init__(self, picture: Picture, end_us: int) -> None:
        self._picture = picture
        self._end_us = end_us
        members = sorted(picture._members, key=_natural)
        self._colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(members)}
        self._body: list[str] = []
        self._y = 58

    def lines(self, rows: Mapping[tuple[str, TopicPartition], list[Span]], lives: list[Span]) -> Iterable[str]:
        """Yield the lines of the file."""
        self._draw_legend()
        for node in sorted({life.who for life in lives}):
            self._draw_row(node, [life for life in lives if life.who == node])
        for group in sorted({group for group, _ in rows}):
            self._draw_epochs(group)
            for (of, partition), spans in rows.items():
                if of == group:
                    self._draw_row(f"{partition}", spans, is_ruled=True)
        bottom = self._y
        self._draw_axis()
        self._draw_marks(bottom)
        height = self._y + 10
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="11" fill="#24292f">'
        )
        yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
        yield f'<text x="12" y="20" font-size="14" font-weight="600">{escape(self._picture.title)}</text>'
        yield from self._body
        yield "</svg>"

    def _x(self, at_us: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_us / self._end_us, 1)

    def _draw_legend(self) -> None:
        x = LEFT
        for name, colour in self._colours.items():
            group = self._picture._members[name]
            self._body.append(f'<rect x="{x}" y="32" width="12" height="12" rx="2" fill="{colour}"/>')
            self._body.append(f'<text x="{x + 17}" y="42">{escape(name)} ({escape(group)})</text>')
            x += 30 + 7 * (len(name) + len(group) + 3)

    def _draw_row(self, label: str, spans: list[Span], *, is_ruled: bool = False) -> None:
        y = self._y
        self._body.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(label)}</text>')
        if is_ruled:
            self._body.append(
                f'<line x1="{LEFT}" y1="{y + 7}" x2="{WIDTH - RIGHT}" y2="{y + 7}" stroke="#eaeef2" stroke-width="1"/>'
            )
        for span in spans:
            x = self._x(span.start_us)
            width = max(self._x(span.end_us) - x, 0.8)
            title = f"{span.who} from {span.start_us / 1e6:.3f} s to {span.end_us / 1e6:.3f} s"
            self._body.append(
                f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{ROW - GAP}" rx="2" '
                f'fill="{self._colours.get(span.who, GREY)}"><title>{escape(title)}</title></rect>'
            )
        self._y += ROW

    def _draw_epochs(self, group: str) -> None:
        y = self._y + 8
        self._body.append(f'<text x="12" y="{y + 11}" font-weight="600">group {escape(group)}</text>')
        label_end_x = 0.0
        for mark in self._picture._epochs.get(group, ()):
            x = self._x(mark.at_us)
            self._body.append(
                f'<line x1="{x}" y1="{y + 13}" x2="{x}" y2="{y + ROW}" stroke="#57606a" stroke-width="0.8"/>'
            )
            if x > label_end_x:  # where they are close together, the first one stands for them
                self._body.append(f'<text x="{x}" y="{y + 10}" font-size="9" fill="#57606a">{mark.text}</text>')
                label_end_x = x + 6 * len(mark.text) + 2
        self._y = y + ROW + 2

    def _draw_axis(self) -> None:
        y = self._y + 16
        seconds = self._end_us / 1_000_000
        step = next(step for step in (1, 2, 5, 10, 20, 60, 300, 1200, 10**9) if seconds / step <= 14)
        self._body.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#57606a"/>')
        for second in range(0, int(seconds) + 1, step):
            x = self._x(second * 1_000_000)
            self._body.append(f'<line x1="{x}" y1="{y}" x2="{x}" y2="{y + 4}" stroke="#57606a"/>')
            self._body.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle" fill="#57606a">{second} s</text>')
        self._y = y + 26

    def _draw_marks(self, bottom: int) -> None:
        if self._picture._healed_us is not None:
            x = self._x(self._picture._healed_us)
            self._body.append(f'<line x1="{x}" y1="52" x2="{x}" y2="{bottom}" stroke="#1a7f37" stroke-width="1.5"/>')
            self._body.append(f'<text x="{x + 4}" y="56" fill="#1a7f37" font-size="10">healed</text>')
        columns = 3
        for number, mark in enumerate(self._picture._marks):
            x = self._x(mark.at_us)
            self._body.append(
                f'<line x1="{x}" y1="58" x2="{x}" y2="{bottom}" stroke="#cf222e" stroke-width="0.8" '
                'stroke-dasharray="3 3" opacity="0.55"/>'
            )
            self._body.append(
                f'<text x="{x}" y="{bottom + 2 + 8 * ((number + 1) % 2)}" font-size="8" fill="#cf222e" '
                f'text-anchor="middle">{number + 1}</text>'
            )
            column = number % columns
            self._y += 0 if column else 14
            place = 12 + column * (WIDTH - 24) // columns
            text = f"{number + 1}  {mark.at_us / 1e6:.3f} s  {mark.text}"
            self._body.append(f'<text x="{place}" y="{self._y}" font-size="10">{escape(text[:70])}</text>')


def _natural(name: str) -> tuple[int, str]:
    return len(name), name
