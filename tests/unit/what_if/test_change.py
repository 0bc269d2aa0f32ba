"""Which changes mean something for a group, and which restarts take it to another protocol or assignor."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.what_if.groups import group

from kohort.group.migration.migration_plan import Goal, LiveGroup, MemberKind
from kohort.what_if.change import Impossible, Pace, PlannedChange, Restarts, check, restarts_for

CLASSIC, CONSUMER = group("m-1", "m-2"), group("m-1", "m-2", kind="consumer")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (PlannedChange(partitions={"payments": 4}), "there is no topic 'payments': the group reads orders"),
        (PlannedChange(partitions={"other": 4}), "no member of readers reads 'other': the group reads orders"),
        (PlannedChange(partitions={"orders": 8}), "orders has 8 partitions, and topics only grow: give more than 8"),
        (
            PlannedChange(kill=("m-1-id",), stop=("m-2-id",)),
            "no member would be left: leave one member, or add some with --add",
        ),
        (PlannedChange(kill=("m-1-id",), stop=("m-1-id",)), "m-1-id can be killed or stopped, not both"),
    ],
)
def test_change_that_means_nothing_is_refused_with_what_to_do(change: PlannedChange, text: str) -> None:
    with pytest.raises(Impossible, match=f"^{text}$"):
        check(change, CLASSIC)


def test_group_without_members_has_no_forecast() -> None:
    with pytest.raises(Impossible, match="has no members"):
        check(PlannedChange(add=1), group())


@pytest.mark.parametrize(
    ("found", "options", "restarts"),
    [
        (CLASSIC, {}, ()),
        (CLASSIC, {"pace": Pace.ALL}, (Restarts(Pace.ALL),)),
        (CLASSIC, {"goal": Goal.CONSUMER}, (Restarts(kind=MemberKind.CONSUMER),)),
        (CLASSIC, {"goal": Goal.CONSUMER, "assignor": "range"}, (Restarts(kind=MemberKind.CONSUMER, vote="range"),)),
        (
            CLASSIC,
            {"goal": Goal.COOPERATIVE},
            (
                Restarts(kind=MemberKind.EAGER, offers=("cooperative-sticky", "range")),
                Restarts(kind=MemberKind.COOPERATIVE, offers=("cooperative-sticky",)),
            ),
        ),
        (
            CLASSIC,
            {"goal": Goal.COOPERATIVE, "pace": Pace.ALL},
            (Restarts(Pace.ALL, MemberKind.COOPERATIVE, ("cooperative-sticky",)),),
        ),
        (
            CLASSIC,
            {"assignor": "sticky"},
            (
                Restarts(kind=MemberKind.EAGER, offers=("sticky", "range")),
                Restarts(kind=MemberKind.EAGER, offers=("sticky",)),
            ),
        ),
        (CONSUMER, {"goal": Goal.CLASSIC}, (Restarts(kind=MemberKind.EAGER, offers=("range",)),)),
        (CONSUMER, {"assignor": "range"}, (Restarts(kind=MemberKind.CONSUMER, vote="range"),)),
    ],
)
def test_restarts_that_a_protocol_or_an_assignor_takes(
    found: LiveGroup, options: dict[str, Any], restarts: tuple[Restarts, ...]
) -> None:
    assert restarts_for(found, **{"goal": None, "assignor": None, "pace": None, **options}) == restarts


@pytest.mark.parametrize(
    ("found", "options", "text"),
    [
        (CLASSIC, {"assignor": "uniform"}, "uniform is an assignor of the consumer protocol: add --protocol consumer"),
        (CLASSIC, {"assignor": "nonsense"}, "nonsense is no assignor that can be simulated: in the classic protocol"),
        (CLASSIC, {"assignor": "range"}, "its assignor is range already: --bounce rolling"),
        (CLASSIC, {"goal": Goal.CLASSIC, "assignor": None}, "its assignor is range already"),
        (CLASSIC, {"goal": Goal.COOPERATIVE, "assignor": "range"}, "range is eager: cooperative ones are capacity"),
        (CONSUMER, {"assignor": "sticky"}, "sticky is an assignor of classic members"),
        (CONSUMER, {"goal": Goal.CONSUMER}, "every member speaks the consumer protocol already: --bounce rolling"),
        (group("m", assignor="mine"), {"goal": Goal.COOPERATIVE}, "its assignor mine cannot be simulated"),
    ],
)
def test_protocol_or_assignor_that_cannot_be_is_refused(found: LiveGroup, options: dict[str, Any], text: str) -> None:
    with pytest.raises(Impossible, match=text):
        restarts_for(found, **{"goal": None, "assignor": None, "pace": None, **options})
