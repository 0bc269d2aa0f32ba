"""Records of streams groups (KIP-1071): Kafka's types and fields, both ways, for every type and its tombstone."""

from __future__ import annotations

import pytest

from kohort.group.events import HardEvent
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetDeleted,
    StreamsMemberTargetStored,
    StreamsTargetDeleted,
    StreamsTargetStored,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
    UserEndpoint,
)
from kohort.group.streams.topology import CopartitionGroup, InternalTopic, StreamsTopology, Subtopology
from kohort.log.offsets_topic import Replay, encode_events, record_of
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import NONE_ASSIGNED, AssignedTasks, TasksByRole, tasks_of
from kohort.wire.codec import decode, encode
from kohort.wire.messages import StreamsGroupCurrentMemberAssignmentValue
from kohort.wire.record_batches import Record, encode_batch

LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)
NOW = 1_700_000_000_000
TASKS = tasks_of([("0", (0, 2)), ("1", (1,))])
ASSIGNED = AssignedTasks({("0", 0): 3, ("0", 2): 4}, tasks_of([("1", (1,))]), tasks_of([("1", (2,))]))
ASSIGNMENT = StreamsMemberAssignmentStored(
    "g", "m", 4, 3, StreamsMemberState.UNREVOKED_TASKS, ASSIGNED, AssignedTasks({("0", 1): 2}), LOADED
)
TOPOLOGY = StreamsTopology(
    5,
    (
        Subtopology(
            "0",
            ("a", "b"),
            ("c.*",),
            (InternalTopic("log", 0, 3, (("cleanup.policy", "compact"),)),),
            ("sink",),
            (InternalTopic("r", 7),),
            (CopartitionGroup((0, 1), (0,), (0,)),),
        ),
    ),
)
MEMBER = StreamsMemberStored("g", "m", None, None, "c", "/h", 300, 5, "p", None, (), LOADED)
STORED: list[tuple[int, HardEvent]] = [
    (17, StreamsGroupStored("g", 4, -7, 5, (("num.standby.replicas", "1"),), LOADED, 5, 2)),
    (
        19,
        StreamsMemberStored(
            "g", "m", "i", "r", "c", "/h", 300, 5, "p", UserEndpoint("h", 65_000), (("k", "v"),), LOADED
        ),
    ),
    (19, StreamsMemberStored("g", "m", None, None, "c", "/h", 300, 5, "p", None, (), LOADED)),
    (20, StreamsTargetStored("g", 4, NOW, LOADED)),
    (21, StreamsMemberTargetStored("g", "m", TasksByRole(TASKS, frozenset(), TASKS), LOADED)),
    (22, ASSIGNMENT),
    (23, StreamsTopologyStored("g", TOPOLOGY, LOADED)),
]
DELETED: list[tuple[int, HardEvent]] = [
    (17, StreamsGroupDeleted("g", LOADED)),
    (19, StreamsMemberDeleted("g", "m", LOADED)),
    (20, StreamsTargetDeleted("g", LOADED)),
    (21, StreamsMemberTargetDeleted("g", "m", LOADED)),
    (22, StreamsMemberAssignmentDeleted("g", "m", LOADED)),
    (23, StreamsTopologyDeleted("g", LOADED)),
]


@pytest.mark.parametrize(("kind", "event"), STORED + DELETED)
def test_every_record_is_read_as_it_was_written(kind: int, event: HardEvent) -> None:
    key, value = record_of(event)
    assert int.from_bytes(key[:2], "big") == kind
    assert (value is None) == ((kind, event) in DELETED)
    assert list(Replay().read(encode_events([event], NOW))) == [event]


@pytest.mark.parametrize(
    ("number", "epoch", "state"), [(9, 4, StreamsMemberState.UNKNOWN), (2, -2, StreamsMemberState.STABLE)]
)
def test_state_of_a_later_version_is_unknown_and_one_that_is_away_owes_nothing(
    number: int, epoch: int, state: StreamsMemberState
) -> None:
    key, value = record_of(ASSIGNMENT)
    assert value is not None
    written, _ = decode(StreamsGroupCurrentMemberAssignmentValue, 0, value, 2)
    written.state, written.member_epoch = number, epoch
    for tasks in written.active_tasks:
        tasks.assignment_epochs = None
    batch = encode_batch([Record(0, NOW, key, b"\x00\x00" + encode(written, 0))])
    (event,) = Replay().read(batch)
    assert isinstance(event, StreamsMemberAssignmentStored)
    assert (event.state, set(event.assigned.active.values())) == (state, {max(epoch, 0)})
    assert event.pending != NONE_ASSIGNED
