"""What happened to groups, as records that any client can read: one JSON object for each event, keyed by group.

`EventWriter` makes the records; where they go is an `EventStore`: on a broker, its `EventTopic`.

Best effort: a group never waits for it, and a failure to write is one log line and an `events_lost` in each group that
it concerned. Heartbeats and commits are not in it. An event costs the decision that it belongs to a tuple; what is
JSON about it is made when its batch is written, a twentieth of a second later.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import LEAVE_STATIC_EPOCH
from kohort.group.consumer.exit import session_timeout_ms
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.events import (
    Event,
    GenerationFormed,
    GroupLoaded,
    GroupStored,
    JoinRefused,
    MemberAssignmentDeleted,
    MemberTargetStored,
    RoundOpened,
    StaticMemberReplaced,
    SyncReceived,
    TargetStored,
)
from kohort.group.group_timers import session_timer
from kohort.group.join_refusals import Why, why_refused
from kohort.group.shard import Group, Shard
from kohort.group.streams.events import StreamsHardEvent
from kohort.group.streams.group import StreamsGroup
from kohort.log.disk import StorageError
from kohort.model.cause import CauseKind
from kohort.model.errors import KafkaError
from kohort.model.ids import EVENT_TOPIC, topic_id_text
from kohort.node.groups.event_fields import (
    Fields,
    Noted,
    TopicName,
    event_fields,
    is_unwritten,
    loaded_consumer_fields,
    loaded_fields,
    loaded_streams_fields,
    refusal_fields,
    targets_fields,
)
from kohort.node.groups.streams_events import PREFIX, partition_event, warmups_of
from kohort.node.timers import Timers
from kohort.node.topics.topics import Topics
from kohort.wire.record_batches import Record, encode_batch

log = logging.getLogger("kohort.node")

LINGER_MS = 50
"""How long events are gathered into one batch: longer than a round of some hundred members takes, whose answers would
wait for the JSON otherwise."""

_BATCH_EVENTS = 500
_MOST_WAITING = 20_000
_MOST_UNNAMED = 10_000
_LEAST_SEGMENT, _MOST_SEGMENT = 1 << 20, 1 << 26
_ABOUT_ALL = (RoundOpened, GenerationFormed, GroupLoaded)
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class EventStore(Protocol):
    """Where the records of events go, and what knows the names of topics."""

    names_wait_ms: int
    """How long events wait for the name of a topic that is not known yet."""

    def append(self, records: list[Record], now_ms: int) -> None:
        """Store a batch. Raises StorageError or KafkaError: its events are lost, which the next batch reports."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return a topic's name, or None for one that does not exist any more."""


