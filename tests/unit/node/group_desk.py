"""Members of a group as a node's clients, in the requests that they send."""

from __future__ import annotations

from typing import Any

from tests.unit.node.desk import Desk, Peer

from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


def group_desk(**settings: Any) -> Desk:
    """Return a node with topic `orders` of three partitions, whose groups start without a delay and park nothing."""
    desk = Desk(**{"group_initial_rebalance_delay_ms": 0, "kohort_group_heartbeat_park": False, **settings})
    desk.create("orders", 3)
    return desk


class GroupMember:
    """One client that speaks the classic protocol in one version of each API."""

    def __init__(
        self,
        desk: Desk,
        instance_id: str | None = None,
        group_id: str = "g",
        topic: str = "orders",
        session_timeout_ms: int = 10_000,
    ) -> None:
        self.desk = desk
        self.peer: Peer = desk.connect()
        self.group_id = group_id
        self.instance_id = instance_id
        self.topic = topic
        self.protocol = "range"
        self.session_timeout_ms = session_timeout_ms
        self.member_id = ""
        self.generation = -1

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        metadata = encode_subscription(Subscription((self.topic,)))
        return JoinGroupRequest(
            **{
                "group_id": self.group_id,
                "session_timeout_ms": self.session_timeout_ms,
                "rebalance_timeout_ms": 60_000,
                "member_id": self.member_id,
                "group_instance_id": self.instance_id,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequest.Protocol(name=self.protocol, metadata=metadata)],
                **fields,
            }
        )

    def enter(self) -> None:
        """Get an id if one is needed, and leave the join waiting."""
        self.peer.send(self.join_request(), 9)
        for answer in self.peer.answers():
            assert answer.error_code == 79
            self.member_id = answer.member_id
            self.peer.send(self.join_request(), 9)

    def joined(self) -> JoinGroupResponse:
        """Take the answer of the waiting join, which must have come."""
        (answer,) = self.peer.answers()
        assert answer.error_code == 0
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer  # type: ignore[no-any-return]

    def sync_request(self, **assigned: list[int]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member_id, assignment=assignment(self.topic, partitions))
                for member_id, partitions in assigned.items()
            ],
        )

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def heartbeat(self, version: int = 4) -> int:
        return self.peer.call(self.heartbeat_request(), version).error_code  # type: ignore[no-any-return]

    def commit_request(self, partition: int = 0, offset: int = 7, **fields: Any) -> OffsetCommitRequest:
        wanted = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)
        return OffsetCommitRequest(
            **{
                "group_id": self.group_id,
                "generation_id_or_member_epoch": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance_id,
                "topics": [OffsetCommitRequest.Topic(name=self.topic, partitions=[wanted])],
                **fields,
            }
        )

    def commit(self, partition: int = 0, offset: int = 7) -> int:
        answer = self.peer.call(self.commit_request(partition, offset), 9)
        return answer.topics[0].partitions[0].error_code  # type: ignore[no-any-return]

    def leave(self) -> int:
        member = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance_id, reason="done")
        answer = self.peer.call(LeaveGroupRequest(group_id=self.group_id, members=[member]), 5)
        return answer.error_code or answer.members[0].error_code


def assignment(topic: str, partitions: list[int]) -> bytes:
    """Return the bytes of an assignment."""
    return encode_assignment(Assignment(frozenset(TopicPartition(topic, each) for each in partitions)))


def stable_group(desk: Desk, count: int = 2, protocol: str = "range", **fields: Any) -> list[GroupMember]:
    """Bring members into a Stable group, the leader first; each has one partition."""
    members = [GroupMember(desk, **fields) for _ in range(count)]
    for member in members:
        member.protocol = protocol
    find_coordinator(members[0].peer)
    for member in members:
        member.enter()
    desk.advance(0)
    answers = [member.joined() for member in members]
    members.sort(key=lambda member: member.member_id != answers[0].leader)
    assigned = {member.member_id: [index % 3] for index, member in enumerate(members)}
    for member in reversed(members):
        member.peer.send(member.sync_request(**(assigned if member is members[0] else {})), 5)
    for member in members:
        (answer,) = member.peer.answers()
        assert answer.error_code == 0
        assert answer.assignment == assignment(member.topic, assigned[member.member_id])
    return members


def find_coordinator(peer: Peer, group_id: str = "g") -> Any:
    """Ask who coordinates a group."""
    (found,) = peer.call(FindCoordinatorRequest(coordinator_keys=[group_id]), 6).coordinators
    return found


def committed(peer: Peer, partition: int = 0, group_id: str = "g", topic: str = "orders") -> int:
    """Return a group's committed offset of one partition, -1 where there is none."""
    wanted = OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[partition])
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group_id, topics=[wanted])])
    (group,) = peer.call(request, 9).groups
    assert group.error_code == 0
    return group.topics[0].partitions[0].committed_offset  # type: ignore[no-any-return]
