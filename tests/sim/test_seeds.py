"""A thousand worlds at each run; KOHORT_SEEDS and KOHORT_SEED_FROM choose others, `any` new ones.

A change is judged by worlds that hold without it. `make swarm` looks for others: it begins elsewhere each time.
"""

from __future__ import annotations

import os
from secrets import randbelow

import pytest

from kohort.sim.scenario.fault_menu import MENU
from kohort.sim.swarm.seed_batch import Tally, replay_of, run_seeds

FIRST = "9000000"


@pytest.mark.timeout(900)
def test_seeds_break_nothing_and_meet_every_fault() -> None:
    asked = os.environ.get("KOHORT_SEED_FROM") or FIRST
    first = randbelow(1 << 40) if asked == "any" else int(asked)
    count = int(os.environ.get("KOHORT_SEEDS") or 1_000)
    tally = Tally()
    with_gateways = count // 5
    plain, with_one, with_two = first, first + count - with_gateways, first + count - with_gateways // 2
    for seeds, gateways in (
        (range(plain, with_one), 0),
        (range(with_one, with_two), 1),
        (range(with_two, first + count), 2),
    ):
        for outcome in run_seeds(seeds, os.cpu_count() or 1, gateways):
            tally.add(outcome)
    failures = [
        f"{replay_of(outcome)}: {outcome.broken.invariant}: {outcome.broken.sentence}"
        for outcome in sorted(tally.broken)
        if outcome.broken is not None
    ]
    assert not failures, "\n" + "\n".join(failures)
    if count >= 1_000:
        met = {name for name, times in tally.met.items() if times}
        wanted = {fault.name.removesuffix(" member") for fault in MENU}
        assert wanted <= met, f"nothing came of {sorted(wanted - met)}"
        assert all(tally.coverage.values()), [name for name, times in tally.coverage.items() if not times]
