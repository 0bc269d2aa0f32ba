"""A consumer from before KIP-429: it writes version 0 of the embedded protocol and revokes everything before it joins.

Speaks to the coordinator by bare requests. Clients like it are still in use (aiokafka writes version 0 to this day).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kohort.client import Cluster
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.net.connection import Connection
from kohort.wire.consumer_protocol import decode_assignment, encode_subscription
from kohort.wire.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest


class OldMember:
    """Follows its group until `leave`. It leads no round: as the first of a group it would have to."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str], protocols: Sequence[str]) -> None:
        self.assignment: Partitions = frozenset()
        self.is_stable = False
        self.on_change: Callable[[Partitions, Partitions], object] = lambda *_: None
        self._cluster = cluster
        self._group = group
        self._member_id = ""
        self._generation = -1
        metadata = encode_subscription(Subscription(tuple(topics), version=0))
        self._protocols = [JoinGroupRequest.Protocol(name=name, metadata=metadata) for name in protocols]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def leave(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._own(frozenset())
        connection = await self._open()
        await connection.call(
            LeaveGroupRequest(
                group_id=self._group,
                member_id=self._member_id,
                members=[LeaveGroupRequest.Member(member_id=self._member_id)],
            )
        )
        connection.close()

    async def _open(self) -> Connection:
        return await self._cluster.pool.open_apart(await self._cluster.coordinator(self._group))

    async def _run(self) -> None:
        connection = await self._open()
        try:
            while True:
                self._own(frozenset())
                if await self._join(connection):
                    self.is_stable = True
                    while await self._is_calm(connection):
                        await self._pause()
                    self.is_stable = False
        finally:
            connection.close()

    async def _join(self, connection: Connection) -> bool:
        joined = await connection.call(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=self._protocols,
            )
        )
        if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
            return False
        self._member_id = joined.member_id
        if joined.error_code:
            return False
        assert joined.leader != self._member_id, "an old member is no leader here"
        self._generation = joined.generation_id
        synced = await connection.call(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
            )
        )
        if synced.error_code:
            return False
        self._own(decode_assignment(synced.assignment).partitions)
        return True

    async def _is_calm(self, connection: Connection) -> bool:
        beat = await connection.call(
            HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        )
        return beat.error_code == ErrorCode.NONE

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(0.05):
                await asyncio.Event().wait()
        except TimeoutError:
            pass

    def _own(self, partitions: Partitions) -> None:
        before, self.assignment = self.assignment, partitions
        self.on_change(before, partitions)
