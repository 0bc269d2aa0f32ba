"""A streaming query as a member of its group: which batch comes next, and what is committed when one is done.

The law: a batch opens a round and stays open until Spark comes back with its end as the start of the next one, because
only then is it done. Until then its partitions are not given up; then they are committed, or, where the group took them
away meanwhile, not, and their next owner reads them again. A batch that is asked for twice is the same batch. What is
read ends where `aim` found the topics' ends, if it was called; then the member leaves by itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kohort.client.consumer.consumer_settings import ISOLATION
from kohort.client.errors import CommitFailed, UnknownTopic
from kohort.client.rebalance_listener import RebalanceListener
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import topic_id_text
from kohort.spark.membership.checkpoint import Checkpoint
from kohort.spark.membership.commit_mark import CommitMark
from kohort.spark.membership.control_socket import Door
from kohort.spark.membership.member_settings import GroupSettings
from kohort.spark.membership.reader_calls import Calls
from kohort.spark.membership.round_gate import Available, RoundGate
from kohort.spark.membership.sibling_readers import Reader, Siblings
from kohort.spark.membership.starting_offsets import ChoicePolicy
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.member_options import MemberOptions
from kohort.spark.options.source_options import NO_LIMITS, SourceOptions, TriggerLimits
from kohort.spark.rows.rounds import OffsetRange, Round, plan

log = logging.getLogger(__name__)

Finished = Callable[[Round, bool], object]

_LOOK_S = 0.1
"""How long Spark is held up where there is nothing new: it asks again a moment later."""

_FIRST_LOOK_S = 10.0
"""How long the first call waits for partitions: the next one may be a trigger interval away."""


@dataclass(frozen=True, slots=True)
class _Batch:
    round: Round
    end: StreamOffset


class StreamMember:
    """One query's membership; every method runs in the same event loop. `cores` are the query's, for `capacity`.

    `listener` hears of rebalances, `finished(round, is_committed)` of each batch that Spark is done with.
    """

    def __init__(
        self,
        options: SourceOptions,
        cores: float,
        listener: RebalanceListener | None = None,
        finished: Finished | None = None,
        calls: Calls | None = None,
    ) -> None:
        assert options.member is not None, "a stream is a member of a group"
        self._options = options
        self._member: MemberOptions = options.member
        self._gate = RoundGate(
            group_settings(options, self._member, cores),
            listener,
            policy=ChoicePolicy(
                options.starting, ISOLATION[options.isolation], fails_on_data_loss=options.fail_on_data_loss
            ),
        )
        self._finished = finished
        self._calls = calls or Calls()
        self._siblings = Siblings()
        self._door = Door()
        self._query = secrets.token_hex(8)
        self._batch: _Batch | None = None
        self._last_batch_s = -math.inf
        self._is_aiming = False
        self._is_first = True
        self.is_over = False
        """Whether the member has left, or is about to."""
        self._leaving: asyncio.Task[None] | None = None
        self._settling = asyncio.Lock()

    async def start(self) -> None:
        """Reach the cluster and begin to join. Raises KafkaError."""
        await self._gate.start()
        await self._door.open(self)

    async def aim(self) -> None:
        """Read as far as the topics reach now, and then leave. Raises KafkaError."""
        await self._gate.aim()
        self._is_aiming = True

    async def next(self, start: StreamOffset, limits: TriggerLimits = NO_LIMITS) -> StreamOffset:
        """Finish with the batch that ended at `start`, and return the end of the next one, or `start` itself.

        Raises KafkaError: OffsetMismatch, NoOffset, what ended the membership, or a cluster that does not answer.
        """
        if self.is_over:
            return start
        if self._is_first:
            self._query = start.query or self._query
            self._gate.starting.mark = CommitMark(self._query, start.batch)
            self._refuse_misspelled(start)
            checkpoint = Checkpoint(start, self._member.group_id, self._member.on_offset_mismatch)
            await self._gate.starting.restart_from(checkpoint, self._member.on_new_checkpoint, self._options.starting)
        if self._batch is not None and self._batch.end != start:
            return self._batch.end
        await self.finish(start)
        begun = await self._begin(limits)
        self._is_first = False
        if begun is None:
            if self._is_aiming and not self.is_over:
                await self.leave("all that was there has been read")
            return start
        return self._opened(begun, start)

    async def finish(self, end: StreamOffset) -> None:
        """Commit the batch that ends at `end`, if that is the open one: Spark is done with it.

        Raises KafkaError where nobody answers: then it is still open, and committed by who says next that it is done.
        """
        async with self._settling:
            batch = self._batch
            if batch is None or batch.end != end:
                return
            try:
                await self._gate.commit(batch.round, CommitMark(self._query, end.batch))
                is_committed = True
            except CommitFailed as refusal:
                is_committed = False
                log.warning("group %s: batch %d is not committed: %s", end.group, end.batch, refusal.text)
            self._batch = None
            self._gate.close(batch.round, is_committed=is_committed)
            if self._finished is not None:
                self._finished(batch.round, is_committed)

    async def check_siblings(self) -> None:
        """Look for readers of this application that share topics and group. Raises KafkaError for one of this query."""
        await self._siblings.check(self._described())

    def describe(self) -> Mapping[str, Any]:
        """Return what other readers of the application ask for."""
        return self._described().to_json()

    def _described(self) -> Reader:
        topics, cluster = self._gate.topics, self._gate.cluster_id
        return Reader(self._door.name, os.getppid(), cluster, self._member.group_id, topics, self._calls)

    def latest(self) -> dict[str, Any] | None:
        """Return what a query's progress shows as the latest offset of the source, or None before the first look.

        It is the ends of the partitions that this member owns, and how far behind them the last planned batch ends,
        under the names that the metrics of Spark's own source have.
        """
        if not (ends := self._gate.ends):
            return None
        places = tuple(OffsetRange(partition, end, end) for partition, end in sorted(ends.items()))
        found = StreamOffset(self._member.group_id, -1, self._gate.generation, places, self._door.name).to_json()
        read_to = self._gate.positions
        if self._batch is not None:
            read_to |= {each.partition: each.stop for each in self._batch.end.places}
        behind = [max(0, end - read_to[each]) for each, end in ends.items() if each in read_to]
        if behind:
            found |= {
                "minOffsetsBehindLatest": min(behind),
                "maxOffsetsBehindLatest": max(behind),
                "avgOffsetsBehindLatest": sum(behind) / len(behind),
            }
        return found | {"memberId": self._gate.member_id, "partitions": len(ends)}

    async def leave(self, reason: str) -> None:
        """Leave the group; a batch that is open was not finished, and is not committed. Returns when it has left."""
        if self._leaving is None:
            self.is_over = True
            self._batch = None
            self._leaving = asyncio.create_task(self._leave(reason), name="kohort query leaves")
        await asyncio.shield(self._leaving)

    async def _leave(self, reason: str) -> None:
        try:
            await self._gate.stop(reason)
        finally:
            self._door.close()

    # The inside

    async def _begin(self, limits: TriggerLimits) -> Round | None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience_s = _FIRST_LOOK_S if self._is_first else _LOOK_S
        look_s = 0.0 if self._is_aiming else _LOOK_S  # what is read to its end is not waited for
        while True:
            weighed = await self._weighed(limits)
            if (begun := await self._gate.begin(partial(self._plan, weighed), timeout_s=look_s)) is not None:
                return begun
            look_s = _LOOK_S
            if self.is_over:
                return None
            waited_s = loop.time() - began
            is_given = bool(self._gate.owned)
            if self._is_aiming:
                if self._gate.is_caught_up and (is_given or waited_s >= _FIRST_LOOK_S):
                    return None
                self._check_patience(waited_s)
            elif waited_s >= patience_s or (is_given and self._gate.is_caught_up):
                return None

    async def _weighed(self, limits: TriggerLimits) -> TriggerLimits | None:
        """Return limits in offsets alone, or None while there is nothing to weigh.

        A batch is taken to be as heavy as where its fullest partition begins.
        """
        if limits.max_bytes is None:
            return limits
        seen: list[OffsetRange] = []

        def look(available: Available) -> tuple[OffsetRange, ...]:
            seen[:] = [OffsetRange(each, *place) for each, place in available.items()]
            return ()

        await self._gate.begin(look, timeout_s=0)
        fullest = max(seen, key=lambda each: each.size, default=None)
        if fullest is None or fullest.size <= 0:
            return None
        from kohort.spark.rows.weight import bytes_per_offset

        weight = await asyncio.to_thread(bytes_per_offset, self._options.read_settings, fullest)
        most = max(1, int(limits.max_bytes / weight)) if weight else fullest.size
        return replace(limits, max_offsets=min(most, limits.max_offsets or most))

    def _refuse_misspelled(self, last: StreamOffset) -> None:
        """Raise UnknownTopic for a topic that does not exist and was not read before."""
        known = {each.partition.topic for each in last.places}
        unknown = self._gate.missing - known
        if unknown and not self._options.allow_auto_create_topics:
            raise UnknownTopic(min(unknown))

    def _check_patience(self, waited_s: float) -> None:
        settings = self._gate.settings
        if waited_s * 1000 > settings.rebalance_timeout_ms + settings.session_timeout_ms:
            text = f"the group {settings.group_id!r} gave this member no assignment in {waited_s:.0f} s"
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"{text}: see with kohort groups who holds it up")

    def _plan(self, limits: TriggerLimits | None, available: Available) -> tuple[OffsetRange, ...]:
        if limits is None:
            return ()
        total = sum(max(0, end - position) for position, end in available.values())
        is_waiting_for_more = total < (limits.min_offsets or 0) and not self._is_aiming
        if is_waiting_for_more and (time.monotonic() - self._last_batch_s) * 1000 < limits.max_delay_ms:
            return ()
        return plan(available, limits.max_offsets or total)

    def _opened(self, begun: Round, start: StreamOffset) -> StreamOffset:
        self._last_batch_s = time.monotonic()
        read = {each.partition: each for each in begun.ranges}
        idle = {each: OffsetRange(each, at, at) for each, at in self._gate.positions.items() if each not in read}
        places = tuple(each for _, each in sorted((read | idle).items()))
        number, group_id = start.batch + 1, self._member.group_id
        topics = {each.partition.topic for each in places}
        ids = {name: topic_id_text(each) for name, each in self._gate.topic_ids.items() if name in topics}
        end = StreamOffset(group_id, number, begun.generation, places, self._door.name, self._query, ids)
        self._batch = _Batch(begun, end)
        return self._batch.end


def group_settings(options: SourceOptions, member: MemberOptions, cores: float) -> GroupSettings:
    """Return options as the settings of a member."""
    settings = GroupSettings(
        options.bootstrap_servers,
        member.group_id,
        options.topics,
        client_id=options.client_id,
        group_instance_id=member.instance_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_rack=options.client_rack or None,
        protocol=member.group_protocol,
        assignor=member.remote_assignor,
        pattern=options.pattern,
        topics_must_exist=options.fail_on_data_loss and not options.allow_auto_create_topics,
        allow_auto_create_topics=options.allow_auto_create_topics,
        isolation_level=options.isolation,
        properties=options.properties,
    )
    if member.protocol == "consumer":  # the broker sets the rest
        return settings
    return replace(
        settings,
        session_timeout_ms=member.session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms,
        assignors=member.assignors(cores),
    )
