"""How a classic group begins, is left by everybody, is deleted and comes back from its log: folds of `explain.py`."""

from __future__ import annotations

from kohort.group.explain.consumer_events import group_to_convert
from kohort.group.explain.observed_group import Course
from kohort.group.explain.rebalance_report import EventFields, Identity, Outcome, Rebalance, because, targets_of


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
    count = course.count
    course.forget()
    course.generation, course.count = generation, count
    return ended


def group_deleted(course: Course, event: EventFields) -> Rebalance | None:
    """It is gone, or goes on as one of the other type."""
    if "to" in event:
        return group_to_convert(course, event)
    course.targets = {}
    ended = course.end(Outcome.DELETED) if course.running is not None else None
    course.forget()
    return ended


def group_loaded(course: Course, event: EventFields) -> Rebalance | None:
    """The coordinator has its group back as the log has it: who had joined or asked, it does not know any more."""
    running, known = course.running, set(course.members)
    if running is not None:
        running.restarts += 1
    for waiting in (course.here, course.pending, course.held, course.due, course.unanswered):
        waiting.clear()
    course.know_members(event)
    for member_id, (client_id, instance_id) in (event.get("clients") or {}).items():
        course.identities.setdefault(member_id, Identity(client_id, instance_id))
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
        running.rounds[-1].failure = running.rounds[-1].failure or because(event)
    return course.settle()
