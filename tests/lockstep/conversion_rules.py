"""What exactly each listed difference about classic members in consumer groups, and about conversions, permits."""

from __future__ import annotations

from tests.lockstep.cases import Case, is_answer, is_joined, same_but

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Join, Sync
from kohort.group.consumer.group import ConsumerGroup
from kohort.model.errors import ErrorCode


def is_phase(case: Case) -> bool:
    """The phases of classic members in a consumer group, and the bounds that go with them."""
    if case.kind == "timer":
        if not isinstance(case.group, ConsumerGroup):
            return False
        member = case.group.members.get(case.member_id)
        is_classic = member is None or member.classic is not None or case.ours is None
        is_left = case.what == "rebalance-timeout" and case.ours is None and member is not None
        return (case.what in ("join", "sync") or is_left) and is_classic
    return case.what == "Assignment" and same_but(case, "classic_phase")


def is_forgotten_group(case: Case) -> bool:
    return case.kind == "forgotten"


def is_own_session(case: Case) -> bool:
    """After a failover Kafka gives classic members the session of the group."""
    command = case.pair.command
    if case.kind != "timer" or case.what != "session-timeout" or not isinstance(command, tuple):
        return False
    member = getattr(case.group, "members", {}).get(case.member_id)
    return command[0] == "load" and member is not None and member.classic is not None


def is_last_native_turning(case: Case) -> bool:
    command = case.pair.command
    return (
        isinstance(command, Join)
        and command.instance_id is None
        and case.before.natives == 1
        and isinstance(case.group, ClassicGroup)
        and command.member_id in case.group.members
    )


def is_disturbed(case: Case) -> bool:
    command = case.pair.command
    return (
        isinstance(command, ConsumerHeartbeat)
        and command.member_epoch == 0
        and case.before.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
        and isinstance(case.group, ClassicGroup)
        and is_answer(case, "join", "sync")
        and case.ours is None
        and case.theirs[0] == ErrorCode.REBALANCE_IN_PROGRESS
    )


def is_joiner(case: Case) -> bool:
    return (
        case.kind == "record"
        and case.what == "Member"
        and isinstance(case.command, ConsumerHeartbeat)
        and (case.command.member_epoch == 0 or bool(case.group.regex_subscribers))
        and same_but(case, "subscribed_topic_names", "subscribed_topic_regex", "rack_id", "server_assignor")
    )


def is_from_the_past(case: Case) -> bool:
    command = case.pair.command
    if not isinstance(command, Join) or not isinstance(case.group, ConsumerGroup):
        return False
    subscription = case.pair.ours.settings.subscription_of(command.protocols[0][1])
    return (
        command.member_id not in case.group.members
        and subscription is not None
        and (bool(subscription.owned) or subscription.generation >= 0)
        and (not is_answer(case, "join") or case.ours[0] == ErrorCode.UNKNOWN_MEMBER_ID)
    )


def is_overtaken(case: Case) -> bool:
    """A classic member of a converted group has an epoch from before the conversion."""
    if case.kind == "timer":
        command = case.pair.command
        member = getattr(case.group, "members", {}).get(case.member_id)
        return (
            isinstance(command, Heartbeat | Sync)
            and case.what == "session-timeout"
            and command.member_id == case.member_id
            and member is not None
            and command.generation < member.epoch
        )
    if not is_answer(case, "heartbeat", "sync", "commit") or not case.ours:
        return False
    member = getattr(case.group, "members", {}).get(case.command.member_id)
    if member is None or case.theirs != (ErrorCode.ILLEGAL_GENERATION,):
        return False
    if isinstance(case.group, ClassicGroup):
        return bool(case.group.is_behind(member.member_id, case.command.generation))
    return member.classic is not None and case.command.generation < member.epoch


def is_other_protocol(case: Case) -> bool:
    if not is_answer(case, "sync") or not isinstance(case.group, ConsumerGroup) or not case.ours:
        return False
    member = case.group.members.get(case.command.member_id)
    return (
        case.theirs == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL,)
        and member is not None
        and member.classic is not None
        and case.command.protocol_name in dict(member.classic.protocols)
    )


def is_converting(case: Case) -> bool:
    """Whether ours has just made a consumer group of a classic group with members."""
    return (
        isinstance(case.pair.command, ConsumerHeartbeat)
        and case.before.phase in (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE, Phase.STABLE)
        and isinstance(case.group, ConsumerGroup)
    )


def is_failed_conversion(case: Case) -> bool:
    return is_converting(case) and case.before.protocol is None


def is_unfinished_conversion(case: Case) -> bool:
    return is_converting(case) and case.before.phase != Phase.STABLE and case.before.protocol is not None


def is_waiting_join(case: Case) -> bool:
    return (
        is_answer(case, "join")
        and isinstance(case.group, ConsumerGroup)
        and is_joined(case.theirs)
        and case.ours is None
        and case.theirs[1] in case.group.awaiting_join
    )


def is_downgraded(case: Case) -> bool:
    theirs, ours = case.fields()
    if case.what != "Group" or not same_but(
        case, "leader", "state_timestamp_ms", "members", "generation", "protocol_name"
    ):
        return False
    if ours["generation"] - theirs["generation"] not in (0, 1):
        return False
    bare = [
        [each._replace(assignment=b"", subscription=b"") for each in fields["members"]] for fields in (theirs, ours)
    ]
    is_turning = isinstance(case.pair.command, Join)  # of a static member: Kafka has a leader, which need not be ours
    return bare[0] == bare[1] and (is_turning or ours["leader"] is None)


def is_called(case: Case) -> bool:
    if not is_answer(case, "heartbeat", "sync") or not isinstance(case.group, ConsumerGroup) or not case.theirs:
        return False
    member = case.group.members.get(case.command.member_id)
    return (
        member is not None
        and member.classic is not None
        and {case.theirs[0], case.ours[0]} == {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
    )
