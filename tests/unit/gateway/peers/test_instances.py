"""Several instances of the gateway: what one sees the others know, and members learn of a round together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.gateway.epoch_members import STREAMS_JOINING, TASK
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.observing.group_knowledge import digest_of
from kohort.gateway.peers.instance_messages import (
    OLDEST,
    VERSION,
    Hello,
    LiveGroup,
    LiveMembers,
    SharedAnswer,
    SharedRequest,
    agreed_version,
    decode_message,
    encode_message,
)
from kohort.gateway.peers.instances import PEER_IDLE_MS, SUMMARY_MS
from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyTable, Treatment
from kohort.group.classic.group import Phase
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.describe import DescribedGroup, DescribedMember
from kohort.group.events import Event, GroupStored, SyncReceived
from kohort.model.errors import ErrorCode
from kohort.wire.consumer_protocol import Subscription, encode_subscription
from kohort.wire.frames import encode_request
from kohort.wire.message import Request, Response
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.primitives import MalformedMessage

GROUP = "g"
PARKED = PolicyTable((Policy(client_ids="java", treatment=Treatment.PARK),))


class Member:
    """A classic member with a connection through one instance; its broker's answers come from the test."""

    def __init__(self, gateway: Gateway, member_id: str, protocol: str = "range") -> None:
        self.member_id = member_id
        self.protocol = protocol
        self.answers, self.requests = bytearray(), bytearray()
        self.relay = gateway.open("host", self.answers.extend, self.requests.extend)
        self.number = 0
        self.now_ms = 0

    def send(self, message: Request[Response], version: int) -> int:
        self.number += 1
        self.relay.from_client(encode_request(message, version, self.number, "java"), self.now_ms)
        return self.number

    def answer(self, number: int, message: Response, version: int) -> None:
        for part in encode_response(message, version, number):
            self.relay.from_broker(bytes(part), self.now_ms)

    def join(self) -> int:
        metadata = encode_subscription(Subscription(topics=("t",)))
        protocol = JoinGroupRequest.Protocol(name=self.protocol, metadata=metadata)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return self.send(request, 5)

    def joined(self, number: int, generation: int, members: Sequence[Member], leader: Member) -> None:
        listed = [JoinGroupResponse.Member(member_id=each.member_id, metadata=b"") for each in members]
        response = JoinGroupResponse(
            generation_id=generation,
            protocol_name=self.protocol,
            leader=leader.member_id,
            member_id=self.member_id,
            members=listed,
        )
        self.answer(number, response, 5)

    def sync(self, generation: int) -> None:
        number = self.send(SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=self.member_id), 3)
        self.answer(number, SyncGroupResponse(assignment=self.member_id.encode()), 3)

    def heartbeat(self, generation: int, error: ErrorCode = ErrorCode.NONE) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=self.member_id)
        self.answer(self.send(request, 3), HeartbeatResponse(error_code=error), 3)