class EventTopic:
    """The topic of events on a broker, made with the first batch."""

    names_wait_ms = 0

    def __init__(self, topics: Topics, retention_bytes: int = -1) -> None:
        self._topics = topics
        self._configs: dict[str, str] = {}
        if retention_bytes >= 0:  # what goes is whole segments
            segment_bytes = max(_LEAST_SEGMENT, min(_MOST_SEGMENT, retention_bytes // 8))
            self._configs = {"retention.bytes": str(retention_bytes), "segment.bytes": str(segment_bytes)}

    def append(self, records: list[Record], now_ms: int) -> None:
        """Append a batch. Raises StorageError or KafkaError."""
        topic = self._topics.ensure_internal(EVENT_TOPIC, 1, self._configs, now_ms)
        topic.partitions[0].append([encode_batch(records)], now_ms)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic of this cluster."""
        topic = self._topics.by_id(topic_id)
        return None if topic is None else topic.name


class EventWriter:
    """The writer of one node's events to `store`."""

    def __init__(self, timers: Timers, store: EventStore) -> None:
        self._timers = timers
        self._store = store
        self._waiting: list[tuple[int, Noted]] = []
        self._synced: dict[str, dict[str, int]] = {}
        """By group, when each member of the generation asked for its assignment."""
        self._targets: dict[str, list[MemberTargetStored]] = {}
        """By group, the targets of the computation under way."""
        self._topic_names: dict[bytes, str] = {}
        self._unnamed: set[bytes] = set()
        """Topics of which no name is known."""
        self._names_due_ms: int | None = None
        """How long events wait for names now."""
        self._refused = RefusedJoins(timers, self._write_refusal)
        self._lost: Counter[str] = Counter()
        """By group, the events that could not be written."""

    def note(self, shard: Shard, event: Event, now_ms: int) -> None:
        """Take an event that has been applied to `shard`."""
        group = shard.groups.get(event.group_id)
        if isinstance(event, StreamsHardEvent) or isinstance(group, StreamsGroup):
            translated = partition_event(event)
            if translated is None:
                return
            event = translated
        if is_unwritten(event):
            return
        kind = type(event)
        if kind is JoinRefused:
            self._refused.take(shard, event, now_ms)  # type: ignore[arg-type]
            return
        if not self._waiting and not self._targets:
            self._timers.arm(EVENT_TOPIC, now_ms + LINGER_MS, self.flush)
        if kind is MemberTargetStored:
            # One target has as many of them as it has members.
            self._targets.setdefault(event.group_id, []).append(event)  # type: ignore[arg-type]
            return
        if kind is not TargetStored and event.group_id in self._targets:
            # Those that no computation gave: an instance has a new member id.
            self._waiting += [(now_ms, Noted(each)) for each in self._targets.pop(event.group_id)]
        if kind is SyncReceived and isinstance(group, ClassicGroup) and self._is_reported_later(group, event):  # type: ignore[arg-type]
            return
        noted = self._noted(group, event)
        if (silent_ms := self._silent_ms(shard, event, now_ms)) >= 0:
            noted = noted._replace(silent_ms=silent_ms)
        self._waiting.append((now_ms, noted))
        if len(self._waiting) >= _BATCH_EVENTS and self._names_due_ms is None:
            self.flush(now_ms)

    def _is_reported_later(self, group: ClassicGroup, event: SyncReceived) -> bool:
        """Whether a SyncGroup came no later than the assignment, whose event lists all of those."""
        if group.phase is Phase.COMPLETING_REBALANCE:
            self._synced.setdefault(group.group_id, {})[event.member_id] = event.cause.at_ms
            return True
        return event.member_id == group.leader and event.cause.at_ms == group.state_timestamp_ms

    def _write_refusal(self, event: JoinRefused, why: Why, count: int) -> None:
        """Take a refusal that is to be written."""
        if not self._waiting and not self._targets:
            self._timers.arm(EVENT_TOPIC, event.cause.at_ms + LINGER_MS, self.flush)
        self._waiting.append((event.cause.at_ms, Noted(event, loaded=refusal_fields(why, count))))

    def _silent_ms(self, shard: Shard, event: Event, now_ms: int) -> int:
        """Return how long a static member had sent nothing whose instance comes back under a new id, or -1."""
        timeout_ms = -1
        if type(event) is StaticMemberReplaced:
            timeout_ms, member_id = event.old_session_timeout_ms, event.old_member_id
        elif type(event) is MemberAssignmentDeleted and event.cause.kind is CauseKind.STATIC_MEMBER_REPLACED:
            group, member_id = shard.groups.get(event.group_id), event.member_id
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if member is not None and member.epoch != LEAVE_STATIC_EPOCH:
                timeout_ms = session_timeout_ms(member, shard.settings, event.group_id)
        if timeout_ms < 0:
            return -1
        # Each sign of life arms the session anew, for its whole time.
        ends_ms = self._timers.deadline_ms(session_timer(event.group_id, member_id))
        return -1 if ends_ms is None else max(0, now_ms + timeout_ms - ends_ms)

    def _noted(self, group: Group | None, event: Event) -> Noted:
        if group is None:
            return Noted(event)
        if not isinstance(group, ClassicGroup):
            return self._consumer_noted(group, event)
        members = tuple(group.members) if isinstance(event, _ABOUT_ALL) else None
        synced: dict[str, int] | None = None
        awaiting: tuple[str, ...] = ()
        if type(event) is GroupStored:
            synced = self._synced.pop(event.group_id, None)
            if event.members:
                members = tuple(group.members)
            if event.cause.kind is CauseKind.LEADER_SYNCED and event.leader is not None:
                # The leader's own SyncGroup brought the assignment.
                synced = {**(synced or {}), event.leader: event.cause.at_ms}
                awaiting = tuple(member_id for member_id in group.pending_sync if member_id != event.leader)
        elif type(event) is RoundOpened or type(event) is GroupLoaded:
            self._synced.pop(event.group_id, None)
        loaded = loaded_fields(group) if type(event) is GroupLoaded else None
        return Noted(event, group.phase, group.generation, len(group.members), members, synced, awaiting, loaded)

    def _consumer_noted(self, group: ConsumerGroup | StreamsGroup, event: Event) -> Noted:
        members: tuple[str, ...] | None = None
        loaded: Callable[[TopicName], Fields] | None = None
        if type(event) is TargetStored:
            warmups = warmups_of(group) if isinstance(group, StreamsGroup) else None
            loaded = partial(targets_fields, self._targets.pop(event.group_id, []), warmups)
        elif type(event) is GroupLoaded:
            members = tuple(group.members)
            loaded = loaded_streams_fields(group) if isinstance(group, StreamsGroup) else loaded_consumer_fields(group)
        size = len(group.members)
        return Noted(
            event,
            group.state,
            group.epoch,
            size,
            members,
            loaded=loaded,
            is_consumer=True,
            is_streams=isinstance(group, StreamsGroup),
        )

    def _topic_name(self, topic_id: bytes) -> str:
        """Return a topic's name; of a deleted one the name it had."""
        if topic_id.startswith(PREFIX):
            return topic_id.decode()
        name = self._store.topic_name(topic_id)
        if name is not None:
            self._topic_names[topic_id] = name
            return name
        if topic_id not in self._topic_names:
            if len(self._unnamed) >= _MOST_UNNAMED:
                self._unnamed.clear()
            self._unnamed.add(topic_id)
        return self._topic_names.get(topic_id) or topic_id_text(topic_id)

    def flush(self, now_ms: int, *, is_last: bool = False) -> None:
        """Append what waits; if it is the last time, without waiting for names of topics."""
        waiting, self._waiting = self._waiting, []
        for targets in self._targets.values():
            # A computation of which the last event is still to come.
            waiting += [(now_ms, Noted(each)) for each in targets]
        self._targets.clear()
        if not waiting:
            return
        unnamed = frozenset(self._unnamed)
        events = [(at_ms, event_fields(noted, self._topic_name)) for at_ms, noted in waiting]
        if not is_last and len(waiting) < _MOST_WAITING and self._is_name_due(unnamed, now_ms):
            self._waiting = waiting
            self._timers.arm(EVENT_TOPIC, now_ms + LINGER_MS, self.flush)
            return
        lost = [(now_ms, lost_fields(group_id, count, now_ms)) for group_id, count in sorted(self._lost.items())]
        records = [
            Record(0, at_ms, fields["group"].encode(), _json(fields).encode("utf-8", "surrogatepass"))
            for at_ms, fields in lost + events
        ]
        try:
            self._store.append(records, now_ms)
            self._lost.clear()
        except (StorageError, KafkaError) as error:
            self._lost.update(fields["group"] for _, fields in events)
            if not isinstance(error, StorageError):  # logged by the partition, once
                log.warning("%d group events were not written: %s", len(events), error)

    def _is_name_due(self, unnamed_before: frozenset[bytes], now_ms: int) -> bool:
        """Whether a topic of this batch may get its name yet: events with its id would be of another topic."""
        new = self._unnamed - unnamed_before
        if new and self._names_due_ms is None:
            self._names_due_ms = now_ms + self._store.names_wait_ms
        if not new or self._names_due_ms is None or now_ms >= self._names_due_ms:
            self._names_due_ms = None
            return False
        self._unnamed -= new
        return True


def lost_fields(group_id: str, count: int, now_ms: int) -> Fields:
    """Return the event that marks events missing before it."""
    cause = {"kind": "events_lost", "member": None, "detail": "", "at_ms": now_ms}
    return {"at_ms": now_ms, "group": group_id, "event": "events_lost", "count": count, "cause": cause}


REFUSALS_MS = 60_000
"""How long repeated refusals of one client are gathered into one event."""
GROUP_CLIENTS = 5
"""Of how many clients of one group refusals are written in a window."""
NODE_CLIENTS = 100
"""The same for all groups."""

LONGEST_ID = 100
"""How much of a client id is logged."""

_REFUSALS_TIMER = "refused joins"
Written = Callable[[JoinRefused, Why, int], None]
"""Takes an event, why it was, and for how many refusals it stands."""


class RefusedJoins:
    """Which refused joins are written and logged: the first of a client at once, then one a minute with a count.

    Any client can send joins that are refused, as many as a connection carries and under any name, so what is written
    is bounded: for each group and for the node. What goes beyond is counted.
    """

    def __init__(self, timers: Timers, write: Written) -> None:
        self._timers = timers
        self._write = write
        self._known: dict[tuple[object, ...], tuple[JoinRefused, Why, int]] = {}
        """By client the last refusal that is not written, why the first one was, and how many are not written."""
        self._clients: dict[str, int] = {}
        """By group, how many clients are known."""
        self._beyond = 0

    def take(self, shard: Shard, event: JoinRefused, now_ms: int) -> None:
        """Write a refusal, or count it."""
        request = event.request
        key = (event.group_id, event.error, request.client_id, request.instance_id, type(request))
        known = self._known.get(key)
        if known is not None:
            self._known[key] = event, known[1], known[2] + 1
            return
        if len(self._known) >= NODE_CLIENTS or self._clients.get(event.group_id, 0) >= GROUP_CLIENTS:
            self._beyond += 1
            return
        if not self._known:
            self._timers.arm(_REFUSALS_TIMER, now_ms + REFUSALS_MS, self._end_window)
        why = why_refused(shard, event)
        self._known[key] = event, why, 0
        self._clients[event.group_id] = self._clients.get(event.group_id, 0) + 1
        self._report(event, why, 1)

    def _end_window(self, now_ms: int) -> None:
        """Write the counts, and forget the clients that were refused no more."""
        known, self._known = self._known, {}
        self._clients.clear()
        for key, (event, why, count) in known.items():
            if count:
                self._known[key] = event, why, 0
                self._clients[event.group_id] = self._clients.get(event.group_id, 0) + 1
                self._report(event, why, count)
        if self._beyond:
            log.warning("%d more refused joins in the last %d s are not listed", self._beyond, REFUSALS_MS // 1000)
            self._beyond = 0
        if self._known:
            self._timers.arm(_REFUSALS_TIMER, now_ms + REFUSALS_MS, self._end_window)

    def _report(self, event: JoinRefused, why: Why, count: int) -> None:
        times = f", {count} times in {REFUSALS_MS // 1000} s" if count > 1 else ""
        request = event.request
        log.warning(
            "group %r refused client id %r (%s) with %s%s: %s",
            event.group_id, request.client_id[:LONGEST_ID], request.client_host, event.error.name, times, why.text,
        )  # fmt: skip
        self._write(event, why, count)
