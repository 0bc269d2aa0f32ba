"""Streams groups as heartbeats show them, beside the coordinator that answers these."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.node.desk import Desk
from tests.unit.node.test_streams_apis import JOIN, describe

from kohort.gateway.apis import k88_streams_group_heartbeat as api
from kohort.gateway.apis.api import OriginElsewhere
from kohort.gateway.gateway import Gateway
from kohort.gateway.server.group_lookup import described_streams_group
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Join
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import ConsumerMemberOut, Event
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, sentence
from kohort.group.results import ConsumerHeartbeatResult, JoinResult
from kohort.group.shard import Shard
from kohort.group.streams.events import StreamsGroupStored, StreamsMemberAssignmentStored
from kohort.group.streams.group import StreamsGroup, StreamsGroupState
from kohort.model.assignment import NOTHING
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import NONE_ASSIGNED
from kohort.node.groups.event_topic import LINGER_MS, EventWriter
from kohort.wire.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kohort.wire.record_batches import Record

DELAY_MS = 3_000
NO_COPIES: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
_Offset = StreamsGroupHeartbeatRequest.TaskOffset
_End = StreamsGroupHeartbeatRequest.TaskEndOffset


class EventLines:
    """An `EventStore` in memory."""

    names_wait_ms = 0

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def append(self, records: list[Record], now_ms: int) -> None:
        del now_ms
        self.found += [json.loads(record.value or b"") for record in records]

    def topic_name(self, _topic_id: bytes) -> str | None:
        return None


class World:
    """A coordinator with streams group `g`, and a gateway that reads the heartbeats of its members."""

    def __init__(self, **settings: Any) -> None:
        self.desk = Desk(kohort_group_consumer_heartbeat_park_ms=0, **settings)
        self.desk.create("words", 2)
        self.asked: list[int | None] = []
        self.events: list[Event] = []
        self.lines = EventLines()
        self.epochs: dict[str, int] = {}
        """By member, the one that its last answer had."""
        self.start()

    def start(self) -> None:
        """Start the gateway, which knows nothing."""
        self.gateway = Gateway(GroupSettings(), self._note, lambda _, generation: self.asked.append(generation))
        self.writer = EventWriter(self.gateway.timers, self.lines)
        self.gateway.tick(self.desk.clock.now_ms())

    def _note(self, shard: Shard, event: Event, now_ms: int) -> None:
        self.events.append(event)
        self.writer.note(shard, event, now_ms)

    def advance(self, by_ms: int) -> None:
        self.desk.advance(by_ms)
        self.gateway.tick(self.desk.clock.now_ms())

    def beat(self, member_id: str = "m", **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat through the gateway; the member's epoch is the one that it was given, unless it is named."""
        named = {"group_id": "g", "member_id": member_id, "member_epoch": self.epochs.get(member_id, 0)}
        request = StreamsGroupHeartbeatRequest(**{**named, **fields})
        answer = self.desk.connect().call(request, 1)
        command = api.command_of(request, 1, OriginElsewhere("192.0.2.1", ""), "tester")
        self.gateway.groups.epoch_heartbeat_answered(command, api.result_of(answer), self.desk.clock.now_ms())
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
        self.compare()
        return answer  # type: ignore[no-any-return]

    def join(self, member_id: str, process_id: str = "p", **fields: Any) -> StreamsGroupHeartbeatResponse:
        joining = {**JOIN, "member_id": member_id, "process_id": process_id, **fields}
        return self.beat(**joining)

    @property
    def observed(self) -> StreamsGroup:
        group = self.gateway.groups.streams.group("g")
        assert group is not None
        return group

    @property
    def served(self) -> StreamsGroup:
        group = self.desk.node.coordinator.streams_group("g")
        assert group is not None
        return group

    def compare(self) -> None:
        """Compare what the traffic has shown with what the coordinator has."""
        known = self.gateway.groups.streams.group("g")
        observed = {} if known is None else shown(known)
        served = shown(self.served)
        assert {each: observed.get(each) for each in self.epochs if each in served} == {
            each: served[each] for each in self.epochs if each in served
        }

    def causes(self) -> list[tuple[int, CauseKind, str | None]]:
        """Return the epochs of the group that were noted, and why."""
        return [
            (each.epoch, each.cause.kind, each.cause.member_id)
            for each in self.events
            if isinstance(each, StreamsGroupStored)
        ]

    def settled(self) -> None:
        """Have two members share the tasks, and the second one warm up what it is to take over."""
        self.join("m")
        self.advance(DELAY_MS)
        self.beat()
        self.join("n", "q")
        self.advance(1_000)
        asked = self.beat(**self.owned())
        self.beat(active_tasks=requested(asked), **NO_COPIES)
        self.beat("n")

    def owned(self) -> dict[str, Any]:
        """Return what the first member owns while it is alone."""
        task = StreamsGroupHeartbeatRequest.ActiveTask
        return {"active_tasks": [task(subtopology_id=each, partitions=[0, 1]) for each in "01"], **NO_COPIES}


