"""Why a group rebalanced, which member waited for which, and what it cost: one more function of the group's log.

WHAT IS READ. The events of one group in the order in which its coordinator wrote them, as the JSON of
`node/groups/event_fields.py` writes them. They are best effort: after a crash some are missing, a clock may step
back. So this fold refuses nothing, marks what it cannot know (`is_partial`), passes over copies, and lets no time run
backwards.

WHAT A REBALANCE IS. The whole move from one stable assignment to the next. It begins with the first event that
disturbs a stable or empty group: a member joins, rejoins, leaves, is evicted, is replaced. It ends when no round
gathers, every member has been answered with all that it was assigned, and none owns anything else. So one rebalance are
 - both rounds of a cooperative move, and a third one if a member is evicted in between;
 - a round that is opened while another gathers or awaits its assignment;
 - a round whose leader failed to assign, or whose assignment could not be stored, and the one that succeeds;
 - a member of the new generation that never asks for its assignment, until the sync timer evicts it;
 - a round that a restart of the broker cut off, and the one that follows it, if there is still something to move.
A static member that comes back to a stable group is a rebalance without a round. A group that ends up empty has
rebalanced to no member. A deleted group is forgotten: what bears its name afterwards starts anew.

WHAT IT COSTS. `partition_ownership.py` has the rule: from the JoinGroup in which a member no longer claims a partition
(or its departure) to the SyncGroup answer that gives it to a member.

DOUBTS. A member stops reading a little before we learn it: its callbacks run before its JoinGroup. Members that cannot
report what they own (subscriptions of version 0, protocols of others) are taken for eager ones: they claim nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kohort.group.explain.consumer_events import CONSUMER_FOLDS, group_to_convert, stored_by_conversion
from kohort.group.explain.observed_group import REFUSED, REMEMBERED, Course
from kohort.group.explain.rebalance_report import (
    CONVERTED,
    UNTOLD,
    Departure,
    EventFields,
    GroupReport,
    Outcome,
    Rebalance,
    Refused,
    Replacement,
    Round,
    cause_of,
    member_of,
    partitions_of,
    targets_of,
)
from kohort.model.errors import ErrorCode, KafkaError

JOIN_REFUSED = "join_refused"


def explain(events: Iterable[EventFields], group_id: str, now_ms: int) -> GroupReport:
    """Return what the events of a group report, the running rebalance as it is at `now_ms`."""
    explanation = Explanation(group_id)
    for event in events:
        explanation.fold(event)
    return explanation.report(now_ms)


class Explanation:
    """One group's events, folded one after another. Of its rebalances the `last` ones are stored, or all of them.

    A copy of one of the last `remembered` events is passed over.
    """

    def __init__(
        self, group_id: str, *, last: int | None = None, keeps_events: bool = True, remembered: int = REMEMBERED
    ) -> None:
        self._course = Course(group_id, last, remembered)
        self._keeps_events = keeps_events

    def report(self, now_ms: int) -> GroupReport:
        """Return what is known, the running rebalance as it is at `now_ms`."""
        course = self._course
        running = course.running_at(now_ms)
        return GroupReport(
            course.group_id,
            course.state,
            course.generation,
            len(course.members),
            len(course.assigned()),
            list(course.rebalances),
            running,
            course.total,
            course.unowned_partition_s,
            course.avoided,
            dict(course.identities),
            {partition: owner for partition, (owner, _) in course.ownership.owners.items()},
            course.now_ms > 0,
            course.group_type,
            dict(course.protocols),
            list(course.refused.values()),
            course.warming_up(),
        )

    def fold(self, event: EventFields) -> Rebalance | None:
        """Take one event; return the rebalance that it ended, if it did. Events of other groups are passed over.

        Raises KafkaError (INVALID_RECORD) for an event with fields of other types than ours have.
        """
        try:
            return self._fold(event)
        except (AttributeError, KeyError, TypeError, ValueError) as cause:
            name, at_ms = event.get("event"), event.get("at_ms")
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"the event {name!r} of group {self._course.group_id!r} at {at_ms!r} ms has fields that kohort does not"
                f" write ({type(cause).__name__}: {cause}): another program wrote it",
            ) from cause

    def _fold(self, event: EventFields) -> Rebalance | None:
        course = self._course
        if event.get("group") != course.group_id or course.is_repeated(event):
            return None
        course.now_ms = max(course.now_ms, int(event.get("at_ms", 0)))
        before = course.running
        name = str(event.get("event"))
        if name == JOIN_REFUSED:
            # It changes no group, and may stand between any two events of one.
            _join_refused(course, event)
            if before is not None and self._keeps_events:
                before.events.append(event)
            return None
        course.is_converting &= cause_of(event).kind == CONVERTED
        course.is_consumer |= "epoch" in event and not course.is_converting
        if "state" in event:
            course.is_streams = event.get("type") == "streams"
        if name != "revocations_awaited":
            course.answer_due()
        # Where nothing is left of a group that was deleted, its event has neither clock; its end is the same for both.
        is_consumer = "epoch" in event or (course.is_consumer and "generation" not in event and name != "group_deleted")
        fold = (CONSUMER_FOLDS if is_consumer or name not in _FOLDS else _FOLDS).get(name)
        ended = None if fold is None else fold(course, event)
        concerned = ended or course.running or before
        if concerned is not None and self._keeps_events:
            concerned.events.append(event)
        course.state = str(event.get("state") or course.state)
        return ended


# -- who comes and who goes


def _member_id_issued(course: Course, event: EventFields) -> None:
    course.pending.add(member_of(event))


def _member_id_dropped(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    if member_id in course.pending:
        course.note_missed(member_id)
        course.pending.discard(member_id)


def _member_joined(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    course.identify(event, member_id)
    running = course.begin(event)
    course.pending.discard(member_id)
    if member_id not in course.members:
        course.members.add(member_id)
        running.joined.append(member_id)
        running.joined_ms[member_id] = course.now_ms
        _name_joiner(running, member_id)
    course.rejoined.add(member_id)
    course.ownership.claim(member_id, partitions_of(event.get("owned")), course.now_ms)


def _name_joiner(running: Rebalance, member_id: str) -> None:
    """Name the member of a join without an id, where its round was reported before its id was known."""
    if running.cause.kind == "member_joined" and running.cause.member_id is None:
        running.cause = running.cause._replace(member_id=member_id)
    current = running.rounds[-1] if running.rounds else None
    if current is not None and current.cause.kind == "member_joined" and current.cause.member_id is None:
        current.cause = current.cause._replace(member_id=member_id)


def _member_rejoined(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    running = course.begin(event)
    course.members.add(member_id)
    current = running.rounds[-1] if running.rounds else None
    if current is not None and current.formed_ms is None and member_id not in course.rejoined:
        current.rejoin_ms[member_id] = course.now_ms - current.opened_ms
    course.rejoined.add(member_id)
    claimed = partitions_of(event.get("owned"))
    owned = course.ownership.owned_by(member_id)
    course.ownership.release(member_id, sorted(owned - claimed), course.now_ms)
    course.ownership.claim(member_id, sorted(claimed - owned), course.now_ms)


def _member_replaced(course: Course, event: EventFields) -> None:
    old_id, member_id = str(event.get("replaced")), member_of(event)
    course.identify(event, member_id)
    running = course.begin(event)
    running.replacements.append(Replacement(old_id, member_id, str(event.get("instance")), course.now_ms))
    course.members.discard(old_id)
    course.members.add(member_id)
    course.rejoined.discard(old_id)
    course.unanswered.discard(old_id)
    if old_id in course.targets:
        course.targets[member_id] = course.targets.pop(old_id)
    silent_ms = int(event.get("silent_ms") or -1)
    course.note_absence(running, member_id, course.ownership.owned_since(old_id), silent_ms)
    if event.get("awaits_join"):
        course.rejoined.add(member_id)
        course.lose_all(old_id)
        course.ownership.claim(member_id, partitions_of(event.get("owned")), course.now_ms)
    else:
        course.ownership.hand_over(old_id, member_id, course.now_ms if silent_ms > 0 else None)


def _member_gone(course: Course, event: EventFields) -> None:
    member_id = member_of(event)
    running = course.begin(event)
    silent_ms = int(event.get("silent_ms") or -1)
    if member_id in course.members - course.rejoined:
        course.note_missed(member_id)
    owned = course.lose_all(member_id)
    course.note_absence(running, member_id, owned, silent_ms)
    if event.get("event") == "member_evicted":
        course.evicted_with[member_id] = frozenset(owned)
    if member_id not in {each.member_id for each in running.departures}:
        running.departures.append(Departure(member_id, course.now_ms, cause_of(event), silent_ms))
    course.members.discard(member_id)
    course.rejoined.discard(member_id)
    course.unanswered.discard(member_id)
    course.withheld.discard(member_id)
    course.targets.pop(member_id, None)


def _join_refused(course: Course, event: EventFields) -> None:
    refused = Refused(
        course.now_ms,
        course.now_ms,
        int(event.get("count") or 1),
        str(event.get("error")),
        str(event.get("client") or ""),
        str(event.get("host") or ""),
        event.get("instance"),
        bool(event.get("is_native")),
        str(event.get("text") or ""),
        tuple(map(str, event.get("in_the_way") or ())),
    )
    key = (refused.error, refused.client_id, refused.host, refused.instance_id, refused.text)
    before = course.refused.pop(key, None)
    if before is not None:
        refused = refused._replace(first_ms=before.first_ms, times=before.times + refused.times)
    course.refused[key] = refused
    if len(course.refused) > REFUSED:
        course.refused.popitem(last=False)


# -- the rounds


def _round_opened(course: Course, event: EventFields) -> None:
    running = course.begin(event)
    current = running.rounds[-1] if running.rounds else None
    if current is not None and current.stored_ms is None and current.failure is None:
        current.failure = cause_of(event)
    course.record_members(event)
    course.rejoined &= course.members
    running.rounds.append(
        Round(course.now_ms, cause_of(event), len(course.members), is_initial=bool(event.get("is_initial")))
    )
    course.is_gathering = True
    course.unanswered.clear()
    course.withheld.clear()


def _round_announced(course: Course, event: EventFields) -> None:
    if course.running is not None and course.running.rounds:
        course.running.rounds[-1].announced_ms = int(event.get("waited_ms") or 0)


def _generation_formed(course: Course, event: EventFields) -> None:
    running = course.begin(event)
    course.record_members(event)
    if not running.rounds or running.rounds[-1].formed_ms is not None:
        # The opening of the round is missing.
        running.is_partial = True
        running.rounds.append(Round(course.now_ms, UNTOLD, len(course.members)))
    current = running.rounds[-1]
    current.formed_ms = course.now_ms
    current.ended_by = cause_of(event)
    current.generation = course.generation = int(event.get("generation") or course.generation + 1)
    current.protocol = str(event.get("protocol") or "")
    current.leader = event.get("leader")
    current.missing = tuple(sorted(course.members - course.rejoined))
    course.rejoined.clear()  # ids that were issued and not used stay: the next round waits for them too
    course.is_gathering = True
    course.unanswered = set(course.members)


def _assignment_stored(course: Course, event: EventFields) -> Rebalance | None:
    if course.is_converting:
        stored_by_conversion(course, event)
        return None
    targets = targets_of(event)
    generation = int(event.get("generation") or 0)
    if course.running is None and generation == course.generation and targets == course.targets:
        return None  # reported twice
    running = course.begin(event)
    running.is_readable &= event.get("assignments") is not None
    is_quiet = cause_of(event).kind == "static_member_replaced"
    is_untold = not is_quiet and (not running.rounds or running.rounds[-1].stored_ms is not None)
    if is_untold:
        running.is_partial = True
        running.rounds.append(Round(course.now_ms, UNTOLD, len(course.members), formed_ms=course.now_ms))
    course.generation = generation
    course.record_members(event)
    course.targets = targets
    course.evicted_with.clear()
    if is_quiet:
        course.answer({str(cause_of(event).member_id)} & course.members)
        return course.end_if_stable()
    current = running.rounds[-1]
    current.stored_ms, current.stored_remark = course.now_ms, cause_of(event).detail
    current.work = event.get("work")
    current.generation = generation
    for member_id, at_ms in (event.get("synced") or {}).items():
        current.sync_ms[member_id] = max(0, int(at_ms) - (current.formed_ms or course.now_ms))
    course.is_gathering = False
    course.rejoined.clear()
    course.unanswered = {str(member_id) for member_id in event.get("awaiting") or ()} & course.members
    if is_untold:
        # Who gave what up is missing: by now it has happened.
        for member_id in sorted(course.members):
            target = targets.get(member_id, frozenset())
            course.ownership.release(member_id, sorted(course.ownership.owned_by(member_id) - target), course.now_ms)
    course.due, course.due_ms = course.members - course.unanswered, course.now_ms
    if not course.revoking():
        course.answer_due()
    # Else the next event shows whose answers are withheld until the revoking members have joined again.
    return course.end_if_stable()


def _revocations_awaited(course: Course, event: EventFields) -> None:
    withheld = {str(member_id) for member_id in event.get("held") or ()} & course.members
    course.due -= withheld
    course.unanswered |= withheld
    course.withheld = withheld
    course.answer_due()


def _member_synced(course: Course, event: EventFields) -> Rebalance | None:
    running, member_id = course.running, member_of(event)
    if running is None or member_id not in course.unanswered:
        return None
    current = running.rounds[-1] if running.rounds else None
    if current is not None and current.formed_ms is not None:
        current.sync_ms[member_id] = course.now_ms - current.formed_ms
    if event.get("is_held"):
        course.withheld.add(member_id)
        return None
    course.answer({member_id})
    return course.end_if_stable()


def _syncs_released(course: Course, event: EventFields) -> Rebalance | None:
    course.answer({str(member_id) for member_id in event.get("released") or ()} & course.members)
    return course.end_if_stable()


def _assignment_failed(course: Course, event: EventFields) -> None:
    running = course.begin(event)
    if running.rounds and running.rounds[-1].stored_ms is None:
        running.rounds[-1].failure = cause_of(event)


def _gathering_failed(course: Course, event: EventFields) -> None:
    """Every member was sent away and must join the same round again."""
    running = course.begin(event)
    course.rejoined.clear()
    if running.rounds:
        running.rounds[-1].setback = cause_of(event)


def _rebalance_avoided(course: Course, event: EventFields) -> Rebalance | None:
    course.avoided += 1
    course.avoided_before += 1
    return _member_recognized(course, event)


def _member_recognized(course: Course, event: EventFields) -> Rebalance | None:
    """A member joined again in its generation: it has its assignment again, should it have released it."""
    member_id = member_of(event)
    if course.is_converting:
        return None
    if not course.is_gathering:
        course.ownership.claim(member_id, sorted(course.targets.get(member_id, ())), course.now_ms)
    return course.end_if_stable()


def _events_lost(course: Course, _: EventFields) -> None:
    """The coordinator could not write some events: what is reported next is doubtful."""
    course.is_known = False
    if course.running is not None:
        course.running.is_partial = True


def group_created(course: Course, event: EventFields) -> Rebalance | None:
    """A group that is created had no past, whatever we believe."""
    if int(event.get("generation") or 0):
        return None
    ended = course.end(Outcome.UNTOLD) if course.running is not None else None
    course.forget()
    return ended


def group_emptied(course: Course, event: EventFields) -> Rebalance | None:
    generation = int(event.get("generation") or 0)
    ended = None
    if course.running is not None:
        course.generation = generation
        course.members.clear()
        course.targets = {}
        ended = course.end(Outcome.EMPTY)
    course.begin_again(generation, is_consumer=False)
    return ended


def group_deleted(course: Course, event: EventFields) -> Rebalance | None:
    """It is gone, or continues as one of the other type."""
    if "to" in event:
        return group_to_convert(course, event)
    course.targets = {}
    ended = course.end(Outcome.DELETED) if course.running is not None else None
    course.forget()
    return ended


def group_loaded(course: Course, event: EventFields) -> Rebalance | None:
    """The coordinator has its group back as the log has it: who had joined or asked, it does not know any more."""
    running = course.running
    for waiting in (course.rejoined, course.pending, course.withheld, course.due, course.unanswered):
        waiting.clear()
    known = course.reload(event)
    course.generation = int(event.get("generation") or 0)
    if event.get("state") != "Stable":
        course.unanswered = set(course.members)
        return None
    course.targets = targets_of(event)
    # An eviction that the log does not have yet has not happened: the member is back with what it owned.
    owned = course.evicted_with if course.is_known else course.targets
    for member_id in sorted(course.members - known):
        course.ownership.claim(member_id, sorted(owned.get(member_id, ())), course.now_ms)
    course.is_known = True
    course.is_gathering = False
    if running is not None and running.rounds and running.rounds[-1].stored_ms is None:
        running.rounds[-1].failure = running.rounds[-1].failure or cause_of(event)
    return course.end_if_stable()


_FOLDS: dict[str, Callable[[Course, EventFields], Rebalance | None]] = {
    "member_id_issued": _member_id_issued,
    "member_id_dropped": _member_id_dropped,
    "member_joined": _member_joined,
    "member_rejoined": _member_rejoined,
    "member_replaced": _member_replaced,
    "member_left": _member_gone,
    "member_evicted": _member_gone,
    "round_opened": _round_opened,
    "round_announced": _round_announced,
    "generation_formed": _generation_formed,
    "assignment_stored": _assignment_stored,
    "assignment_failed": _assignment_failed,
    "revocations_awaited": _revocations_awaited,
    "syncs_released": _syncs_released,
    "gathering_failed": _gathering_failed,
    "member_synced": _member_synced,
    "rebalance_avoided": _rebalance_avoided,
    "member_recognized": _member_recognized,
    "group_created": group_created,
    "group_emptied": group_emptied,
    "group_deleted": group_deleted,
    "group_loaded": group_loaded,
    "events_lost": _events_lost,
}

FOLDED = _FOLDS.keys() | CONSUMER_FOLDS.keys() | {JOIN_REFUSED}
"""Events that are not here change nothing that is reported."""
