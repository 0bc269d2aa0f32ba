"""One partition of `__consumer_offsets` on this node: its log and its groups; and in which partition each group is.

Loading folds the log from its start; until that is done, and after it failed, every command gets an error after which
its sender retries. It decides nothing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from kohort.group.commands import (
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    Heartbeat,
    Join,
    Loaded,
    Sync,
)
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.decisions import ERROR_RESULTS
from kohort.group.events import HardEvent
from kohort.group.results import (
    CommitResult,
    ConsumerHeartbeatResult,
    EpochHeartbeatResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    Result,
    SyncResult,
)
from kohort.group.shard import Shard, apply
from kohort.log.disk import StorageError
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import LONGEST_CACHED_NAME, group_partition
from kohort.node.topics.topic import Partition
from kohort.wire.record_batches import BatchHeader, CorruptBatch, iter_batches

log = logging.getLogger("kohort.node")


RESTORE = "put the segment back from a copy while the broker is stopped"
"""What an operator does first about a log that cannot be read."""

LOAD_BYTES = 5 << 20
"""How much of a log is read at a time (Kafka's offsets.load.buffer.size, transaction.state.log.load.buffer.size)."""

QUIET_US = 2_000_000
"""A load that takes longer logs its progress, as often."""


Ticket = Callable[[Result], None]
"""Takes the answer of one request, now or later."""


class Status(Enum):
    """Whether the state of a partition can be asked."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class CoordinatedPartition(ABC):
    """One partition of a coordinator's topic: its log, and whether its state is loaded. `problem` is why it failed."""

    partition: Partition
    status: Status = field(default=Status.LOADING, init=False)
    problem: str = field(default="", init=False)
    is_failed_for_now: bool = field(default=False, init=False)
    """Whether it failed because its disk does."""

    def __post_init__(self) -> None:
        self.forget()

    @abstractmethod
    def forget(self) -> None:
        """Begin with an empty state."""

    @property
    def error(self) -> ErrorCode:
        """The error for senders while the partition is not active."""
        if self.status is Status.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if self.status is Status.FAILED else ErrorCode.NONE

    def loaded(self) -> None:
        """Serve what was loaded."""
        self.status, self.problem, self.is_failed_for_now = Status.ACTIVE, "", False

    def fail(self, problem: str, *, is_for_now: bool = False) -> None:
        """Serve nothing from this partition, for now or until the broker starts again."""
        self.status, self.is_failed_for_now = Status.FAILED, is_for_now
        self.forget()
        if problem != self.problem:
            self.problem = problem
            end = "; it is loaded again once the disk works" if is_for_now else ""
            log.error("%s cannot be served: %s%s", self.partition.directory, problem, end)

    def batches(self, progress: Progress | None = None) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of the log from its start. Raises CorruptBatch, StorageError, KafkaError."""
        source = self.partition.log
        source.require_no_failure()
        offset = source.log_start_offset
        while offset < source.log_end_offset:
            start = offset
            for view in source.read(offset, LOAD_BYTES, up_to=source.log_end_offset):
                try:
                    for header, batch in iter_batches(view):
                        yield header, batch
                        offset = header[0] + header[6] + 1
                except CorruptBatch as error:
                    raise CorruptBatch(f"batch at offset {offset}: {error}") from error
            if offset == start:
                break  # a cleaner, perhaps of another broker, left nothing of the last records
            if progress is not None:
                progress.reached(self.partition.directory, offset, source.log_end_offset)


@dataclass(slots=True, eq=False)
class OffsetsPartition(CoordinatedPartition):
    """The state and the log of one offsets partition.

    `ignored` are the offsets of records that are left out, as the operator asked, if they cannot be read.
    """

    settings: GroupSettings
    ignored: frozenset[int] = frozenset()
    shard: Shard = field(init=False)
    skipped: int = 0
    gathered: list[tuple[CommitOffsets, Ticket]] = field(default_factory=list)
    """Commits of this batch of input that are not decided yet."""

    def forget(self) -> None:
        """Begin without groups."""
        self.shard = Shard(self.settings)

    def load(self, progress: Progress) -> Iterator[Command]:
        """Fold the log, then yield a `Loaded` for each group. What cannot be read fails the partition, not the node."""
        self.status = Status.LOADING
        self.forget()
        replay = Replay(self.ignored)
        try:
            self._fold(replay, progress)
        except CorruptOffsetsRecord as error:
            place = f"{self.partition.index}@{error.offset}"
            self.fail(f"{error}; {RESTORE}, or leave the record out by kohort.offsets.load.ignore={place}")
            return
        except CorruptBatch as error:
            self.fail(f"{error}; {RESTORE}, or move the folder away: its groups then begin without offsets")
            return
        except (StorageError, KafkaError) as error:
            self.fail(str(error), is_for_now=isinstance(error, StorageError) and error.is_passing)
            return
        self.loaded()
        self.skipped = replay.skipped.total()
        if self.skipped:
            types = ", ".join(f"{count} of type {kind}" for kind, count in sorted(replay.skipped.items()))
            log.info("%s: skipped records of other types of groups: %s", self.partition.directory, types)
        for offset in replay.lost:
            log.warning(
                "%s: continued without the record at offset %d, as kohort.offsets.load.ignore allows",
                self.partition.directory,
                offset,
            )
        for group_id in sorted(self.shard.groups):
            yield Loaded(group_id)

    def _fold(self, replay: Replay, progress: Progress) -> None:
        # What the operator abandons must not have taken the place of what was there before it.
        take = partial(self._apply_all, replay) if self.ignored else replay.take
        for header, batch in self.batches(progress):
            try:
                take(header, batch)
            except CorruptBatch as error:
                raise CorruptBatch(f"batch at offset {header.base_offset}: {error}") from error
        self._apply(replay, replay.events())
        self._apply(replay, replay.pending())

    def _apply_all(self, replay: Replay, _: BatchHeader, batch: memoryview) -> None:
        self._apply(replay, replay.read(batch))

    def _apply(self, replay: Replay, events: Iterator[HardEvent]) -> None:
        for event in events:
            try:
                apply(self.shard, event)
            except AssertionError as error:
                replay.refuse(replay.offset, f"it cannot follow on what came before: {error}", error)


class Progress:
    """Logs the progress of a load that takes long, by a clock of microseconds if there is one."""

    def __init__(self, elapsed_us: Callable[[], int] | None) -> None:
        self._elapsed_us = elapsed_us
        self._began_us = self._logged_us = elapsed_us() if elapsed_us is not None else 0
        self._has_logged = False

    def reached(self, directory: str, offset: int, end: int) -> None:
        """Note how far the log of a partition is read."""
        if self._elapsed_us is not None and (now_us := self._elapsed_us()) - self._logged_us >= QUIET_US:
            self._logged_us, self._has_logged = now_us, True
            seconds = (now_us - self._began_us) / 1e6
            log.info("loading groups: %s is read up to offset %d of %d, %.1f s so far", directory, offset, end, seconds)

    def ended(self, groups: int) -> None:
        """Note that everything is loaded."""
        if self._elapsed_us is not None and self._has_logged:
            log.info("loaded %d groups in %.1f s", groups, (self._elapsed_us() - self._began_us) / 1e6)


def refusal(command: Command, error: ErrorCode) -> Result:
    """Return the answer of a command that is not decided at all."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    match command:
        case Heartbeat():
            # As in Kafka: a member must not lose its session to the coordinator's move.
            return HeartbeatResult(ErrorCode.NONE if is_loading else error)
        case Sync():
            # The Java client dies on COORDINATOR_LOAD_IN_PROGRESS here; this makes it join again.
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)
        case Join():
            return JoinResult(error, command.member_id)
        case ConsumerHeartbeat():
            return ConsumerHeartbeatResult(error, error.text)
        case _:
            return ERROR_RESULTS[type(command)](error)


