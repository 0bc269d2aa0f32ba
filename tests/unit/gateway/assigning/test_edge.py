"""A leader's assignments are replaced by an assignor's or pass as they are, and orders begin rounds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from tests.unit.wire.responses import encode_response

from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.assign.user_data import encode_sticky
from kohort.gateway.assigning.assignments import Done, Intended
from kohort.gateway.assigning.edge import ASSIGNOR_MS, EdgeResult
from kohort.gateway.gateway import Gateway
from kohort.gateway.peers.instances import FORGET_EVERY_MS
from kohort.gateway.policies.policies import EVERYTHING_PARKED, OBSERVED, PolicyTable
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event, GroupStored, RoundOpened
from kohort.group.shard import Shard
from kohort.model.assignment import Assignment
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.apis import request_class
from kohort.wire.codec import decode
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from kohort.wire.frames import decode_request_header, decode_response, encode_request
from kohort.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

GROUP = "billing"
TOPIC = TopicSpec(4)
JOIN, SYNC, HEARTBEAT = 9, 5, 4
"""Versions of the requests."""


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


class ScriptedRunner:
    """Assigns what `given` has, at once or when `run` is called."""

    def __init__(self, *, is_late: bool = False) -> None:
        self.given: Mapping[str, Iterable[int]] | str = {}
        self.topics = {"orders": TOPIC}
        self.is_late = is_late
        self.specs: list[GroupSpec] = []
        self.run: Callable[[int], None] = lambda _now_ms: None

    def assignor_of(self, group_id: str) -> str | None:
        return "by-hand" if group_id == GROUP else None

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        del group_id, topics
        self.specs.append(members)
        given = self.given
        found = given if isinstance(given, str) else {name: orders(*numbers) for name, numbers in given.items()}
        outcome = found if isinstance(found, str) else Intended(found, self.topics)
        self.run = lambda now_ms: done(outcome, now_ms)
        if not self.is_late:
            self.run(0)


class Member:
    """A member's connection through the gateway; its broker is this object too."""

    def __init__(self, gateway: Gateway, member_id: str, host: str = "192.0.2.7") -> None:
        self.member_id = member_id
        self.gateway = gateway
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []
        self.relay = gateway.open(
            host, lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.number = 0
        software = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.3.1")
        self.exchange(software, 3, ApiVersionsResponse())

    def send(self, message: Any, version: int, now_ms: int = 0) -> None:
        self.number += 1
        self.gateway.clock.advance(now_ms)
        self.relay.from_client(encode_request(message, version, self.number, "client"), now_ms)

    def answer(self, message: Any, version: int, now_ms: int = 0) -> None:
        self.gateway.clock.advance(now_ms)
        self.relay.from_broker(b"".join(encode_response(message, version, self.number)), now_ms)

    def exchange(self, request: Any, version: int, response: Any, now_ms: int = 0) -> None:
        self.send(request, version, now_ms)
        self.answer(response, version, now_ms)

    def received(self, kind: Any, version: int) -> Any:
        return decode_response(kind, version, memoryview(self.to_client[-1])[4:])[1]

    def passed(self) -> Any:
        """Return the last request that reached the broker."""
        body = memoryview(self.to_broker[-1])[4:]
        header, position = decode_request_header(body)
        return decode(request_class(header.api_key), header.api_version, body, position)[0]

    def join(self, protocol: str, subscriptions: Mapping[str, Subscription], generation: int, **changes: Any) -> None:
        """Join as the leader of these members."""
        mine = encode_subscription(subscriptions[self.member_id])
        offered = [JoinGroupRequest.Protocol(name=protocol, metadata=mine)]
        listed = [
            JoinGroupResponse.Member(member_id=name, metadata=encode_subscription(each))
            for name, each in subscriptions.items()
        ]
        answer = {
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": protocol,
            "leader": self.member_id,
            "member_id": self.member_id,
            "members": listed,
        }
        self.exchange(
            JoinGroupRequest(
                group_id=GROUP,
                member_id=self.member_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=offered,
            ),
            JOIN,
            JoinGroupResponse(**{**answer, **changes}),
        )

    def sync(self, assignments: Mapping[str, Assignment], generation: int = 1, now_ms: int = 0) -> dict[str, list[int]]:
        """Hand assignments in, and return those that passed, as far as something has passed."""
        before = len(self.to_broker)
        handed_in = [
            SyncGroupRequest.Assignment(member_id=name, assignment=encode_assignment(each, 1))
            for name, each in assignments.items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, member_id=self.member_id, generation_id=generation, assignments=handed_in
        )
        self.send(request, SYNC, now_ms)
        return assigned(self) if len(self.to_broker) > before else {}

    def heartbeat(self, now_ms: int, generation: int = 1) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, member_id=self.member_id, generation_id=generation)
        self.exchange(request, HEARTBEAT, HeartbeatResponse(), now_ms)
        return ErrorCode(self.received(HeartbeatResponse, HEARTBEAT).error_code)


