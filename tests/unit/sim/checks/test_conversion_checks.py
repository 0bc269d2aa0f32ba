"""A group changes its type, and nobody loses a partition by it (KIP-848)."""

from __future__ import annotations

from typing import Any

from tests.unit.sim.checks.scripted import Script, breaks, classic, consumer, downgraded, gathers, of, upgraded

from kohort.group.invariants import MIGRATION_KEEPS_OWNERS
from kohort.sim.checks.conversion_checks import ConversionChecker
from kohort.sim.checks.ownership_checks import OwnershipChecker
from kohort.sim.checks.world_ledgers import Ledgers


def script_of_conversions() -> tuple[Script, OwnershipChecker]:
    made: list[OwnershipChecker] = []

    def ownership(ledgers: Ledgers) -> OwnershipChecker:
        made.append(OwnershipChecker(ledgers))
        return made[0]

    def conversions(ledgers: Ledgers) -> ConversionChecker:
        return ConversionChecker(ledgers, made[0])

    return Script(ownership, conversions), made[0]


def convert(*events: Any) -> Script:
    script, _ = script_of_conversions()
    script.happens(*events)
    return script


def test_what_was_assigned_is_owned_in_the_consumer_group() -> None:
    script = convert(*classic(A="t0 t1", B="t2"))
    with breaks(MIGRATION_KEEPS_OWNERS, "became a consumer group of epoch 1: A was assigned", "-1 before"):
        script.happens(*upgraded(1, A="t0", B="t2"))


def test_what_a_member_acts_on_is_owned_in_the_consumer_group() -> None:
    script = convert(*classic(A="t0", B="t2"), gathers(1))
    script.see.owns(script.member("a"), of("t0 t1"))
    with breaks(MIGRATION_KEEPS_OWNERS, "A acts on", "-1 before"):
        script.happens(*upgraded(1, A="t0", B="t2"))


def test_an_upgrade_may_add_what_members_say_they_own() -> None:
    script = convert(*classic(A="t0", B="t2"), gathers(1))
    script.see.owns(script.member("a"), of("t0 t1"))
    script.happens(*upgraded(1, A="t0 t1", B="t2"))
    assert script.times(MIGRATION_KEEPS_OWNERS) == 4


def test_what_was_granted_is_assigned_in_the_classic_generation() -> None:
    script = convert(*consumer(5, A="t0 t1", B="t2"))
    with breaks(MIGRATION_KEEPS_OWNERS, "became a classic group of epoch 5: A was granted"):
        script.happens(*downgraded(5, A="t0", B="t2"))


def test_a_downgrade_keeps_what_was_granted() -> None:
    script = convert(*consumer(5, A="t0 t1", B="t2"), *downgraded(5, A="t0 t1", B="t2"))
    assert script.times(MIGRATION_KEEPS_OWNERS) == 2
