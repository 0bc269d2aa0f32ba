"""Fold one event into a classic group. Nothing else may change a group or a member.

The same function serves a live coordinator and the replay of its log: a `GroupStored` that matches the members we
know stores their assignments, and one that does not replaces them.
"""

from __future__ import annotations

from kohort.group.classic.group import PREDECESSORS, ClassicGroup, Member, Phase
from kohort.group.commands import Protocols
from kohort.group.events import (
    AssignmentFailed,
    GatheringFailed,
    GenerationFormed,
    GroupLoaded,
    GroupStored,
    GroupUnloaded,
    InitialDelayExtended,
    MemberAdded,
    MemberIdIssued,
    MemberRecognized,
    MemberRejoined,
    MemberRemoved,
    PendingMemberDropped,
    RebalanceAvoided,
    RevocationsAwaited,
    RoundOpened,
    SoftEvent,
    StaticMemberReplaced,
    StoredMember,
    SyncReceived,
    SyncsReleased,
)


def apply(group: ClassicGroup, event: SoftEvent | GroupStored) -> None:
    """Change `group` by what happened. Raises AssertionError when the event cannot follow on the group's state."""
    match event:
        case SyncReceived(member_id=member_id, awaits_sync=awaits_sync):
            group.pending_sync.discard(member_id)
            if awaits_sync:
                group.awaiting_sync.add(member_id)
        case MemberRejoined(member_id=member_id):
            member = group.members[member_id]
            _replace_protocols(group, member, event.request.protocols)
            member.is_restored = False
            member.session_timeout_ms = event.request.session_timeout_ms
            member.rebalance_timeout_ms = event.request.rebalance_timeout_ms
            member.joins_again_ms = event.cause.at_ms + event.request.pause_ms
            group.awaiting_join.add(member_id)
        case MemberAdded():
            _add(group, event)
        case StaticMemberReplaced():
            _replace_static(group, event)
        case MemberRemoved(member_id=member_id):
            _remove(group, member_id)
        case MemberIdIssued(member_id=member_id):
            group.pending.add(member_id)
        case PendingMemberDropped(member_id=member_id):
            group.pending.discard(member_id)
        case RoundOpened():
            _open_round(group, event)
        case InitialDelayExtended(delay_ms=delay_ms, remaining_ms=remaining_ms):
            group.has_newcomers = False
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = remaining_ms
        case GenerationFormed():
            _form_generation(group, event)
        case GroupStored():
            _store(group, event)
        case MemberRecognized(member_id=member_id):
            member = group.members[member_id]
            _replace_protocols(group, member, event.protocols)
            member.is_restored = False
        case RebalanceAvoided():
            group.rebalances_avoided += 1
        case AssignmentFailed(leader=leader, message=message):
            group.sync_failure = message
            group.failed_leaders = [*(one for one in group.failed_leaders if one != leader), leader]
        case RevocationsAwaited():
            group.revoking = set(event.revoking)
            group.is_withholding, group.is_revoking_later = event.is_holding, event.is_delayed
            group.awaiting_sync = set(event.held)
        case SyncsReleased():
            group.is_withholding, group.is_revoking_later = event.is_holding, False
            group.awaiting_sync.difference_update(event.released)
        case GatheringFailed():
            _fail_gathering(group)
        case GroupLoaded():
            if group.phase is Phase.STABLE:
                # Who has asked for its assignment already, only the process knew that is gone.
                group.pending_sync.clear()
        case GroupUnloaded():
            _enter(group, Phase.DEAD, event.cause.at_ms)
            group.awaiting_join.clear()
            _end_syncs(group)


def _enter(group: ClassicGroup, phase: Phase, now_ms: int) -> None:
    assert group.phase in PREDECESSORS[phase], f"{group.group_id}: {group.phase} never becomes {phase}"
    group.phase = phase
    group.state_timestamp_ms = now_ms


def _add(group: ClassicGroup, event: MemberAdded) -> None:
    assert event.member_id not in group.members, "a member enters its group once"
    if not group.members:
        group.protocol_type = event.request.protocol_type
        group.leader = event.member_id
    group.pending.discard(event.member_id)
    member = Member(group.group_id, event.member_id, event.request, event.request.protocols, is_new=True)
    member.joins_again_ms = event.cause.at_ms + event.request.pause_ms
    _enroll(group, member)
    group.awaiting_join.add(event.member_id)
    group.has_newcomers = group.is_gathering and group.is_initial


def _enroll(group: ClassicGroup, member: Member) -> None:
    group.members[member.member_id] = member
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
    _count_protocols(group, member.protocols, +1)