def assigned(member: Member) -> dict[str, list[int]]:
    return {
        each.member_id: sorted(partition.partition for partition in decode_assignment(each.assignment).partitions)
        for each in member.passed().assignments
    }


def gateway(
    runner: ScriptedRunner | None = None,
    policies: PolicyTable = OBSERVED,
    noted: Callable[[Shard, Event, int], None] = lambda *_: None,
) -> Gateway:
    return Gateway(GroupSettings(), noted, policies=policies, runner=runner)


WANTS = Subscription(("orders",))
HALVES = {"a": Assignment(orders(0, 1)), "b": Assignment(orders(2, 3))}


def led(
    runner: ScriptedRunner | None, protocol: str = "range", subscriptions: Mapping[str, Subscription] | None = None
) -> Member:
    """Return the leader of a and b, which has its JoinGroup answer."""
    leader = Member(gateway(runner), "a")
    leader.join(protocol, subscriptions or {"a": WANTS, "b": WANTS}, 1)
    return leader


def test_leaders_assignments_are_replaced_by_the_assignors() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    assert leader.sync(HALVES) == {"a": [0], "b": [1, 2, 3]}
    assert leader.gateway.edge.counters.results == {EdgeResult.REPLACED: 1}
    assert runner.specs[0].members.keys() == {"a", "b"}


def test_all_else_of_the_sync_request_stays() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    leader.sync(HALVES)
    passed = leader.passed()
    assert (passed.group_id, passed.member_id, passed.generation_id) == (GROUP, "a", 1)
    assert all(each.assignment[:2] == b"\0\1" for each in passed.assignments)  # the version of each stays, too


@pytest.mark.parametrize(
    ("given", "remark"),
    [
        ({"a": [0], "b": [1, 2, 3]}, "by by-hand at the gateway"),
        ("it raised KeyError: 1", "the leader's own: the assignor by-hand: it raised KeyError: 1"),
    ],
)
def test_event_of_the_assignment_has_what_became_of_it(given: Any, remark: str) -> None:
    runner = ScriptedRunner()
    runner.given = given
    details = []

    def noted(_: Shard, event: Event, __: int) -> None:
        if isinstance(event, GroupStored) and event.cause.kind is CauseKind.LEADER_SYNCED:
            details.append(event.cause.detail)

    leader = Member(gateway(runner, noted=noted), "a")
    leader.join("range", {"a": WANTS, "b": WANTS}, 1)
    leader.sync(HALVES)
    leader.answer(SyncGroupResponse(assignment=encode_assignment(HALVES["a"])), SYNC)
    assert details == [remark]


def test_groups_without_an_assignor_pass_as_they_are() -> None:
    leader = led(None)
    assert leader.sync(HALVES) == {"a": [0, 1], "b": [2, 3]}
    assert not leader.gateway.edge.counters.results


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("it raised ZeroDivisionError", "ZeroDivisionError"),
        ({"a": [0, 1], "b": [1, 2, 3]}, "orders-1 is assigned to a and b"),
        ({"a": [0], "b": [1]}, "assigned to no member: orders-2, orders-3"),
        ({"a": [0, 1, 2, 3, 4]}, "do not exist: orders-4"),
        ({"a": [0, 1], "stranger": [2, 3]}, "stranger: no such member"),
        ({"a": [0, 1, 2, 3], "b": [-1]}, "do not exist: orders--1"),
    ],
)
def test_invalid_assignments_leave_the_leaders_own(given: Any, why: str, caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    runner.given = given
    leader = led(runner)
    with caplog.at_level(logging.WARNING):
        assert leader.sync(HALVES) == {"a": [0, 1], "b": [2, 3]}
    assert leader.gateway.edge.counters.results == {EdgeResult.FAILED: 1}
    assert why in caplog.text


def test_topic_that_a_member_did_not_subscribe_to_leaves_the_leaders_own() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0, 1], "b": [2, 3]}
    leader = led(runner, subscriptions={"a": WANTS, "b": Subscription(("other",))})
    assert leader.sync({"a": Assignment(orders(0, 1, 2, 3))}) == {"a": [0, 1, 2, 3]}


