"""A picture of a world: who owned each partition when, as one SVG file that needs nothing else.

Above the partitions of each group stand its generations or epochs, above all groups the lives of the brokers; faults
are the numbered lines, listed below.
"""

from __future__ import annotations

from collections import defaultdict

from kohort.drawing.display_text import TimeAxis, duration
from kohort.drawing.ownership_drawing import DrawnEvent, Lane, LaneGroup, OwnedSpan, OwnershipDrawing, svg_file
from kohort.group.events import ConsumerGroupStored, Event, GroupStored
from kohort.group.shard import Shard
from kohort.group.streams.events import StreamsGroupStored
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.model.streams_tasks import TasksByRole
from kohort.sim.kernel.world_observer import SeenMember, SeenNode, TimedObserver

_QUIET = frozenset({"burst", "drift", "packets", "start"})
"""Steps that are no events of the picture: they are many, or last for the whole time."""

_SECOND_US = 1_000_000

FAULTS = {
    "stop": "{who} is stopped",
    "kill": "{who} is killed",
    "close": "{who} closes",
    "close within": "{who} is to close while it is {state}",
    "closed within": "{who} closes while it is {detail}",
    "back": "{who} is back",
    "old client": "{who} comes back as a client of an old version",
    "freeze": "{who} stops running",
    "bounce": "{who} is restarted ({how})",
    "roll": "every member of {who} is restarted, one after another",
    "subscribe": "{who} subscribes to {topics}",
    "expel": "an administrator removes {who}",
    "kill node": "a broker is killed",
    "power loss": "a broker loses power",
    "stop node": "a broker is stopped",
    "move node": "another broker takes over",
    "freeze node": "a broker stops running",
    "partition": "the network of {who} is cut",
    "one way": "packets of {who} are lost in one direction",
    "vanish": "a connection of {who} is gone, unnoticed",
    "break": "a connection of {who} breaks",
    "slow disk": "the broker's disk is slow",
    "full disk": "the broker's disk is full",
    "failing disk": "the broker's disk fails at times",
    "failing operation": "the broker's disk fails at times, in {of}",
    "read only disk": "the broker's disk is read-only",
    "hanging disk": "the broker's disk hangs",
    "compact": "a broker compacts its logs",
    "grow topic": "topic {who} grows by {by}",
    "delete topic": "topic {who} is deleted",
    "recreate topic": "topic {who} is deleted and created again",
    "delete offsets": "the group's offsets of topic {who} are deleted",
    "delete group": "group {who} is deleted",
    "reset offsets": "the offsets of group {who} are reset",
    "configure group": "{name} of group {who} becomes {value}",
    "configure streams": "{name} of group {who} becomes {value}",
    "storm": "connections break, many at once",
    "kill gateway": "gateway {who} is killed",
    "freeze gateway": "gateway {who} stops running",
    "kill producer": "producer {who} is killed",
    "second producer": "a second producer begins under the id of {who}",
    "freeze producer": "producer {who} stops running",
    "cut off producer": "the network of producer {who} is cut",
    "break producer": "the connections of producer {who} break",
    "break end": "the connection of {who} breaks while a transaction ends",
    "stragglers": "requests arrive late",
    "impersonate": "a client joins under the id of {who}",
    "mended": "an administrator has {who} join again",
    "restart broker": "the broker is restarted ({detail})",
}
"""What the faults of a world are called; a fault that is missing here is shown by its own name."""


_OF_MEMBERS = frozenset({"kill", "close", "close within", "old client", "bounce"})


def fault_text(name: str, subject: str, detail: str) -> str:
    """Return a fault as a clause: what happens to which member or broker, and for how long."""
    given = dict(each.partition("=")[::2] for each in detail.split())
    phrase = FAULTS.get(name, f"{name} {{who}}")
    text = phrase.format_map(defaultdict(str, {**given, "who": subject, "detail": detail}))
    if (for_us := given.get("for_us", "")).isdigit():
        text += f" for {duration(int(for_us) / _SECOND_US)}"
    if (down_us := given.get("down_us", "")).isdigit():
        stays_away = name in _OF_MEMBERS and int(down_us) >= 12 * _SECOND_US
        text += ", and stays away" if stays_away else f", and is back after {duration(int(down_us) / _SECOND_US)}"
    return text


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
            self._events.append(DrawnEvent(self.now_us / 1000, fault_text(name, subject, detail)))

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
        elif isinstance(event, ConsumerGroupStored | StreamsGroupStored):
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

    def runs(self, member: SeenMember, tasks: TasksByRole) -> None:
        """Show active tasks as the partitions of their subtopologies."""
        self.owns(member, frozenset(TopicPartition(f"task {name}", number) for name, number in tasks.active))

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
