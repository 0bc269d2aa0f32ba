"""A streaming query as a member of its group: which batch comes next, and what is committed when one is finished.

The law: a batch stays open until Spark passes its end as the start of the next one, or a listener reports it, because
only then is it finished. Until then its partitions are not revoked. Then they are committed, except those that the
group took away meanwhile: their next owner reads them again. A batch that is requested twice is the same batch. After
`set_targets` the query ends at the present ends of the topics, and the member leaves.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.cluster.offset_specs import ISOLATION
from kohort.client.errors import CommitFailed, UnknownTopic
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.spark.membership.application import Calls
from kohort.spark.membership.checkpoint import Checkpoint
from kohort.spark.membership.control_socket import ControlSocket
from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.membership.member_settings import settings_from_options
from kohort.spark.membership.owned_partitions import Available
from kohort.spark.membership.round_gate import RoundGate
from kohort.spark.membership.shared_state import SharedState, StateGuard
from kohort.spark.membership.sibling_readers import SiblingReader, Siblings
from kohort.spark.membership.start_policy import ChoicePolicy
from kohort.spark.membership.stream_offset import CommitMark, StreamOffset
from kohort.spark.options.member_options import MemberOptions
from kohort.spark.options.source_options import NO_LIMITS, SourceOptions, TriggerLimits
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange, Round, plan

log = logging.getLogger(__name__)

Finished = Callable[[Round, bool], object]

_WAIT_S = 0.1
"""How long a call of Spark waits for new records: Spark calls again at once."""

_FIRST_WAIT_S = 10.0
"""How long the first call waits for an assignment: the next one may be a trigger interval later."""


class BatchPlanner:
    """Plans how much the batches of one query read, by the limits of its trigger; remembers when the last one began."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._last_batch_s = -math.inf

    def start_batch(self) -> None:
        """Count `maxTriggerDelay` from now on."""
        self._last_batch_s = time.monotonic()

    async def ranges(self, available: Available, limits: TriggerLimits, *, is_last: bool) -> tuple[OffsetRange, ...]:
        """Return what the next batch reads, nothing where it waits for more; `is_last`: no more records are read.

        Raises KafkaError.
        """
        total = sum(max(0, end - position) for position, end in available.values())
        is_waiting_for_more = total < (limits.min_offsets or 0) and not is_last
        if is_waiting_for_more and (time.monotonic() - self._last_batch_s) * 1000 < limits.max_delay_ms:
            return ()
        most = limits.max_offsets or total
        if limits.max_bytes is not None and total:
            most = min(most, await self._offsets_in(limits.max_bytes, available))
        return plan(available, most)

    async def _offsets_in(self, max_bytes: int, available: Available) -> int:
        """Return about how many offsets so many bytes are.

        All records of a batch are taken to be as large as the first unread ones of the partition with the most.
        """
        from kohort.spark.rows.read_rows import bytes_per_offset

        fullest = max((OffsetRange(each, *place) for each, place in available.items()), key=lambda each: each.size)
        size = await asyncio.to_thread(bytes_per_offset, self._settings, fullest)
        return max(1, int(max_bytes / size)) if size else fullest.size


@dataclass(frozen=True, slots=True)
class _OpenBatch:
    round: Round
    end: StreamOffset