class Fleet:
    """Linked instances, whose messages arrive at once."""

    def __init__(self, names: str = "abc") -> None:
        self.events: list[tuple[str, Event]] = []
        self.looked_up: list[tuple[str, str]] = []
        self.gateways = {name: self._gateway(name) for name in names}
        self.told: list[tuple[str, str]] = []
        self.named: list[LiveGroup] = []
        self.now_ms = 0
        for one in names:
            for other in names:
                if one < other:
                    self.link(one, other)

    def _gateway(self, name: str) -> Gateway:
        return Gateway(
            GroupSettings(),
            lambda _shard, event, _now_ms: self.events.append((name, event)),
            lambda group_id, _generation: self.looked_up.append((name, group_id)),
            policies=PARKED,
            instance_id=name,
        )

    def link(self, one: str, other: str) -> None:
        waiting: list[tuple[str, str, bytes]] = []
        for name, peer in ((one, other), (other, one)):
            early: list[bytes] = []
            self.gateways[name].instances.connected(peer, early.append, self.now_ms)
            waiting += [(name, peer, message) for message in early]
        for name, peer in ((one, other), (other, one)):
            self.gateways[name].instances._peers[peer].send = lambda data, name=name, peer=peer: self.carry(
                name, peer, data
            )
        for name, peer, message in waiting:
            self.carry(name, peer, message)

    def carry(self, sender: str, receiver: str, message: bytes) -> None:
        self.told.append((sender, receiver))
        decoded = decode_message(message)
        if isinstance(decoded, LiveMembers):
            self.named += decoded.groups
        self.gateways[receiver].instances.received(sender, message, self.now_ms)

    def cut(self, one: str, other: str) -> None:
        self.gateways[one].instances.disconnected(other, self.now_ms)
        self.gateways[other].instances.disconnected(one, self.now_ms)

    def tick(self, now_ms: int, *members: Member) -> None:
        self.now_ms = now_ms
        for member in members:
            member.now_ms = now_ms
        for gateway in self.gateways.values():
            gateway.tick(now_ms)

    def group_of(self, name: str) -> tuple[int, str, dict[str, bytes]]:
        group = self.gateways[name].groups.group(GROUP)
        assert group is not None
        return group.generation, group.phase, {each.member_id: each.assignment for each in group.members.values()}

    def held(self) -> dict[str, int]:
        return {name: each.parked_heartbeats(GroupProtocol.CLASSIC) for name, each in self.gateways.items()}


def stable(protocol: str = "range") -> tuple[Fleet, list[Member]]:
    """Return three instances with a member each, of one group in generation 1, after two heartbeats of each."""
    fleet = Fleet()
    members = [Member(each, f"m{name}", protocol) for name, each in fleet.gateways.items()]
    numbers = [member.join() for member in members]
    for number, member in zip(numbers, members, strict=True):
        member.joined(number, 1, members if member is members[0] else [], members[0])
    for member in members:
        member.sync(1)
    for now_ms in (3_000, 6_000):
        fleet.tick(now_ms, *members)
        for member in members:
            member.heartbeat(1)
    fleet.looked_up.clear()
    return fleet, members


def test_every_instance_knows_the_group_that_a_single_one_would_know() -> None:
    fleet, _ = stable()
    whole = (1, Phase.STABLE, {"ma": b"ma", "mb": b"mb", "mc": b"mc"})
    assert [fleet.group_of(name) for name in "abc"] == [whole] * 3
    assert len({name for name, _ in fleet.events}) == 1, "one instance writes the events of a group"


@pytest.mark.parametrize("leader", [0, 1, 2])
def test_the_events_of_a_round_have_the_syncgroups_of_all_instances(leader: int) -> None:
    fleet, members = stable()
    fleet.events.clear()
    numbers = [member.join() for member in members]
    for number, member in zip(numbers, members, strict=True):
        member.joined(number, 2, members if member is members[leader] else [], members[leader])
    handed_in = [SyncGroupRequest.Assignment(member_id=each.member_id, assignment=b"whole") for each in members]
    for member in members:
        request = SyncGroupRequest(group_id=GROUP, generation_id=2, member_id=member.member_id)
        request.assignments = handed_in if member is members[leader] else []
        number = member.send(request, 3)
        if member is members[leader]:
            member.answer(number, SyncGroupResponse(assignment=b"whole"), 3)
    synced = sorted(each.member_id for _, each in fleet.events if isinstance(each, SyncReceived))
    (stored,) = (each for _, each in fleet.events if isinstance(each, GroupStored) and each.is_synced)
    assert synced == ["ma", "mb", "mc"]
    assert {each.member_id: each.assignment for each in stored.members} == dict.fromkeys(synced, b"whole")