def test_partition_that_only_the_leader_knows_leaves_its_own() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0, 1, 2, 3]}
    own = {"a": Assignment(orders(0, 1, 2, 3, 4)), "b": Assignment()}
    assert led(runner).sync(own) == {"a": [0, 1, 2, 3, 4], "b": []}


def test_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    runner.given = "no"
    leader = led(runner)
    for generation in (1, 2, 3):
        leader.join("range", {"a": WANTS, "b": WANTS}, generation)
        leader.sync(HALVES, generation)
    assert len([record for record in caplog.records if "keeps its leader's own" in record.message]) == 1
    assert leader.gateway.edge.counters.results == {EdgeResult.FAILED: 3}


def test_late_assignor_leaves_the_leaders_own() -> None:
    runner = ScriptedRunner(is_late=True)
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    assert leader.sync(HALVES) == {}
    assert leader.relay.is_waiting
    leader.gateway.tick(ASSIGNOR_MS)
    assert assigned(leader) == {"a": [0, 1], "b": [2, 3]}
    runner.run(ASSIGNOR_MS + 1)
    assert leader.gateway.edge.counters.results == {EdgeResult.FAILED: 1}


def test_assignor_that_answers_in_time_passes_the_request() -> None:
    runner = ScriptedRunner(is_late=True)
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    leader.sync(HALVES)
    runner.run(500)
    assert assigned(leader) == {"a": [0], "b": [1, 2, 3]}
    assert leader.gateway.next_deadline_ms() == FORGET_EVERY_MS, "no timer of the request is left"
    assert leader.gateway.edge.counters.assignor_ms == 500


def test_request_behind_a_waiting_sync_ends_the_wait() -> None:
    runner = ScriptedRunner(is_late=True)
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    leader.sync(HALVES)
    before = len(leader.to_broker)
    leader.send(HeartbeatRequest(group_id=GROUP, member_id="a", generation_id=1), HEARTBEAT)
    assert [int.from_bytes(frame[4:6]) for frame in leader.to_broker[before:]] == [14, 12]


def test_connection_that_ends_while_the_assignor_runs() -> None:
    runner = ScriptedRunner(is_late=True)
    leader = led(runner)
    leader.sync(HALVES)
    before = len(leader.to_broker)
    leader.relay.closed(1, is_by_client=True)
    runner.run(2)
    leader.gateway.tick(ASSIGNOR_MS)
    assert len(leader.to_broker) == before


# What is never touched