class StreamMember:
    """One query's membership; every method runs in the same event loop. `join` makes one.

    `calls` are Spark's calls of the reader, for other readers of the application. `finished(round, is_committed)` is
    called for each batch that Spark has finished.
    """

    def __init__(
        self, options: SourceOptions, gate: RoundGate, finished: Finished | None = None, calls: Calls | None = None
    ) -> None:
        assert options.member is not None, "a stream is a member of a group"
        self.gate = gate
        self.socket = ControlSocket()
        self._options = options
        self._member: MemberOptions = options.member
        self._planner = BatchPlanner(options.read)
        self._finished = finished
        self._calls = calls or Calls()
        self._siblings = Siblings()
        self._query = gate.starting.guard.mark.query or secrets.token_hex(8)
        self._batch: _OpenBatch | None = None
        self._has_targets = False
        self._is_first = True
        self.read_again = 0
        """Offsets that are read more than once: of batches that were replayed, or that the group did not commit."""
        self.is_over = False
        """Whether the member has left, or is about to."""
        self._leaving: asyncio.Task[None] | None = None
        self._finishing = asyncio.Lock()

    @classmethod
    async def join(
        cls,
        options: SourceOptions,
        cores: float,
        listener: RebalanceListener | None = None,
        finished: Finished | None = None,
        calls: Calls | None = None,
        last: StreamOffset | None = None,
        operators: frozenset[str] | None = None,
    ) -> StreamMember:
        """Connect to the cluster and begin to join; `cores` are the query's, for `capacity`.

        `last` is the last batch of the checkpoint; `operators` the plan's stateful ones, None if not known.
        Raises KafkaError.
        """
        isolation, is_strict = ISOLATION[options.read.isolation], options.read.fail_on_data_loss
        guard = _guard(options, last, operators)
        has_state = bool(guard.operators or guard.bound)
        policy = ChoicePolicy(options.starting, isolation, fails_on_data_loss=is_strict, is_stateful=has_state)
        gate = await RoundGate.join(settings_from_options(options, cores), listener, policy, guard)
        member = cls(options, gate, finished, calls)
        await member.socket.open(member)
        return member

    async def set_targets(self) -> None:
        """Read as far as the topics reach now, and then leave. Raises KafkaError."""
        await self.gate.owned.set_targets(await self.gate.existing())
        self._has_targets = True

    async def next(self, start: StreamOffset, limits: TriggerLimits = NO_LIMITS) -> StreamOffset:
        """Finish the batch that ended at `start`, and return the end of the next one, or `start` itself.

        Raises KafkaError: OffsetMismatch, NoOffset, what ended the membership, or a cluster that does not answer.
        """
        if self.is_over:
            await asyncio.sleep(_WAIT_S)  # Spark asks on and on for batches of a session that is stopped
            return start
        if self._is_first:
            self._query = start.query or self._query
            self.gate.starting.mark = CommitMark(self._query, start.batch, self._guard.state)
            self._refuse_misspelled(start)
            checkpoint = self._checkpoint(start)
            await self.gate.starting.restart_from(checkpoint, self._member.on_new_checkpoint, self._options.starting)
        if self._batch is not None and self._batch.end != start:
            return self._batch.end
        await self.finish(start)
        if not self._is_first:
            self.gate.starting.follow(self._checkpoint(start))
        try:
            begun = await self._begin(limits)
        except KafkaError as error:
            if (known := self._guard.explained(error, self._member.group_id)) is error:
                raise
            raise known from error
        self._is_first = False
        if begun is None:
            if self._has_targets and not self.is_over:
                await self.leave("everything up to the ends of the topics was read")
            return start
        return self._opened(begun, start)

    async def finish(self, end: StreamOffset) -> None:
        """Commit the batch that ends at `end`, if that is the open one.

        Raises KafkaError where the cluster does not answer: then it stays open, and the next call commits it.
        """
        async with self._finishing:
            batch = self._batch
            if batch is None or batch.end != end:
                return
            try:
                await self.gate.commit(batch.round, CommitMark(self._query, end.batch, self._guard.state))
                is_committed = True
            except CommitFailed as refusal:
                is_committed = False
                log.warning("group %s: batch %d is not committed: %s", end.group, end.batch, refusal.text)
                read_to = self.gate.owned.positions
                self.read_again += sum(
                    each.size for each in batch.round.ranges if read_to.get(each.partition) != each.stop
                )
            self._batch = None
            self.gate.close(batch.round, is_committed=is_committed)
            if self._finished is not None:
                self._finished(batch.round, is_committed)

    @property
    def _guard(self) -> StateGuard:
        return self.gate.starting.guard

    def _checkpoint(self, last: StreamOffset) -> Checkpoint:
        return Checkpoint(last, self._member.group_id, self._member.on_offset_mismatch, self._guard)

    async def check_siblings(self) -> None:
        """Log readers of this application that share topics and group. Raises KafkaError for one of the same query."""
        await self._siblings.check(self.reader)

    def describe(self) -> Mapping[str, Any]:
        """Return this reader as other readers of the application need it."""
        return self.reader.to_json()

    async def lags(self) -> Mapping[TopicPartition, Lag]:
        """Return how far the group is behind in each owned partition. Raises KafkaError."""
        return await self.gate.lags()

    @property
    def reader(self) -> SiblingReader:
        """This reader, as others of the application compare it with themselves."""
        topics, cluster = frozenset(self.gate.member.topics), self.gate.cluster_id
        return SiblingReader(self.socket.name, os.getppid(), cluster, self._member.group_id, topics, self._calls)

    def latest(self) -> dict[str, Any] | None:
        """Return what a query's progress shows as the latest offset of the source, None before ends are known.

        These are the ends of the partitions that this member owns, and how far the last planned batch is behind them,
        under the names of the metrics of Spark's own source.
        """
        if not (ends := self.gate.owned.ends):
            return None
        places = tuple(OffsetRange(partition, end, end) for partition, end in sorted(ends.items()))
        found = StreamOffset(self._member.group_id, -1, self.gate.member.generation, places, self.socket.name).to_json()
        read_to = self.gate.owned.positions
        if self._batch is not None:
            read_to |= {each.partition: each.stop for each in self._batch.end.places}
        behind = [max(0, end - read_to[each]) for each, end in ends.items() if each in read_to]
        if behind:
            found |= {"minOffsetsBehindLatest": min(behind), "avgOffsetsBehindLatest": sum(behind) / len(behind)}
        progress = GroupProgress.of(self._member.group_id, self.gate.member, len(ends), behind, self.read_again)
        return found | progress.to_json()

    async def leave(self, reason: str) -> None:
        """Leave the group and return when it has left. An open batch was not finished, and is not committed."""
        if self._leaving is None:
            self.is_over = True
            self._batch = None
            self._leaving = asyncio.create_task(self._leave(reason), name="kohort query leaves")
        await asyncio.shield(self._leaving)

    async def _leave(self, reason: str) -> None:
        try:
            # The instance id of bound partitions is not the user's: a query that has ended leaves at once.
            await self.gate.stop(reason, leave=True if self._guard.bound is not None else None)
        finally:
            self.socket.close()

    async def _begin(self, limits: TriggerLimits) -> Round | None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience_s = _FIRST_WAIT_S if self._is_first else _WAIT_S
        wait_s = 0.0 if self._has_targets else _WAIT_S  # nothing new is waited for

        async def planner(available: Available) -> tuple[OffsetRange, ...]:
            if self.gate.missing_for_state:
                return ()
            return await self._planner.ranges(available, limits, is_last=self._has_targets)

        while True:
            if (begun := await self.gate.begin(planner, timeout_s=wait_s)) is not None:
                return begun
            wait_s = _WAIT_S
            if self.is_over:
                return None
            await self.gate.check_state()
            waited_s = loop.time() - began
            is_assigned = bool(self.gate.owned.partitions)
            is_caught_up = self.gate.is_caught_up and not self.gate.missing_for_state
            if self._has_targets:
                if is_caught_up and (is_assigned or waited_s >= _FIRST_WAIT_S):
                    return None
                self._check_patience(waited_s)
            elif waited_s >= patience_s or (is_assigned and is_caught_up):
                return None

    def _refuse_misspelled(self, last: StreamOffset) -> None:
        """Raise UnknownTopic for a topic that does not exist and that the last batch did not read."""
        known = {each.partition.topic for each in last.places}
        unknown = self.gate.missing - known
        if unknown and not self._options.allow_auto_create_topics:
            raise UnknownTopic(min(unknown))

    def _check_patience(self, waited_s: float) -> None:
        settings = self.gate.settings
        if waited_s * 1000 > settings.rebalance_timeout_ms + settings.session_timeout_ms:
            text = f"the group {settings.group_id!r} gave this member no assignment in {waited_s:.0f} s"
            advice = f"kohort groups describe {settings.group_id} shows its members"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"{text}: {advice}")

    def _opened(self, begun: Round, start: StreamOffset) -> StreamOffset:
        self._planner.start_batch()
        read = {each.partition: each for each in begun.ranges}
        idle = {each: OffsetRange(each, at, at) for each, at in self.gate.owned.positions.items() if each not in read}
        places = tuple(each for _, each in sorted((read | idle).items()))
        number, group_id = start.batch + 1, self._member.group_id
        topics = {each.partition.topic for each in places}
        ids = {name: each for name, each in self.gate.owned.topic_ids.items() if name in topics}
        reader, bound = self.socket.name, self._guard.state
        end = StreamOffset(group_id, number, begun.generation, places, reader, self._query, ids, bound)
        self._batch = _OpenBatch(begun, end)
        return self._batch.end


def _guard(options: SourceOptions, last: StreamOffset | None, operators: frozenset[str] | None) -> StateGuard:
    """Return what the options, the plan and the checkpoint allow. Raises SharedState."""
    member = options.member
    assert member is not None, "a stream is a member of a group"
    last = last or StreamOffset(member.group_id)
    is_new = last.batch < 0
    part = str(member.bound or "all")
    if not is_new and (last.bound or "all") != part and not member.allow_shared_state:
        raise SharedState(
            f"boundPartitions is {part}, and this checkpoint has the state of the part {last.bound or 'all'}: set"
            f" boundPartitions={last.bound or 'all'}; another division needs new checkpoints"
        )
    if operators is None and last.bound:
        operators = frozenset({"as its checkpoint shows"})
    return StateGuard(
        CommitMark(last.query or secrets.token_hex(8), last.batch),
        operators,
        member.bound,
        member.allow_shared_state,
        is_new and member.on_new_checkpoint == "startingOffsets",
        # Of the consumer protocol the broker has the session timeout: 45 s by default.
        max(member.session_timeout_ms, 0 if member.group_protocol == "classic" else 45_000) / 1000,
    )
