"""Rounds of reading against rebalances: a revocation waits while a round reads what is revoked.

The law: the offsets of a round are committed for the partitions that the member owned from its beginning on, and for
no others. A revocation waits for an open round that reads a revoked partition, for 0.9 of the rebalance timeout at
most; the commit of a partition that was lost, or whose round took longer, is refused. Rounds on other partitions are
not interrupted. Everything runs in one event loop, so nothing here needs a lock; it knows no Spark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata
from kohort.client.cluster.lag_reader import LagReader
from kohort.client.errors import CommitFailed, PartitionErrors, RebalanceInProgress, UnknownTopic
from kohort.client.membership.member_commits import OwnershipWatch
from kohort.client.membership.user_callbacks import RebalanceListener, finished
from kohort.member import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.spark.membership.member_settings import MemberSettings
from kohort.spark.membership.owned_partitions import LONGEST_S, Available, EndWatch, OwnedPartitions
from kohort.spark.membership.shared_state import NO_STATE, StateGuard
from kohort.spark.membership.start_policy import ResetPolicy, StartPolicy
from kohort.spark.membership.starting_offsets import OffsetStore, StartingOffsets
from kohort.spark.membership.stream_offset import JOB, CommitMark
from kohort.spark.rows.rounds import OffsetRange, Round

log = logging.getLogger(__name__)

Planner = Callable[[Available], Awaitable[tuple[OffsetRange, ...]]]
"""Returns what a round reads; nothing to wait for more records."""

_DELETED = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_RETRY_S = 0.01
_STABLE_MS = 100


@dataclass(slots=True)
class OpenRound:
    """The round that is open, and which of its partitions can no longer be committed."""

    round: Round
    partitions: Partitions
    watch: OwnershipWatch
    deleted: Partitions = frozenset()


class RevocationBarrier(RebalanceListener):
    """Delays the revocation of partitions that an open round reads; `listener` is called after it."""

    def __init__(self, owned: OwnedPartitions, settings: MemberSettings, listener: RebalanceListener) -> None:
        self.open: OpenRound | None = None
        self.revoking: Partitions = frozenset()
        """Partitions whose revocation waits: no new round reads them."""
        self.changed = asyncio.Event()
        self._owned = owned
        self._settings = settings
        self._listener = listener
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Close the open round, so that a revocation can proceed."""
        self.open = None
        self._closed.set()

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Wait until the open round reads none of them, which commits it; then give them up."""
        self.revoking |= partitions
        try:
            async with asyncio.timeout(self._settings.rebalance_timeout_ms / 1000 * 0.9):
                while self.open is not None and self.open.partitions & partitions:
                    self._closed.clear()
                    await self._closed.wait()
        except TimeoutError:
            log.warning("group %s: a round outlasts the rebalance timeout and is lost", self._settings.group_id)
        finally:
            self.revoking -= partitions
            self._owned.remove(partitions)
        await finished(self._listener.on_partitions_revoked(partitions))

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Own them; positions are looked up when the next round begins."""
        self._owned.add(partitions)
        await finished(self._listener.on_partitions_assigned(partitions))
        self.changed.set()

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Give them up at once: others own them, or their topic is deleted. The open round's commit is refused."""
        self._owned.remove(partitions)
        await finished(self._listener.on_partitions_lost(partitions))


