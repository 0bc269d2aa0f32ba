"""A picture of a world: who owned each partition when, as one SVG file that needs nothing else.

Above the partitions of each group stand its generations or epochs, above all groups the lives of the brokers; faults
are the numbered lines, listed below.
"""

from __future__ import annotations

from kohort.drawing.display_text import TimeAxis
from kohort.drawing.ownership_drawing import DrawnEvent, Lane, LaneGroup, OwnedSpan, OwnershipDrawing, svg_file
from kohort.group.events import ConsumerGroupStored, Event, GroupStored
from kohort.group.shard import Shard
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import SeenMember, SeenNode, TimedObserver

_QUIET = frozenset({"burst", "drift", "packets", "start"})
"""Steps that are no events of the picture: they are many, or last for the whole time."""


class Picture(TimedObserver):
    """Remembers what a picture shows, in milliseconds; `svg` draws it."""

    def __init__(self, title: str = "") -> None:
        self.title = title
        self._members: dict[str, str] = {}
        self._owned: dict[str, Partitions] = {}
        self._since: dict[tuple[str, TopicPartition, str], float] = {}
        self._spans: dict[tuple[str, TopicPartition], list[OwnedSpan]] = {}
        self._epochs: dict[str, list[tuple[float, str]]] = {}
        self._events: list[DrawnEvent] = []
        self._up: dict[str, float] = {}
        self._lives: list[OwnedSpan] = []

    # -- what it sees

    def fault(self, name: str, subject: str, detail: str) -> None:
        if name not in _QUIET and not name.endswith("answered"):
            self._events.append(DrawnEvent(self.now_us / 1000, f"{name} {subject} {detail}".strip()))

    def healed(self) -> None:
        self._events.append(DrawnEvent(self.now_us / 1000, "healed", "good"))

    def node_started(self, node: SeenNode) -> None:
        self._up[node.name] = self.now_us / 1000

    def node_stopped(self, node: SeenNode, how: str) -> None:
        if node.name in self._up:
            self._lives.append(OwnedSpan(node.name, self._up.pop(node.name), self.now_us / 1000))

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        if isinstance(event, GroupStored):
            self._note_epoch(event.group_id, f"g{event.generation}")
        elif isinstance(event, ConsumerGroupStored):
            self._note_epoch(event.group_id, f"e{event.epoch}")

    def _note_epoch(self, group: str, text: str) -> None:
        epochs = self._epochs.setdefault(group, [])
        if not epochs or epochs[-1][1] != text:
            epochs.append((self.now_us / 1000, text))

    def member_started(self, member: SeenMember) -> None:
        self._members.setdefault(member.name, f"{member.name} ({member.group_id})")

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        self.member_started(member)
        before = self._owned.get(member.name, frozenset())
        for partition in sorted(before - partitions):
            start_ms = self._since.pop((member.group_id, partition, member.name))
            row = self._spans.setdefault((member.group_id, partition), [])
            row.append(OwnedSpan(self._members[member.name], start_ms, self.now_us / 1000))
        for partition in sorted(partitions - before):
            self._since[member.group_id, partition, member.name] = self.now_us / 1000
            self._spans.setdefault((member.group_id, partition), [])
        self._owned[member.name] = partitions

    # -- what it shows

    def svg(self) -> str:
        """Return the picture of what was seen so far."""
        end_ms = max(self.now_us / 1000, 1)
        rows = {key: list(spans) for key, spans in sorted(self._spans.items())}
        for (group, partition, name), start_ms in self._since.items():
            rows[group, partition].append(OwnedSpan(self._members[name], start_ms, end_ms))
        lives = [*self._lives, *(OwnedSpan(name, since_ms, end_ms) for name, since_ms in self._up.items())]
        names = sorted({life.owner for life in lives})
        nodes = [Lane(name, [life for life in lives if life.owner == name]) for name in names]
        groups = [LaneGroup("brokers", nodes)] if nodes else []
        for group in sorted({group for group, _ in rows}):
            lanes = [Lane(f"{partition}", spans) for (of, partition), spans in rows.items() if of == group]
            groups.append(LaneGroup(f"group {group}", lanes, self._epochs.get(group, ())))
        owners = [self._members[name] for name in sorted(self._members, key=lambda name: (len(name), name))]
        axis = TimeAxis(0, end_ms, is_clock=False)
        return svg_file(OwnershipDrawing(self.title, axis, owners, groups, events=self._events))
