"""The check of services finds what was left out, out of order, or handled again without need, in their lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from interop.torture.checks.anomaly import Name
from interop.torture.checks.services import TURNS, check_services
from interop.torture.history import GroupHistory, Logged, OffsetFetch, ServiceMember, take_lines

A, B, POISONED = "w:0:0", "w:0:4", "w:0:7"  # the first two have one key
LOG = {("t", 0): [Logged(0, A), Logged(1, B), Logged(2, POISONED)], ("letters", 0): [Logged(0, POISONED)]}
Line = tuple[float, str, dict[str, Any]]


def call(began_s: float, ended_s: float, offset: int, value: str, how: str = "handled") -> list[Line]:
    """Return the lines of a call."""
    where = {"partition": 0, "offset": offset}
    return [(began_s, "began", where | {"value": value}), (ended_s, how, where)]


def commit(sent_s: float, ended_s: float, offset: int, how: str = "committed") -> list[Line]:
    """Return the lines of a commit."""
    return [(sent_s, "committing", {"offsets": {"0": offset}}), (ended_s, how, {"codes": []})]


def changed(at_s: float, how: str) -> list[Line]:
    """Return the line of a change of partitions."""
    return [(at_s, how, {"partitions": [0]})]


def turns(began_s: float, count: int) -> list[Line]:
    """Return so many free turns of the event loop."""
    return [(began_s + number / 10, "turn", {}) for number in range(count)]


ALL = [
    *changed(1, "assigned"),
    *call(2, 3, 0, A),
    *call(4, 5, 1, B),
    *call(4.1, 4.2, 2, POISONED, "failed"),
    *commit(6, 7, 3),
]
SECOND = changed(20, "assigned") + call(21, 22, 1, B)


def member(lines: Sequence[Line]) -> ServiceMember:
    """Return the history of these lines."""
    read = ServiceMember("m", "t")
    events = (
        {"at_s": at_s, "event": event, **fields} for at_s, event, fields in sorted(lines, key=lambda each: each[0])
    )
    take_lines(read, [json.dumps(event) for event in events])
    return read


def found(*members: Sequence[Line]) -> list[Name]:
    """Return what is wrong with these histories, where all three records are below the committed offset."""
    group = GroupHistory("g", "t", [member(each) for each in members], [OffsetFetch(0, 3, 30.0, 31.0)])
    return [each.name for each in check_services(group, "letters", LOG)]


def without(offset: int) -> list[Line]:
    return [each for each in ALL if each[2].get("offset") != offset]


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        (ALL, []),
        (without(1), [Name.UNHANDLED_RECORD]),
        (without(2), [Name.WRONG_DEAD_LETTER]),
        ([*without(1), *call(4, 5, 1, A)], [Name.VANISHED_RECORD]),
        ([*without(1), *call(2.5, 2.7, 1, B)], [Name.REORDERED_HANDLERS]),
        ([*without(1), *call(2.5, 2.7, 1, B, "failed"), *call(4, 5, 1, B)], [Name.REORDERED_HANDLERS]),
        ([*ALL, *call(8, 9, 1, B)], [Name.HANDLED_AGAIN]),
    ],
)
def test_each_record_is_handled_and_those_of_a_key_in_order(lines: list[Line], broken: list[Name]) -> None:
    assert found(lines) == broken


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        (ALL, []),  # the commit may have been asked for before the call ended
        ([*ALL, *commit(8, 9, 3)], [Name.HANDLED_AGAIN]),
        ([*ALL[:-2], *changed(6, "lost"), *changed(7, "assigned"), *commit(8, 9, 1), *commit(10, 11, 1)], []),
        (ALL[:-1], []),  # the answer of the commit never came
        (ALL[:-2], []),  # killed before it was due
        ([*ALL[:-2], *turns(5, TURNS)], []),
        ([*ALL[:-2], *turns(5, TURNS + 1)], [Name.LATE_COMMIT]),
        ([*ALL[:-2], *commit(6, 7, 3, "refused"), *turns(5, 90)], []),
        ([*ALL[:-2], *commit(3.5, 5.5, 1, "refused"), *turns(5, TURNS + 5)], []),  # one that was refused is waited for
        ([*ALL[:-2], *changed(6, "revoked")], [Name.LATE_COMMIT]),
        ([*ALL[:-2], *changed(6, "lost")], []),
        ([*ALL[:-2], *changed(4.9, "lost")], []),  # it was no longer its own
    ],
)
def test_the_next_owner_handles_again_only_what_could_not_be_committed_yet(
    lines: list[Line], broken: list[Name]
) -> None:
    assert found(lines, SECOND) == broken


def test_a_service_that_ended_without_a_broker_has_no_commit_that_was_refused() -> None:
    member = ServiceMember("s", "t")
    take_lines(member, ['{"event": "refused", "error": "no broker", "at_s": 1.0}'])
    assert (member.attempts, member.ended_s) == ([], 1.0)
