"""The round of a classic group: opening it, gathering its members, forming the generation.

Opened by `OpenRound`, whose membership changes have been applied already; looked at again by `CheckJoin` whenever
a member joins or goes; ended by `FormGeneration`, early or when a timer fires. A generation is stored before any
member learns of it, so that none is ever announced twice with other members; if it cannot be, every waiting member is
answered with the error.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.classic.exit import remove
from kohort.group.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    COOPERATIVE,
    ClassicGroup,
    Phase,
    joined,
    stored,
    stored_member,
    vote,
)
from kohort.group.classic.sync_group import answer_syncs
from kohort.group.commands import CheckJoin, FormGeneration, OpenRound
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Announce, Append, Arm, Disarm, Effects, Note, Reply, Then, parked_join
from kohort.group.events import GatheringFailed, GenerationFormed, InitialDelayExtended, RoundOpened
from kohort.group.group_timers import hold_timer, join_timer, quiet_timer, sync_timer
from kohort.group.results import JoinResult
from kohort.model.cause import Cause, CauseKind, first_few
from kohort.model.errors import ErrorCode

SPREAD_PARTS = 4
"""A first round is quiet when no join came for one part in so many of the time over which they came."""

ANNOUNCED_BY = 2
"""Members learn of a round within one part in so many of its rebalance timeout; the rest is theirs to join again."""

READS_ALL = 2
"""The version of embedded metadata from which on a leader reads all that matters to an assignment."""

RETRY_EMPTY_MS = 1_000
"""When to try again to store that a group is empty, after its record could not be appended."""


def open_round(group: ClassicGroup, command: OpenRound, now_ms: int, settings: GroupSettings) -> Effects:
    """Start gathering: waiting syncs are sent back to join, and the round waits for its delay or its members."""
    if group.phase is Phase.PREPARING_REBALANCE:
        yield Then(CheckJoin(group.group_id))
        return
    yield from answer_syncs(group, command.sync_error, now_ms, command.sync_message)
    if group.phase is not Phase.EMPTY:
        yield Disarm(sync_timer(group.group_id, group.generation))
    if group.is_withholding:
        yield Disarm(hold_timer(group.group_id, group.generation))
    longest_ms = group.max_rebalance_timeout_ms()
    is_initial = group.phase is Phase.EMPTY
    delay_ms = settings.initial_rebalance_delay_ms if is_initial else 0
    yield Note(
        RoundOpened(
            group_id=group.group_id,
            generation=group.generation,
            is_initial=is_initial,
            initial_delay_ms=delay_ms,
            initial_remaining_ms=max(longest_ms - delay_ms, 0) if is_initial else 0,
            cause=command.cause,
        )
    )
    if is_initial:
        yield Arm(join_timer(group.group_id), now_ms + delay_ms)
        yield from _await_quiet(group, now_ms, settings)
    elif group.has_all_joined:
        yield Then(FormGeneration(group.group_id, Cause(CauseKind.ALL_MEMBERS_JOINED, now_ms)))
    else:
        yield Arm(join_timer(group.group_id), now_ms + longest_ms)
        yield from _announce(group, now_ms + longest_ms // ANNOUNCED_BY, settings)


def _announce(group: ClassicGroup, latest_ms: int, settings: GroupSettings) -> Effects:
    """Have members that stop reading when they learn of the round learn of it together. Walks all members.

    Only in a Stable group does a member read; one that waits for its assignment is sent back to join at once.
    """
    if group.phase is not Phase.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return
    coming = group.awaiting_join | group.awaiting_sync | group.pending_sync
    awaited = sorted(group.members.keys() - coming)
    stopping = frozenset(each for each in awaited if not _is_cooperative(group, each, settings))
    if stopping:
        yield Announce(group.group_id, tuple(awaited), stopping, latest_ms)


def _is_cooperative(group: ClassicGroup, member_id: str, settings: GroupSettings) -> bool:
    """Whether a member retains its partitions when it joins again (KIP-429), as far as the wire shows.

    As clients do, it is eager as soon as one of its assignors is; an assignor of a user's own shows by the partitions
    that its members claim, which is from their second round on.
    """
    member = group.members[member_id]
    if all(name in COOPERATIVE for name, _ in member.protocols):
        return True
    return bool(settings.owned_of(member.metadata(group.protocol_name)))


def check_join(group: ClassicGroup, _command: CheckJoin, now_ms: int, settings: GroupSettings) -> Effects:
    """Form the generation if no member is awaited any more. A first round runs its delay, or until joins stop."""
    if not group.is_gathering:
        return
    if group.is_initial:
        yield from _await_quiet(group, now_ms, settings)
    elif group.has_all_joined:
        yield Then(FormGeneration(group.group_id, Cause(CauseKind.ALL_MEMBERS_JOINED, now_ms)))


def _await_quiet(group: ClassicGroup, now_ms: int, settings: GroupSettings) -> Effects:
    if settings.initial_quiet_ms >= 0:
        # Where joins come slowly, the machine is busy: stragglers would wait for every member's next heartbeat.
        spread_ms = now_ms - group.state_timestamp_ms if group.is_gathering else 0
        quiet_ms = max(settings.initial_quiet_ms, spread_ms // SPREAD_PARTS)
        yield Arm(quiet_timer(group.group_id), now_ms + quiet_ms)


def end_initial_delay(group: ClassicGroup, now_ms: int) -> Effects:
    """The quiet timer fired: no join came for a while, so a first round need not run its full delay.

    An issued id that is still outstanding is a member on its way; its join, or its end, starts the quiet anew.
    """
    if group.is_gathering and group.is_initial and group.has_all_joined:
        yield Then(FormGeneration(group.group_id, Cause(CauseKind.JOINS_STOPPED, now_ms)))


def end_gathering(group: ClassicGroup, now_ms: int) -> Effects:
    """The join timer fired: extend the delay of a first round that still grows, else continue without the missing."""
    if not group.is_gathering:
        return
    delay_ms = min(group.initial_delay_ms, group.initial_remaining_ms)
    if group.is_initial and group.has_newcomers and delay_ms:
        remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        cause = Cause(CauseKind.MEMBER_JOINED, now_ms, detail=f"{len(group.members)} members so far")
        yield Note(InitialDelayExtended(group.group_id, delay_ms, remaining_ms, cause))
        yield Arm(join_timer(group.group_id), now_ms + delay_ms)
        return
    missing = sorted(member_id for member_id in group.members if member_id not in group.awaiting_join)
    if group.is_initial:
        cause = Cause(CauseKind.INITIAL_DELAY_OVER, now_ms)
    else:
        cause = Cause(CauseKind.REBALANCE_TIMEOUT, now_ms, detail=_named("did not rejoin", missing))
    for member_id in missing:
        member = group.members[member_id]
        if member.instance_id is None:
            yield from remove(group, member_id, _missed(group, member_id, now_ms))
    yield Then(FormGeneration(group.group_id, cause))


def form_generation(group: ClassicGroup, command: FormGeneration, now_ms: int, settings: GroupSettings) -> Effects:
    """Make those who are here the next generation and answer their joins; with none left, store the empty group."""
    if not group.is_gathering:
        return
    leader = _elect(group, settings)
    if leader is not None:
        yield from _start_generation(group, leader, command.cause, now_ms)
    elif group.members:
        # Only static members remain and none came back: no member could lead. Sessions or syncs will show who is alive.
        yield Arm(join_timer(group.group_id), now_ms + group.max_rebalance_timeout_ms())
    else:
        yield Disarm(join_timer(group.group_id))
        yield Disarm(quiet_timer(group.group_id))
        empty = stored(group, (), now_ms, command.cause)
        yield Append(replace(empty, generation=group.generation + 1, protocol_name=None, leader=None))


def _elect(group: ClassicGroup, settings: GroupSettings) -> str | None:
    """Return who leads the next generation: the leader if it is here, unless it could not assign, else the first.

    If all who are here have failed since the last assignment, it is the turn of the one that failed longest ago. Those
    who cannot read what others own lead only where no member here can.
    """
    able = _able_to_lead(group, settings)
    if group.leader in able and group.leader not in group.failed_leaders:
        return group.leader
    failed = [member_id for member_id in group.failed_leaders if member_id in able]
    return min(able.difference(failed), default=next(iter(failed), None))


def _able_to_lead(group: ClassicGroup, settings: GroupSettings) -> set[str]:
    """Return those of the members that are here who read most of what the others report to own (KIP-429).

    A leader reads subscriptions as it writes them: version 0 has no owned partitions, version 1 not the generation in
    which they were owned (KIP-792); to assign, 2 and 3 are alike. A leader that does not see them assigns partitions
    that others still own. Where no member owns any, as in an eager group, every member may lead.
    """
    here = set(group.awaiting_join)
    if not settings.elects_by_version or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return here
    name = vote(group)
    knowledge = {each: min(settings.version_of(group.members[each].metadata(name)), READS_ALL) for each in here}
    most = max(knowledge.values(), default=0)
    if min(knowledge.values(), default=0) == most:
        return here
    if not any(settings.owned_of(member.metadata(name)) for member in group.members.values()):
        return here
    return {member_id for member_id in here if knowledge[member_id] == most}


def _start_generation(group: ClassicGroup, leader: str, cause: Cause, now_ms: int) -> Effects:
    protocol_name = vote(group)
    assert protocol_name is not None, "a member is admitted only with a protocol that all others offer"
    generation = group.generation + 1
    yield Disarm(join_timer(group.group_id))
    yield Disarm(quiet_timer(group.group_id))
    yield Note(GenerationFormed(group.group_id, generation, protocol_name, leader, cause))
    members = [stored_member(member, protocol_name, b"") for member in group.members.values()]
    unsynced = stored(group, members, cause.at_ms, cause)
    yield Append(replace(unsynced, generation=generation, protocol_name=protocol_name, leader=leader, is_synced=False))
    for member_id, member in sorted(group.members.items()):
        if member_id in group.awaiting_join:
            result = joined(group, member_id, generation, protocol_name, leader)
            if member_id == leader:
                result.members = group.members_for_leader(protocol_name)
            yield Reply(result, parked_join(group.group_id, member_id))
        yield Arm(member.session, now_ms + member.session_timeout_ms)
    yield Arm(sync_timer(group.group_id, generation), now_ms + group.max_rebalance_timeout_ms())


def fail_generation(group: ClassicGroup, error: ErrorCode, now_ms: int) -> Effects:
    """The generation could not be stored: waiting members get the error; an empty group is tried again."""
    if not group.members:
        yield Arm(join_timer(group.group_id), now_ms + RETRY_EMPTY_MS)
        return
    cause = Cause(CauseKind.APPEND_FAILED, now_ms, detail=f"generation not stored: {error.name}")
    yield Note(GatheringFailed(group.group_id, cause))
    for member_id in sorted(group.awaiting_join):
        yield Reply(JoinResult(error, member_id), parked_join(group.group_id, member_id))
    for _, member in sorted(group.members.items()):
        yield Arm(member.session, now_ms + member.session_timeout_ms)
    yield Disarm(quiet_timer(group.group_id))
    yield Arm(join_timer(group.group_id), now_ms + group.max_rebalance_timeout_ms())


def expire_syncs(group: ClassicGroup, generation: int, now_ms: int) -> Effects:
    """The sync timer fired: evict each member that has not asked for its assignment, start a round (KAFKA-12890)."""
    if generation != group.generation or group.phase not in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return
    if not group.pending_sync:
        return
    missing = sorted(group.pending_sync)
    for member_id in missing:
        led = ", which it led," if member_id == group.leader else ""
        within = f"{group.members[member_id].rebalance_timeout_ms} ms"
        detail = f"no SyncGroup in generation {generation}{led} within {within}"
        yield from remove(group, member_id, Cause(CauseKind.SYNC_TIMEOUT, now_ms, member_id, detail))
    cause = Cause(CauseKind.SYNC_TIMEOUT, now_ms, missing[0], _named("sent no SyncGroup", missing))
    yield Then(OpenRound(group.group_id, cause))


def _missed(group: ClassicGroup, member_id: str, now_ms: int) -> Cause:
    detail = f"did not rejoin within {group.max_rebalance_timeout_ms()} ms"
    return Cause(CauseKind.REBALANCE_TIMEOUT, now_ms, member_id, detail)


def _named(what: str, member_ids: list[str]) -> str:
    """Return who did it, the first few by name."""
    return f"{what}: {first_few(member_ids)}" if member_ids else ""