def _replace_static(group: ClassicGroup, event: StaticMemberReplaced) -> None:
    old = group.members[event.old_member_id]
    assert old.instance_id == event.instance_id, "an instance has one member id"
    was_leader = group.leader == event.old_member_id
    _remove(group, event.old_member_id)
    _enroll(group, Member(group.group_id, event.member_id, event.request, event.request.protocols, old.assignment))
    if was_leader:
        group.leader = event.member_id
    if event.awaits_join:
        group.awaiting_join.add(event.member_id)


def _remove(group: ClassicGroup, member_id: str) -> None:
    member = group.members.pop(member_id)
    if member.instance_id is not None and group.static_members.get(member.instance_id) == member_id:
        del group.static_members[member.instance_id]
    _count_protocols(group, member.protocols, -1)
    group.awaiting_join.discard(member_id)
    group.awaiting_sync.discard(member_id)
    group.pending_sync.discard(member_id)
    group.revoking.discard(member_id)
    if member_id in group.failed_leaders:
        group.failed_leaders.remove(member_id)
    if group.leader == member_id:
        # The next one is elected when its generation forms: until then no member leads.
        group.leader = None


def _replace_protocols(group: ClassicGroup, member: Member, protocols: Protocols) -> None:
    if member.protocols != protocols:
        _count_protocols(group, member.protocols, -1)
        _count_protocols(group, protocols, +1)
        member.protocols = protocols


def _count_protocols(group: ClassicGroup, protocols: Protocols, change: int) -> None:
    supported = group.supported
    for name in {name for name, _ in protocols}:
        count = supported.get(name, 0) + change
        if count:
            supported[name] = count
        else:
            supported.pop(name, None)


def _open_round(group: ClassicGroup, event: RoundOpened) -> None:
    _enter(group, Phase.PREPARING_REBALANCE, event.cause.at_ms)
    _end_syncs(group)
    group.pending_sync.clear()
    group.is_initial = event.is_initial
    group.has_newcomers = False
    group.initial_delay_ms = event.initial_delay_ms
    group.initial_remaining_ms = event.initial_remaining_ms
    group.round_cause = event.cause


def _form_generation(group: ClassicGroup, event: GenerationFormed) -> None:
    assert event.generation == group.generation + 1, "generations are dense"
    assert event.leader in group.members, "the leader is a member"
    _enter(group, Phase.COMPLETING_REBALANCE, event.cause.at_ms)
    group.generation = event.generation
    group.protocol_name = event.protocol_name
    group.leader = event.leader
    group.awaiting_join.clear()
    group.is_initial = False
    group.has_newcomers = False
    group.sync_failure = None
    group.pending_sync = set(group.members)
    for member in group.members.values():
        member.is_new = False


def _fail_gathering(group: ClassicGroup) -> None:
    group.awaiting_join.clear()
    group.is_initial = False
    group.has_newcomers = False
    for member in group.members.values():
        # Its id was in the answer, so from now on it must send heartbeats like any other.
        member.is_new = False


def _end_syncs(group: ClassicGroup) -> None:
    group.awaiting_sync.clear()
    group.revoking.clear()
    group.is_withholding = group.is_revoking_later = False


def _store(group: ClassicGroup, event: GroupStored) -> None:
    if group.phase is not Phase.STABLE or group.generation != event.generation:
        # Else it is a static member's new id, and waiting members still wait.
        _end_syncs(group)
    group.is_stored = True
    group.protocol_type = event.protocol_type
    group.generation = event.generation
    group.protocol_name = event.protocol_name
    if not event.is_synced:
        group.phase = Phase.COMPLETING_REBALANCE
        group.pending_sync = {stored.member_id for stored in event.members}
    else:
        group.phase = Phase.STABLE if event.members else Phase.EMPTY
        group.failed_leaders.clear()
        group.sync_failure = None
    group.state_timestamp_ms = event.state_timestamp_ms
    group.awaiting_join.clear()
    group.is_initial = False
    stored_ids = {stored.member_id for stored in event.members}
    for member_id in [member_id for member_id in group.members if member_id not in stored_ids]:
        _remove(group, member_id)
    for stored in event.members:
        _store_member(group, stored)
    group.leader = event.leader


def _store_member(group: ClassicGroup, stored: StoredMember) -> None:
    member = group.members.get(stored.member_id)
    protocol_name = group.protocol_name or ""
    if member is None:
        protocols = ((protocol_name, stored.subscription),)
        member = Member(group.group_id, stored.member_id, stored, protocols, is_restored=True)
        _enroll(group, member)
    elif member.metadata(protocol_name) != stored.subscription:
        _replace_protocols(group, member, ((protocol_name, stored.subscription),))
        member.is_restored = True
    member.session_timeout_ms = stored.session_timeout_ms
    member.rebalance_timeout_ms = stored.rebalance_timeout_ms
    member.assignment = stored.assignment
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