def test_members_at_all_instances_learn_of_a_round_together() -> None:
    fleet, members = stable()
    assert fleet.held() == {"a": 1, "b": 1, "c": 1}
    joining = Member(fleet.gateways["b"], "new")
    fleet.tick(6_100, *members, joining)
    joining.answer(joining.send(LeaveGroupRequest(group_id=GROUP, member_id="mc"), 2), LeaveGroupResponse(), 2)
    asked = [len(member.requests) for member in members[:2]]
    fleet.tick(6_110, *members)
    assert all(len(member.requests) > before for member, before in zip(members, asked, strict=False))


def test_an_eager_group_with_a_member_at_no_live_instance_is_observed_only() -> None:
    fleet, members = stable()
    fleet.cut("a", "c")
    fleet.cut("b", "c")
    assert fleet.held() == {"a": 0, "b": 0, "c": 0}
    fleet.tick(9_000, *members)
    members[0].heartbeat(1)
    assert fleet.held()["a"] == 0
    fleet.link("a", "c")
    fleet.link("b", "c")
    for now_ms in (12_000, 15_000):
        fleet.tick(now_ms, *members)
        members[0].heartbeat(1)
    assert fleet.held()["a"] == 1


def test_a_cooperative_group_is_parked_also_while_an_instance_cannot_be_reached() -> None:
    fleet, members = stable("cooperative-sticky")
    fleet.cut("a", "c")
    fleet.tick(9_000, *members)
    members[0].heartbeat(1)
    assert fleet.held()["a"] == 1


def test_an_instance_that_sends_nothing_counts_as_unreachable_until_it_does() -> None:
    fleet, members = stable()
    locations = fleet.gateways["a"].instances.locations
    now_ms = fleet.now_ms
    for now_ms in range(7_000, 7_000 + PEER_IDLE_MS + 2 * SUMMARY_MS, SUMMARY_MS):
        fleet.now_ms = now_ms
        fleet.gateways["a"].tick(now_ms)
        fleet.gateways["b"].tick(now_ms)
    assert not locations.can_be_parked(GROUP, now_ms)
    fleet.gateways["c"].tick(now_ms)
    assert locations.can_be_parked(GROUP, now_ms)
    assert members[0].number


def test_what_a_peer_shared_is_not_shared_on() -> None:
    fleet, members = stable()
    fleet.told.clear()
    members[0].heartbeat(1, ErrorCode.UNKNOWN_MEMBER_ID)
    assert {sender for sender, _ in fleet.told} <= {"a", "b", "c"}
    shared = [pair for pair in fleet.told if pair[0] == "a"]
    assert len(shared) == 4, "a request and an answer for each of two peers"


def test_what_was_missed_while_a_link_was_down_is_looked_up() -> None:
    fleet, members = stable()
    fleet.cut("a", "b")
    group = fleet.gateways["a"].groups.group(GROUP)
    assert group is not None
    group.members["ma"].assignment = b"other"
    fleet.gateways["a"].instances.summaries.group_changed(GROUP)
    fleet.link("a", "b")
    assert not fleet.looked_up, "what a peer sees arrives a moment later"
    for now_ms in range(7_000, 12_000, SUMMARY_MS):
        fleet.tick(now_ms, *members)
        for member in members:
            member.heartbeat(1)
    assert ("a", GROUP) in fleet.looked_up


def assigned_unseen() -> tuple[Fleet, Member]:
    """Return two instances of which one missed a SyncGroup, after which the member has moved to it."""
    fleet = Fleet("ab")
    before, after = (Member(fleet.gateways[name], "m") for name in "ab")
    before.joined(before.join(), 1, [before], before)
    fleet.tick(1_000)
    fleet.cut("a", "b")
    before.sync(1)
    fleet.link("a", "b")
    return fleet, after


def test_an_instance_that_missed_something_learns_so_from_one_that_has_no_members_left() -> None:
    """The other one looked the group up, and was right: seed 643685."""
    fleet, member = assigned_unseen()
    for now_ms in (2_000, 3_000):
        fleet.tick(now_ms, member)
        member.heartbeat(1)
    fleet.tick(4_000)
    assert ("b", GROUP) in fleet.looked_up


