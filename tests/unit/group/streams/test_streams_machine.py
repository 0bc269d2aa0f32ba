"""A streams group: joins, epochs, statuses, the initial delay, ways out, static members, what follows from topics."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.streams_world import COUNTING, DELAY_MS, REBALANCE_MS, SESSION_MS, StreamsWorld, active, tasks

from kohort.group.commands import ConsumerHeartbeat, DeleteGroup, Join, OffsetToCommit, Unload
from kohort.group.coordinator_settings import StreamsConfig
from kohort.group.describe import list_groups
from kohort.group.streams.events import StreamsTargetStored, UserEndpoint
from kohort.group.streams.group import StreamsGroupState
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.group.streams.topology import InternalTopic, StatusCode, StreamsTopology, Subtopology
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.streams_tasks import NO_TASKS, TasksByRole


def codes(result: Any) -> list[StatusCode]:
    return [status.code for status in result.statuses]


def test_first_target_waits_for_the_members_that_follow_the_first() -> None:
    world = StreamsWorld()
    first = world.join("a").result
    assert (first.member_epoch, first.tasks, codes(first)) == (1, NO_TASKS, [StatusCode.ASSIGNMENT_DELAYED])
    assert first.statuses[0].detail == "Assignment delayed due to the configured initial rebalance delay."
    world.join("b")
    assert world.streams.state is StreamsGroupState.ASSIGNING
    world.advance(DELAY_MS)
    assert [world.beat("a").tasks, world.beat("b").tasks] == [active("0_0"), active("0_1")]
    times = [event.cause.at_ms for event in world.events if isinstance(event, StreamsTargetStored)]
    assert times == [world.now_ms], "a delay is not a member's slowness"
    assert world.streams.state is StreamsGroupState.STABLE
    assert world.beat("a").tasks is None, "it is sent once"


def test_task_moves_once_its_owner_has_given_it_back() -> None:
    world = StreamsWorld()
    world.start("a")
    world.join("b")
    assert world.member("b").assigned.tasks == NO_TASKS
    asked = world.beat("a", active("0_0 0_1"))
    assert asked.tasks == active("0_0"), "a must give back what b should have"
    assert world.streams.state is StreamsGroupState.RECONCILING
    epoch = world.member("a").epoch
    assert world.beat("a", active("0_0 0_1")).member_epoch == epoch, "it has not given it back"
    assert world.beat("b", NO_TASKS).tasks is None, "no member takes what is in use"
    assert world.beat("a", active("0_0")).member_epoch == epoch + 1
    assert world.beat("b", NO_TASKS).tasks == active("0_1")
    assert world.streams.state is StreamsGroupState.STABLE


def test_member_that_gives_nothing_back_is_evicted_after_its_rebalance_timeout() -> None:
    world = StreamsWorld(streams_session_timeout_ms=2 * REBALANCE_MS)
    world.start("a")
    world.join("b")
    world.beat("a", active("0_0 0_1"))
    world.advance(REBALANCE_MS)
    assert set(world.streams.members) == {"b"}
    assert world.beat("b", NO_TASKS).tasks == active("0_0 0_1")


def test_member_without_heartbeats_is_evicted_and_its_tasks_go_to_others() -> None:
    world = StreamsWorld()
    world.start("a", "b")
    world.advance(SESSION_MS - 1)
    world.beat("b")
    world.advance(1)
    assert world.beat("b").tasks == active("0_0 0_1")
    assert world.send("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_answer_that_was_lost_is_sent_again() -> None:
    world = StreamsWorld()
    world.join()
    world.advance(DELAY_MS)
    world.beat()
    again = world.send("a", 1, owned=NO_TASKS).result
    assert (again.member_epoch, again.tasks) == (2, active("0_0 0_1"))
    assert world.send("a", 1, owned=active("0_7")).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.send("a", 7).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_group_without_its_source_topics_is_not_ready() -> None:
    world = StreamsWorld()
    world.change_topic("words", 0)
    world.join()
    world.advance(DELAY_MS)
    result = world.beat()
    assert world.streams.state is StreamsGroupState.NOT_READY
    assert codes(result) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert result.statuses[0].detail == "Source topics words are missing."
    world.change_topic("words", 2)
    assert world.beat().tasks == active("0_0 0_1")
    world.change_topic("words", 0)
    assert world.beat(owned=active("0_0 0_1")).tasks == NO_TASKS
    assert [each.state for each in list_groups(world.shard, frozenset({"not_ready"}), frozenset({"streams"}))]


def test_missing_internal_topics_are_named_with_their_partitions() -> None:
    world = StreamsWorld(3, COUNTING)
    del world.image.topics["g-repartition"], world.image.topics["g-changelog"]
    result = world.join().result
    assert result.missing_topics == (
        InternalTopic("g-changelog", 3, 0, (("cleanup.policy", "compact"),)),
        InternalTopic("g-repartition", 3),
    )
    assert codes(result) == [StatusCode.ASSIGNMENT_DELAYED, StatusCode.MISSING_INTERNAL_TOPICS]
    epoch = world.streams.epoch
    world.change_topic("g-repartition", 3)
    assert world.streams.epoch == epoch, "one of two is not enough"
    world.change_topic("g-changelog", 3)
    world.advance(DELAY_MS)
    assert world.beat().tasks == active("0_0 0_1 0_2 1_0 1_1 1_2")


def test_topic_that_grows_makes_more_tasks() -> None:
    world = StreamsWorld(topology=StreamsTopology(0, (Subtopology("0", ("words",)),)))
    world.start("a")
    world.change_topic("words", 3)
    assert world.beat().tasks == active("0_0 0_1 0_2")


def test_older_topology_is_stale_and_a_newer_one_is_refused_while_there_are_members() -> None:
    world = StreamsWorld(topology=StreamsTopology(1, (Subtopology("0", ("words",)),)))
    world.start("a")
    assert codes(world.join("b", topology=StreamsTopology(0)).result) == [StatusCode.STALE_TOPOLOGY]
    newer = world.join("c", topology=StreamsTopology(2, (Subtopology("0", ("words",)),)))
    assert (newer.error, newer.result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    world.send("a", -1)
    world.send("b", -1)
    assert world.streams.state is StreamsGroupState.EMPTY
    assert world.join("c", topology=StreamsTopology(2, (Subtopology("0", ("words",)),))).error is ErrorCode.NONE
    assert world.streams.topology is not None
    assert world.streams.topology.epoch == 2


def test_setting_of_the_group_that_changes_is_the_cause_of_the_next_epoch() -> None:
    changed: dict[str, StreamsConfig] = {}
    world = StreamsWorld(streams_config=changed.get)
    world.start("a", "b")
    epoch = world.streams.epoch
    changed["g"] = world.settings.streams_config_of("g")._replace(standby_replicas=1)
    world.beat("a")
    cause = world.streams.epoch_cause
    assert cause is not None
    assert (world.streams.epoch, cause.kind, cause.member_id, cause.detail) == (
        epoch + 1,
        CauseKind.GROUP_SETTINGS_CHANGED,
        None,
        "streams.num.standby.replicas=1",
    )


def test_shutdown_is_sent_to_all_until_the_group_is_empty() -> None:
    world = StreamsWorld()
    world.start("a", "b")
    world.send("a", world.member("a").epoch, shuts_down=True)
    result = world.beat("b")
    assert codes(result) == [StatusCode.SHUTDOWN_APPLICATION]
    assert "member a encountered a fatal error" in result.statuses[0].detail
    world.send("a", -1)
    assert codes(world.beat("b")) == [StatusCode.SHUTDOWN_APPLICATION]
    world.send("b", -1)
    assert codes(world.join("c").result) == [StatusCode.ASSIGNMENT_DELAYED]


def test_standby_task_is_in_another_process_and_becomes_active_where_it_is() -> None:
    world = StreamsWorld(1, streams_standby_replicas=1)
    for member_id, process_id in (("a", "one"), ("b", "one"), ("c", "two")):
        world.join(member_id, process_id)
    world.advance(DELAY_MS)
    world.settle()
    members = world.streams.members
    (owner,) = [each for each in members if members[each].assigned.active]
    (copy,) = [each for each in members if members[each].assigned.standby]
    assert members[owner].process_id != members[copy].process_id
    world.send(owner, -1)
    world.settle()
    assert members[copy].assigned.tasks.active == tasks("0_0")


def test_member_is_woken_once_the_task_that_it_waits_for_is_only_a_standby_elsewhere() -> None:
    world = StreamsWorld(streams_standby_replicas=1)
    world.start("a")
    assert world.join("b").result.tasks == TasksByRole(standby=tasks("0_0"))
    asked = world.beat("a", active("0_0 0_1"))
    assert asked.tasks == TasksByRole(tasks("0_0"), tasks("0_1"))
    assert not world.woken
    world.beat("a", asked.tasks)
    assert world.woken == ["b"]
    assert world.beat("b").tasks == TasksByRole(tasks("0_1"), tasks("0_0"))


def test_answer_by_which_a_copy_became_active_is_sent_again_when_it_was_lost() -> None:
    world = StreamsWorld(1, streams_standby_replicas=1)
    world.start("a", "b")
    owner, copy = ("a", "b") if world.member("a").assigned.active else ("b", "a")
    before = world.member(copy).epoch
    world.send(owner, -1)
    assert world.beat(copy).tasks == active("0_0")
    again = world.send(copy, before, owned=TasksByRole(standby=tasks("0_0"))).result
    assert (again.member_epoch, again.tasks) == (world.member(copy).epoch, active("0_0"))
    assert world.send(copy, before, owned=TasksByRole(standby=tasks("0_7"))).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_two_members_of_a_process_never_have_a_task_in_two_roles() -> None:
    world = StreamsWorld(1, streams_standby_replicas=1)
    world.join("a", "one")
    world.join("c", "two")
    world.advance(DELAY_MS)
    world.settle()
    standby = next(each for each in "ac" if world.member(each).assigned.standby)
    process = world.member(standby).process_id
    world.send("c" if standby == "a" else "a", -1)
    world.join("b", process)
    # The standby copy is in the directory that both share: it goes before the task becomes active at the other.
    holders = world.streams.holders.get(("0", 0), {})
    assert len(holders) <= 1
    world.settle()
    assert len(world.streams.holders["0", 0]) == 1


def test_static_member_that_comes_back_has_its_tasks_and_moves_nothing() -> None:
    world = StreamsWorld()
    world.join("a", instance_id="i")
    world.join("b")
    world.advance(DELAY_MS)
    world.settle()
    epoch, owned = world.streams.epoch, world.member("a").assigned.tasks
    assert world.join("d", "process-a", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.send("a", -2, instance_id="i").error is ErrorCode.NONE
    back = world.join("d", "process-a", instance_id="i", endpoint=UserEndpoint("h", 1)).result
    assert (back.tasks, world.streams.epoch, "a" in world.streams.members) == (owned, epoch, False)
    assert world.send("a", -2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.send("a", epoch, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_of_another_process_comes_back_without_what_that_process_has() -> None:
    world = StreamsWorld(streams_standby_replicas=1)
    world.join("a", instance_id="i")
    world.join("b")
    world.advance(DELAY_MS)
    world.settle()
    world.send("a", -2, instance_id="i")
    world.join("c", "other")
    copies = world.member("c").assigned.standby
    assert copies == world.member("a").assigned.active.keys() == tasks("0_0"), "both have it, in two processes"
    back = world.join("d", "other", instance_id="i").result
    assert back.tasks == TasksByRole(standby=tasks("0_1")), "a process has a task once"


def test_endpoints_are_sent_to_members_that_know_older_ones() -> None:
    world = StreamsWorld()
    world.join("a", endpoint=UserEndpoint("host", 99))
    world.join("b")
    world.advance(DELAY_MS)
    world.settle()
    result = world.beat("b", endpoint_epoch=0)
    assert result.endpoints is not None
    (found,) = result.endpoints
    assert (found.endpoint, found.active, found.standby) == (UserEndpoint("host", 99), (("words", (0,)),), ())
    assert world.beat("b", endpoint_epoch=result.endpoint_epoch).endpoints is None


def test_offsets_of_an_older_epoch_are_taken_for_tasks_that_the_member_had_then() -> None:
    world = StreamsWorld()
    world.start("a")
    had_in = world.member("a").epoch
    world.join("b")
    world.settle()
    epoch = world.member("a").epoch
    assert epoch > had_in

    def commit(generation: int, partition: int) -> ErrorCode:
        offsets = [OffsetToCommit("words", partition, 7, -1, "", NO_TOPIC_ID)]
        return world.commit("a", generation, offsets=offsets).error

    assert commit(epoch, 1) is ErrorCode.NONE
    assert commit(had_in, 0) is ErrorCode.NONE
    assert commit(had_in, 1) is ErrorCode.STALE_MEMBER_EPOCH, "it is b's now"
    assert commit(epoch + 1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_failover_keeps_members_tasks_and_a_target_that_was_due() -> None:
    world = StreamsWorld()
    world.start("a")
    world.join("b")
    world.restart()
    world.settle()
    assert [world.member(each).assigned.tasks for each in "ab"] == [active("0_0"), active("0_1")]
    world.submit(Unload("g"))
    assert world.send("a", 2).error is ErrorCode.NOT_COORDINATOR


def test_empty_classic_group_becomes_a_streams_group_and_back_with_its_offsets() -> None:
    world = StreamsWorld()
    world.commit()
    world.join()
    assert world.streams.members
    assert world.shard.offsets["g"]
    native = ConsumerHeartbeat("g", "n", 0, rebalance_timeout_ms=1, subscribed_topic_names=("words",), owned=())
    assert world.submit(native).error is ErrorCode.GROUP_ID_NOT_FOUND
    join = Join("g", "", None, "c", "/h", 10_000, 60_000, "consumer", (("range", b""),), "m1", is_two_step=False)
    assert world.submit(join).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NON_EMPTY_GROUP
    world.send("a", -1)
    world.submit(join)
    assert world.group().members
    assert world.shard.offsets["g"]
    assert world.join("b").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_member_of_a_group_that_was_emptied_begins_with_its_newest_epoch() -> None:
    world = StreamsWorld()
    world.start("a")
    epoch = world.streams.epoch
    world.send("a", -1)
    assert (world.streams.epoch, world.streams.assignment_epoch) == (epoch + 1, epoch + 1)
    assert world.join("b").result.member_epoch == epoch + 1


def test_topics_that_changed_while_a_group_was_empty_raise_no_second_epoch_after_the_next_join() -> None:
    world = StreamsWorld()
    world.start("a")
    world.send("a", -1)
    world.change_topic("g-changelog", 3)
    world.change_topic("words", 3)
    world.join("b")
    epoch = world.streams.epoch
    world.advance(DELAY_MS)
    assert world.streams.epoch == epoch


def test_empty_group_is_deleted_with_all_its_records() -> None:
    world = StreamsWorld()
    world.start("a")
    world.send("a", -1)
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NONE
    assert not world.shard.groups
    assert not world.shard.followers


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        (
            {"owned": TasksByRole(tasks("0_0"))},
            "ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining.",
        ),
        (
            {"topology": StreamsTopology(0, (Subtopology("0", ("w",), ("w.*",)),))},
            "Regular expressions for source topics",
        ),
    ],
)
def test_heartbeat_that_no_group_could_take_is_refused(changes: dict[str, Any], error: str) -> None:
    world = StreamsWorld()
    sent = {"member_id": "a", "member_epoch": 0, "rebalance_timeout_ms": 1, "topology": COUNTING, "owned": NO_TASKS}
    answer = world.submit(StreamsHeartbeat("g", **{**sent, **changes}))
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.result.error_message.startswith(error)


def test_group_takes_no_more_members_than_its_limit() -> None:
    world = StreamsWorld(streams_max_size=1)
    world.join("a")
    assert world.join("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("a").error is ErrorCode.NONE


def test_records_that_cannot_be_stored_change_nothing_and_are_tried_again() -> None:
    world = StreamsWorld()
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.join("a").error is ErrorCode.NOT_COORDINATOR
    world.append_error = None
    world.start("a")
    assert world.member("a").assigned.tasks == active("0_0 0_1")
