"""What must be true of a classic group between two commands, whatever happened before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.effects import Parked, parked_join, parked_sync
from kohort.group.timers import Timer, hold_timer, join_timer, session_timer, sync_timer


def broken(group: ClassicGroup) -> Iterator[str]:
    """Yield a sentence for each rule that the state of a group breaks."""
    yield from _broken_by_phase(group)
    members = set(group.members)
    for name in ("awaiting_join", "awaiting_sync", "pending_sync", "revoking", "failed_leaders"):
        if strangers := set(getattr(group, name)) - members:
            yield f"{sorted(strangers)} in {name} and no member"
    if both := members & group.pending:
        yield f"{sorted(both)} member and pending at once"
    if both := group.awaiting_join & group.awaiting_sync:
        yield f"{sorted(both)} waits in two places"
    if group.leader is not None and group.leader not in members:
        yield f"leader {group.leader} is no member"
    held = {member.instance_id: id_ for id_, member in group.members.items() if member.instance_id is not None}
    if held != group.static_members:
        yield f"instances {group.static_members} where the members say {held}"
    offered = Counter(name for member in group.members.values() for name in {name for name, _ in member.protocols})
    if dict(offered) != group.supported:
        yield f"protocol counts {group.supported} where the members offer {dict(offered)}"
    if members and len(members) not in offered.values():
        yield "no protocol is offered by every member"


def _broken_by_phase(group: ClassicGroup) -> Iterator[str]:
    phase = group.phase
    if phase is Phase.EMPTY and group.members:
        yield "Empty with members"
    if phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        if not group.members:
            yield f"{phase} without members"
        # A Stable group that nobody leads was a consumer group until now: a round is due (see migrate).
        if group.leader is None and phase is Phase.COMPLETING_REBALANCE:
            yield f"{phase} without a leader"
        if group.supported.get(group.protocol_name or "", 0) != len(group.members):
            yield f"{phase} with protocol {group.protocol_name}, which not every member offers"
    if phase is Phase.PREPARING_REBALANCE and not group.is_initial and group.members and group.is_complete:
        yield "gathering although everybody is here"
    if group.awaiting_join and phase is not Phase.PREPARING_REBALANCE:
        yield f"{phase} with joins waiting"
    if group.awaiting_sync and phase is not Phase.COMPLETING_REBALANCE and not group.is_holding:
        yield f"{phase} with syncs waiting and nobody to wait for"
    if phase is Phase.COMPLETING_REBALANCE and any(member.assignment for member in group.members.values()):
        yield "an assignment before the leader made one"
    if group.sync_failure is not None and phase is not Phase.PREPARING_REBALANCE:
        yield f"{phase} with a failure that is over"
    yield from _broken_by_revocations(group)


def _broken_by_revocations(group: ClassicGroup) -> Iterator[str]:
    if group.revoking and group.phase is not Phase.STABLE:
        yield f"{group.phase} with revocations outstanding"
    if group.is_holding and not group.revoking:
        yield "syncs held for nobody"
    if both := group.revoking & group.awaiting_sync:
        yield f"{sorted(both)} must revoke and cannot learn it"


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
    if group.is_holding:
        yield hold_timer(group.group_id, group.generation)
