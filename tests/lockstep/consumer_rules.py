"""What exactly each listed difference about consumer groups permits."""

from __future__ import annotations

from tests.lockstep.cases import SYNCED, Case, is_answer, same_but

from kohort.group.commands import LEAVE_STATIC_EPOCH, ConsumerHeartbeat, Join
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.group_timers import target_timer
from kohort.log.consumer_records import GROUP, TARGET
from kohort.model.errors import ErrorCode


def is_empty_target(case: Case) -> bool:
    targets = [fields.get("target", ()) for fields in case.fields()]
    return case.what == "MemberTarget" and targets == [(), ()]


def is_overdue(case: Case) -> bool:
    """Kafka has yet to compute the target that ours has; after a failover with its log ours has to, for a moment."""
    if case.kind != "answer" and case.what not in ("Target", "MemberTarget"):
        return False
    if case.what == "Target" and same_but(case, "timestamp_ms"):
        return True
    epochs = [case.pair.stored(side, GROUP, case.group_id).get("epoch", 1) for side in (0, 1)]
    targets = [case.pair.stored(side, TARGET, case.group_id).get("epoch", 1) for side in (0, 1)]
    is_behind = [target < max(epochs) for target in targets]
    if is_after_target(case):
        return True
    if case.kind == "answer":
        # What SyncGroup grants is what the newest target leaves of what the member has.
        is_granted = case.what == "sync" and isinstance(case.group, ConsumerGroup)
        return is_granted and len(case.theirs or ()) == len(case.ours or ()) == SYNCED and is_behind == [True, False]
    is_late = isinstance(case.group, ConsumerGroup) and (
        not case.group.members or target_timer(case.group_id) in case.pair.ours.timers
    )
    return is_behind == [True, False] or (is_behind[1] and is_late)


def is_after_target(case: Case) -> bool:
    """Whether Kafka's target knows the sender's expression, which bumped no epoch, and ours of that epoch does not."""
    command = case.pair.command
    if case.what != "MemberTarget" or not isinstance(command, ConsumerHeartbeat):
        return False
    epochs = [case.pair.stored(side, TARGET, case.group_id).get("epoch") for side in (0, 1)]
    return bool(command.subscribed_topic_regex) and epochs[0] == epochs[1]


def is_same_step(case: Case) -> bool:
    if case.what != "Assignment" or not same_but(case, "previous_epoch", "classic_phase", "assigned"):
        return False
    theirs, ours = case.fields()
    if ids_of(theirs["assigned"]) != ids_of(ours["assigned"]):
        return False
    if isinstance(case.group, ConsumerGroup) and case.group.regexes:
        return True
    if theirs["assigned"] != ours["assigned"]:
        return False
    if case.pair.is_swapped and ours["previous_epoch"] == ours["epoch"] > theirs["previous_epoch"]:
        return True
    return bool(theirs["previous_epoch"] == theirs["epoch"] > ours["previous_epoch"])


def is_assignor_changed(case: Case) -> bool:
    theirs, ours = case.fields()
    return (
        case.kind == "record"
        and case.what == "ConsumerGroup"
        and isinstance(case.command, ConsumerHeartbeat)
        and case.command.server_assignor is not None
        and ours.get("epoch") == theirs.get("epoch", 1) + 1
    )


def is_tied_assignor(case: Case) -> bool:
    group = case.group
    if case.kind != "record" or not isinstance(group, ConsumerGroup):
        return False
    # Kafka 4.4 takes the epoch on when the one that it takes is another.
    is_epoch = case.what in ("ConsumerGroup", "Target") and same_but(case, "epoch")
    if case.what not in ("MemberTarget", "Assignment") and not is_epoch:
        return False
    counts = [group.assignors.get(name, 0) for name in case.pair.ours.settings.assignors]
    return max(counts) > 0 and counts.count(max(counts)) > 1


def is_away(case: Case) -> bool:
    if case.kind == "timer" and case.what == "rebalance-timeout" and case.ours is None:
        member = getattr(case.group, "members", {}).get(case.member_id)
        return member is not None and member.epoch == LEAVE_STATIC_EPOCH
    if case.what != "Assignment" or not same_but(case, "previous_epoch", "state"):
        return False
    return bool(case.fields()[0]["epoch"] == LEAVE_STATIC_EPOCH)


def is_patient(case: Case) -> bool:
    """Ours repeats a missed response, where Kafka fences the member."""
    command = case.command
    if not isinstance(command, ConsumerHeartbeat) or not isinstance(case.group, ConsumerGroup):
        return False
    member = case.group.members.get(command.member_id)
    is_behind = member is not None and 0 < command.member_epoch < member.epoch
    if case.kind == "timer":
        return is_behind and case.what == "session-timeout" and case.member_id == command.member_id
    if case.kind == "record":
        return is_behind
    return is_answer(case, "consumer") and is_behind and case.ours[0] == ErrorCode.NONE


def is_seen_at_once(case: Case) -> bool:
    theirs, ours = case.fields()
    if case.what == "Regex" and same_but(case, "timestamp_ms"):
        return bool(ours["timestamp_ms"] < theirs["timestamp_ms"])
    command = case.pair.command
    is_topics = isinstance(command, tuple) and command[0] == "topics"
    is_awaited = is_topics or case.group_id in case.pair.nudged
    return (
        is_awaited
        and case.kind == "record"
        and case.what == "ConsumerGroup"
        and theirs.get("epoch", 1) + 1 == ours["epoch"]
    )


def is_evicted_from_full(case: Case) -> bool:
    return (
        is_answer(case, "consumer")
        and case.command.member_epoch > 0
        and (case.theirs, case.ours) == ((ErrorCode.GROUP_MAX_SIZE_REACHED,), (ErrorCode.UNKNOWN_MEMBER_ID,))
    )


def is_known_instance(case: Case) -> bool:
    command = case.pair.command
    return (
        case.kind == "answer"
        and isinstance(command, ConsumerHeartbeat | Join)
        and command.instance_id is not None
        and case.theirs is not None
        and case.theirs[0] == ErrorCode.GROUP_MAX_SIZE_REACHED
        and case.ours is not None
        and case.ours[0] != ErrorCode.GROUP_MAX_SIZE_REACHED
    )


def is_left_again(case: Case) -> bool:
    return (
        is_answer(case, "consumer")
        and case.command.member_epoch < 0
        and case.theirs == (ErrorCode.UNKNOWN_MEMBER_ID,)
        and case.ours[0] == ErrorCode.NONE
        and case.command.member_id not in getattr(case.group, "members", ())
    )


def is_joined_again(case: Case) -> bool:
    return (
        is_answer(case, "consumer")
        and case.command.member_epoch == 0
        and case.theirs == (ErrorCode.UNRELEASED_INSTANCE_ID,)
        and case.ours[0] == ErrorCode.NONE
        and case.group.static_members.get(case.command.instance_id) == case.command.member_id
    )
