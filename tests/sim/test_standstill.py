"""Restarts of eager groups stand still no longer than on the same broker without what it does better than Kafka."""

from __future__ import annotations

from tests.sim.rolling_restarts import CLIENTS, compare, draw_restarts

from kohort.sim.swarm.world_run import run

SEEDS = range(1, 17)


def test_restarts_leave_partitions_without_an_owner_for_less_time_than_with_every_improvement_off() -> None:
    found = list(compare(SEEDS[:8]))
    assert [each.broken for each in found if each.broken is not None] == []
    improved_us, plain_us = (sum(each[place] for each in found) for place in (1, 2))
    assert 0 < improved_us < plain_us, f"{improved_us / 1e6:.1f} and {plain_us / 1e6:.1f} partition-seconds"


def test_a_cooperative_group_of_librdkafka_waits_for_no_second_between_two_joins() -> None:
    (found,) = compare((2,), ("cooperative-v1",))
    assert found.broken is None
    assert 20 * max(found.improved_us, found.gateway_us) < found.plain_us


def test_every_client_is_among_those_that_are_restarted() -> None:
    drawn = {member.kind.name for seed in SEEDS for member in draw_restarts(seed).members}
    assert drawn == {kind for kinds in CLIENTS for kind in kinds}


def test_restarts_of_a_seed_are_the_same_each_time() -> None:
    assert run(draw_restarts(3)) == run(draw_restarts(3))
