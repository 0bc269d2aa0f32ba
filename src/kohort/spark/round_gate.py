"""Rounds against rebalances: a round runs only on partitions that the member owns, and holds their revocation up.

The law: a round's offsets are committed with the generation in which it began, or not at all. A
revocation waits for the round, bounded by the rebalance timeout; what was lost, or outlived that
bound, is refused at `commit`. It runs in one event loop, so nothing here needs a lock; it knows no Spark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kohort.assign import RangeAssignor
from kohort.assign.spec import Assignor
from kohort.client.cluster import Cluster
from kohort.client.errors import CommitFailed
from kohort.client.list_offsets import EARLIEST, LATEST, list_ends
from kohort.client.listener import RebalanceListener, finished
from kohort.client.membership import Membership
from kohort.client.offsets import OffsetAndMetadata
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.rounds import Round, plan

log = logging.getLogger(__name__)

Reset = Literal["earliest", "latest", "none"]

_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 0.1


class NoOffset(KafkaError):
    """A partition has no usable committed offset, and `auto_offset_reset` is "none"."""

    def __init__(self, partition: TopicPartition, committed: int | None, first: int, last: int) -> None:
        held = "has no committed offset" if committed is None else f"has the committed offset {committed}"
        text = f'{partition} {held}, the log holds {first} to {last}, and auto_offset_reset is "none"'
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{text}: reset the group's offsets, or choose earliest or latest"
        )


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How the stream takes part in its group; names and defaults are the consumer's."""

    bootstrap_servers: str
    group_id: str
    topics: tuple[str, ...]
    auto_offset_reset: Reset = "latest"
    client_id: str = "kohort"
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    assignors: tuple[Assignor, ...] = (RangeAssignor(),)
    client_rack: str | None = None