def shown(group: StreamsGroup) -> dict[str, Any]:
    return {member_id: (each.epoch, each.assigned.tasks) for member_id, each in sorted(group.members.items())}


def requested(answer: StreamsGroupHeartbeatResponse) -> list[Any]:
    task = StreamsGroupHeartbeatRequest.ActiveTask
    return [task(subtopology_id=each.subtopology_id, partitions=each.partitions) for each in answer.active_tasks or ()]


def test_members_epochs_and_tasks_are_those_of_the_coordinator_after_each_heartbeat() -> None:
    world = World()
    world.settled()
    assert world.observed.epoch == world.served.epoch
    assert world.observed.state is StreamsGroupState.STABLE
    states = [each.state.name for each in world.events if isinstance(each, StreamsMemberAssignmentStored)]
    assert "UNREVOKED_TASKS" in states
    kinds = [(kind, member_id) for _, kind, member_id in world.causes()]
    assert kinds == [(CauseKind.MEMBER_JOINED, "m"), (CauseKind.MEMBER_JOINED, "n")]


def test_rebalances_are_explained_as_those_of_our_coordinator() -> None:
    world = World()
    world.settled()
    for _ in range(10):
        world.advance(5_000)
        world.beat("n")
    task = StreamsGroupHeartbeatRequest.ActiveTask
    world.beat("n", active_tasks=[task(subtopology_id="0", partitions=[1])], **NO_COPIES)
    world.advance(LINGER_MS)
    explanation = Explanation("g")
    for event in world.lines.found:
        explanation.fold(event)
    report = explanation.report(world.desk.clock.now_ms())
    assert report.group_type == "streams"
    first, second, last = (sentence(each, Names(report.identities)) for each in report.rebalances)
    assert first.startswith("group epoch 1→3: m joined; 4 of 4 tasks unowned for 3.0 s")
    assert second.startswith("group epoch 3→4: n joined; no task was unowned")
    assert last.startswith("group epoch 4→5: m evicted, no heartbeat for 45.0 s")


@pytest.mark.parametrize("waited_ms", [0, 5_000])
def test_copy_that_has_caught_up_is_the_cause_of_the_epoch_that_follows_its_report(waited_ms: int) -> None:
    """The next target may have to wait for the assignment interval (KIP-1263)."""
    world = World()
    world.settled()
    world.advance(waited_ms)
    assert any(world.observed.members["n"].assigned.warmup)
    (task,) = world.observed.members["n"].assigned.warmup
    place = {"subtopology_id": task[0], "partition": task[1]}
    world.beat("n", task_offsets=[_Offset(**place, offset=5)], task_end_offsets=[_End(**place, offset=5)])
    world.advance(5_000)
    world.beat(**world.owned())
    world.beat("n")
    assert world.causes()[-1][1:] == (CauseKind.STANDBY_LAG, "n")


def test_copy_that_becomes_active_is_not_given_back_and_shows_no_newer_target() -> None:
    world = World()
    world.settled()
    (task,) = world.observed.members["n"].assigned.warmup
    place = {"subtopology_id": task[0], "partition": task[1]}
    world.beat("n", task_offsets=[_Offset(**place, offset=5)], task_end_offsets=[_End(**place, offset=5)])
    world.advance(1_000)
    asked = world.beat()
    world.beat(active_tasks=requested(asked), **NO_COPIES)
    world.beat("n")
    assert world.observed.members["n"].assigned.active.keys() >= {task}
    assert world.observed.members["n"].pending == NONE_ASSIGNED
    assert world.observed.epoch == world.served.epoch


