"""Members of the consumer protocol as a node's clients, in the requests that they send."""

from __future__ import annotations

from typing import Any

from tests.unit.node.desk import Desk, Peer

from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

Owned = dict[bytes, list[int]]


def consumer_desk(**settings: Any) -> Desk:
    """Return a node with topic `orders` of three partitions, which keeps no heartbeat."""
    desk = Desk(**{"kohort_group_consumer_heartbeat_park_ms": 0, **settings})
    desk.create("orders", 3)
    return desk


class NativeMember:
    """A client of the consumer protocol: it reports what it owns as soon as it receives its assignment."""

    def __init__(self, desk: Desk, member_id: str, group_id: str = "g", **fields_of_join: Any) -> None:
        self.desk = desk
        self.peer: Peer = desk.connect(client_id=f"client-{member_id}")
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.owned: Owned = {}
        self.interval_ms = 0
        self.fields_of_join = {"subscribed_topic_names": ["orders"], "rebalance_timeout_ms": 60_000, **fields_of_join}

    def request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat that says nothing but who sends it."""
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group_id,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.fields_of_join.get("instance_id"),
                **fields,
            }
        )

    def join_request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return self.request(**{**self.fields_of_join, "member_epoch": 0, "topic_partitions": [], **fields})

    def ack_request(self) -> ConsumerGroupHeartbeatRequest:
        return self.request(topic_partitions=topics_of(self.owned))

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.take(self.peer.call(self.join_request(**fields), 1))

    def ack(self) -> ConsumerGroupHeartbeatResponse:
        return self.take(self.peer.call(self.ack_request(), 1))

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.take(self.peer.call(self.request(**fields), 1))

    def send(self, **fields: Any) -> None:
        """Send a heartbeat that may be parked."""
        self.peer.send(self.request(**fields), 1)

    def answers(self) -> list[ConsumerGroupHeartbeatResponse]:
        """Take the answers that have come."""
        return [self.take(answer) for answer in self.peer.answers()]

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.peer.call(self.request(member_epoch=epoch), 1)  # type: ignore[no-any-return]

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        """Go by an answer."""
        if not answer.error_code:
            self.epoch = answer.member_epoch
            self.interval_ms = answer.heartbeat_interval_ms
            if answer.assignment is not None:
                self.owned = owned_of(answer)
        return answer

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions that it owns, of whatever topic."""
        return sorted(number for numbers in self.owned.values() for number in numbers)


def owned_of(answer: ConsumerGroupHeartbeatResponse) -> Owned:
    assert answer.assignment is not None
    return {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}


def topics_of(owned: Owned) -> list[ConsumerGroupHeartbeatRequest.TopicPartition]:
    topic = ConsumerGroupHeartbeatRequest.TopicPartition
    return [topic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in sorted(owned.items())]


def settle(*members: NativeMember, rounds: int = 10) -> None:
    """Let members send heartbeats with what they own, until no response has anything new."""
    for _ in range(rounds):
        before = [(member.epoch, member.partitions) for member in members]
        for member in members:
            answer = member.ack()
            assert answer.error_code == 0, answer
        if before == [(member.epoch, member.partitions) for member in members]:
            return
    raise AssertionError("the members do not settle")


def stable_members(desk: Desk, count: int = 2, **fields: Any) -> list[NativeMember]:
    """Bring members into a group and let it settle, each with the partitions that are its own."""
    members = [NativeMember(desk, f"m{number}", **fields) for number in range(1, count + 1)]
    for member in members:
        assert member.join().error_code == 0
    settle(*members)
    return members
