"""Offsets that a member commits and reads as who it is in its group, while who it is moves on (KIP-848, KIP-1251).

A member epoch that the group has left behind is no reason to lose a commit: it is said again with the newest one, as
long as the member still owns the partitions. Only a member that was put out, or gave them up, has failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import REFUSALS, OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.errors import CommitFailed, PartitionErrors
from kohort.client.membership.continuous_ownership import Held, Hold
from kohort.client.membership.protocol_driver import Side
from kohort.client.observer import Answer
from kohort.member import Identity, inputs
from kohort.member.identity import NOBODY
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

EPOCH_WAIT_MS = 5_000
"""How long the newest epoch is waited for: a heartbeat is asked for it at once."""


class MemberOffsets:
    """One member's offsets. `side` is who the member is by now, `tell` lets it know of refusals, `changed` beats.

    `committing` is told of each commit that leaves, and what it returns of the answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        instance_id: str | None,
        *,
        side: Callable[[], Side],
        tell: Callable[[inputs.Input], None],
        changed: BroadcastEvent,
        committing: Callable[[Mapping[TopicPartition, int]], Answer],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._instance_id = instance_id
        self._side = side
        self._tell = tell
        self._changed = changed
        self._committing = committing
        self.held = Held()

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], hold: Hold, *, timeout_ms: int | None
    ) -> None:
        """Commit with the member's generation or epoch, what it has owned since the commit was asked for.

        Raises as `Membership.commit` does.
        """
        while True:
            side = self._side()
            identity = side.member.identity
            if not identity.is_valid:
                raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, identity.member_id, identity.generation)
            if hold.lost:
                names = ", ".join(map(str, sorted(hold.lost)))
                text = f"{names} went to others while the commit waited: offsets of before would take them back"
                raise CommitFailed(ErrorCode.ILLEGAL_GENERATION, identity.member_id, identity.generation, text)
            try:
                await self._commit_as(identity, side, offsets, timeout_ms)
            except KafkaError as error:
                if error.code not in REFUSALS:
                    raise
                self._tell(inputs.CommitAnswered(identity, error.code))
                is_stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
                if is_stale and await self._has_newer_epoch(identity) and offsets.keys() <= hold.kept:
                    continue
                raise side.refusal(error, identity) from None
            return

    async def _commit_as(
        self,
        identity: Identity,
        side: Side,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_ms: int | None,
    ) -> None:
        if not offsets:
            return
        answered = self._committing({partition: entry.offset for partition, entry in offsets.items()})
        codes = dict.fromkeys(offsets, ErrorCode.NETWORK_EXCEPTION)
        try:
            await commit_offsets(
                self._cluster,
                self._group_id,
                offsets,
                identity=identity,
                instance_id=self._instance_id,
                topic_ids=side.topic_ids(offsets),
                timeout_ms=timeout_ms,
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

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets, as a member of the consumer protocol in its epoch.

        An epoch that is left behind says nothing about the offsets: they are asked for again with the newest one, or
        as nobody by a member that is put out.
        """
        wanted = list(partitions)
        while True:
            side = self._side()
            identity = side.member.identity if side.name == "consumer" and side.member.identity.is_valid else NOBODY
            try:
                return await fetch_committed(
                    self._cluster,
                    self._group_id,
                    wanted,
                    identity=identity,
                    topic_ids=side.topic_ids(wanted),
                    timeout_ms=timeout_ms,
                )
            except KafkaError as error:
                if error.code not in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                    raise
                self._tell(inputs.CommitAnswered(identity, error.code))
                await self._moved_on(identity)
                if self._side().member.identity == identity:
                    raise

    async def _has_newer_epoch(self, identity: Identity) -> bool:
        await self._moved_on(identity)
        now = self._side().member.identity
        return now.is_valid and now != identity

    async def _moved_on(self, identity: Identity) -> None:
        """Wait until the member is somebody newer, or was put out; not for ever."""
        try:
            async with asyncio.timeout(EPOCH_WAIT_MS / 1000):
                while self._side().member.identity == identity:
                    await self._changed.wait()
        except TimeoutError:
            pass
