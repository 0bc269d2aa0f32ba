"""Parking of heartbeats of the consumer protocol, through a node."""

from __future__ import annotations

import pytest
from tests.unit.node.consumer_desk import NativeMember, consumer_desk, settle, stable_members
from tests.unit.node.desk import Desk

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import software_named
from kohort.parking.consumer_heartbeats import ConsumerParking
from kohort.parking.limits import (
    ACK_MS,
    FAST_EPOCH_MS,
    NEXT_MS,
    OWED_MS,
    RECENT_MS,
    RECENT_WAIT_MS,
    STABLE_AFTER_MS,
)
from kohort.wire.messages import LeaveGroupRequest, MetadataRequest

PARK_MS, STABLE_PARK_MS = 1_000, 3_000


def parking_desk(**settings: int) -> Desk:
    return consumer_desk(
        **{
            "kohort_group_consumer_heartbeat_park_ms": PARK_MS,
            "kohort_group_consumer_heartbeat_park_stable_ms": STABLE_PARK_MS,
            **settings,
        }
    )


def parking_of(desk: Desk) -> ConsumerParking:
    return desk.node.coordinator.runtime.epoch_parking


def parked(count: int = 2, **settings: int) -> tuple[Desk, list[NativeMember]]:
    """Return a stable group whose members have each a heartbeat with the coordinator."""
    desk = parking_desk(**settings)
    members = [NativeMember(desk, f"m{number}") for number in range(1, count + 1)]
    for member in members:
        join(member, members[: members.index(member)])
    assert len(parking_of(desk)) == count
    return desk, members


def join(newcomer: NativeMember, others: list[NativeMember]) -> None:
    """Let a member join those that have a heartbeat with the coordinator; in the end all have one."""
    newcomer.join()
    newcomer.peer.send(newcomer.ack_request(), 1)
    for _ in range(10):
        answered = [member for member in (newcomer, *others) if member.answers()]
        for member in answered:
            member.peer.send(member.ack_request(), 1)
        if not answered:
            return
    raise AssertionError("the members do not settle")


def test_heartbeat_without_an_update_waits_for_its_time_and_no_longer() -> None:
    desk, (first, second) = parked()
    desk.advance(PARK_MS - 1)
    assert first.answers() == second.answers() == []
    desk.advance(1)
    for member in (first, second):
        (answer,) = member.answers()
        assert (answer.error_code, answer.assignment, answer.heartbeat_interval_ms) == (0, None, NEXT_MS)


def test_all_members_own_what_they_should_without_any_time_passing() -> None:
    _, members = parked(3)
    assert sorted(member.partitions for member in members) == [[0], [1], [2]]


def test_member_with_an_unchanged_target_receives_the_new_epoch_with_its_next_heartbeat() -> None:
    desk, members = parked(3)
    assert {member.epoch for member in members} == {3, 4}
    desk.advance(PARK_MS)
    assert [len(member.answers()) for member in members] == [1, 1, 1]
    assert {member.epoch for member in members} == {4}


def test_member_that_must_revoke_is_answered_at_once_when_a_member_joins() -> None:
    desk, (first, second) = parked()
    before = first.partitions, second.partitions
    NativeMember(desk, "m3").join()
    answers = [*first.answers(), *second.answers()]
    assert [answer.error_code for answer in answers] == [0] * len(answers)
    assert any(answer.assignment is not None for answer in answers)
    assert (first.partitions, second.partitions) != before


def test_member_that_waits_for_a_partition_is_answered_at_once_when_it_is_released() -> None:
    desk, (first, second, *_) = parked()
    newcomer = NativeMember(desk, "m3")
    newcomer.join()
    newcomer.peer.send(newcomer.ack_request(), 1)
    assert newcomer.answers() == []
    assert newcomer.partitions == []
    giver = first if first.answers() else second
    giver.answers()
    giver.peer.send(giver.ack_request(), 1)
    (answer,) = newcomer.answers()
    assert answer.assignment is not None
    assert len(newcomer.partitions) == 1


def test_leave_of_a_member_answers_the_others_at_once() -> None:
    _, (first, second) = parked()
    first.peer.send(first.request(member_epoch=-1), 1)
    (answer,) = second.answers()
    assert answer.assignment is not None
    assert second.partitions == [0, 1, 2]


def test_eviction_of_a_member_without_heartbeats_answers_the_others_at_once() -> None:
    desk, (first, second) = parked()
    for _ in range(45):
        desk.advance(PARK_MS)
        if first.answers():
            first.peer.send(first.ack_request(), 1)
        second.answers()
    desk.advance(1)
    assert first.partitions == [0, 1, 2]