class RoundGate:
    """One membership in a group, and the rounds that it reads. `join` makes one; `cluster` is started.

    `listener` is called for rebalances, after the gate. Without a `policy`, `auto_offset_reset` is applied.
    """

    def __init__(
        self,
        settings: MemberSettings,
        cluster: Cluster,
        listener: RebalanceListener | None = None,
        policy: StartPolicy | None = None,
        guard: StateGuard = NO_STATE,
    ) -> None:
        self.settings = settings
        self.missing: frozenset[str] = frozenset()
        """Topics that are subscribed by name and did not exist at the last look-up."""
        self.starting = StartingOffsets(
            cluster,
            settings.group_id,
            policy
            or ResetPolicy(
                settings.auto_offset_reset, settings.isolation, fails_on_data_loss=settings.fail_on_data_loss
            ),
        )
        self.starting.guard = guard
        self.owned = OwnedPartitions(cluster, self.starting, settings.isolation)
        self.barrier = RevocationBarrier(self.owned, settings, listener or RebalanceListener())
        self.member = settings.membership(cluster, self.barrier)
        self._cluster = cluster
        self._lags = LagReader(cluster)
        self._ends = EndWatch(cluster, settings.isolation, self.barrier.changed.set)
        self._rounds = 0
        self._is_stopping = False

    @classmethod
    async def join(
        cls,
        settings: MemberSettings,
        listener: RebalanceListener | None = None,
        policy: StartPolicy | None = None,
        guard: StateGuard = NO_STATE,
    ) -> RoundGate:
        """Connect to the cluster and begin to join the group, unless `guard` forbids it. Raises KafkaError."""
        cluster = settings.cluster()
        try:
            await cluster.start()
            await settings.follow(cluster)
            gate = cls(settings, cluster, listener, policy, guard)
            cluster.watch(settings.subscriber(gate.member))
            existing = await gate.existing()
            await gate.starting.see(existing, is_pattern=settings.pattern is not None)
            if gate.missing:
                gate._report_missing()
            await guard.before_join(cluster, settings.group_id, existing)
            await gate.member.start()
        except BaseException:
            await cluster.close()
            raise
        return gate

    async def stop(self, reason: str, *, leave: bool | None = None) -> None:
        """Leave the group and close every connection. An open round is not committed."""
        self.interrupt()
        if self.barrier.open is not None:
            self.close(self.barrier.open.round, is_committed=False)
        try:
            await self._ends.stop()
            await self.member.stop(reason, leave=leave)
        finally:
            await self._cluster.close()

    async def lags(self) -> dict[TopicPartition, Lag]:
        """Return how far the group is behind in each owned partition, from what it has committed. Raises KafkaError."""
        return await self._lags.read(self.settings.group_id, self.owned.partitions, self.settings.isolation)

    def interrupt(self) -> None:
        """Open no further round; `begin` returns None."""
        self._is_stopping = True
        self.barrier.changed.set()

    def use_store(self, store: OffsetStore | None, *, is_exact: bool = False) -> None:
        """Take offsets from `store` from the next round on; None: from the group. `is_exact`: no row may be missing."""
        if isinstance(policy := self.starting.policy, ResetPolicy):
            policy.is_exact, policy.has_store = is_exact, store is not None
        if store is not self.starting.store:
            self.starting.store = store
            self.owned.forget()

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, or an empty string where it has none."""
        return self._cluster.view.cluster_id or ""

    @property
    def is_caught_up(self) -> bool:
        """Whether no rebalance is in progress, and everything owned is read to its end, as of the last look-up.

        A member without partitions is caught up.
        """
        if not self.member.is_stable or self.barrier.revoking or self.member.assignment != self.owned.partitions:
            return False
        return self.owned.is_read_to_the_end

    @property
    def missing_for_state(self) -> Partitions:
        """The partitions that a query with state needs to read anything, and does not own."""
        view = self._cluster.view
        topics = {name: view.topics[name] for name in self.member.topics if name in view.topics}
        there = (TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions)
        return self.starting.guard.needed(there) - (self.owned.partitions - self.barrier.revoking)

    async def check_state(self) -> None:
        """Raise SharedState where another member is assigned partitions that a query with state needs."""
        await self.starting.guard.check_owned(self._cluster, self.member, self.missing_for_state)

    # Rounds

    async def begin(self, planner: Planner, timeout_s: float | None = None, *, at_once: bool = False) -> Round | None:
        """Wait until owned partitions have new records, and open the round that is planned over them.

        `at_once`: of what the answer that ended the wait has shown, without a look at what came behind it.
        Returns None when `timeout_s` passed or the gate is interrupted. Raises KafkaError where the membership or a
        listener failed. Every round must be closed by `close`.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while not self._is_stopping:
            self.member.check()
            await self.owned.report_deleted()
            changes = self.owned.changes
            if self.owned.partitions - self.barrier.revoking:
                available = self.owned.found(self._ends.found) if at_once else {}
                is_found = bool(available)
                if not is_found:
                    available = await self._available()
                    self._ends.forget()
                if changes != self.owned.changes:
                    continue
                staying = {each: places for each, places in available.items() if each not in self.barrier.revoking}
                if ranges := await planner(staying):
                    if not is_found:
                        await self.owned.refresh_topic_ids()
                    recreated = self.owned.recreated
                    if changes != self.owned.changes or any(each.partition in recreated for each in ranges):
                        continue
                    # Nothing was awaited since the last comparison: no rebalance can have come between.
                    return self._opened(ranges)
            left_s = LONGEST_S if deadline is None else min(LONGEST_S, deadline - loop.time())
            if left_s <= 0:
                return None
            self._ends.watch(self.owned.ends)
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self.barrier.changed.wait()
            self.barrier.changed.clear()
        return None

    async def commit(self, done: Round, mark: CommitMark = JOB) -> None:
        """Commit what an open round read of the partitions that the member owned from its beginning on.

        Raises CommitFailed when it lost some, after the commit of the others; the next owner reads their rows again.
        """
        opened, member = self._require_open(done), self.member
        deadline_s = asyncio.get_running_loop().time() + self.settings.rebalance_timeout_ms / 1000
        while True:
            # A member that joined again may own the same partitions: they had another owner in between.
            still_owned = (opened.partitions & opened.watch.uninterrupted & self.owned.partitions) - opened.deleted
            offsets = {each: offset for each, offset in done.next_offsets.items() if each in still_owned}
            try:
                await member.commit({each: OffsetAndMetadata(offset, mark.text) for each, offset in offsets.items()})
            except RebalanceInProgress:
                # The partitions have no other owner yet. If a revocation waits for this round, the commit is not tried
                # again.
                left_s = deadline_s - asyncio.get_running_loop().time()
                if left_s <= 0 or opened.partitions & self.barrier.revoking:
                    raise
                await self._wait_until_stable(opened.partitions, left_s)
                continue
            except PartitionErrors as error:
                if not set(error.codes.values()) <= _DELETED:
                    raise
                opened.deleted |= error.codes.keys()
                continue
            break
        self.owned.advance(offsets)
        if lost := done.next_offsets.keys() - still_owned - opened.deleted:
            raise _taken(lost, member.identity)

    async def transaction_offsets(self, done: Round) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """Return who commits an open round in a transaction, and its offsets; then call `advance`.

        Raises CommitFailed if any were lost, TopicRecreated where that may not be.
        """
        opened, member = self._require_open(done), self.member
        if not member.is_stable and not opened.partitions & self.barrier.revoking:
            await self._wait_until_stable(opened.partitions, self.settings.rebalance_timeout_ms / 1000)
        await self.owned.refresh_topic_ids()  # a transaction commits by the name of a topic, which another one may have
        if recreated := opened.partitions & self.owned.recreated:
            self.starting.policy.recreated(recreated)
            text = f"{', '.join(map(str, sorted(recreated)))}: the topic was deleted and created again"
            raise CommitFailed(ErrorCode.UNKNOWN_TOPIC_ID, member.identity, text)
        if lost := opened.partitions - (opened.watch.uninterrupted & self.owned.partitions):
            raise _taken(lost, member.identity)
        identity = GroupMetadata(
            self.settings.group_id, member.generation, member.member_id, self.settings.group_instance_id
        )
        return identity, {each: OffsetAndMetadata(at, JOB.text) for each, at in done.next_offsets.items()}

    async def advance(self, done: Round) -> None:
        """Read on behind a round whose transaction is committed."""
        self.owned.advance({each: at for each, at in done.next_offsets.items() if each in self.owned.partitions})

    async def is_overtaken(self, failed: Round) -> bool:
        """Return whether records that a round reads, or their topics, were deleted. Raises KafkaError."""
        await self.owned.refresh_topic_ids()
        if self.owned.recreated & failed.next_offsets.keys():
            return True
        first = await self.owned.first_offsets(failed.next_offsets)
        return any(first.get(partition, stop) > start for partition, start, stop in failed.ranges)

    def close(self, done: Round, *, is_committed: bool) -> None:
        """Close a round, so that a revocation may proceed. If it is not committed, its rows are read again."""
        opened = self.barrier.open
        if opened is None or opened.round.number != done.number:
            return
        if not is_committed:
            self.owned.forget(each.partition for each in done.ranges)
        self.barrier.close()

    async def existing(self) -> list[TopicPartition]:
        """Return the partitions of the subscribed topics that exist. Raises KafkaError."""
        found: list[TopicPartition] = []
        missing = set()
        for name in self.member.topics:
            try:
                topic = await self._cluster.topic(name)
                found += [TopicPartition(name, number) for number in topic.partitions]
            except UnknownTopic:
                missing.add(name)
        self.missing = frozenset(missing)
        return found

    def _require_open(self, done: Round) -> OpenRound:
        opened = self.barrier.open
        if opened is None or opened.round.number != done.number:
            text = "the member has left the group: the rows of its last round are read again by their next owner"
            raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, self.member.identity, text)
        return opened

    def _report_missing(self) -> None:
        if self.settings.topics_must_exist:
            raise UnknownTopic(min(self.missing))
        names = ", ".join(sorted(self.missing))
        log.warning("group %s: %s: no such topic; it is read once it is created", self.settings.group_id, names)

    async def _available(self) -> Available:
        try:
            return await self.owned.available(self.member)
        except CommitFailed as refusal:  # by the offset store, or by the group when it is asked which one is right
            log.warning("group %s: %s", self.settings.group_id, refusal.text)
            return {}

    def _opened(self, ranges: tuple[OffsetRange, ...]) -> Round:
        partitions = frozenset(each.partition for each in ranges)
        topics = {each.topic for each in partitions}
        topic_ids = {topic: each for topic, each in self.owned.topic_ids.items() if topic in topics}
        begun = Round(self._rounds, self.member.generation, ranges, topic_ids)
        self.barrier.open = OpenRound(begun, partitions, self.member.watch_ownership(partitions))
        self._rounds += 1
        return begun

    async def _wait_until_stable(self, partitions: Partitions, timeout_s: float) -> None:
        """Wait until no rebalance is in progress, or one revokes these partitions, which waits for their round.

        The member may not know of the rebalance yet.
        """
        member = self.member
        await asyncio.sleep(_RETRY_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not member.is_stable and not partitions & self.barrier.revoking:
                    with suppress(TimeoutError):
                        await member.wait_for(lambda: member.is_stable, timeout_ms=_STABLE_MS)


def _taken(lost: Iterable[TopicPartition], identity: Identity) -> CommitFailed:
    text = (
        f"the group took {', '.join(map(str, sorted(lost)))} from this member while it read them: their next owner"
        " reads their rows again from the last commit on"
    )
    return CommitFailed(ErrorCode.ILLEGAL_GENERATION, identity, text)
