"""What one heartbeat costs in a consumer group of 10,000 members and 5,000 partitions, and under 10,000 rules.

A node in this process, without a socket: request bytes in, response bytes out, CPU time. No other broker is in these
rows; what counts is that the group's size and the number of rules do not.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from bench.result import Aim, Outcome, Result
from kohort.log.memory_disk import MemoryDisk
from kohort.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kohort.node.client_connection import Connection
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.node.configuration.config import Config
from kohort.node.node import Node
from kohort.wire.apis import Api, response_class
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

VERSION = 1
SETTINGS = {"offsets.topic.num.partitions": "1", "kohort.group.consumer.heartbeat.park.ms": "0"}
_Partitions = ConsumerGroupHeartbeatRequest.TopicPartition


class Crowd:
    """One node with one settled group: `size` members of one topic, all on one connection."""

    def __init__(self, size: int, partitions: int, rules: int = 0) -> None:
        self.now_ms = 1_700_000_000_000
        # A target seems to take ten seconds, so that the joins of one instant share one.
        elapsed = itertools.count(step=10_000_000)
        random = Random(size)
        settings = SETTINGS | ({"authorizer.class.name": STANDARD_AUTHORIZER} if rules else {})
        self.node = Node(Config(settings), MemoryDisk(), random.randbytes, self.now_ms, elapsed_us=elapsed.__next__)
        self.node.start(self.now_ms)
        self.node.state.change_acls(list(_rules(rules)), (), self.now_ms)
        self.node.topics.create("t", partitions, {}, self.now_ms)
        self._replies: list[bytes] = []
        self.connection: Connection = self.node.connections.open("192.0.2.1", self._take, lambda _: None)
        self.epochs = {f"member-{random.getrandbits(128):032x}": 0 for _ in range(size)}
        self._settle()
        self.frames = [self._frame(member_id) for member_id in self.epochs]

    def _take(self, buffers: list[bytes | bytearray | memoryview]) -> None:
        self._replies.append(b"".join(buffers))

    def _frame(self, member_id: str, **fields: Any) -> bytes:
        epoch = self.epochs[member_id]
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        return encode_request(request, VERSION, 1, "bench")

    def _call(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.node.connections.receive(self.connection, self._frame(member_id, **fields), self.now_ms)
        self.node.flush(self.now_ms)
        answer = decode_response(response_class(Api.CONSUMER_GROUP_HEARTBEAT), VERSION, self._replies.pop()[4:])[1]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), "a heartbeat is answered by a heartbeat's response"
        assert not answer.error_code, answer
        self.epochs[member_id] = answer.member_epoch
        return answer

    def _settle(self) -> None:
        for member_id in self.epochs:
            self._call(member_id, subscribed_topic_names=["t"], rebalance_timeout_ms=60_000, topic_partitions=[])
        self.now_ms += 20_000
        self.node.tick(self.now_ms)
        owned: dict[str, list[_Partitions]] = {member_id: [] for member_id in self.epochs}
        for _ in range(10):
            before = dict(self.epochs)
            is_told = False
            for member_id in self.epochs:
                answer = self._call(member_id, topic_partitions=owned[member_id])
                if answer.assignment is not None:
                    is_told = True
                    owned[member_id] = [
                        _Partitions(topic_id=each.topic_id, partitions=each.partitions)
                        for each in answer.assignment.topic_partitions
                    ]
            if before == self.epochs and not is_told:
                return
        raise RuntimeError("the group does not settle")

    def measure(self, heartbeats: int) -> float:
        """Return the microseconds of CPU that one heartbeat takes, members in turn."""
        frames = list(itertools.islice(itertools.cycle(self.frames), heartbeats))
        receive, connection = self.node.connections.receive, self.connection
        gc.collect()
        began = time.process_time_ns()
        for frame in frames:
            receive(connection, frame, self.now_ms)
        took = time.process_time_ns() - began
        self.node.flush(self.now_ms)
        self._replies.clear()
        return took / heartbeats / 1_000


def _rules(count: int) -> Iterator[AclBinding]:
    """Yield rules of which two let the members in: all others are for other users, groups and topics."""
    kinds = ResourceType.GROUP, ResourceType.TOPIC
    for number in range(count):
        kind, name, pattern, principal = (
            kinds[number % 2],
            f"team-{number}-",
            PatternType.PREFIXED,
            f"User:{number % 500}",
        )
        if number < 2:
            name, pattern, principal = ("g", "t")[number], PatternType.LITERAL, "User:ANONYMOUS"
        elif number % 3:
            pattern = PatternType.LITERAL
        yield AclBinding(kind, name, pattern, principal, WILDCARD, AclOperation.READ, AclPermission.ALLOW)


def large_group(quick: bool) -> Iterator[Outcome]:
    """Measure both groups in turns."""
    large = Crowd(1_000 if quick else 10_000, 5_000)
    name = f"heartbeat, group of {len(large.epochs):,} members"
    yield _beside(quick, name, large, Crowd(10, 5_000), "group of 10 members", Aim(50, of_ratio=False, at_most=True))


def acl_checks(quick: bool) -> Iterator[Outcome]:
    """Measure the same group under rules and without an authorizer, in turns."""
    locked, plain = Crowd(100, 1_000, rules=10_000), Crowd(100, 1_000)
    aim = Aim(1.1, of_ratio=True, at_most=True)
    yield _beside(quick, "heartbeat under 10,000 rules", locked, plain, "no authorizer", aim)


def _beside(quick: bool, name: str, one: Crowd, other: Crowd, peer: str, aim: Aim) -> Result:
    rounds, heartbeats = (3, 2_000) if quick else (9, 20_000)
    samples: list[tuple[float, float]] = [(one.measure(heartbeats), other.measure(heartbeats)) for _ in range(rounds)]
    ours, theirs = zip(*samples, strict=True)
    return Result(name, "µs", ours, theirs, peer, aim)