def test_instances_that_know_a_group_otherwise_name_it_no_longer_than_its_members_send() -> None:
    fleet, _ = assigned_unseen()
    for now_ms in (2_000, 3_000, 4_000):
        fleet.tick(now_ms)
    fleet.named.clear()
    fleet.tick(5_000)
    assert not fleet.named


def test_a_difference_is_looked_up_by_both_though_no_member_sends_anything_more() -> None:
    """A static member has left, and the instance through which it did is right: seed 820270."""
    fleet, _ = assigned_unseen()
    for now_ms in (2_000, 3_000, 4_000):
        fleet.tick(now_ms)
    assert {("a", GROUP), ("b", GROUP)} <= set(fleet.looked_up)


def test_a_group_that_three_instances_know_each_otherwise_is_looked_up() -> None:
    fleet, members = stable()
    for name, gateway in fleet.gateways.items():
        group = gateway.groups.group(GROUP)
        assert group is not None
        group.members["ma"].assignment = name.encode()
        gateway.instances.summaries.group_changed(GROUP)
    for now_ms in (9_000, 10_000, 11_000):
        fleet.tick(now_ms, *members)
        for member in members:
            member.heartbeat(1)
    assert set(fleet.looked_up) == {(name, GROUP) for name in "abc"}


@pytest.mark.parametrize("named", [(), ("gone",)], ids=["no members", "a former member"])
def test_a_difference_is_looked_up_in_the_generation_that_the_peer_named_last(named: tuple[str, ...]) -> None:
    """An answer to a difference names no members and no generation (seed 903724); nor do former members (950738)."""
    asked: list[int | None] = []
    gateway = Gateway(
        GroupSettings(),
        lambda _shard, _event, _now_ms: None,
        lambda _group_id, generation: asked.append(generation),
        instance_id="a",
    )
    former = DescribedGroup(
        GROUP, Phase.STABLE, "consumer", "range", (DescribedMember("former", None, "", "", b"", b""),)
    )
    gateway.groups.described(former, 2, 0)
    gateway.instances.connected("b", lambda _: None, 0)
    gateway.instances.received("b", encode_message(Hello()), 0)
    for now_ms, group in (
        (1_000, LiveGroup(GROUP, 3, 8, None, ("m",))),
        (2_000, LiveGroup(GROUP, None, 9, None, named)),
        (3_000, LiveGroup(GROUP, None, 9, None, named)),
    ):
        gateway.instances.received("b", encode_message(LiveMembers((group,))), now_ms)
    assert asked == [3, None, 3]


def heartbeat(member: Member, epoch: int) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member.member_id, instance_id="i", member_epoch=epoch, subscribed_topic_names=["t"]
    )
    return member.send(request, 1)


def joined_consumer_group() -> tuple[Fleet, Member]:
    """Return instances `a` and `b`, and a member that has joined a consumer group through `a`."""
    fleet = Fleet("ab")
    member = Member(fleet.gateways["a"], "m")
    nothing = ConsumerGroupHeartbeatResponse.Assignment()
    joined = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1, assignment=nothing)
    member.answer(heartbeat(member, 0), joined, 1)
    return fleet, member


def test_the_consumer_group_of_a_member_that_comes_from_another_instance_is_looked_up() -> None:
    """What the other sent last was lost when it ended, and a heartbeat shows no assignment: seed 955409."""
    fleet, _ = joined_consumer_group()
    fleet.cut("a", "b")
    heartbeat(Member(fleet.gateways["b"], "m"), 1)
    assert fleet.looked_up == [("b", GROUP)]
    heartbeat(Member(fleet.gateways["b"], "m"), 1)
    fleet.tick(10_000)
    assert fleet.looked_up == [("b", GROUP)]