class RoundGate(RebalanceListener):
    """One membership whose rebalances and rounds never overlap. `listener` hears of rebalances after the gate did."""

    def __init__(self, settings: GroupSettings, listener: RebalanceListener | None = None) -> None:
        self.settings = settings
        self.owned: Partitions = frozenset()
        self._listener = listener or RebalanceListener()
        self._cluster = Cluster(settings.bootstrap_servers, client_id=settings.client_id)
        self._membership: Membership | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._tenure = 0
        self._rounds = 0
        self._is_revoking = False
        self._is_stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._stirred = asyncio.Event()

    async def start(self) -> None:
        """Reach the cluster and begin to join. Raises KafkaError."""
        settings = self.settings
        await self._cluster.start()
        self._membership = Membership(
            self._cluster,
            settings.group_id,
            topics=settings.topics,
            assignors=settings.assignors,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            group_instance_id=settings.group_instance_id,
            listener=self,
            client_rack=settings.client_rack,
        )
        await self._membership.start()

    async def stop(self, reason: str) -> None:
        """Leave the group and close every connection."""
        self.interrupt()
        try:
            if self._membership is not None:
                await self._membership.stop(reason)
        finally:
            await self._cluster.close()

    def interrupt(self) -> None:
        """Let no further round begin; one that waits in `begin` returns None."""
        self._is_stopping = True
        self._stirred.set()

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, or an empty string."""
        return self._membership.member_id if self._membership else ""

    @property
    def generation(self) -> int:
        """The group's generation, or -1."""
        return self._membership.generation if self._membership else -1

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """Records from the position to the end of each owned partition, as of the last look, where both are known."""
        known = self._positions.keys() & self._ends.keys()
        return {partition: max(0, self._ends[partition] - self._positions[partition]) for partition in known}

    # Rounds

    async def begin(self, most: int, timeout_s: float | None = None) -> Round | None:
        """Wait until owned partitions hold new records, and open a round over `most` offsets or fewer.

        Returns None when `timeout_s` passed or the gate is interrupted. Raises KafkaError where the membership or a
        listener failed. Every round must be closed by `close`.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        wait_s = _FIRST_WAIT_S
        while not self._is_stopping:
            self._member.check()
            tenure = self._tenure
            if self.owned and not self._is_revoking:
                available = await self._available()
                if tenure != self._tenure or self._is_revoking:
                    continue
                if ranges := plan(available, most):
                    # From the look at the tenure to here nothing was awaited: no rebalance can have come between.
                    self._idle.clear()
                    self._rounds += 1
                    return Round(self._rounds - 1, self.generation, ranges)
            left_s = wait_s if deadline is None else min(wait_s, deadline - loop.time())
            if left_s <= 0:
                return None
            await self._stir(left_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        return None

    async def commit(self, done: Round) -> None:
        """Commit what an open round read, in the generation in which it began.

        Raises CommitFailed when the member lost the partitions meanwhile; the next owner reads the rows again.
        """
        partitions, member = {each.partition for each in done.ranges}, self._member
        # Whoever joined again has a new identity, with which the group would take a commit for what it lost.
        if member.generation != done.generation or not partitions <= self.owned:
            raise CommitFailed(ErrorCode.ILLEGAL_GENERATION, member.member_id, done.generation)
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in done.next_offsets.items()}
        await member.commit(offsets)
        self._positions.update(done.next_offsets)

    def close(self, done: Round, *, is_committed: bool) -> None:
        """Close a round, so that a revocation may go on. What was not committed will be read again."""
        if not is_committed:
            self._forget(each.partition for each in done.ranges)
        self._idle.set()

    # Callbacks of the membership

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Wait for the running round, which commits, then let go."""
        self._is_revoking = True
        try:
            async with asyncio.timeout(self.settings.rebalance_timeout_ms / 1000 * 0.9):
                await self._idle.wait()
        except TimeoutError:
            log.warning("group %s: a round outlasts the rebalance timeout and is lost", self.settings.group_id)
        finally:
            self._is_revoking = False
            self._let_go(partitions)
        await finished(self._listener.on_partitions_revoked(partitions))

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Own them from now on; positions are looked up when the next round begins."""
        self.owned |= partitions
        self._tenure += 1
        await finished(self._listener.on_partitions_assigned(partitions))
        self._stirred.set()

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Let go at once: others own them already, and the running round's commit is refused."""
        self._let_go(partitions)
        await finished(self._listener.on_partitions_lost(partitions))

    # The inside

    @property
    def _member(self) -> Membership:
        assert self._membership is not None, "a round begins after the start"
        return self._membership

    def _let_go(self, partitions: Partitions) -> None:
        self.owned -= partitions
        self._tenure += 1
        self._forget(partitions)
        for partition in partitions:
            self._ends.pop(partition, None)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    async def _available(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return position and end of every owned partition; nothing when a rebalance came meanwhile."""
        owned, tenure = self.owned, self._tenure
        if missing := owned - self._positions.keys():
            found = await self._starting_positions(missing)
            if tenure != self._tenure:
                return {}
            self._positions |= found
        ends = await list_ends(self._cluster, owned, LATEST)
        if tenure != self._tenure:
            return {}
        self._ends = ends
        return {partition: (self._positions[partition], end) for partition, end in ends.items()}

    async def _starting_positions(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return committed offsets, or what `auto_offset_reset` says where there is none or the log has moved on."""
        committed = await self._member.committed(partitions)
        first = await list_ends(self._cluster, partitions, EARLIEST)
        last = await list_ends(self._cluster, partitions, LATEST)
        found = {partition: each.offset for partition, each in committed.items()}
        for partition in partitions:
            position = found.get(partition)
            if position is None or not first[partition] <= position <= last[partition]:
                if self.settings.auto_offset_reset == "none":
                    raise NoOffset(partition, position, first[partition], last[partition])
                found[partition] = (first if self.settings.auto_offset_reset == "earliest" else last)[partition]
        return found

    async def _stir(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._stirred.wait()
        except TimeoutError:
            pass
        self._stirred.clear()
