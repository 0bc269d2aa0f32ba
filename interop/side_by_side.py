"""The same requests to two brokers, and their answers as values that can be compared.

Where two brokers cannot but differ, a name stands for the value: ids of members and topics are numbered in the order in
which they come, addresses and the texts of errors are left out. Everything else is what stood on the wire.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from interop.wire import Wire
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.message import Value
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNTOLD = {
    *("throttle_time_ms", "error_message", "client_host", "host", "port", "log_dir", "documentation"),
    *("transaction_start_time_ms", "last_timestamp"),
}

Answer = tuple[str, Any]
"""What was asked, in words, and what came of it."""

Scenario = Callable[["Side", str], Iterator[Answer]]
"""Asks one broker, in groups and topics whose names begin with the text."""


class Side:
    """One of the two brokers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = Wire(address)
        self._names: dict[str, str] = {}
        self._wires: list[Wire] = [self.admin]
        self.topic_ids: dict[str, bytes] = {}

    def connect(self) -> Wire:
        """Return a connection of its own."""
        wire = Wire(self.address)
        self._wires.append(wire)
        return wire

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()

    def name(self, value: str, kind: str) -> str:
        """Give an id the name under which it is compared."""
        count = sum(name.startswith(f"<{kind} ") for name in self._names.values())
        return self._names.setdefault(value, f"<{kind} {count + 1}>")

    def create(self, *names: str, partitions: int = 3) -> None:
        """Create topics; their ids are compared by their names."""
        topic = CreateTopicsRequest.Topic
        wanted = [topic(name=name, num_partitions=partitions, replication_factor=-1) for name in names]
        for each in self.admin.call(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), 7).topics:
            assert not each.error_code, ErrorCode(each.error_code).name
            self.topic_ids[each.name] = each.topic_id
            self._names[each.topic_id.hex()] = f"<topic {each.name}>"
        time.sleep(0.3)  # until Kafka's coordinator, which learns of topics by itself, knows them

    def coordinate(self, *ids: str, key_type: int = 0) -> None:
        """Wait until the groups, or the transactional ids (type 1), have a coordinator."""
        for _ in range(100):
            message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(ids))
            found = self.admin.call(message, 6).coordinators
            if not any(each.error_code for each in found):
                return
            time.sleep(0.1)  # Apache Kafka is still creating the topic of the coordinators
        raise AssertionError(f"no coordinator for {ids}: {found}")

    def plain(self, value: Any) -> Any:
        """Return an answer as values that can be compared with another broker's."""
        if isinstance(value, Value):
            fields = ((name, getattr(value, name)) for name in value.__slots__ if name not in _UNTOLD)
            return {name: self._field(name, field) for name, field in fields}
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, bytes) and len(value) == 16:
            return self._names.get(value.hex(), value.hex())
        if isinstance(value, str):
            return self._names.get(value, value)
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name in ("error_code", "partition_error_code"):
            return ErrorCode(value).name
        if name in ("member_id", "leader") and value and _UUID.search(value):
            return self.name(value, "member")
        if name == "producer_id" and value >= 0:
            return self.name(str(value), "producer")
        return self.plain(value)


class Classic:
    """A classic member under the test's control: one request at a time, in the newest versions."""

    def __init__(
        self,
        side: Side,
        group_id: str,
        *topics: str,
        version: int = 3,
        instance_id: str | None = None,
        protocol: str = "range",
        user_data: bytes | None = None,
        session_ms: int = 6_000,
    ) -> None:
        self.side = side
        self.wire = side.connect()
        self.group_id = group_id
        self.topics = topics
        self.version = version
        self.instance_id = instance_id
        self.protocol = protocol
        self.user_data = user_data
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.owned: tuple[Any, ...] = ()

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        offer = Subscription(
            self.topics, user_data=self.user_data, owned=self.owned, generation=self.generation, version=self.version
        )
        return JoinGroupRequest(
            **{
                "group_id": self.group_id,
                "session_timeout_ms": self.session_ms,
                "rebalance_timeout_ms": self.session_ms,
                "member_id": self.member_id,
                "group_instance_id": self.instance_id,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequest.Protocol(name=self.protocol, metadata=encode_subscription(offer))],
                **fields,
            }
        )

    def enter(self, **fields: Any) -> None:
        """Send a JoinGroup, with an id if one is needed; `joined` takes its answer."""
        if not self.member_id and self.instance_id is None:
            answer = self.wire.call(self.join_request(**fields), 9)
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise AssertionError(f"JoinGroup without an id: {answer}")
            self.member_id = answer.member_id
        self.wire.send(self.join_request(**fields), 9)

    def joined(self) -> JoinGroupResponse:
        """Take the answer of the JoinGroup."""
        answer: JoinGroupResponse = self.wire.receive()
        if not answer.error_code:
            self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
        return answer

    def join(self, **fields: Any) -> JoinGroupResponse:
        self.enter(**fields)
        return self.joined()

    def sync_request(self, assigned: dict[str, bytes] | None = None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member_id, assignment=octets)
                for member_id, octets in (assigned or {}).items()
            ],
        )

    def sync(self, assigned: dict[str, bytes] | None = None) -> Any:
        return self.wire.call(self.sync_request(assigned), 5)

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def beat(self) -> str:
        """Send a heartbeat and return what it is answered."""
        return ErrorCode(self.wire.call(self.heartbeat_request(), 4).error_code).name


class Native:
    """A member of the consumer protocol under the test's control: one heartbeat at a time."""

    def __init__(self, side: Side, group_id: str, member_id: str, *topics: str, instance_id: str | None = None) -> None:
        self.side = side
        self.wire = side.connect()
        self.group_id = group_id
        self.member_id = member_id
        self.topics = topics
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: list[ConsumerGroupHeartbeatRequest.TopicPartition] = []

    def request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group_id,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance_id,
                **fields,
            }
        )

    def join(self, **fields: Any) -> Any:
        first = {"subscribed_topic_names": list(self.topics), "rebalance_timeout_ms": 6_000, "topic_partitions": []}
        return self.call(**{"member_epoch": 0, **first, **fields})

    def beat(self, **fields: Any) -> Any:
        """Send a heartbeat that says what it owns."""
        return self.call(**{"topic_partitions": self.owned, **fields})

    def call(self, **fields: Any) -> Any:
        answer = self.wire.call(self.request(**fields), 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = [
                    ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
        return answer


def differences(scenario: Scenario, sides: Iterable[Side], name: str) -> list[str]:
    """Play a scenario on both brokers, and return in which answers they differ."""
    (theirs, ours) = (list(scenario(side, name)) for side in sides)
    assert [asked for asked, _ in theirs] == [asked for asked, _ in ours], "both sides are asked the same"
    return [
        f"{asked}: Apache Kafka {their}, ours {answer}"
        for (asked, their), (_, answer) in zip(theirs, ours, strict=True)
        if their != answer
    ]
