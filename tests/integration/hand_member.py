"""A member whose every request the test sends: it stops a round exactly where the test wants it to stop."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.client import Cluster
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.net.connection import Connection
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from kohort.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

LOADS = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""What a broker that has just started answers, although it was found as the coordinator."""


class HandMember:
    """A member of a group that joins `topic` with the range protocol. `dial` connects, and connects again."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self.member_id = ""
        self.generation = -1
        self.others: list[str] = []
        """Ids of the other members, for its assignment when it leads."""
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._connection: Connection | None = None

    async def dial(self) -> None:
        """Connect to the coordinator, wherever it is now."""
        self.hang_up()
        self._cluster.forget_coordinator(self._group)
        self._connection = await self._cluster.pool.open_apart(await self._cluster.coordinator(self._group))

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def connection(self) -> Connection:
        assert self._connection is not None, "dial first"
        return self._connection

    async def join(self, *topics: str, owned: Partitions = frozenset(), reason: str = "") -> JoinGroupResponse:
        """Join under the id it has, or under a new one; return the answer of the join that counts."""
        subscription = Subscription(topics or (self._topic,), owned=tuple(sorted(owned)), generation=self.generation)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=encode_subscription(subscription))],
            reason=reason,
        )
        answer = await self.connection.call(request)
        while answer.error_code in LOADS:
            await self.dial()
            answer = await self.connection.call(request)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = self.member_id = answer.member_id
            answer = await self.connection.call(request)
        if not answer.error_code:
            self.generation = answer.generation_id
            self.others = [member.member_id for member in answer.members if member.member_id != self.member_id]
        return answer

    async def sync(
        self, assignments: Mapping[str, Partitions] | None = None, failure: str | None = None
    ) -> SyncGroupResponse:
        """Send SyncGroup; as the leader, with the assignment of every member."""
        return await self.connection.call(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequest.Assignment(member_id=each, assignment=encode_assignment(Assignment(partitions)))
                    for each, partitions in (assignments or {}).items()
                ],
                assignment_error=failure,
            )
        )

    async def beat(self) -> ErrorCode:
        """Send a heartbeat and return what it says."""
        answer = await self.connection.call(
            HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self.member_id)
        )
        return ErrorCode(answer.error_code)

    async def leave(self) -> None:
        member = LeaveGroupRequest.Member(member_id=self.member_id)
        await self.connection.call(LeaveGroupRequest(group_id=self._group, members=[member]))


def partitions_of(answer: SyncGroupResponse) -> Partitions:
    """Return what a SyncGroup assigned."""
    assert answer.error_code == 0, ErrorCode(answer.error_code).name
    return decode_assignment(answer.assignment).partitions
