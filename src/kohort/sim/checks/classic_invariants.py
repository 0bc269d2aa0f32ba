"""What must be true of a classic group between two commands, by invariant; `invariants.py` has their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.effects import Parked, parked_join, parked_sync
from kohort.group.group_timers import Timer, hold_timer, join_timer, session_timer, sync_timer


def misfits(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence for each thing that does not fit the phase that the group is in (PhaseFits)."""
    phase = group.phase
    members = group.members
    for name in ("awaiting_join", "awaiting_sync", "pending_sync", "revoking", "failed_leaders"):
        if unknown := set(getattr(group, name)) - members.keys():
            yield f"{sorted(unknown)} in {name} and no member"
    if both := members.keys() & group.pending:
        yield f"{sorted(both)} member and pending at once"
    if both := group.awaiting_join & group.awaiting_sync:
        yield f"{sorted(both)} waits in two places"
    if phase is Phase.EMPTY and members:
        yield "Empty with members"
    if phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        if not members:
            yield f"{phase} without members"
        if group.supported.get(group.protocol_name or "", 0) != len(members):
            yield f"{phase} with protocol {group.protocol_name}, which not every member offers"
    if phase is Phase.COMPLETING_REBALANCE and any(member.assignment for member in members.values()):
        yield "an assignment before the leader made one"
    if group.sync_failure is not None and phase is not Phase.PREPARING_REBALANCE:
        yield f"{phase} with a failure that is over"


def stalled(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence for each wait that nothing ends (EveryParkedReplyAnswered)."""
    phase = group.phase
    if phase is Phase.PREPARING_REBALANCE and not group.is_initial and group.members and group.has_all_joined:
        yield "gathering although every member has joined"
    if group.awaiting_join and phase is not Phase.PREPARING_REBALANCE:
        yield f"{phase} with joins waiting"
    if group.awaiting_sync and phase is not Phase.COMPLETING_REBALANCE and not group.is_withholding:
        yield f"{phase} with syncs waiting and no member to wait for"
    if group.is_withholding and not group.revoking:
        yield "syncs withheld from no member"
    if (both := group.revoking & group.awaiting_sync) and not group.is_revoking_later:
        yield f"{sorted(both)} must revoke and cannot learn it"


def unconverged(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence for what a group still has to do in a phase without that (StableMeansConverged)."""
    if group.revoking and group.phase is not Phase.STABLE:
        yield f"{group.phase} with revocations outstanding"


def leaderless(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence if no member can make the assignment that is awaited (LeaderNeverOrphaned)."""
    if group.leader is not None and group.leader not in group.members:
        yield f"leader {group.leader} is no member"
    # A Stable group that no member leads was a consumer group until now: a round is due (see migrate).
    if group.leader is None and group.phase is Phase.COMPLETING_REBALANCE:
        yield f"{group.phase} without a leader"


def shared_slots(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence if instances are not those of the members (StaticSlotUnique)."""
    instances = {member.instance_id: id_ for id_, member in group.members.items() if member.instance_id is not None}
    if instances != group.static_members:
        yield f"instances {group.static_members} where the members have {instances}"


def miscounts(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence for each count that a walk over the members does not confirm (CountsAgree)."""
    offered = Counter(name for member in group.members.values() for name in {name for name, _ in member.protocols})
    if dict(offered) != group.supported:
        yield f"protocol counts {group.supported} where the members offer {dict(offered)}"
    if group.members and len(group.members) not in offered.values():
        yield "no protocol is offered by every member"


def waiting(group: ClassicGroup) -> set[Parked]:
    """Return the requests of a group that must be parked: no more, no fewer."""
    return {
        *(parked_join(group.group_id, member_id) for member_id in group.awaiting_join),
        *(parked_sync(group.group_id, member_id) for member_id in group.awaiting_sync),
    }


def needed(group: ClassicGroup) -> Iterator[Timer]:
    """Yield the timers without which a group could wait for ever."""
    if group.phase is Phase.DEAD:
        return
    for member_id in group.pending:
        yield session_timer(group.group_id, member_id)
    for member_id, member in group.members.items():
        is_waiting = member_id in group.awaiting_join or member_id in group.awaiting_sync
        if member.is_new or not is_waiting:
            yield member.session
    if group.phase is Phase.PREPARING_REBALANCE:
        yield join_timer(group.group_id)
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE) and group.pending_sync:
        yield sync_timer(group.group_id, group.generation)
    if group.is_withholding:
        yield hold_timer(group.group_id, group.generation)
