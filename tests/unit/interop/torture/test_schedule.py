"""The faults of a seed are the same each time, of every kind, and one kind does not overlap itself."""

from __future__ import annotations

from itertools import pairwise

from interop.fault_schedule import schedule
from interop.torture.fault_rules import RULES, Kind


def test_a_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert schedule(RULES, 7, 600) == schedule(RULES, 7, 600)
    assert schedule(RULES, 7, 600) != schedule(RULES, 8, 600)


def test_a_longer_run_begins_with_the_faults_of_a_shorter_one() -> None:
    assert [fault for fault in schedule(RULES, 7, 3600) if fault.at_s < 600] == schedule(RULES, 7, 600)


def test_every_kind_comes_and_none_begins_again_before_it_has_ended() -> None:
    faults = schedule(RULES, 7, 600)
    assert {fault.kind for fault in faults} == set(Kind)
    for kind in Kind:
        of_kind = [fault for fault in faults if fault.kind is kind]
        assert all(after.at_s >= before.at_s + before.lasts_s for before, after in pairwise(of_kind))
