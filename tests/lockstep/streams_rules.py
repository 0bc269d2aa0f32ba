"""Every difference between Kafka 4.4's streams groups and ours that is meant, and what exactly each permits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.group.commands import LEAVE_STATIC_EPOCH
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import NO_TASKS, Task, TasksByRole

if TYPE_CHECKING:
    from tests.lockstep.streams_groups import Play


class Answer(NamedTuple):
    """What an answer to StreamsGroupHeartbeat shows, and nothing but its error if it has one."""

    error: int
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    tasks: TasksByRole | None = None
    statuses: tuple[tuple[int, str], ...] = ()
    acceptable_recovery_lag: int = -1
    task_offset_interval_ms: int = 0


class StreamsCase(NamedTuple):
    """One thing in which the sides differ: an `answer`, a `record` (its value after the step) or a `timer`."""

    kind: str
    theirs: Any
    ours: Any
    command: StreamsHeartbeat | None
    play: Play
    known_epoch: int = 0
    """Of the sender of a command, as our group had it before."""
    name: str = ""
    """Of a timer, as Kafka names it."""

    @property
    def owner(self) -> str:
        """The member whose timer it is."""
        return self.name.split("-g-", 1)[-1]

    def fields(self, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of two records of a type, empty where there is none; none at all of other types."""
        found = [each for each in (self.theirs, self.ours) if each is not None]
        if self.kind != "record" or any(each[0] != kind for each in found):
            return {}, {}
        return dict(self.theirs[1:] if self.theirs else ()), dict(self.ours[1:] if self.ours else ())

    def same_but(self, kind: str, *names: str) -> bool:
        """Whether two records of a type differ in these fields alone."""
        theirs, ours = self.fields(kind)
        return bool(theirs and ours) and all(theirs[name] == ours[name] for name in theirs if name not in names)

    def epochs(self, kind: str) -> list[int]:
        """Return the epoch in the group's record of a type on each side."""
        found = ((value for value in side.values() if value[0] == kind) for side in self.play.stored)
        return [next((dict(value[1:])["epoch"] for value in each), 1) for each in found]


@dataclass(frozen=True)
class StreamsDifference:
    """One row of the table."""

    name: str
    kafka: str
    ours: str
    reason: str
    request: str
    """What a client sends, and where it sees the difference."""
    rule: Callable[[StreamsCase], bool]
    ends: bool | Callable[[StreamsCase], bool] = False

    def is_end(self, case: StreamsCase) -> bool:
        """Whether the two sides go on in different states after a case."""
        return self.ends if isinstance(self.ends, bool) else self.ends(case)


_GROUP, _TARGET = "StreamsGroupStored", "StreamsTargetStored"
_MEMBER_TARGET, _ASSIGNMENT = "StreamsMemberTargetStored", "StreamsMemberAssignmentStored"


def _is_same_step(case: StreamsCase) -> bool:
    return case.same_but(_ASSIGNMENT, "previous_epoch")


def _is_departed(case: StreamsCase) -> bool:
    return case.kind == "timer" and case.ours is None and case.owner not in case.play.members


def _is_away(case: StreamsCase) -> bool:
    if case.kind == "timer":
        member = case.play.members.get(case.owner)
        is_of_revocation = case.name.startswith("rebalance-timeout") and case.ours is None
        return is_of_revocation and member is not None and member.epoch == LEAVE_STATIC_EPOCH
    is_same = case.same_but(_ASSIGNMENT, "previous_epoch", "state")
    return is_same and case.fields(_ASSIGNMENT)[0]["epoch"] == LEAVE_STATIC_EPOCH


def _is_empty_target(case: StreamsCase) -> bool:
    theirs, ours = case.fields(_MEMBER_TARGET)
    return bool(theirs or ours) and theirs.get("target", NO_TASKS) == ours.get("target", NO_TASKS) == NO_TASKS


def _is_overdue(case: StreamsCase) -> bool:
    if case.same_but(_TARGET, "timestamp_ms"):
        return True
    (their_group, our_group), (their_target, our_target) = case.epochs(_GROUP), case.epochs(_TARGET)
    is_behind = their_target < their_group and our_target == our_group
    return is_behind and any(any(case.fields(kind)) for kind in (_TARGET, _MEMBER_TARGET))


def _is_behind(case: StreamsCase) -> bool:
    command = case.command
    return command is not None and 0 < command.member_epoch < case.known_epoch and case.ours.error == ErrorCode.NONE


def _is_step_ahead(case: StreamsCase) -> bool:
    """Whether Kafka has not just left the tasks out of an answer that ours repeats."""
    return bool(case.theirs != case.ours._replace(tasks=None))


def _is_joined_again(case: StreamsCase) -> bool:
    command, group = case.command, case.play.members
    return (
        command is not None
        and command.member_epoch == 0
        and command.instance_id is not None
        and command.member_id in group
        and (case.theirs.error, case.ours.error) == (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.NONE)
    )