def test_member_without_a_changed_assignment_receives_only_the_new_epoch() -> None:
    desk = parking_desk()
    desk.create("invoices", 1)
    reader = NativeMember(desk, "m1", subscribed_topic_names=["invoices"])
    join(reader, [])
    writer = NativeMember(desk, "m2", subscribed_topic_names=["orders"])
    writer.join()
    # It goes to the new epoch, as all members of a group do, and receives nothing else.
    answered = reader.answers()
    assert [answer.assignment for answer in answered] in ([], [None])
    desk.advance(PARK_MS)
    assert reader.partitions == [0]


def test_only_members_that_a_change_concerns_are_woken() -> None:
    desk = parking_desk()
    for number in range(5):
        desk.create(f"t{number}", 1)
    members = [NativeMember(desk, f"m{number}", subscribed_topic_names=[f"t{number}"]) for number in range(5)]
    for member in members:
        join(member, members[: members.index(member)])
    desk.create("t5", 1)
    NativeMember(desk, "m5", subscribed_topic_names=["t5"]).join()
    assert [member.answers() for member in members] == [[]] * 5
    assert len(parking_of(desk)) == 5


def test_next_request_of_the_connection_has_the_heartbeat_answered_first() -> None:
    _, (first, second) = parked()
    number = first.peer.send(MetadataRequest(topics=[]), 12)
    assert [correlation for correlation, _ in first.peer.replies][-1] == number
    assert [type(answer).__name__ for answer in first.peer.answers()] == [
        "ConsumerGroupHeartbeatResponse",
        "MetadataResponse",
    ]
    assert second.answers() == []


def test_leave_behind_a_parked_heartbeat_is_served_at_once() -> None:
    _, (first, _) = parked()
    first.peer.send(first.request(member_epoch=-1), 1)
    beat, left = first.peer.answers()
    assert (beat.error_code, left.error_code, left.member_epoch) == (0, 0, -1)


def test_long_stable_member_is_parked_longer() -> None:
    desk, (first, second) = parked()
    desk.advance(PARK_MS)
    for _ in range(STABLE_AFTER_MS // PARK_MS - 1):
        for member in (first, second):
            member.answers()
            member.send()
        desk.advance(PARK_MS)
    first.answers()
    first.send()
    desk.advance(STABLE_PARK_MS - 1)
    assert first.answers() == []
    desk.advance(1)
    assert len(first.answers()) == 1


def test_nothing_is_parked_of_a_member_that_owes_partitions() -> None:
    desk, members = parked(1)
    NativeMember(desk, "m2").join()
    (first,) = members
    (answered,) = first.answers()
    assert answered.assignment is not None
    first.send()
    (answer,) = first.answers()
    assert (answer.error_code, answer.heartbeat_interval_ms) == (0, NEXT_MS)
    desk.advance(OWED_MS)
    first.send()
    (answer,) = first.answers()
    assert answer.heartbeat_interval_ms == OWED_MS
    desk.advance(ACK_MS)
    first.send()
    assert len(first.answers()) == 1


def test_nothing_is_parked_of_a_member_that_owes_an_acknowledgement_until_that_takes_too_long() -> None:
    desk = parking_desk()
    member = NativeMember(desk, "m1")
    member.join()
    member.send()
    assert len(member.answers()) == 1
    desk.advance(ACK_MS)
    member.send()
    assert member.answers() == []


def test_acknowledgement_itself_is_parked() -> None:
    desk = parking_desk()
    member = NativeMember(desk, "m1")
    member.join()
    member.peer.send(member.ack_request(), 1)
    assert member.answers() == []


def test_heartbeats_faster_than_any_client_sends_are_answered_at_once() -> None:
    desk, (first, _) = parked()
    desk.advance(FAST_EPOCH_MS)
    first.send()
    assert len(first.answers()) == 1  # the one before
    desk.advance(FAST_EPOCH_MS - 1)
    first.send()
    assert len(first.answers()) == 2
    for _ in range(3):
        desk.advance(FAST_EPOCH_MS - 1)
        first.send()
        assert len(first.answers()) == 1
    desk.advance(FAST_EPOCH_MS)
    first.send()
    assert first.answers() == []


def test_heartbeat_on_another_connection_has_the_first_answered() -> None:
    desk, (first, _) = parked()
    desk.advance(500)
    old, first.peer = first.peer, desk.connect()
    first.send()
    assert len(old.answers()) == 1
    assert first.answers() == []
    assert len(parking_of(desk)) == 2


def test_client_that_is_gone_leaves_nothing_behind() -> None:
    desk, (first, second) = parked()
    first.peer.leave()
    second.peer.leave()
    assert len(parking_of(desk)) == 0
    desk.advance(PARK_MS)


def test_parking_forgets_members_that_left() -> None:
    desk, (first, second) = parked()
    for member in (first, second):
        member.peer.send(member.request(member_epoch=-1), 1)
    desk.advance(PARK_MS)
    assert parking_of(desk)._senders == {}


def test_member_removed_by_an_administrator_learns_it_from_its_parked_heartbeat() -> None:
    desk, (first, second) = parked()
    out = LeaveGroupRequest.Member(member_id=second.member_id)
    desk.connect().call(LeaveGroupRequest(group_id="g", members=[out]), 5)
    (answer,) = second.answers()
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (answer,) = first.answers()
    assert first.partitions == [0, 1, 2]


def test_session_runs_from_when_a_heartbeat_came_not_from_when_it_was_answered() -> None:
    desk, (first, _) = parked()
    desk.advance(PARK_MS)
    assert len(first.answers()) == 1
    desk.advance(45_000 - PARK_MS - 1)
    first.send()
    desk.advance(45_000 - 1)
    assert [answer.error_code for answer in first.answers()] == [0]
    desk.advance(1)
    first.send()
    assert [answer.error_code for answer in first.answers()] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_parked_heartbeat_never_endangers_a_short_session() -> None:
    desk, (first,) = parked(
        1,
        group_consumer_session_timeout_ms=1_200,
        group_consumer_min_session_timeout_ms=1,
        group_consumer_heartbeat_interval_ms=300,
        group_consumer_min_heartbeat_interval_ms=1,
    )
    desk.advance(400)
    assert len(first.answers()) == 1


def test_groups_that_are_unloaded_answer_their_parked_heartbeats() -> None:
    desk, members = parked()
    coordinator = desk.node.coordinator
    hosted = coordinator.partitions[coordinator.partition_of("g")]
    coordinator.runtime.unload(hosted)
    desk.advance(0)
    for member in members:
        (answer,) = member.answers()
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert len(parking_of(desk)) == 0
    assert parking_of(desk)._senders == {}


def test_new_partitions_of_a_topic_are_assigned_at_once() -> None:
    desk, (first, second) = parked()
    topic = desk.node.topics.get("orders")
    assert topic is not None
    desk.node.topics.grow(topic, 4, desk.clock.now_ms())
    desk.advance(0)
    assert [len(member.answers()) for member in (first, second)] in ([1, 0], [0, 1], [1, 1])
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["orders-2", "orders-x"])
def test_new_topic_that_matches_a_regex_is_assigned_at_once(name: str) -> None:
    desk = parking_desk()
    member = NativeMember(desk, "m1", subscribed_topic_names=None, subscribed_topic_regex="orders.*")
    join(member, [])
    topic_id = desk.create(name, 1)
    desk.create("invoices", 1)
    desk.advance(0)
    (answer,) = member.answers()
    assert answer.assignment is not None
    assert member.owned[topic_id] == [0]