@pytest.mark.parametrize(
    ("protocol", "changes", "own"),
    [
        ("stream", {}, HALVES),
        ("range", {"protocol_type": "connect"}, HALVES),
        ("range", {}, {"a": Assignment(orders(0, 1, 2, 3), b"more")}),
        ("range", {"skip_assignment": True}, HALVES),
    ],
)
def test_foreign_groups_are_left_alone(protocol: str, changes: Any, own: Any, caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    leader = Member(gateway(runner), "a")
    leader.join(protocol, {"a": WANTS, "b": WANTS}, 1, **changes)
    leader.sync(own)
    assert leader.to_broker[-1].endswith(b"".join(encode_assignment(list(own.values())[-1], 1) for _ in "1") + b"\0\0")
    assert not runner.specs
    assert leader.gateway.edge.counters.results[EdgeResult.REFUSED]
    assert "keeps its leader's own assignment" in caplog.text


def test_unreadable_subscription_leaves_the_leaders_own(caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    leader = Member(gateway(runner), "a")
    rubbish = [JoinGroupResponse.Member(member_id=name, metadata=b"\0\3rubbish") for name in "ab"]
    leader.join("range", {"a": WANTS}, 1, members=rubbish)
    assert leader.sync(HALVES) == {"a": [0, 1], "b": [2, 3]}
    assert "cannot be read" in caplog.text


def test_user_data_of_the_members_own_subscription_is_returned_to_it() -> None:
    # librdkafka does so as a leader of `cooperative-sticky`.
    runner = ScriptedRunner()
    runner.given = {"a": [0], "b": [1, 2, 3]}
    wants = Subscription(("orders",), b"\0\0\0\4")
    leader = led(runner, "cooperative-sticky", {"a": WANTS, "b": wants})
    own = {"a": Assignment(orders(0, 1)), "b": Assignment(orders(2, 3), wants.user_data)}
    assert leader.sync(own) == {"a": [0], "b": [1, 2, 3]}
    assert decode_assignment(leader.passed().assignments[1].assignment).user_data == wants.user_data


@pytest.mark.parametrize("counts", [[100_001], [60_000, 60_000]])
def test_claims_of_too_many_partitions_are_not_read(counts: list[int], caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner()
    claims = {
        name: Subscription(("orders",), None, tuple(TopicPartition("orders", each) for each in range(count)), 1)
        for name, count in zip("ab", counts, strict=False)
    }
    assert led(runner, "cooperative-sticky", claims).sync(HALVES) == {"a": [0, 1], "b": [2, 3]}
    assert not runner.specs
    assert "keeps its leader's own assignment" in caplog.text


def test_ordered_round_has_the_operators_reason() -> None:
    causes = []

    def noted(_: Shard, event: Event, __: int) -> None:
        if isinstance(event, RoundOpened):
            causes.append(event.cause)

    leader = stable(noted=noted)
    leader.gateway.edge.rebalance(GROUP, "deploy", 0)
    leader.heartbeat(100)
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    assert (causes[-1].kind, causes[-1].detail) == (CauseKind.LEADER_REJOINED, "deploy")
    assert leader.passed().reason == "deploy", "for the coordinator's own log and events"


# What members owned


def test_owned_partition_is_taken_in_one_round_and_given_in_the_next() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0], "b": [1, 2, 3]}
    owning = {"a": Subscription(("orders",), None, tuple(sorted(orders(0, 1))), 3), "b": WANTS}
    leader = led(runner, "cooperative-sticky", owning)
    assert leader.sync(HALVES) == {"a": [0], "b": [2, 3]}


def test_older_generations_claim_does_not_count() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0, 1], "b": [2, 3]}
    both = tuple(sorted(orders(0, 1)))
    owning = {"a": Subscription(("orders",), None, both, 5), "b": Subscription(("orders",), None, both, 4)}
    leader = led(runner, "cooperative-sticky", owning)
    assert leader.sync(HALVES) == {"a": [0, 1], "b": [2, 3]}
    assert runner.specs[0].members["a"].subscription.owned == both
    assert not runner.specs[0].members["b"].subscription.owned


def test_assignor_of_a_sticky_group_sees_what_members_remember() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0, 1], "b": [2, 3]}
    remembered = {
        "a": Subscription(("orders",), encode_sticky(sorted(orders(0, 1)), 4)),
        "b": Subscription(("orders",), encode_sticky(sorted(orders(1, 2)), 3)),
    }
    led(runner, "sticky", remembered).sync(HALVES)
    members = runner.specs[0].members
    assert [set(members[name].subscription.owned) for name in "ab"] == [orders(0, 1), orders(2)]
    assert members["a"].subscription.user_data is None


def test_assignor_of_an_eager_group_sees_the_last_assignment() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0], "b": [1, 2, 3]}
    leader = led(runner)
    leader.sync(HALVES)
    leader.answer(SyncGroupResponse(assignment=encode_assignment(Assignment(orders(0)))), SYNC)
    changed = encode_subscription(Subscription(("orders", "returns")))
    offered = [JoinGroupRequest.Protocol(name="range", metadata=changed)]
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000}
    joining = JoinGroupRequest(group_id=GROUP, member_id="b", protocol_type="consumer", protocols=offered, **timeouts)
    Member(leader.gateway, "b").send(joining, JOIN)
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    leader.sync(HALVES, 2)
    members = runner.specs[1].members
    assert [set(members[name].subscription.owned) for name in "ab"] == [orders(0), orders(1, 2, 3)]


