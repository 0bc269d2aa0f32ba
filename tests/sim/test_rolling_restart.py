"""A rolling restart behind three gateways, one of which is killed, as `kohort sim --rolling-restart` runs it."""

from __future__ import annotations

import pytest

from kohort.sim.swarm.seed_plan import restart_checkers, rolling_restart
from kohort.sim.swarm.world_run import run

MEMBERS = 30


@pytest.mark.timeout(120)
def test_members_behind_three_gateways_restart_one_after_the_other() -> None:
    outcome = run(rolling_restart(MEMBERS, 3), checkers=restart_checkers())
    assert outcome.broken is None
    assert outcome.met["bounce"] == MEMBERS
    assert outcome.met["kill gateway"] == 1
    assert outcome.coverage["ObservedEqualsServed"] > 0