def test_epoch_that_nothing_explains_is_not_observed_and_has_the_group_looked_up() -> None:
    world = World()
    world.settled()
    asked = len(world.asked)
    topics = world.desk.node.topics
    topics.grow(topics.find("words"), 3, world.desk.clock.now_ms())
    world.advance(5_000)
    world.beat()
    world.beat("n")
    assert world.causes()[-1][1] is CauseKind.NOT_OBSERVED
    assert world.asked[asked:] == [None]


def test_member_that_leaves_is_out_and_the_last_one_leaves_an_empty_group() -> None:
    world = World()
    world.settled()
    world.beat("n", member_epoch=-1)
    assert world.observed.members.keys() == {"m"}
    world.beat("m")
    assert world.causes()[-1][1:] == (CauseKind.MEMBER_LEFT, "n")
    world.beat("m", member_epoch=-1)
    assert (world.observed.members, world.observed.state) == ({}, StreamsGroupState.EMPTY)


def test_member_whose_session_ended_is_out_when_the_epoch_grows_or_when_it_is_refused() -> None:
    world = World()
    world.settled()
    for _ in range(10):
        world.advance(5_000)
        world.beat("n")
    out = [each for each in world.events if isinstance(each, ConsumerMemberOut)]
    assert [(each.member_id, each.cause.kind) for each in out] == [("m", CauseKind.SESSION_TIMEOUT)]
    assert out[0].silent_ms >= 45_000
    world.advance(50_000)
    assert world.beat("n").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not world.observed.members


def test_static_member_comes_back_under_another_id_and_has_its_tasks() -> None:
    world = World()
    world.join("m", instance_id="i")
    world.advance(DELAY_MS)
    world.beat()
    owned = world.observed.members["m"].assigned.tasks
    world.beat(member_epoch=-2, instance_id="i")
    assert world.observed.members["m"].epoch == -2
    epochs = world.causes()
    del world.epochs["m"]
    world.join("n", instance_id="i")
    assert world.observed.static_members == {"i": "n"}
    assert world.observed.members["n"].assigned.tasks == owned
    assert world.causes() == epochs, "nothing moves"


def test_group_that_was_there_before_is_looked_up_and_is_as_it_is_described() -> None:
    world = World()
    world.settled()
    world.start()
    world.asked.clear()
    world.epochs.pop("m")
    world.gateway.groups.streams.heartbeat_answered(
        api.command_of(
            StreamsGroupHeartbeatRequest(group_id="g", member_id="n", member_epoch=world.epochs["n"]),
            1,
            OriginElsewhere("192.0.2.1", ""),
            "tester",
        ),
        api.result_of(StreamsGroupHeartbeatResponse(member_id="n", member_epoch=world.epochs["n"])),
        world.desk.clock.now_ms(),
    )
    assert world.asked == [None]
    world.gateway.groups.streams.described(described_streams_group(describe(world.desk)), world.desk.clock.now_ms())
    assert (world.observed.epoch, shown(world.observed)) == (world.served.epoch, shown(world.served))
    assert world.observed.state is StreamsGroupState.STABLE
    world.epochs["m"] = world.served.members["m"].epoch
    world.beat("m")
    assert not [each for each in world.causes() if each[1] is CauseKind.MEMBER_CHANGED]


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_group_of_another_kind_takes_the_place_of_a_streams_group_whose_end_was_not_seen(kind: str) -> None:
    world = World()
    world.settled()
    groups, now_ms = world.gateway.groups, world.desk.clock.now_ms()
    if kind == "consumer":
        joining = ConsumerHeartbeat("g", "c", 0, subscribed_topic_names=("t",), owned=NOTHING)
        result = ConsumerHeartbeatResult(ErrorCode.NONE, member_id="c", member_epoch=1, assignment=NOTHING)
        groups.epoch_heartbeat_answered(joining, result, now_ms)
    else:
        command = Join("g", "c", None, "", "", 6_000, 6_000, "consumer", (("range", b""),), "", "")
        groups.joins.answered(command, JoinResult(ErrorCode.NONE, "c", 1, "consumer", "range", "c"), now_ms)
    assert groups.streams.group("g") is None
    assert groups.shard.groups["g"].members.keys() == {"c"}
    if kind == "classic":
        assert isinstance(groups.shard.groups["g"], ClassicGroup)
    world.epochs.clear()
    world.join("m")
    assert world.observed.members.keys() == {"m"}
