"""What a peer reads: a position for each partition that it is assigned, and the records that follow it.

Positions come from the group's committed offsets, else from `reset`; records by one Fetch at a time for all
partitions. An answer counts for a partition only while it is assigned since before the question and at the offset that
was asked for. Of records only the headers of their batches are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.cluster.committed_offsets import (
    NEWEST_BY_ID,
    NEWEST_BY_NAME,
    REFUSALS,
    FetchedOffsets,
    fetch_request,
    fetched,
)
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.member import ConsumerMember, inputs
from kohort.member.deadlines import Backoff
from kohort.member.member_state import MOVED, NO_IDENTITY
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.sim.kernel.scheduler import Due
from kohort.sim.peers.peer_connection import reader
from kohort.sim.peers.peer_member import PeerMember
from kohort.wire.apis import Api
from kohort.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest
from kohort.wire.visible_batches import visible_batches

FETCH_BY_NAME = 12
"""The last version of Fetch that names topics; newer ones have their ids (KIP-516)."""

_PARTITION_BYTES = 1 << 20
_BACKOFF_US = 100_000


@dataclass(slots=True, eq=False)
class FetchPosition:
    """One assigned partition. `position` is the next offset to hand out, `consumed` what the user is done with."""

    partition: TopicPartition
    topic_id: bytes | None
    position: int | None = None
    consumed: int | None = None
    committed: int | None = None
    ahead: int | None = None
    """Where what was fetched and not handed out ends; None where there is nothing."""
    is_reset_due: bool = False
    not_before_us: int = 0

    def move(self, offset: int | None) -> None:
        """Read on at `offset`, whatever came before; None looks the position up."""
        self.position = self.consumed = offset
        self.ahead = None
        self.is_reset_due = False


class PeerFetcher:
    """The partitions that one peer reads. After each response the member's application continues."""

    def __init__(self, member: PeerMember) -> None:
        self.entries: dict[TopicPartition, FetchPosition] = {}
        self._member = member
        self._connections = member.connections
        self._config = member.config
        self._scheduler = member.host.scheduler
        self._is_native = isinstance(member.machine, ConsumerMember)
        self._fetch_version = member.connections.version(Api.FETCH)
        self._waits = Backoff(member.random.random)
        self._is_looking = False
        self._look_not_before_us = 0
        self._is_fetching = False
        self._alarm: Due | None = None
        self._key: tuple[object, ...] = ()
        self._frame = b""
        self._empty = b""
        """The last answer to the last Fetch, where there was nothing in it."""

    # -- for the application

    @property
    def has_ahead(self) -> bool:
        """Whether there are records to hand out."""
        return any(entry.ahead is not None for entry in self.entries.values())

    @property
    def is_placed(self) -> bool:
        """Whether every partition has a position."""
        return all(entry.position is not None for entry in self.entries.values())

    def add(self, partitions: Partitions) -> None:
        """Begin to read partitions, from where the group has come to."""
        for partition in sorted(partitions):
            self.entries[partition] = FetchPosition(partition, self._id_of(partition.topic))

    def forget(self, partitions: Partitions) -> None:
        """Read partitions no more."""
        for partition in partitions:
            self.entries.pop(partition, None)

    def finished(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the consumed offsets that are not committed, of these partitions or of all."""
        chosen = self.entries if partitions is None else [each for each in sorted(partitions) if each in self.entries]
        return {
            each: entry.consumed
            for each in chosen
            if (entry := self.entries[each]).consumed is not None and entry.consumed != entry.committed
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note what was committed."""
        for partition, offset in offsets.items():
            if (entry := self.entries.get(partition)) is not None:
                entry.committed = offset

    def topics_changed(self) -> None:
        """See whether a topic is not the one it was: then its old positions mean nothing."""
        if self._is_native:
            return  # assignments of the group name topics by id
        for entry in self.entries.values():
            topic_id = self._id_of(entry.partition.topic)
            if topic_id is None or topic_id == entry.topic_id:
                continue
            if entry.topic_id is not None:
                entry.move(None)
                entry.committed = None
            entry.topic_id = topic_id

    def proceed(self) -> None:
        """Look positions up and fetch, as far as something is missing and nothing is under way."""
        now_us = self._scheduler.now_us
        next_us = 0
        missing, ready = [], []
        for entry in self.entries.values():
            if entry.position is None:
                missing.append(entry)
            elif entry.ahead is not None:
                continue
            elif entry.not_before_us <= now_us:
                ready.append(entry)
            elif not next_us or entry.not_before_us < next_us:
                next_us = entry.not_before_us
        if missing and not self._is_looking:
            if self._look_not_before_us <= now_us:
                self._look_up(missing)
            elif not next_us or self._look_not_before_us < next_us:
                next_us = self._look_not_before_us
        if ready and not self._is_fetching:
            self._fetch(ready)
        elif next_us and not self._is_fetching:
            self._wake_at(next_us)

    # -- positions

    def _id_of(self, topic: str) -> bytes | None:
        machine = self._member.machine
        if isinstance(machine, ConsumerMember):
            return machine.topic_ids.get(topic)
        found = self._member.metadata.view.topic_id(topic)
        return None if found == NO_TOPIC_ID else found

    def _look_up(self, missing: list[FetchPosition]) -> None:
        self._is_looking = True
        fresh = [entry for entry in missing if not entry.is_reset_due]
        if fresh:
            self._ask_committed(fresh)
        else:
            self._ask_offsets(missing)

    def _ask_committed(self, fresh: list[FetchPosition]) -> None:
        member = self._member
        identity = member.identity if self._is_native and member.identity.is_valid else NO_IDENTITY
        ids = {entry.partition.topic: entry.topic_id for entry in fresh if entry.topic_id is not None}
        if (
            not self._is_native
            or self._connections.version(Api.OFFSET_FETCH) < NEWEST_BY_ID
            or len(ids) < len({entry.partition.topic for entry in fresh})
        ):
            ids = {}
        request = fetch_request(member.group_id, [entry.partition for entry in fresh], identity=identity, topic_ids=ids)
        version = min(self._connections.version(Api.OFFSET_FETCH), NEWEST_BY_ID if ids else NEWEST_BY_NAME)

        def answered(code: ErrorCode, answer: Any) -> None:
            found = FetchedOffsets(code, {}, {}) if answer is None else fetched(answer, ids)
            if found.error in MOVED:
                self._connections.forget_coordinator()
            if found.error in REFUSALS:
                member.take(inputs.CommitAnswered(identity, found.error))
            self._looked_up(is_done=found.error is ErrorCode.NONE and not found.failed)
            if found.error is ErrorCode.NONE:
                for entry in fresh:
                    self._take_committed(entry, found)
            member.user.proceed()

        self._connections.send(self._connections.offsets, request, answered, version=version)

    def _take_committed(self, entry: FetchPosition, found: FetchedOffsets) -> None:
        if self.entries.get(entry.partition) is not entry or entry.position is not None:
            return
        if entry.partition in found.failed:
            return
        offset = found.found.get(entry.partition)
        if offset is None:
            entry.is_reset_due = True
        else:
            entry.move(offset.offset)
            entry.committed = offset.offset
            self._member.observer.position(self._member, entry.partition, offset.offset, "committed")

    def _ask_offsets(self, entries: list[FetchPosition]) -> None:
        timestamp = EARLIEST if self._config.reset == "earliest" else LATEST
        topics: dict[str, ListOffsetsRequest.Topic] = {}
        for entry in entries:
            name, number = entry.partition
            topic = topics.setdefault(name, ListOffsetsRequest.Topic(name=name))
            topic.partitions.append(ListOffsetsRequest.Topic.Partition(partition_index=number, timestamp=timestamp))
        request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        asked = {entry.partition: entry for entry in entries}

        def answered(_: ErrorCode, answer: Any) -> None:
            is_done = answer is not None
            for topic in () if answer is None else answer.topics:
                for found in topic.partitions:
                    entry = asked[TopicPartition(topic.name, found.partition_index)]
                    if found.error_code or found.offset < 0:
                        is_done = False
                    elif self.entries.get(entry.partition) is entry and entry.is_reset_due:
                        entry.move(found.offset)
                        self._member.observer.position(self._member, entry.partition, found.offset, "reset")
            self._looked_up(is_done=is_done)
            self._member.user.proceed()

        self._connections.send(self._connections.records, request, answered)

    def _looked_up(self, *, is_done: bool) -> None:
        self._is_looking = False
        if is_done:
            self._waits.reset()
        else:
            self._member.metadata.request_refresh()
            self._look_not_before_us = self._scheduler.now_us + self._waits.next_ms() * 1000

    # -- records

    def _fetch(self, ready: list[FetchPosition]) -> None:
        self._is_fetching = True
        view = self._member.metadata.view
        key = (view, *[(entry.partition, entry.position, entry.topic_id) for entry in ready])
        if key != self._key:
            self._key = key
            self._frame, self._version = self._encoded(ready)
            self._empty = b""
        asked = [(entry, entry.position) for entry in ready]

        def answered(code: ErrorCode, frame: bytes | None) -> None:
            self._is_fetching = False
            if frame is None:
                self._delay([entry for entry, _ in asked])
            elif frame[4:] != self._empty or self._key is not key:
                self._take(frame, asked, is_current=self._key is key)
            self._member.user.proceed()

        timeout_ms = self._connections.request_timeout_ms + self._config.fetch_wait_ms
        self._connections.records.send(self._frame, bytes, answered, timeout_ms)

    def _encoded(self, ready: list[FetchPosition]) -> tuple[bytes, int]:
        view = self._member.metadata.view
        version = self._fetch_version
        if version > FETCH_BY_NAME and any(entry.topic_id is None for entry in ready):
            version = FETCH_BY_NAME
        topics: dict[str, FetchRequest.Topic] = {}
        for entry in ready:
            name, number = entry.partition
            topic = topics.setdefault(name, FetchRequest.Topic(topic=name, topic_id=entry.topic_id or bytes(16)))
            seen = view.topics[name].partitions.get(number) if name in view.topics else None
            topic.partitions.append(
                FetchRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=-1 if seen is None else seen.leader_epoch,
                    fetch_offset=entry.position or 0,
                    partition_max_bytes=_PARTITION_BYTES,
                )
            )
        request = FetchRequest(
            max_wait_ms=self._config.fetch_wait_ms, min_bytes=1, max_bytes=50 << 20, topics=list(topics.values())
        )
        return self._connections.frame(request, version), version

    def _take(self, frame: bytes, asked: list[tuple[FetchPosition, int | None]], *, is_current: bool) -> None:
        answer: FetchResponse = reader(Api.FETCH, self._version)(frame)
        by_topic: dict[object, dict[int, tuple[FetchPosition, int | None]]] = {}
        for entry, offset in asked:
            for name in (entry.partition.topic, entry.topic_id):
                by_topic.setdefault(name, {})[entry.partition.partition] = (entry, offset)
        is_empty = not answer.error_code
        if answer.error_code:
            self._delay([entry for entry, _ in asked])
        for response in answer.responses:
            entries = by_topic.get(response.topic or response.topic_id, {})
            for found in response.partitions:
                known = entries.get(found.partition_index)
                if known is None:
                    continue
                if found.error_code or found.records:
                    is_empty = False
                entry, offset = known
                if self.entries.get(entry.partition) is entry and entry.position == offset and offset is not None:
                    self._take_partition(entry, offset, found)
        if is_empty and is_current:
            self._empty = frame[4:]

    def _take_partition(self, entry: FetchPosition, offset: int, found: FetchResponse.Response.Partition) -> None:
        if not found.error_code:
            if found.records is not None and len(found.records):
                visible = visible_batches(memoryview(found.records), offset, None)
                if visible.fault is not None:
                    raise visible.fault
                if visible.next_offset > offset:
                    entry.ahead = visible.next_offset
            return
        if error_for(found.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE:
            entry.move(None)
            entry.is_reset_due = True
        else:
            self._delay([entry])

    def _delay(self, entries: list[FetchPosition]) -> None:
        until_us = self._scheduler.now_us + _BACKOFF_US
        for entry in entries:
            entry.not_before_us = until_us
        self._member.metadata.request_refresh()

    def _wake_at(self, when_us: int) -> None:
        alarm = self._alarm
        if alarm is not None and alarm.is_pending:
            if alarm.when_us <= when_us:
                return
            alarm.cancel()
        self._alarm = self._member.host.at_us(when_us, self._member.user.proceed)