def test_a_streams_group_is_known_at_every_instance() -> None:
    fleet = Fleet("ab")
    member = Member(fleet.gateways["a"], "m")
    joining: dict[str, Any] = {**STREAMS_JOINING, "group_id": GROUP, "member_id": "m", "member_epoch": 0}
    number = member.send(StreamsGroupHeartbeatRequest(**joining), 1)
    granted = StreamsGroupHeartbeatResponse(
        member_id="m", member_epoch=2, active_tasks=[TASK], standby_tasks=[], warmup_tasks=[]
    )
    member.answer(number, granted, 1)
    digests = {digest_of(each.groups.shard.groups.get(GROUP)) for each in fleet.gateways.values()}
    assert len(digests) == 1
    group = fleet.gateways["b"].groups.streams.group(GROUP)
    assert group is not None
    assert (group.epoch, group.members["m"].assigned.tasks.active) == (2, {("0", 0)})


def test_a_leave_that_was_sent_before_a_link_was_up_is_shared_once_it_is_answered() -> None:
    """Of a consumer group: the answer has the same epoch as the request, seed 820270."""
    fleet, member = joined_consumer_group()
    fleet.cut("a", "b")
    leaving = heartbeat(member, -2)
    fleet.link("a", "b")
    member.answer(leaving, ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=-2), 1)
    group = fleet.gateways["b"].groups.consumer.group(GROUP)
    assert group is not None
    assert group.members["m"].epoch == -2


def test_a_fallback_counts_at_every_instance() -> None:
    fleet, _ = stable()
    fleet.gateways["a"].policies.fallbacks.evicted(GROUP, "ma", fleet.now_ms)
    assert all(each.policies.fallbacks.is_fallen(GROUP, fleet.now_ms) for each in fleet.gateways.values())


def test_an_instance_that_sends_another_version_than_was_agreed_is_refused() -> None:
    gateway = Fleet("a").gateways["a"]
    gateway.instances.connected("b", lambda _: None, 0)
    with pytest.raises(MalformedMessage, match=f"sends messages of version 9, and {VERSION} was agreed"):
        gateway.instances.received("b", encode_message(Hello(9)), 0)


@pytest.mark.parametrize(
    ("oldest", "newest", "agreed"),
    [
        (OLDEST, VERSION, VERSION),
        (OLDEST, VERSION + 4, VERSION),
        (VERSION + 1, VERSION + 4, None),
        (0, OLDEST - 1, None),
    ],
)
def test_releases_agree_on_the_newest_version_that_both_know(oldest: int, newest: int, agreed: int | None) -> None:
    assert agreed_version(oldest, newest) == agreed


def test_a_request_that_only_a_newer_release_reads_ends_no_link_and_its_group_is_looked_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet, members = stable()
    joining = members[0]
    frame = bytearray(encode_request(JoinGroupRequest(group_id=GROUP, member_id="new"), 5, 99, "java"))
    newer = bytes(frame[:6]) + (77).to_bytes(2, "big") + bytes(frame[8:])
    for number in (1_000, 1_001):
        for shared in (SharedRequest(number, 1, "host", "java", newer), SharedAnswer(number, b"of the newer version")):
            fleet.gateways["b"].instances.received("a", encode_message(shared), fleet.now_ms)
    assert [record.getMessage() for record in caplog.records] == [
        "another instance shares requests with API key 11, version 77, which this release cannot read: groups with such"
        " members are followed by look-ups"
    ]
    assert fleet.group_of("b") == fleet.group_of("a")
    unread = LiveGroup(GROUP, 2, 12345, None, ("ma", "new"))
    for now_ms in (7_000, 8_000, 9_000):
        fleet.tick(now_ms, *members)
        fleet.gateways["b"].instances.received("a", encode_message(LiveMembers((unread,))), now_ms)
    assert ("b", GROUP) in fleet.looked_up
    assert joining.member_id == "ma"
