"""Offsets that a member commits and reads with its identity, while that identity moves on (KIP-848, KIP-1251).

A commit in a member epoch that the group has left behind is sent again with the newest one, as long as the member has
owned the partitions without interruption since the commit was asked for. If one was revoked and came back meanwhile,
another member may have committed newer offsets: the old ones would move the group backwards, so the commit fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from weakref import WeakSet

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import (
    REFUSALS,
    OffsetAndMetadata,
    PartitionOffsets,
    commit_offsets,
    fetch_committed,
)
from kohort.client.errors import CommitFailed, PartitionErrors
from kohort.client.membership.protocol_driver import ProtocolDriver
from kohort.client.observer import Answer
from kohort.client.synchronization import BroadcastEvent
from kohort.member import ClassicMember, ConsumerMember, Identity, inputs
from kohort.member.member_state import NO_IDENTITY
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

EPOCH_WAIT_MS = 5_000
"""How long a refused commit waits for the newest epoch; the member sends a heartbeat for it at once."""


class ActiveDriver:
    """The driver in force, which a switch of the protocol replaces; the inbox of its member; who waits for changes."""

    def __init__(self, driver: ProtocolDriver) -> None:
        self.driver = driver
        self.inbox: asyncio.Queue[inputs.Input] = asyncio.Queue()
        self.changed = BroadcastEvent()

    @property
    def member(self) -> ClassicMember | ConsumerMember:
        """The state machine in force."""
        return self.driver.member

    def put(self, event: inputs.Input) -> None:
        """Queue an input of the member."""
        self.inbox.put_nowait(event)


class OwnershipWatch:
    """Some partitions that were owned when it was made, and those of them that still are, without interruption.

    It is updated until the last reference to it is gone.
    """

    def __init__(self, owned: Partitions) -> None:
        self.owned = self.uninterrupted = owned

    @property
    def lost(self) -> Partitions:
        """What was not owned all the time, whether it is now or not."""
        return self.owned - self.uninterrupted


class MemberCommits:
    """The commits of one member, in whichever protocol it is active."""

    def __init__(self, cluster: Cluster, group_id: str, instance_id: str | None, active: ActiveDriver) -> None:
        self._watches: WeakSet[OwnershipWatch] = WeakSet()
        self._cluster = cluster
        self._group_id = group_id
        self._instance_id = instance_id
        self._active = active

    def watch_ownership(self, partitions: Iterable[TopicPartition]) -> OwnershipWatch:
        """Begin to record those of some partitions that are owned now."""
        watch = OwnershipWatch(self._active.member.owned.intersection(partitions))
        self._watches.add(watch)
        return watch

    def update_ownership(self) -> None:
        """Drop from every watch what is no longer owned."""
        for watch in self._watches:
            watch.uninterrupted &= self._active.member.owned

    async def commit(
        self,
        offsets: PartitionOffsets,
        watch: OwnershipWatch,
        report: Callable[[Mapping[TopicPartition, int]], Answer],
    ) -> None:
        """Commit with the member's generation or epoch. Raises as `Membership.commit` does.

        `report` is called with the offsets of each attempt, and what it returns with the codes of its answer.
        """
        while True:
            driver = self._active.driver
            identity = driver.member.identity
            if not identity.is_valid:
                raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, identity)
            if watch.lost:
                names = ", ".join(map(str, sorted(watch.lost)))
                text = f"{names} went to others while the commit waited: offsets of before would take them back"
                raise CommitFailed(ErrorCode.ILLEGAL_GENERATION, identity, text)
            try:
                await self._commit_as(identity, driver, offsets, report)
            except KafkaError as error:
                if error.code not in REFUSALS:
                    raise
                self._active.put(inputs.CommitAnswered(identity, error.code))
                is_stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
                if is_stale and await self._has_newer_epoch(identity) and offsets.keys() <= watch.uninterrupted:
                    continue
                raise driver.commit_error(error, identity) from None
            return

    def refused(self, identity: Identity, code: ErrorCode) -> None:
        """The group refused what somewhere else was committed as this member, such as in a transaction (KIP-447)."""
        if code in REFUSALS:
            self._active.put(inputs.CommitAnswered(identity, code))

    async def _commit_as(
        self,
        identity: Identity,
        driver: ProtocolDriver,
        offsets: PartitionOffsets,
        report: Callable[[Mapping[TopicPartition, int]], Answer],
    ) -> None:
        if not offsets:
            return
        answered = report({partition: entry.offset for partition, entry in offsets.items()})
        codes = dict.fromkeys(offsets, ErrorCode.NETWORK_EXCEPTION)
        try:
            await commit_offsets(
                self._cluster,
                self._group_id,
                offsets,
                identity=identity,
                instance_id=self._instance_id,
                topic_ids=driver.topic_ids(offsets),
            )
            codes = dict.fromkeys(offsets, ErrorCode.NONE)
        except PartitionErrors as error:
            codes = dict.fromkeys(offsets, ErrorCode.NONE) | error.codes
            raise
        except KafkaError as error:
            codes = dict.fromkeys(offsets, error.code)
            raise
        finally:
            answered(codes)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets, as a member of the consumer protocol in its epoch.

        An epoch that the group has left behind does not concern the offsets: they are read again with the newest one,
        or, by a member that was fenced, without one.
        """
        wanted = list(partitions)
        while True:
            driver = self._active.driver
            is_native = driver.name == "consumer" and driver.member.identity.is_valid
            identity = driver.member.identity if is_native else NO_IDENTITY
            try:
                return await fetch_committed(
                    self._cluster,
                    self._group_id,
                    wanted,
                    identity=identity,
                    topic_ids=driver.topic_ids(wanted),
                )
            except KafkaError as error:
                if error.code not in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                    raise
                self._active.put(inputs.CommitAnswered(identity, error.code))
                await self._wait_for_change(identity)
                if self._active.member.identity == identity:
                    raise

    async def _has_newer_epoch(self, identity: Identity) -> bool:
        await self._wait_for_change(identity)
        now = self._active.member.identity
        return now.is_valid and now != identity

    async def _wait_for_change(self, identity: Identity) -> None:
        """Wait until the member has a newer identity, or was fenced; at most `EPOCH_WAIT_MS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EPOCH_WAIT_MS / 1000):
                while self._active.member.identity == identity:
                    await self._active.changed.wait()