# Drained members


def test_drained_member_of_an_eager_group_gets_nothing_and_the_others_keep_theirs() -> None:
    leader = led(None)
    leader.gateway.edge.drain(GROUP, ["b"])
    leader.join("range", {"a": WANTS, "b": WANTS, "c": WANTS}, 2)
    own = {"a": Assignment(orders(0)), "b": Assignment(orders(1, 2)), "c": Assignment(orders(3))}
    assert leader.sync(own, 2) == {"a": [0, 1], "b": [], "c": [2, 3]}


def test_host_is_drained() -> None:
    leader = led(None)
    leader.gateway.edge.drain(GROUP, ["192.0.2.7"])
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    assert leader.sync(HALVES, 2) == {"a": [], "b": [0, 1, 2, 3]}


def test_drained_member_of_a_cooperative_group_revokes_before_others_get() -> None:
    runner = ScriptedRunner()
    runner.given = {"a": [0, 1, 2, 3]}
    leader = led(runner)
    leader.gateway.edge.drain(GROUP, ["b"])
    owning = {"a": WANTS, "b": Subscription(("orders",), None, tuple(sorted(orders(2, 3))), 1)}
    leader.join("cooperative-sticky", owning, 2)
    assert leader.sync(HALVES, 2) == {"a": [0, 1], "b": []}
    assert runner.specs[-1].members.keys() == {"a"}


def test_group_whose_members_are_all_drained_gets_nothing() -> None:
    runner = ScriptedRunner()
    leader = led(runner)
    leader.gateway.edge.drain(GROUP, ["a", "b"])
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    assert leader.sync(HALVES, 2) == {"a": [], "b": []}


def test_undrained_member_is_assigned_again() -> None:
    leader = led(None)
    leader.gateway.edge.drain(GROUP, ["b"])
    leader.gateway.edge.drain(GROUP, [])
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    assert leader.sync(HALVES, 2) == {"a": [0, 1], "b": [2, 3]}


# Ordered rounds


def stable(policies: PolicyTable = OBSERVED, noted: Callable[[Shard, Event, int], None] = lambda *_: None) -> Member:
    leader = Member(gateway(None, policies, noted), "a")
    leader.join("range", {"a": WANTS, "b": WANTS}, 1)
    leader.sync(HALVES)
    leader.answer(SyncGroupResponse(assignment=encode_assignment(HALVES["a"])), SYNC)
    return leader


def test_ordered_round_is_announced_to_the_leader_and_to_no_other() -> None:
    leader = stable()
    leader.gateway.edge.rebalance(GROUP, "deploy", 0)
    assert Member(leader.gateway, "b").heartbeat(100) is ErrorCode.NONE
    assert leader.heartbeat(100) is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat(200) is ErrorCode.REBALANCE_IN_PROGRESS
    leader.join("range", {"a": WANTS, "b": WANTS}, 2)
    leader.sync(HALVES, 2)
    leader.answer(SyncGroupResponse(assignment=encode_assignment(HALVES["a"])), SYNC)
    assert leader.heartbeat(300, 2) is ErrorCode.NONE


def test_parked_heartbeat_of_the_leader_is_answered_by_an_order() -> None:
    leader = stable(EVERYTHING_PARKED)
    now_ms = 0
    while not leader.relay.is_waiting:  # until its interval is known
        now_ms += 3_000
        leader.heartbeat(now_ms)
        assert now_ms < 60_000
    before = len(leader.to_client)
    leader.gateway.edge.rebalance(GROUP, "deploy", now_ms + 10)
    leader.gateway.tick(now_ms + 20)
    leader.answer(HeartbeatResponse(), HEARTBEAT, now_ms + 21)
    assert len(leader.to_client) == before + 1
    assert leader.received(HeartbeatResponse, HEARTBEAT).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_order_lapses() -> None:
    leader = stable()
    leader.gateway.edge.rebalance(GROUP, "deploy", 0)
    assert leader.heartbeat(300_000) is ErrorCode.NONE