def _is_full(case: StreamsCase) -> bool:
    command = case.command
    return command is not None and command.is_full and case.theirs == case.ours._replace(tasks=None)


def _is_moved(case: StreamsCase) -> bool:
    """Whether a static member has come back in a process that has some of its tasks already."""
    command = case.command
    if command is None or command.member_epoch or command.instance_id is None or case.theirs.error:
        return False
    members = case.play.members.items()
    beside = {
        task
        for member_id, each in members
        if each.process_id == command.process_id and member_id != command.member_id
        for task in each.roles
    }
    left_out = _all(case.theirs.tasks) - _all(case.ours.tasks)
    return bool(left_out) and left_out <= beside


def _all(tasks: TasksByRole | None) -> set[Task]:
    return set().union(*tasks or NO_TASKS)


TOPICS = StreamsDifference(
    "changes of topics take effect at once",
    "Notices a change of topics in a member's next heartbeat.",
    "Bumps the epoch at once.",
    "No heartbeat is needed for it (decision 19).",
    "StreamsGroupDescribe after CreatePartitions, before a heartbeat of a member.",
    lambda _: False,
    ends=True,
)
GIVEN_BACK = StreamsDifference(
    "what a member has just given back is free for it",
    "Grants it in the next but one heartbeat (KAFKA-19449).",
    "Grants it at once.",
    "No other member has it.",
    "StreamsGroupHeartbeat that gives back a task which a newer target has for its sender again.",
    lambda _: False,
)
STREAMS: tuple[StreamsDifference, ...] = (
    StreamsDifference(
        "a step that changes nothing is no record",
        "Writes the assignment of a member that waits for tasks with each heartbeat, its previous epoch with it.",
        "Writes it when something changes.",
        "A member whose answer is lost still has the previous epoch (decision 18).",
        "None: the records of a member that waits for tasks.",
        _is_same_step,
    ),
    StreamsDifference(
        "an empty target is no record",
        "Writes the target of a member that is to own nothing.",
        "Writes none where there was none.",
        "No record and an empty one are read alike.",
        "None: the records of a member that is to own nothing.",
        _is_empty_target,
    ),
    StreamsDifference(
        "the record of a member that left temporarily",
        "Keeps its state, its previous epoch, and the timeout of its revocation.",
        "Writes that it is stable, and the epoch that it had: it has given everything back, so there is no timeout.",
        "It returns with epoch 0; until then only its session counts.",
        "None: the record of a static member that left with epoch -2.",
        _is_away,
    ),
    StreamsDifference(
        "timers of departed members",
        "Leaves the session timer of a static member that was replaced to fire for nothing.",
        "Disarms it.",
        "A departed member costs nothing.",
        "None: timers only.",
        _is_departed,
    ),
    StreamsDifference(
        "a target is computed when it is due",
        "Computes a target in the next heartbeat of a member.",
        "Computes it when the epoch is bumped.",
        "Members that must act are answered at once (decision 19).",
        "StreamsGroupDescribe after a member has left, before a heartbeat of another.",
        _is_overdue,
    ),
    StreamsDifference(
        "a member that missed an answer gets it again",
        "Fences a member with its previous epoch and no owned tasks, or with them in another role; or reconciles it.",
        "Sends its epoch and assignment again, as often as requested.",
        "A lost answer costs no task (decision 18).",
        "StreamsGroupHeartbeat with the epoch before the member's own and without tasks: 0 instead of 110.",
        _is_behind,
        ends=_is_step_ahead,
    ),
    StreamsDifference(
        "a static member may repeat its join",
        "Refuses with UNRELEASED_INSTANCE_ID, which ends the client, though it is the same member id (kafka#23542).",
        "Accepts it.",
        "Its answer may have been lost (decision 18).",
        "The same StreamsGroupHeartbeat with epoch 0 of a static member again: 0 instead of 111.",
        _is_joined_again,
        ends=True,
    ),
    StreamsDifference(
        "a member that sends everything is sent its tasks",
        "Sends no tasks with the answer to a heartbeat that changes none.",
        "Sends them.",
        "A client sends everything after an answer was lost, perhaps the one that had its tasks.",
        "StreamsGroupHeartbeat of a member with rebalance timeout and tasks: `ActiveTasks` in the answer.",
        _is_full,
    ),
    StreamsDifference(
        "a static member of another process takes what fits",
        "Grants it all that it had.",
        "Leaves out the tasks that its process has already.",
        "The threads of a process share a directory of state: they have each task once.",
        "StreamsGroupHeartbeat of a static member that comes back with the process id of others.",
        _is_moved,
        ends=True,
    ),
    GIVEN_BACK,
    TOPICS,
)