def test_without_parking_a_member_receives_the_groups_interval_once_it_has_settled() -> None:
    desk = consumer_desk()
    member = NativeMember(desk, "m1")
    assert member.join().heartbeat_interval_ms == 500
    settle(member)
    assert member.interval_ms == 5_000
    assert stable_members(desk, 2, group_id="h")[0].interval_ms == 5_000


def outlast_news(member: NativeMember) -> None:
    """Acknowledge an assignment, and send one heartbeat when it is no news any more."""
    for pause_ms in (0, RECENT_MS):
        member.desk.advance(pause_ms)
        member.peer.send(member.ack_request(), 1)
        member.desk.advance(RECENT_WAIT_MS)
        assert len(member.answers()) == 1


@pytest.mark.parametrize(("client", "margin_ms"), [("librdkafka", 200), ("apache-kafka-java", 50)])
def test_client_that_must_be_answered_before_its_next_heartbeat_is_due_is(client: str, margin_ms: int) -> None:
    """librdkafka gives a heartbeat up otherwise, and Java's client spins until it is answered."""
    desk = parking_desk()
    member = NativeMember(desk, "m1")
    member.peer.connection.client_software = software_named(client, "1")
    member.join()
    assert member.interval_ms == RECENT_WAIT_MS + margin_ms
    outlast_news(member)
    assert member.interval_ms == PARK_MS + margin_ms
    for _ in range(2):
        member.peer.send(member.ack_request(), 1)
        desk.advance(PARK_MS - 1)
        assert member.answers() == []
        desk.advance(1)
        assert len(member.answers()) == 1


def test_interval_of_a_group_bounds_how_long_an_impatient_clients_heartbeat_is_parked() -> None:
    desk = parking_desk(group_consumer_min_heartbeat_interval_ms=500, group_consumer_heartbeat_interval_ms=900)
    member = NativeMember(desk, "m1")
    member.peer.connection.client_software = software_named("librdkafka", "2.16.0")
    member.join()
    outlast_news(member)
    member.peer.send(member.ack_request(), 1)
    desk.advance(900 - 200 - 1)
    assert member.answers() == []
    desk.advance(1)
    (answer,) = member.answers()
    assert answer.heartbeat_interval_ms == 900
