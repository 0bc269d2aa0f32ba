"""What exactly each listed difference about classic groups permits."""

from __future__ import annotations

from collections import Counter

from tests.lockstep.cases import Case, is_answer, is_joined, same_but

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Join, Leave
from kohort.group.effects import parked_join, parked_sync
from kohort.model.errors import ErrorCode


def is_unsynced(case: Case) -> bool:
    theirs, ours = case.fields()
    return (
        case.what == "Group"
        and bool(ours)
        and not ours["is_synced"]
        and (not theirs or theirs["generation"] < ours["generation"])
    )


def is_superseded(case: Case) -> bool:
    if not is_answer(case, "join", "sync") or case.theirs is not None:
        return False
    member_id = case.ours[1] if case.what == "join" else case.command.member_id
    place = (parked_join if case.what == "join" else parked_sync)(case.group_id, member_id)
    return case.ours[0] == ErrorCode.REBALANCE_IN_PROGRESS and place in case.pair.ours.parked


def is_later_stamp(case: Case) -> bool:
    _, ours = case.fields()
    return case.what == "Group" and same_but(case, "state_timestamp_ms") and bool(ours["members"])


def is_tied_vote(case: Case) -> bool:
    command = case.pair.command
    if isinstance(command, Join) and not command.member_id and command.instance_id in case.before.static:
        # Who comes back asks for a round if the vote would go another way with its offer.
        most = Counter(_choices(case.group)).most_common(2) if isinstance(case.group, ClassicGroup) else []
        if case.before.phase == Phase.STABLE and len(most) == 2 and most[0][1] == most[1][1]:
            return True
    if not is_answer(case, "join") or not is_joined(case.theirs) or not is_joined(case.ours):
        return False
    votes = Counter(_choices(case.group))
    theirs, ours = case.theirs[4], case.ours[4]
    return theirs != ours and votes[theirs] == votes[ours] == max(votes.values()) and ours < theirs


def _choices(group: ClassicGroup) -> list[str]:
    offers = [[name for name, _ in member.protocols] for member in group.members.values()]
    offered_by_all = {name for name in offers[0] if all(name in offer for offer in offers)}
    return [next(name for name in offer if name in offered_by_all) for offer in offers]


def is_same_but_for_generation(case: Case) -> bool:
    if not is_answer(case, "join") or case.before.phase != Phase.COMPLETING_REBALANCE:
        return False
    if not is_joined(case.ours) or (case.theirs is not None and case.theirs[2] != case.ours[2] + 1):
        return False
    known, offered = case.before.protocols.get(case.command.member_id), case.command.protocols
    read = case.pair.ours.settings.offer_of
    return (
        known is not None
        and known != offered
        and [(name, read(metadata)) for name, metadata in known]
        == [(name, read(metadata)) for name, metadata in offered]
    )


def is_other_heir(case: Case) -> bool:
    if not is_answer(case, "join") or not is_joined(case.theirs) or not is_joined(case.ours):
        return False
    theirs, ours = case.theirs[5], case.ours[5]
    return case.before.leader is None and theirs != ours and {theirs, ours} <= case.group.members.keys()


def is_restored(case: Case) -> bool:
    return (
        is_answer(case, "join")
        and case.before.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE)
        and case.command.member_id in case.before.restored
        and is_joined(case.ours)
        and (case.theirs is None or case.theirs[2] == case.ours[2] + 1)
    )


def is_sign_of_life(case: Case) -> bool:
    return (
        case.kind == "timer"
        and case.what == "heartbeat"
        and isinstance(case.command, Join)
        and case.command.member_id == case.member_id
        and case.ours is not None
        and (case.theirs is None or case.theirs < case.ours)
    )


def is_unused_id_leaving(case: Case) -> bool:
    return (
        isinstance(case.command, Leave)
        and case.before.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE)
        and any(leaving.member_id in case.before.pending for leaving in case.command.members)
        and case.group.phase == case.before.phase
    )


def is_stale_newcomer(case: Case) -> bool:
    return (
        case.command is None
        and case.before.is_initial
        and not case.before.has_newcomers
        and case.pair.theirs.timers.get(f"join-{case.group_id}", 0) > case.pair.now_ms
    )