def failure(result: Result, error: ErrorCode) -> Result:
    """Return the answer that takes back a result whose records did not become durable."""
    match result:
        case JoinResult():
            return JoinResult(error, "")
        case SyncResult() | LeaveResult() | CommitResult():
            return type(result)(error)
        case EpochHeartbeatResult():
            return type(result)(error, error.text)
        case _:
            return replace(result, error=error)


MOST_GROUPS = 100_000
"""How many group ids are remembered."""


class GroupPartitions(dict[str, OffsetsPartition]):
    """The partition by group id, found when it is asked for; there have to be `partitions` by then.

    Of long ids only the last is remembered: to hash one of 32 KiB takes milliseconds, and a request asks several times.
    """

    def __init__(self, partitions: Sequence[OffsetsPartition]) -> None:
        super().__init__()
        self._partitions = partitions
        self._last_long: tuple[str, OffsetsPartition] | None = None

    def __missing__(self, group_id: str) -> OffsetsPartition:
        if self._last_long is not None and self._last_long[0] == group_id:
            return self._last_long[1]
        found = self._partitions[group_partition(group_id, len(self._partitions))]
        if len(group_id) > LONGEST_CACHED_NAME:
            self._last_long = group_id, found
        else:
            if len(self) >= MOST_GROUPS:
                self.clear()
            self[group_id] = found
        return found
