"""Why a consumer group rebalanced (KIP-848), and what conversions did to it: the other half of `explain.py`.

A rebalance begins when the group epoch rises, or when a member comes, goes, or announces a pause (-2). It ends when
every member has reached the newest target and no member has anything left to revoke; so epochs that follow each other
before that are one rebalance. A conversion is a part of the rebalance that caused it: it takes nothing from any member.

Who owns what is the same question as in a classic group. A native member owns what it was granted, from the heartbeat
that is answered with it, and what it was asked to revoke, until a heartbeat no longer names it. A classic member of
a consumer group owns what its SyncGroup was answered with, until a JoinGroup no longer claims it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kohort.group.explain.observed_group import Course
from kohort.group.explain.rebalance_report import (
    CONVERTED,
    Conversion,
    Departure,
    EpochStep,
    EventFields,
    GroupEpoch,
    Identity,
    Outcome,
    Rebalance,
    Replacement,
    ReportedCause,
    cause_of,
    member_of,
    partitions_of,
    targets_of,
)
from kohort.model.ids import TopicPartition

FIRST_EPOCH = 1
REPLACED = "static_member_replaced"
"""The cause of records that give way to those of the same instance under a new member id."""
PAUSED = -2
"""The epoch of a static member that is away for a while."""

Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()


def group_to_convert(course: Course, event: EventFields) -> Rebalance | None:
    """A group is deleted to be written anew as one of the other type."""
    to = str(event.get("to"))
    cause = cause_of(event)
    if not course.members:
        # No member was there: a group without a past.
        ended = course.end(Outcome.UNTOLD) if course.running is not None else None
        course.begin_again(0, is_consumer=to == "consumer")
        return ended
    running = course.begin(event)
    if running.cause.kind == CONVERTED and to == "consumer":
        running.cause = ReportedCause("member_joined", cause.member_id)
    current = running.rounds[-1] if running.rounds else None
    if current is not None and current.stored_ms is None and current.failure is None:
        current.failure = cause
    running.conversions.append(Conversion(course.now_ms, to, cause))
    course.is_consumer = to == "consumer"
    course.is_converting, course.is_gathering = True, False
    for waiting in (course.rejoined, course.pending, course.withheld, course.unanswered, course.unsettled):
        waiting.clear()
    for by_member in (course.claims, course.asked, course.phases):
        by_member.clear()
    return None


def _group_converted(course: Course, _: EventFields) -> None:
    """It is written anew."""
    course.is_converting = False


def _group_epoch_bumped(course: Course, event: EventFields) -> Rebalance | None:
    epoch = int(event.get("epoch") or 0)
    if course.is_converting:
        course.generation = epoch
        return None
    if not course.members and course.running is None:
        course.generation = epoch
        return None
    running = course.begin(event)
    running.epochs.append(GroupEpoch(course.now_ms, cause_of(event), epoch))
    course.generation = epoch
    if course.members:
        return None
    course.targets = {}
    ended = course.end(Outcome.EMPTY)
    course.begin_again(epoch, is_consumer=True)
    return ended


def _member_subscribed(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    course.identify(event, member_id)
    if event.get("is_classic"):
        claimed = frozenset(partitions_of(event.get("owned")))
        course.claims[member_id] = claimed
        if not course.is_converting:
            _join(course, member_id, claimed)
    else:
        course.claims.pop(member_id, None)
    if course.is_converting:
        course.members.add(member_id)
        return
    if member_id in course.members:
        return
    if not course.members and event.get("size") == 1 and int(event.get("epoch") or 0) <= FIRST_EPOCH:
        course.is_known = True  # a group without a past
        course.generation = course.generation or FIRST_EPOCH
    running = course.begin(event)
    course.members.add(member_id)
    course.unsettled.add(member_id)
    instance = course.identities[member_id].instance_id
    replaced = course.replaced.pop(instance, None) if instance else None
    if replaced is not None:
        _replace(course, running, *replaced, member_id, str(instance))
    else:
        running.joined.append(member_id)
        running.joined_ms[member_id] = course.now_ms


def _replace(
    course: Course, running: Rebalance, old_id: str, target: Partitions, member_id: str, instance: str
) -> None:
    """Note that an instance has a new member id, which takes over the target of the old one."""
    running.replacements.append(Replacement(old_id, member_id, instance, course.now_ms))
    course.targets.setdefault(member_id, target)


def _join(course: Course, member_id: str, claimed: Partitions) -> None:
    """A classic member joined again: what it does not claim it has released."""
    owned = course.ownership.owned_by(member_id)
    given = course.ownership.release(member_id, sorted(owned - claimed), course.now_ms)
    current = course.running.epochs[-1] if course.running is not None and course.running.epochs else None
    if given and current is not None and current.computed_ms is not None:
        current.steps.append(EpochStep(course.now_ms, member_id, len(given), 0))
        if owned - course.targets.get(member_id, NOTHING):
            current.revoke_ms.setdefault(member_id, course.now_ms - current.computed_ms)


def _member_deleted(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    cause = cause_of(event)
    if cause.kind == CONVERTED or member_id not in course.members:
        return
    running = course.begin(event)
    instance = course.identities.get(member_id, Identity("", None)).instance_id
    owned = course.lose_all(member_id)
    if cause.kind != REPLACED or instance is None:
        running.departures.append(Departure(member_id, course.now_ms, cause))
        course.released[member_id] = owned
    else:
        target = course.targets.get(member_id, NOTHING)
        heir = _heir(course, member_id, instance)
        if heir is None:
            course.replaced[instance] = member_id, target
        else:
            _replace(course, running, member_id, target, heir, instance)
            running.joined = [each for each in running.joined if each != heir]
    _forget_member(course, member_id)


def _assignment_deleted(course: Course, event: EventFields) -> None:
    """Count the absence of a classic member whose instance comes back under a new id."""
    if cause_of(event).kind == REPLACED and (silent_ms := int(event.get("silent_ms") or -1)) > 0:
        running, member_id = course.begin(event), member_of(event)
        owned = course.ownership.owned_since(member_id)
        course.note_absence(running, str(cause_of(event).member_id), owned, silent_ms)


def _heir(course: Course, member_id: str, instance: str | None) -> str | None:
    """Return the member that has the same instance now, or None."""
    for each in course.members if instance is not None else ():
        if each != member_id and course.identities.get(each, Identity("", None)).instance_id == instance:
            return each
    return None


def _forget_member(course: Course, member_id: str) -> None:
    course.members.discard(member_id)
    course.unsettled.discard(member_id)
    course.targets.pop(member_id, None)
    for by_member in (course.claims, course.asked, course.phases, course.warmups):
        by_member.pop(member_id, None)


def _member_out(course: Course, event: EventFields) -> None:
    """Take why a member is out; the deletion of its records may have been reported before, or comes next."""
    member_id = member_of(event)
    silent_ms = int(event.get("silent_ms") or -1)
    owned = course.released.pop(member_id, {})
    running = course.running
    if member_id in course.members:
        running = course.begin(event)
        owned = course.lose_all(member_id)
        running.departures.append(Departure(member_id, course.now_ms, cause_of(event), silent_ms))
        _forget_member(course, member_id)
    elif running is None and course.rebalances and course.rebalances[-1].ended_ms == course.now_ms:
        # It was the last one, and the rebalance to no members is over.
        running = course.rebalances[-1]
    if running is None:
        return
    running.departures = [
        each._replace(cause=cause_of(event), silent_ms=silent_ms) if each.member_id == member_id else each
        for each in running.departures
    ]
    course.note_absence(running, member_id, owned, silent_ms)


def _target_computed(course: Course, event: EventFields) -> None:
    changed = targets_of({"assignments": event.get("targets")})
    course.target_epoch = int(event.get("target_epoch") or 0)
    before = {member_id: course.targets.get(member_id, NOTHING) for member_id in changed}
    course.targets.update({member_id: owned for member_id, owned in changed.items() if member_id in course.members})
    course.warmups = targets_of({"assignments": event.get("warmups")})
    if course.is_converting or not course.members:
        return
    running = course.begin(event)
    if not running.epochs or running.epochs[-1].computed_ms is not None:
        running.is_partial |= not running.epochs
        running.epochs.append(GroupEpoch(course.now_ms, cause_of(event), course.target_epoch))
    current = running.epochs[-1]
    current.computed_ms, current.failure = course.now_ms, None
    current.changed = len(changed)
    current.flows = _flows(course, before, changed)
    current.warmups = course.warming_up()
    course.unsettled = set(course.members)


def _flows(
    course: Course, before: dict[str, Partitions], after: dict[str, Partitions]
) -> tuple[tuple[str | None, str | None, int], ...]:
    """Return from whose target to whose partitions go, and how many."""
    givers = {partition: member_id for member_id, owned in before.items() for partition in owned}
    # What one has that left is in no member's target any more, but it is known who owned it last.
    takers = {partition: member_id for member_id, owned in after.items() for partition in owned}
    unowned = course.ownership.unowned
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for partition in sorted(givers.keys() | takers.keys()):
        giver, taker = givers.get(partition), takers.get(partition)
        if giver is None and partition in unowned:
            giver = unowned[partition][0]
        if giver != taker:
            counts[giver, taker] += 1
    return tuple((giver, taker, counts[giver, taker]) for giver, taker in sorted(counts, key=str))


def _member_targeted(course: Course, event: EventFields) -> None:
    if member_of(event) in course.members:
        course.targets[member_of(event)] = frozenset(partitions_of(event.get("target")))


def _target_failed(course: Course, event: EventFields) -> None:
    running = course.begin(event)
    if running.epochs and running.epochs[-1].computed_ms is None:
        cause = cause_of(event)
        text = f"{event.get('assignor')}: {event.get('message')}"
        running.epochs[-1].failure = ReportedCause("target_failed", cause.member_id, text)


def _member_reconciled(course: Course, event: EventFields) -> Rebalance | None:
    member_id = member_of(event)
    epoch = int(event.get("member_epoch") or 0)
    assigned = frozenset(partitions_of(event.get("assigned")))
    asked = frozenset(partitions_of(event.get("pending")))
    phase = event.get("phase")
    owned = course.ownership.owned_by(member_id)
    if course.is_converting:
        course.asked[member_id] = asked
        if phase is not None:
            course.phases[member_id] = str(phase)
        _member_converted(course, member_id, assigned | asked)
        return None
    if epoch == PAUSED:
        course.begin(event)
        course.ownership.release(member_id, sorted(owned), course.now_ms)
        course.unsettled.add(member_id)
        return None
    was_asked = course.asked.get(member_id, NOTHING)
    course.asked[member_id] = asked
    if phase is None:
        course.phases.pop(member_id, None)
    else:
        course.phases[member_id] = str(phase)
    is_settled = (
        epoch == course.target_epoch == course.generation and event.get("member_state") == "STABLE" and phase is None
    )
    retained = _retained(course, member_id, owned, assigned | asked)
    added = assigned if phase is None else NOTHING
    if cause_of(event).kind == REPLACED:
        # It is stored with what its old id was assigned, of topics too that were made anew since, which others own.
        added -= course.ownership.owners.keys()
    if course.running is None and is_settled and retained == owned and added <= owned:
        return None
    running = course.begin(event)
    born_ms = None if running.is_partial else running.started_ms
    course.ownership.release(member_id, sorted(owned - retained), course.now_ms)
    course.ownership.assign(member_id, sorted(added), course.now_ms, born_ms)
    is_waiting = event.get("member_state") == "UNRELEASED_PARTITIONS" and phase != "COMPLETING_REBALANCE"
    _note_step(course, running, member_id, owned, was_asked, is_waiting=is_waiting)
    if not is_settled:
        course.unsettled.add(member_id)
        return None
    course.unsettled.discard(member_id)
    if running.epochs and (current := running.epochs[-1]).computed_ms is not None:
        current.reconcile_ms.setdefault(member_id, course.now_ms - current.computed_ms)
    return course.end_if_reconciled()


def _retained(course: Course, member_id: str, owned: Partitions, granted: Partitions) -> Partitions:
    """Return what a member still owns of what it owned."""
    phase = course.phases.get(member_id)
    if phase == "COMPLETING_REBALANCE":
        return owned & course.claims.get(member_id, owned)
    return owned if phase is not None else owned & granted


def _note_step(
    course: Course,
    running: Rebalance,
    member_id: str,
    before: Partitions,
    was_asked: Partitions,
    *,
    is_waiting: bool,
) -> None:
    now = course.ownership.owned_by(member_id)
    current = running.epochs[-1] if running.epochs else None
    if current is None or current.computed_ms is None:
        return
    gave, got = len(before - now), len(now - before)
    asked = course.asked[member_id]
    if not asked and (was_asked or gave):
        current.revoke_ms.setdefault(member_id, course.now_ms - current.computed_ms)
    lacking = course.targets.get(member_id, NOTHING) - now if is_waiting else NOTHING
    # What has no owner is free: it is on its way, and no member is awaited for it.
    awaited = [each for each in lacking if each in course.ownership.owners]
    owners = {course.ownership.owners[each][0] for each in awaited}
    newly_asked = len(asked - was_asked)
    if gave or got or newly_asked or owners:
        step = EpochStep(course.now_ms, member_id, gave, got, len(awaited), tuple(sorted(owners)), newly_asked)
        current.steps.append(step)


def _member_converted(course: Course, member_id: str, assigned: Partitions) -> None:
    """A member of the group as it was is one of the group as it is: it retains what it has."""
    running = course.running
    owned = course.ownership.owned_by(member_id)
    course.members.add(member_id)
    course.targets.setdefault(member_id, assigned)
    if running is not None and running.conversions:
        taken = course.ownership.release(member_id, sorted(owned - assigned), course.now_ms)
        running.conversions[-1].taken += len(taken)
    if not course.is_known:
        course.ownership.claim(member_id, sorted(assigned), course.now_ms)


def _group_loaded(course: Course, event: EventFields) -> Rebalance | None:
    """The coordinator has a consumer group back as the log has it."""
    course.is_consumer = True
    known = course.reload(event)
    course.generation = int(event.get("epoch") or 0)
    course.target_epoch = int(event.get("target_epoch") or 0)
    course.targets = targets_of({"assignments": event.get("targets")})
    course.warmups = targets_of({"assignments": event.get("warmups")})
    course.asked = targets_of({"assignments": event.get("pending")})
    course.phases = {member_id: phase for member_id, phase in (event.get("phases") or {}).items() if phase != "STABLE"}
    granted = targets_of(event)
    for member_id in sorted(course.members - known):
        owned = granted.get(member_id, NOTHING) | course.asked.get(member_id, NOTHING)
        course.ownership.claim(member_id, sorted(owned), course.now_ms)
    states = event.get("member_states") or {}
    stable = [course.target_epoch, "STABLE"]
    course.unsettled = {each for each in course.members if states.get(each) != stable or each in course.phases}
    course.is_known = True
    return course.end_if_reconciled()


def stored_by_conversion(course: Course, event: EventFields) -> None:
    """The classic group that a consumer group became: its members have what they had; mostly a round follows."""
    course.generation = int(event.get("generation") or 0)
    course.is_consumer = False
    course.record_members(event)
    course.targets = targets_of(event)
    course.is_gathering = False
    course.unanswered = course.lacking() | course.revoking()
    if course.running is not None and course.running.conversions:
        converted = course.running.conversions[-1]
        lost = [course.ownership.owned_by(each) - course.targets.get(each, NOTHING) for each in sorted(course.members)]
        converted.taken = sum(map(len, lost))


CONSUMER_FOLDS: dict[str, Callable[[Course, EventFields], Rebalance | None]] = {
    CONVERTED: _group_converted,
    "group_epoch_bumped": _group_epoch_bumped,
    "member_subscribed": _member_subscribed,
    "member_assignment_deleted": _assignment_deleted,
    "member_deleted": _member_deleted,
    "member_left": _member_out,
    "member_evicted": _member_out,
    "group_loaded": _group_loaded,
    "target_computed": _target_computed,
    "member_targeted": _member_targeted,
    "target_failed": _target_failed,
    "member_reconciled": _member_reconciled,
}