def is_unknown_offer(case: Case) -> bool:
    return (
        is_answer(case, "join")
        and case.theirs is not None
        and case.theirs[0] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        and (case.ours is None or case.ours[0] in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        and bool(case.before.restored)
    )


def is_forgotten_sync(case: Case) -> bool:
    member_id = getattr(case.command, "member_id", None)
    return (
        is_answer(case, "sync")
        and case.theirs is None
        and case.ours == (ErrorCode.UNKNOWN_MEMBER_ID,)
        and member_id not in getattr(case.group, "members", ())
    )


def is_unstored_group(case: Case) -> bool:
    _, ours = case.fields()
    return (is_answer(case, "delete-group") and (case.theirs, case.ours) == ((0,), (69,))) or (
        case.kind == "record"
        and case.what == "Group"
        and case.theirs is None
        and isinstance(case.command, Join)
        and ours["generation"] == 0
        and case.group_id not in case.pair.ours.shard.offsets
    )


def is_newcomers_address(case: Case) -> bool:
    if case.what != "Group" or not same_but(case, "state_timestamp_ms", "members"):
        return False
    theirs, ours = case.fields()
    pairs = list(zip(theirs["members"], ours["members"], strict=False))
    return len(theirs["members"]) == len(ours["members"]) and all(
        their == our
        or (
            our.instance_id is not None
            and their == our._replace(client_id=their.client_id, client_host=their.client_host)
        )
        for their, our in pairs
    )


def has_other_topics(case: Case) -> bool:
    command = case.pair.command
    if case.before.phase != Phase.STABLE or not isinstance(command, Join) or command.instance_id is None:
        return False
    old = case.before.static.get(command.instance_id)
    if command.member_id or old is None:
        return False
    read = case.pair.ours.settings.topics_of
    return case.group.phase is not Phase.STABLE and read(old[0][1]) != read(command.protocols[0][1])


def is_newcomers_session(case: Case) -> bool:
    command = case.pair.command
    return (
        case.kind == "timer"
        and case.what == "heartbeat"
        and isinstance(command, Join)
        and command.instance_id is not None
        and not command.member_id
        and case.member_id == command.new_member_id
        and command.instance_id in case.before.static
    )


def is_ghosts_sync(case: Case) -> bool:
    return (
        case.kind == "timer"
        and case.what == "sync"
        and case.ours is None
        and isinstance(case.group, ClassicGroup)
        and case.group.phase is Phase.STABLE
        and not case.group.pending_sync
    )


def is_shed(case: Case) -> bool:
    group = case.group
    if not isinstance(case.pair.command, Join):
        return False
    command = case.pair.command
    was_in = command.member_id in case.before.protocols or command.member_id in case.before.pending
    return (
        was_in
        and isinstance(group, ClassicGroup)
        and command.member_id not in {*group.members, *group.pending}
        and case.pair.ours.settings.max_size < 2**31 - 1
    )


def is_moot(case: Case) -> bool:
    if case.kind != "timer" or case.ours is not None:
        return False
    member = getattr(case.group, "members", {}).get(case.member_id)
    match case.what:
        case "heartbeat":
            is_pending = isinstance(case.group, ClassicGroup) and case.member_id in case.group.pending
            return not isinstance(case.group, ClassicGroup) or (member is None and not is_pending)
        case "session-timeout":
            return member is None or isinstance(case.group, ClassicGroup)
        case "rebalance-timeout":
            return member is None
        case _:
            return False


def is_reader_in_round(case: Case) -> bool:
    return is_answer(case, "delete-offsets") and case.before.phase == Phase.PREPARING_REBALANCE


def is_awaited_group(case: Case) -> bool:
    return (
        case.kind == "record"
        and case.what == "Group"
        and case.theirs is None
        and case.command == ("expire",)
        and bool(case.group.pending)
        and case.group.phase is Phase.EMPTY
    )


def is_refused_founder(case: Case) -> bool:
    theirs, _ = case.fields()
    return (
        case.kind == "record"
        and case.what == "Group"
        and case.ours is None
        and isinstance(case.command, Join)
        and not case.command.protocol_type
        and theirs["generation"] == 0
        and case.group is None
    )


def is_cut_short(case: Case) -> bool:
    """Kafka completes a first round as soon as a member leaves and all others have joined."""
    return (
        case.before.is_initial
        and isinstance(case.group, ClassicGroup)
        and case.group.is_initial
        and case.group.has_all_joined
        and case.theirs is not None
        and (case.kind == "record" or (is_answer(case, "join") and case.ours is None))
        and (case.command is None or isinstance(case.command, Leave | Join))
    )
