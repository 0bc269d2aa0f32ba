"""`python -m tests.lockstep`: many seeds, or one again."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from random import Random

from tests.lockstep.apache import Apache
from tests.lockstep.generator import Generator, clients_of, config_of
from tests.lockstep.model import Step
from tests.lockstep.pair import Mismatch
from tests.lockstep.play import Play

STEPS = 120


def begin(theirs: Apache, seed: int) -> tuple[Play, Generator]:
    random = Random(f"lockstep {seed}")
    clients = clients_of(random)
    config = config_of(random)
    play = Play(theirs, seed, clients, config)
    return play, Generator(random, clients)


def replay(theirs: Apache, seed: int, steps: list[Step], *, is_traced: bool = False) -> Exception | None:
    play, _ = begin(theirs, seed)
    play.pair.trace = print if is_traced else None
    try:
        for step in steps:
            if is_traced:
                print(step)
            play.do(step)
    except Exception as mismatch:
        return mismatch
    return None


def run(theirs: Apache, seed: int) -> tuple[list[Step], Exception | None, Counter[str]]:
    play, generator = begin(theirs, seed)
    steps: list[Step] = []
    queue = generator.opening()
    try:
        for _ in range(STEPS):
            step = queue.pop(0) if queue else generator.step()
            steps.append(step)
            play.do(step)
    except Exception as mismatch:
        return steps, mismatch, play.pair.met
    return steps, None, play.pair.met


def shrink(theirs: Apache, seed: int, steps: list[Step]) -> list[Step]:
    size = max(len(steps) // 2, 1)
    while size:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if replay(theirs, seed, fewer) is not None:
                steps = fewer
            else:
                start += size
        size //= 2
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    theirs = Apache()
    seeds = [options.seed] if options.seed is not None else range(options.start, options.start + options.seeds)
    met: Counter[str] = Counter()
    taken = failures = 0
    began = time.monotonic()
    for seed in seeds:
        steps, mismatch, counts = run(theirs, seed)
        taken += len(steps)
        met += counts
        if mismatch is not None:
            failures += 1
            short = shrink(theirs, seed, steps)
            again = replay(theirs, seed, short, is_traced=options.trace)
            print(f"seed {seed}: {len(steps)} steps, shrunk to {len(short)}")
            for step in short:
                print("   ", step)
            traceback.print_exception(again or mismatch, limit=0 if isinstance(again, Mismatch) else None)
            if not options.keep_going:
                break
    took = time.monotonic() - began
    print(f"{taken} steps in {took:.1f} s, {taken / took:.0f} steps/s, {failures} failures")
    for name, count in met.most_common():
        print(f"{count:8} {name}")
    theirs.close()
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
