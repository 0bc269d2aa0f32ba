"""Two hundred worlds at each run; KOHORT_SEEDS and KOHORT_SEED_FROM choose others, `any` new ones.

A change is judged by worlds that hold without it. `make swarm` looks for others: it begins elsewhere each time.
"""

from __future__ import annotations

import os
from secrets import randbelow

import pytest

from kohort.sim.scenario.fault_menu import MENU
from kohort.sim.swarm.seed_batch import Tally, replay_of, run_seeds

FIRST = "9000200"


@pytest.mark.timeout(900)
def test_seeds_break_nothing_and_meet_every_fault() -> None:
    asked = os.environ.get("KOHORT_SEED_FROM") or FIRST
    first = randbelow(1 << 40) if asked == "any" else int(asked)
    count = int(os.environ.get("KOHORT_SEEDS") or 200)
    tally = Tally()
    fifth, end = count // 5, first + count
    for seeds, gateways, producers in (
        (range(first, end - 3 * fifth), 0, 0),
        (range(end - 3 * fifth, end - 2 * fifth), 0, 2),
        (range(end - 2 * fifth, end - fifth), 1, 0),
        (range(end - fifth, end), 2, 0),
    ):
        for outcome in run_seeds(seeds, os.cpu_count() or 1, gateways, producers):
            tally.add(outcome)
    failures = [
        f"{replay_of(outcome)}: {outcome.broken.invariant}: {outcome.broken.sentence}"
        for outcome in sorted(tally.broken)
        if outcome.broken is not None
    ]
    assert not failures, "\n" + "\n".join(failures)
    if count >= 200:
        met = {name for name, times in tally.met.items() if times}
        wanted = {fault.name.removesuffix(" member") for fault in MENU}
        assert wanted <= met, f"nothing came of {sorted(wanted - met)}"
        assert all(tally.coverage.values()), [name for name, times in tally.coverage.items() if not times]
