"""The topic of group events: every event that there is has its name and fields, and is cheap to write."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from tests.unit.node.group_desk import GroupMember, group_desk, stable_group
from tests.unit.node.groups.test_coordinator import events, records

from kohort.group import events as events_module
from kohort.group.classic.group import Phase
from kohort.group.commands import Join
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import (
    Assigned,
    ConsumerMemberOut,
    GroupLoaded,
    GroupStored,
    MemberAssignmentStored,
    MemberRecognized,
    MemberRejoined,
    MemberRemoved,
    MemberState,
    MemberTargetStored,
    OffsetCommitted,
    OffsetPending,
    RoundOpened,
    StoredMember,
    SyncReceived,
    TargetStored,
)
from kohort.group.explain.explain import FOLDED, explain
from kohort.group.shard import Shard
from kohort.log.disk import StorageError
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.model.subscription import Subscription
from kohort.node.groups.event_fields import (
    DESCRIBED,
    OMITTED,
    UNWRITTEN,
    Noted,
    event_fields,
    event_name,
    is_unwritten,
    name_of_type,
)
from kohort.node.groups.event_topic import LINGER_MS, EventTopic, EventWriter
from kohort.node.timers import Timers
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.messages import LeaveGroupRequest
from kohort.wire.record_batches import Record

CAUSE = Cause(CauseKind.MEMBER_JOINED, 5, "m", "why")
TYPES: tuple[type, ...] = tuple(
    each
    for name, each in vars(events_module).items()
    if "cause" in getattr(each, "__match_args__", ()) and name[0] != "_"
)
UNTOLD = {
    "initial_delay_extended",
    "group_unloaded",
    "regex_resolved",
    "target_timed",
    "join_held",
    "join_released",
}
"""Names that `explain` has no use for."""


def test_type_of_event_whose_fields_are_written_as_they_are_has_texts_and_numbers_alone() -> None:
    plain = {"str", "int", "bool", "str | None", "tuple[str, ...]"}
    own = [each for each in TYPES if each not in set(DESCRIBED) | UNWRITTEN | {OffsetCommitted, OffsetPending}]
    assert MemberRecognized in own
    others = [
        f"{each.__name__}.{field.name}: {field.type}"
        for each in own
        for field in fields(each)
        if field.name not in OMITTED and field.type not in plain
    ]
    assert not others, "describe them in node/groups/event_fields.py"


def test_every_written_event_is_folded_or_listed_as_unfolded() -> None:
    several = {MemberRemoved, ConsumerMemberOut, GroupStored}  # `event_name` has a name for each of their cases
    written = set(TYPES) - UNWRITTEN - several - {OffsetPending}
    assert SyncReceived in written
    assert {name_of_type(each) for each in written} - FOLDED == UNTOLD, "see whether group/explain must fold it"


def test_event_of_an_undescribed_type_is_written_with_all_its_fields(monkeypatch: Any) -> None:
    monkeypatch.delitem(DESCRIBED, RoundOpened)
    noted = Noted(RoundOpened("g", 3, True, 100, 200, CAUSE), Phase.PREPARING_REBALANCE, 3, 2, None)
    written = event_fields(noted)
    assert (written["event"], written["initial_delay_ms"], written["is_initial"]) == ("round_opened", 100, True)
    json.dumps(written)


def test_generation_that_awaits_its_assignment_is_written_once_as_formed() -> None:
    member = StoredMember("m", None, "c", "/h", 1, 1, b"", b"")
    unsynced = GroupStored("g", "consumer", 1, "range", "m", 5, (member,), CAUSE, is_synced=False)
    assert is_unwritten(unsynced)
    synced = GroupStored("g", "consumer", 1, "range", "m", 5, (member,), CAUSE)
    assert not is_unwritten(synced)
    assert event_name(synced) == "assignment_stored"


def test_rejoin_event_has_the_owned_partitions_where_they_can_be_decoded() -> None:
    def owned(metadata: bytes) -> Any:
        request = Join("g", "m", None, "c", "/h", 1, 1, "consumer", (("range", metadata),), "m")
        event = MemberRejoined("g", "m", request, CAUSE)
        return event_fields(Noted(event, Phase.PREPARING_REBALANCE, 1, 1, None))["owned"]

    partitions = (TopicPartition("t", 0), TopicPartition("t", 2))
    assert owned(encode_subscription(Subscription(("t",), owned=partitions))) == {"t": [0, 2]}
    assert owned(encode_subscription(Subscription(("t",)))) == {}
    assert owned(b"") is None, "opaque metadata says nothing"


def test_eviction_event_has_its_members_time_without_heartbeats() -> None:
    desk = group_desk()
    stable_group(desk, 1)
    desk.advance(10_000)
    (evicted,) = [event for event in events(desk) if event["event"] == "member_evicted"]
    assert (evicted["silent_ms"], evicted["session_timeout_ms"]) == (10_000, 10_000)
    assert evicted["cause"]["detail"] == "no heartbeat for 10.0 s"


def test_replacement_event_of_a_static_member_has_its_time_without_heartbeats() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1, instance_id="rack-7")
    desk.advance(2_000)
    assert member.heartbeat() == 0
    desk.advance(2_900)
    back = GroupMember(desk, "rack-7")
    back.peer.send(back.join_request(), 9)
    back.joined()
    (replaced,) = [event for event in events(desk) if event["event"] == "member_replaced"]
    assert replaced["silent_ms"] == 2_900


def test_eviction_event_of_a_static_member_mentions_its_instance() -> None:
    desk = group_desk()
    stable_group(desk, 1, instance_id="rack-7")
    desk.advance(10_000)
    (evicted,) = [event for event in events(desk) if event["event"] == "member_evicted"]
    assert evicted["cause"]["detail"] == "no heartbeat for 10.0 s and no new start of its instance"


def test_leave_event_has_the_reason_of_the_member() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    entry = LeaveGroupRequest.Member(member_id=member.member_id, reason="the consumer is being closed")
    member.peer.call(LeaveGroupRequest(group_id="g", members=[entry]), 5)
    (left,) = [event for event in events(desk) if event["event"] == "member_left"]
    assert left["cause"]["detail"] == "the consumer is being closed"


def test_assignment_event_has_the_synced_and_the_awaited_members() -> None:
    desk = group_desk()
    first = stable_group(desk, 1)[0]
    second = GroupMember(desk)
    second.enter()
    first.peer.send(first.join_request(), 9)
    desk.advance(0)
    for member in (first, second):
        member.joined()
    desk.advance(40)
    first.peer.send(first.sync_request(**{first.member_id: [0], second.member_id: [1]}), 5)
    desk.advance(60)
    second.peer.send(second.sync_request(), 5)
    stored, late = events(desk)[-2:]
    assert (stored["event"], list(stored["synced"]), stored["awaiting"]) == (
        "assignment_stored",
        [first.member_id],
        [second.member_id],
    )
    assert (late["event"], late["member"], late["at_ms"] - stored["at_ms"]) == ("member_synced", second.member_id, 60)


def test_events_that_could_not_be_written_are_owned_up_to() -> None:
    desk = group_desk()
    members = stable_group(desk, 2)
    desk.advance(LINGER_MS)

    def refuse_events(operation: str, path: str) -> None:
        if "__kohort_group_events" in path:
            raise StorageError(f"cannot {operation} {path}")

    desk.disk.fault = refuse_events
    members[1].leave()
    desk.advance(LINGER_MS)
    desk.disk.fault = None
    members[0].peer.send(members[0].join_request(), 9)
    assert members[0].joined().generation_id == 2
    members[0].peer.send(members[0].sync_request(**{members[0].member_id: [0, 1]}), 5)
    written = events(desk)
    (lost,) = [event for event in written if event["event"] == "events_lost"]
    assert lost["count"] > 0
    assert explain(written, "g", desk.clock.now_ms()).rebalances[-1].is_partial


def test_events_of_one_turn_are_one_batch() -> None:
    desk = group_desk()
    stable_group(desk, 3)
    desk.advance(LINGER_MS)
    found = records(desk, "__kohort_group_events")
    log = desk.node.topics.get("__kohort_group_events")
    assert log is not None
    assert len(found) > 8
    assert len(list(log.partitions[0].log.read(0, 1 << 20))) <= 2


def test_targets_of_one_computation_are_one_event_by_topic_name() -> None:
    desk = group_desk()
    topic = desk.node.topics.get("orders")
    assert topic is not None
    shard, events_of = Shard(GroupSettings()), EventWriter(desk.node.timers, EventTopic(desk.node.topics))
    shard.groups["g"] = ConsumerGroup("g")
    for member_id, numbers in (("a", (0, 1)), ("b", (2,))):
        events_of.note(shard, MemberTargetStored("g", member_id, ((topic.topic_id, numbers),), CAUSE), 0)
    events_of.note(shard, TargetStored("g", 2, 5, CAUSE), 0)
    held = (Assigned(topic.topic_id, (0, 1), (2, 2)),)
    step = MemberAssignmentStored("g", "a", 2, 1, MemberState.STABLE, held, (), CAUSE)
    events_of.note(shard, step, 0)
    desk.node.topics.delete(topic, 0)
    events_of.note(shard, MemberTargetStored("g", "c", ((bytes(15) + b"x", (7,)),), CAUSE), 0)
    events_of.flush(0)
    written = events(desk)
    assert [event["event"] for event in written] == ["target_computed", "member_reconciled", "member_targeted"]
    gone = topic_id_text(topic.topic_id)
    assert written[0]["targets"] == {"a": {gone: [0, 1]}, "b": {gone: [2]}}, "the topic was deleted before it was named"
    assert (written[1]["assigned"], written[1]["member_state"], written[1]["epoch"]) == ({gone: [0, 1]}, "STABLE", 1)
    assert written[2]["target"] == {topic_id_text(bytes(15) + b"x"): [7]}


def test_target_event_of_a_replaced_instance_precedes_its_reconciliation() -> None:
    desk = group_desk()
    topic = desk.node.topics.get("orders")
    assert topic is not None
    shard, events_of = Shard(GroupSettings()), EventWriter(desk.node.timers, EventTopic(desk.node.topics))
    shard.groups["g"] = ConsumerGroup("g")
    events_of.note(shard, MemberTargetStored("g", "a2", ((topic.topic_id, (0,)),), CAUSE), 0)
    events_of.note(shard, MemberAssignmentStored("g", "a2", 0, 0, MemberState.STABLE, (), (), CAUSE), 0)
    events_of.flush(0)
    assert [event["event"] for event in events(desk)] == ["member_targeted", "member_reconciled"]


def test_topic_that_was_named_retains_its_name_when_it_is_deleted() -> None:
    desk = group_desk()
    topic = desk.node.topics.get("orders")
    assert topic is not None
    shard, events_of = Shard(GroupSettings()), EventWriter(desk.node.timers, EventTopic(desk.node.topics))
    shard.groups["g"] = ConsumerGroup("g")
    for _ in range(2):
        events_of.note(shard, MemberTargetStored("g", "a", ((topic.topic_id, (0,)),), CAUSE), 0)
        events_of.flush(0)
        if desk.node.topics.get("orders") is not None:
            desk.node.topics.delete(topic, 0)
    assert [event["target"] for event in events(desk)] == [{"orders": [0]}, {"orders": [0]}]


def test_event_of_a_loaded_consumer_group_has_assignments_and_targets_of_its_members() -> None:
    desk = group_desk()
    topic = desk.node.topics.get("orders")
    assert topic is not None
    shard, events_of = Shard(GroupSettings()), EventWriter(desk.node.timers, EventTopic(desk.node.topics))
    group = shard.groups["g"] = ConsumerGroup("g")
    member = group.members["a"] = ConsumerMember("g", "a")
    member.client_id, member.epoch, member.state = "alice", 3, MemberState.UNREVOKED_PARTITIONS
    member.assigned, member.pending = (Assigned(topic.topic_id, (0,), (3,)),), (Assigned(topic.topic_id, (1,), (3,)),)
    member.target = ((topic.topic_id, (0,)),)
    events_of.note(shard, GroupLoaded("g", CAUSE), 0)
    member.epoch = 4
    events_of.flush(0)
    (written,) = events(desk)
    assert (written["members"], written["clients"], written["member_states"]) == (
        ["a"],
        {"a": ["alice", None]},
        {"a": [3, "UNREVOKED_PARTITIONS"]},
    )
    assert [written[name]["a"] for name in ("assignments", "pending", "targets")] == [
        {"orders": [0]},
        {"orders": [1]},
        {"orders": [0]},
    ]


class _LateNames:
    """A store that learns the name of each topic later, as a gateway does."""

    names_wait_ms = 1_000

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.stored: list[Record] = []

    def append(self, records: list[Record], now_ms: int) -> None:
        del now_ms
        self.stored += records

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)


def test_events_wait_for_the_name_of_a_new_topic_but_not_for_ever() -> None:
    store, timers = _LateNames(), Timers()
    writer, topic_id = EventWriter(timers, store), bytes(15) + b"x"
    writer.note(Shard(GroupSettings()), MemberTargetStored("g", "a", ((topic_id, (0,)),), CAUSE), 0)
    timers.run_due(500)
    assert not store.stored
    store.names[topic_id] = "orders"
    timers.run_due(600)
    assert [json.loads(each.value or b"")["target"] for each in store.stored] == [{"orders": [0]}]
    unknown = bytes(15) + b"y"
    writer.note(Shard(GroupSettings()), MemberTargetStored("g", "a", ((unknown, (0,)),), CAUSE), 700)
    timers.run_due(800)
    assert len(store.stored) == 1
    timers.run_due(1_900)
    assert json.loads(store.stored[1].value or b"")["target"] == {topic_id_text(unknown): [0]}
