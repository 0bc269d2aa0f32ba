"""Rounds against rebalances: a round runs only on partitions that the member owns, and holds their revocation up.

The law: a round's offsets are committed for partitions that stayed the member's from its beginning, or not at all. A
revocation waits for a round that reads what is revoked, bounded by the rebalance timeout; what was lost, or outlived
that bound, is refused at `commit`. Rounds on what stays are never interrupted. It runs in one event loop, so nothing
here needs a lock; it knows no Spark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.cluster.list_offsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_ends
from kohort.client.errors import CommitFailed, PartitionErrors, RebalanceInProgress, UnknownTopic
from kohort.client.membership.member_commits import Hold
from kohort.client.membership.membership import Membership
from kohort.client.rebalance_listener import RebalanceListener, finished
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.spark.membership.commit_mark import JOB, CommitMark
from kohort.spark.membership.member_settings import GroupSettings
from kohort.spark.membership.offset_store import OffsetKeeper
from kohort.spark.membership.starting_offsets import Policy, ResetPolicy, StartingPoints
from kohort.spark.rows.rounds import OffsetRange, Round, plan

log = logging.getLogger(__name__)

Available = Mapping[TopicPartition, tuple[int, int]]
Planner = Callable[[Available], tuple[OffsetRange, ...]]
"""What a round reads, out of position and end of each partition that may be read; nothing lets the gate wait."""

_DELETED = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 0.1


@dataclass(slots=True)
class _Open:
    """The round that is open, what of it the member still holds, and whether a revocation gave up on it."""

    round: Round
    partitions: Partitions
    hold: Hold
    outlived: Partitions = frozenset()
    deleted: Partitions = frozenset()


class RoundGate(RebalanceListener):
    """One membership whose rebalances and rounds never overlap. `listener` hears of rebalances after the gate did.

    With a `policy` of its own, where it starts is committed at once.
    """

    def __init__(
        self, settings: GroupSettings, listener: RebalanceListener | None = None, policy: Policy | None = None
    ) -> None:
        self.settings = settings
        self.owned: Partitions = frozenset()
        self.targets: Mapping[TopicPartition, int] | None = None
        """Ends that no round goes beyond; what is not named is not read."""
        self.missing: frozenset[str] = frozenset()
        """Topics that are named and did not exist when this was looked up last."""
        self._listener = listener or RebalanceListener()
        self._cluster = settings.cluster()
        self.starting = StartingPoints(
            self._cluster,
            settings.group_id,
            policy or ResetPolicy(settings.auto_offset_reset, settings.isolation),
            settings.isolation,
            is_marking=policy is not None,
        )
        self._membership: Membership | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._leaving: Partitions = frozenset()
        self._deleted: Partitions = frozenset()
        self._taken: Partitions = frozenset()
        self._open: _Open | None = None
        self._tenure = 0
        self._rounds = 0
        self._wait_s = _FIRST_WAIT_S
        self._is_stopping = False
        self._closed = asyncio.Event()
        self._stirred = asyncio.Event()

    async def start(self) -> None:
        """Reach the cluster and begin to join. Raises KafkaError."""
        try:
            await self._cluster.start()
            await self.settings.follow(self._cluster)
            self._membership = self.settings.membership(self._cluster, self)
            self._cluster.watch(self.settings.seen(self._membership))
            self.starting.see(await self._existing())
            if self.missing:
                self._report_missing()
            await self._membership.start()
        except BaseException:
            await self._cluster.close()
            raise

    async def stop(self, reason: str) -> None:
        """Leave the group and close every connection. A round that is open is not committed."""
        self.interrupt()
        if self._open is not None:
            self.close(self._open.round, is_committed=False)
        try:
            if self._membership is not None:
                await self._membership.stop(reason)
        finally:
            await self._cluster.close()

    def interrupt(self) -> None:
        """Let no further round begin; one that waits in `begin` returns None."""
        self._is_stopping = True
        self._stirred.set()

    def keep(self, keeper: OffsetKeeper | None) -> None:
        """Believe `keeper` from the next round on; None: the group."""
        if keeper is not self.keeper:
            self.starting.keeper = keeper
            self._positions.clear()

    @property
    def keeper(self) -> OffsetKeeper | None:
        """Who keeps the offsets beside the rows, where it is not the group."""
        return self.starting.keeper

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, or an empty string."""
        return self._membership.member_id if self._membership else ""

    @property
    def generation(self) -> int:
        """The group's generation, in the consumer protocol the member's epoch, or -1."""
        return self._membership.generation if self._membership else -1

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the next round begins, per owned partition that was looked up."""
        return dict(self._positions)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the member wants."""
        return frozenset(self._membership.topics if self._membership else ())

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, as far as it gives one."""
        return self._cluster.view.cluster_id or ""

    @property
    def topic_ids(self) -> dict[str, bytes]:
        """The ids of the topics that the positions are of, as far as the cluster gives them."""
        return dict(self._topic_ids)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The ends of owned partitions, as of the last look."""
        return dict(self._ends)

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records from the position to the end of each owned partition, as of the last look, where both are known."""
        positions, ends = self.positions, self.ends  # as they are now: other threads look, too
        return {each: max(0, ends[each] - at) for each, at in positions.items() if each in ends}

    @property
    def is_caught_up(self) -> bool:
        """Whether no rebalance is under way, and everything owned is read as far as the targets, as of the last look.

        A member without partitions is caught up.
        """
        member = self._membership
        if member is None or not member.is_stable or self._leaving or member.assignment != self.owned:
            return False
        there = self.owned - self._deleted
        return all(each in self._positions and self._positions[each] >= self._goal(each) for each in there)

    # Rounds

    async def begin(self, most: int | Planner, timeout_s: float | None = None) -> Round | None:
        """Wait until owned partitions hold new records, and open a round over `most` offsets or fewer, or as planned.

        Returns None when `timeout_s` passed or the gate is interrupted. Raises KafkaError where the membership or a
        listener failed. Every round must be closed by `close`.
        """
        planner: Planner = most if callable(most) else lambda available: plan(available, most)
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while not self._is_stopping:
            self._member.check()
            if self._taken:
                await self._see_taken()
            tenure = self._tenure
            if self.owned - self._leaving:
                available = await self._available()
                if tenure != self._tenure:
                    continue
                staying = {each: places for each, places in available.items() if each not in self._leaving}
                if ranges := planner(staying):
                    await self._look_for_topics_made_anew()
                    if tenure != self._tenure or any(each.partition in self._made_anew for each in ranges):
                        continue
                    # From the look at the tenure to here nothing was awaited: no rebalance can have come between.
                    return self._opened(ranges)
            left_s = self._wait_s if deadline is None else min(self._wait_s, deadline - loop.time())
            if left_s <= 0:
                return None
            # It goes on growing through calls: Spark asks again at once, and an idle topic need not be looked at more.
            self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
            await self._stir(left_s)
        return None

    async def commit(self, done: Round, mark: CommitMark = JOB) -> None:
        """Commit what an open round read of partitions that stayed this member's since it began.

        Raises CommitFailed when some did not, after the others' commit; the next owner reads their rows again.
        """
        opened, member = self._open, self._member
        if opened is None or opened.round.number != done.number:
            text = "the member has left the group: the rows of its last round are read again by whoever owns them now"
            raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id, member.generation, text)
        deadline_s = asyncio.get_running_loop().time() + self.settings.rebalance_timeout_ms / 1000
        while True:
            # Whoever joined again may own the same partitions: what it read before is another tenure's.
            kept = (opened.partitions & opened.hold.kept & self.owned) - opened.outlived - opened.deleted
            offsets = {each: offset for each, offset in done.next_offsets.items() if each in kept}
            try:
                await member.commit({each: OffsetAndMetadata(offset, mark.text) for each, offset in offsets.items()})
            except RebalanceInProgress:
                # Nobody else owns them yet. While a callback waits for this round there is nothing to wait for here.
                left_s = deadline_s - asyncio.get_running_loop().time()
                if left_s <= 0 or opened.partitions & self._leaving:
                    raise
                await self._settle(left_s)
                continue
            except PartitionErrors as error:
                if not set(error.codes.values()) <= _DELETED:
                    raise
                opened.deleted |= error.codes.keys()
                continue
            break
        self._positions.update(offsets)
        if lost := done.next_offsets.keys() - kept - opened.deleted:
            names = ", ".join(map(str, sorted(lost)))
            text = (
                f"the group took {names} from this member while it read them: their rows are read again from the last"
                " commit by whoever owns them now"
            )
            raise CommitFailed(ErrorCode.ILLEGAL_GENERATION, member.member_id, member.generation, text)

    async def is_overtaken(self, failed: Round) -> bool:
        """Return whether records that a round reads are gone by now, or their topics. Raises KafkaError."""
        first = await list_ends(self._cluster, failed.next_offsets, EARLIEST, gone=set())
        return any(first.get(partition, stop) > start for partition, start, stop in failed.ranges)

    def close(self, done: Round, *, is_committed: bool) -> None:
        """Close a round, so that a revocation may go on. What was not committed will be read again."""
        if self._open is None or self._open.round.number != done.number:
            return
        if not is_committed:
            self._forget(each.partition for each in done.ranges)
        self._member.release(self._open.hold)
        self._open = None
        self._closed.set()

    async def aim(self) -> None:
        """Let rounds go to where the topics end now, and no further. Raises KafkaError."""
        partitions = await self._existing()
        self.targets = await list_ends(self._cluster, partitions, LATEST, self.settings.isolation, gone=set())

    # Callbacks of the membership

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Wait for the running round if it reads any of them, which commits; then let go."""
        self._leaving |= partitions
        try:
            async with asyncio.timeout(self.settings.rebalance_timeout_ms / 1000 * 0.9):
                while self._open is not None and self._open.partitions & partitions:
                    self._closed.clear()
                    await self._closed.wait()
        except TimeoutError:
            log.warning("group %s: a round outlasts the rebalance timeout and is lost", self.settings.group_id)
        finally:
            self._leaving -= partitions
            self._taken |= partitions - self._deleted
            self._let_go(partitions)
        await finished(self._listener.on_partitions_revoked(partitions))

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Own them from now on; positions are looked up when the next round begins."""
        self.owned |= partitions
        self._tenure += 1
        await finished(self._listener.on_partitions_assigned(partitions))
        self._stirred.set()

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Let go at once: others own them, or their topic is deleted, and the running round's commit is refused."""
        self._taken |= partitions - self._deleted
        self._let_go(partitions)
        await finished(self._listener.on_partitions_lost(partitions))

    # The inside

    @property
    def _member(self) -> Membership:
        assert self._membership is not None, "a round begins after the start"
        return self._membership

    def _report_missing(self) -> None:
        if self.settings.topics_must_exist:
            raise UnknownTopic(min(self.missing))
        names = ", ".join(sorted(self.missing))
        log.warning("group %s: %s: no such topic; it is read once it is created", self.settings.group_id, names)

    def _opened(self, ranges: tuple[OffsetRange, ...]) -> Round:
        begun = Round(self._rounds, self.generation, ranges)
        partitions = frozenset(each.partition for each in ranges)
        self._open = _Open(begun, partitions, self._member.hold(partitions))
        self._rounds += 1
        self._wait_s = _FIRST_WAIT_S
        return begun

    def _let_go(self, partitions: Partitions) -> None:
        self.owned -= partitions
        self._deleted -= partitions
        self._tenure += 1
        self._forget(partitions)
        if self._open is not None:
            self._open.outlived |= partitions
        for partition in partitions:
            self._ends.pop(partition, None)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    async def _existing(self) -> list[TopicPartition]:
        """Return the partitions of the topics that are wanted, as far as there are any."""
        found: list[TopicPartition] = []
        missing = set()
        for name in self._member.topics:
            try:
                topic = await self._cluster.topic(name)
                found += [TopicPartition(name, number) for number in topic.partitions]
            except UnknownTopic:
                missing.add(name)
        self.missing = frozenset(missing)
        return found

    def _goal(self, partition: TopicPartition) -> int:
        """Where reading ends: at the target, if there is as much as that, or at the end as of the last look."""
        if self.targets is not None:
            target = self.targets.get(partition, 0)
            return min(target, self._ends.get(partition, target))
        return self._ends.get(partition, self._positions[partition] + 1)

    async def _available(self) -> Available:
        """Return position and end of every owned partition that there is; nothing when a rebalance came meanwhile."""
        tenure = self._tenure
        gone = {each for each in self._deleted if self._cluster.view.is_gone(each.topic)}
        ends = await list_ends(self._cluster, self.owned - gone, LATEST, self.settings.isolation, gone=gone)
        if tenure != self._tenure:
            return {}
        self._see_deleted(frozenset(gone))
        short = await self._cut_short(ends)
        if tenure != self._tenure:
            return {}
        made_anew = self._made_anew
        if made_anew:
            self.starting.policy.made_anew(made_anew)
        if missing := (ends.keys() - self._positions.keys()) | short.keys() | made_anew:
            ids = {each.topic: self._topic_id(each.topic) for each in missing}
            try:
                found = await self.starting.find(self._member, frozenset(missing), short, made_anew)
            except CommitFailed as refusal:  # of the keeper, or of the group that is asked who is right
                log.warning("group %s: %s", self.settings.group_id, refusal.text)
                return {}
            if tenure != self._tenure:
                return {}
            self._positions |= found
            self._topic_ids |= {topic: found_id for topic, found_id in ids.items() if found_id != NO_TOPIC_ID}
        self._ends = ends
        if self.targets is not None:
            ends = {partition: min(end, self.targets.get(partition, 0)) for partition, end in ends.items()}
        return {each: (self._positions[each], end) for each, end in ends.items() if each in self._positions}

    @property
    def _made_anew(self) -> Partitions:
        """The partitions with a position in a topic that is another one by now, under the same name."""
        others = {name for name, known in self._topic_ids.items() if self._topic_id(name) not in (known, NO_TOPIC_ID)}
        return frozenset(each for each in self._positions if each.topic in others)

    def _topic_id(self, name: str) -> bytes:
        topic = self._cluster.view.topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    async def _look_for_topics_made_anew(self) -> None:
        """Ask for the topics' ids: offsets alone do not show that a topic is another one."""
        with suppress(KafkaError):  # what is read carries the ids, too
            await self._cluster.refresh()

    async def _cut_short(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the positions in partitions that end before them: made anew, or cut by a new leader."""
        short = {each: at for each, at in self._positions.items() if at > ends.get(each, at)}
        if short and self.settings.isolation != READ_UNCOMMITTED:  # an open transaction is no loss
            ends = await list_ends(self._cluster, short, LATEST, gone=set())
        return {each: at for each, at in short.items() if at > ends.get(each, at)}

    async def _see_taken(self) -> None:
        """Look whether what the group took away is gone: that may be sooner than a look at its end."""
        try:
            await self._cluster.refresh()
        except KafkaError:
            return  # the next turn looks again
        taken, self._taken = self._taken, frozenset()
        if gone := {each for each in taken if self._cluster.view.is_gone(each.topic)}:
            self.starting.policy.deleted(gone)

    def _see_deleted(self, partitions: Partitions) -> None:
        """Leave out what is gone until the group takes it away, or until there is a topic of that name again."""
        new, self._deleted = partitions - self._deleted, partitions
        self._forget(partitions)
        if new:
            self.starting.policy.deleted(new)

    async def _settle(self, timeout_s: float) -> None:
        """Wait until no rebalance is under way for the member; it may not have heard of one yet."""
        member = self._member
        await asyncio.sleep(_FIRST_WAIT_S)
        with suppress(TimeoutError):
            await member.wait_for(lambda: member.is_stable, timeout_ms=int(timeout_s * 1000) + 1)

    async def _stir(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._stirred.wait()
        except TimeoutError:
            pass
        self._stirred.clear()


__all__ = ["GroupSettings", "RoundGate"]
