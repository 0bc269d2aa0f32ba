"""One seed and one commit give one trace, byte for byte, in whichever process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kohort.sim.swarm.seed_batch import run_seed

SEEDS = (3, 14)


def trace(seed: int, hash_seed: str) -> bytes:
    command = [sys.executable, "-m", "kohort", "sim", "--seed", str(seed), "--log", "full", "--no-shrink"]
    return subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, timeout=100, check=False
    ).stdout


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_the_same_bytes_whatever_the_hashes_are(seed: int) -> None:
    first, second = trace(seed, "1"), trace(seed, "2")
    assert len(first.splitlines()) > 100
    assert first == second


def test_a_world_does_not_depend_on_those_before_it() -> None:
    alone = run_seed(SEEDS[0])
    for seed in SEEDS[1:]:
        run_seed(seed)
    assert run_seed(SEEDS[0]) == alone
