"""Feed Kafka's coordinators, authorizer and assignors and ours the same commands, questions and groups.

    python -m tests.lockstep                        100,000 steps, 50,000 of transactions, 16,000 of
                                                    streams groups, 10,000 groups, 2,000 applications
                                                    and streams groups of Kafka Streams,
                                                    100,000 questions about rights
    python -m tests.lockstep --seed 17 --trace      one seed, shrunk if it fails, with all that happens in it
    python -m tests.lockstep --seeds 50 --from 900 --keep-going

The last line is the verdict; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from types import ModuleType

from interop.unavailable import Unavailable
from tests.lockstep import assignors, authorizer, streams_groups, streams_tasks, tasks, transactions
from tests.lockstep.apache import Apache
from tests.lockstep.differences import TABLE
from tests.lockstep.run import STEPS, Run, again, run, shrink, take

from interop import jars

CHUNK = 20
"""Seeds that a process takes at a time."""

GROUPS = 10_000
"""Groups that the assignors are compared on."""

APPLICATIONS = 2_000
"""Applications that the task assignors are compared on."""

SEEDS = -(-100_000 // STEPS)
TRANSACTIONS = -(-50_000 // transactions.STEPS)
"""Seeds that the transaction coordinators are compared on."""

STREAMS_GROUPS = 200
"""Seeds that streams groups are compared on."""

QUESTIONS = 130
"""Seeds that the authorizers are compared on: 100,000 questions."""


def _results(seeds: list[int], jobs: int, pom: str) -> Iterator[tuple[int, Counter[str], list[tuple[Run, Run]]]]:
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    if jobs == 1 or len(chunks) == 1:
        yield from (take(chunk, pom) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for done in as_completed([pool.submit(take, chunk, pom) for chunk in chunks]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def coordinators(options: argparse.Namespace) -> int:
    """Run the seeds, say what was found, and return how many failed."""
    first = options.seed if options.seed is not None else options.start
    seeds = list(range(first, first + (1 if options.seed is not None else options.seeds)))
    steps, met, failures, done = 0, Counter[str](), 0, 0
    began = time.monotonic()
    for taken, counts, failed in _results(seeds, options.jobs, options.pom):
        steps, met, done = steps + taken, met + counts, done + CHUNK
        rate = steps / (time.monotonic() - began)
        _progress(f"{steps:,} of {len(seeds) * STEPS:,} steps, {rate:,.0f} a second, {failures} failures")
        for whole, short in failed:
            failures += 1
            _say_failure(whole, short)
        if failures and not options.keep_going:
            break
    if options.trace:
        theirs = Apache(options.pom)
        whole = run(theirs, first)
        again(theirs, first, (shrink(theirs, whole) if whole.failure else whole).steps, print)
    took = time.monotonic() - began
    for difference in TABLE:
        if met[difference.name]:
            print(f"{met[difference.name]:9,}  {difference.name}")
    unused = [difference.name for difference in TABLE if not met[difference.name]]
    if unused and len(seeds) >= SEEDS:
        print(f"never met in this run, so perhaps no difference any more: {'; '.join(unused)}")
    summary = f"{steps:,} steps of {len(seeds):,} seeds in {took:.0f} s, {steps / took:,.0f} a second"
    print(f"coordinators: {summary}, {sum(met.values()):,} listed differences, {failures} others")
    return failures


def _say_failure(whole: Run, short: Run) -> None:
    print(f"\nseed {whole.seed}: {len(whole.steps)} steps, {len(short.steps)} of them suffice:")
    for step in short.steps:
        print(f"    {step}")
    print(short.failure)
    print(f"again: python -m tests.lockstep --seed {whole.seed}\n")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}   ", end="", file=sys.stderr, flush=True)


def assignor_groups(count: int) -> int:
    """Compare the assignors, say what was found, and return how many were worse."""
    began = time.monotonic()
    java = assignors.Java()
    try:
        found = assignors.compare(java, count)
    finally:
        java.close()
    took = time.monotonic() - began
    worse = found.verdicts()
    for line in (*found.lines(), *worse):
        print(line)
    print(f"assignors: {found.total:,} groups in {took:.0f} s, {len(worse)} worse than Kafka's")
    return len(worse)


def placements(of: ModuleType, count: int) -> int:
    """Compare placements of tasks, say what was found, and return in how many ways ours are worse."""
    began = time.monotonic()
    java = of.Java()
    try:
        found = of.compare(java, count)
    finally:
        java.close()
    took = time.monotonic() - began
    for line in (*found.lines(), *found.worse):
        print(line)
    name = of.__name__.rpartition(".")[2].replace("_", " ")
    print(f"{name}: {count:,} groups in {took:.0f} s, {len(found.worse)} worse than Kafka's")
    return len(found.worse)


def transaction_steps(seeds: list[int]) -> int:
    """Compare the transaction coordinators, say what was found, and return how many seeds failed."""
    began, steps, met, failures = time.monotonic(), 0, Counter[str](), 0
    theirs = transactions.Kafkas()
    try:
        for seed in seeds:
            found = transactions.run(theirs, seed)
            steps, met = steps + len(found.steps), met + found.met
            if found.failure is not None:
                failures += 1
                short = transactions.shrink(theirs, found)
                print(f"\ntransactions, seed {seed}: {len(short.steps)} steps suffice: {short.failure}\n")
    finally:
        theirs.close()
    for name, times in met.most_common():
        print(f"{times:9,}  {name}")
    took = time.monotonic() - began
    print(f"transactions: {steps:,} steps in {took:.0f} s, {sum(met.values()):,} listed differences, {failures} others")
    return failures


def streams_group_steps(seeds: list[int]) -> int:
    """Compare streams groups, say what was found, and return how many seeds failed."""
    began, steps, met, whole, failures = time.monotonic(), 0, Counter[str](), 0, 0
    theirs = streams_groups.program()
    try:
        for seed in seeds:
            found = streams_groups.run(theirs, seed)
            steps, met, whole = steps + len(found.steps), met + found.met, whole + (found.ended is None)
            if found.failure is not None:
                failures += 1
                short = streams_groups.shrink(theirs, found)
                print(f"\nstreams groups, seed {seed}: {short.steps} suffice: {short.failure}\n")
    finally:
        theirs.close()
    for name, times in met.most_common():
        print(f"{times:9,}  {name}")
    took = time.monotonic() - began
    print(
        f"streams groups: {steps:,} steps of {len(seeds)} seeds in {took:.0f} s, {whole} of them to the end, "
        f"{sum(met.values()):,} listed differences, {failures} others"
    )
    return failures


def questions(seeds: list[int]) -> int:
    """Compare the authorizers, say what was found, and return how many seeds failed."""
    began, answers, failures = time.monotonic(), Counter[str](), 0
    theirs = authorizer.Kafkas()
    try:
        for seed in seeds:
            found = authorizer.run(theirs, seed)
            answers += found.answers
            if found.failure is not None:
                failures += 1
                short = authorizer.shrink(theirs, found)
                print(f"\nauthorizer, seed {seed}: {len(short.steps)} steps suffice: {short.failure}\n")
    finally:
        theirs.close()
    took, total = time.monotonic() - began, sum(answers.values())
    print(f"authorizer: {total:,} questions in {took:.0f} s, {answers['1']:,} allowed, {failures} seeds differ")
    return failures


def main() -> None:
    """Compare what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.lockstep", description="Kafka's coordinator beside ours.")
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--from", type=int, default=0, dest="start", metavar="SEED", help="the first seed (0)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many seeds of {STEPS} steps ({SEEDS})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first failure")
    parser.set_defaults(pom="pom.xml")
    parser.add_argument(
        "--newest",
        action="store_const",
        dest="pom",
        const=jars.NEWEST,
        help="the coordinator of Kafka 4.4, not of 4.3.1",
    )
    parser.add_argument("--trace", action="store_true", help="print all that happens in the seed, or its shrunk steps")
    parser.add_argument(
        "--assignors", type=int, default=GROUPS, metavar="GROUPS", help=f"groups ({GROUPS:,}); 0 for none"
    )
    parser.add_argument(
        "--transactions", type=int, default=TRANSACTIONS, metavar="SEEDS", help=f"seeds ({TRANSACTIONS}); 0 for none"
    )
    parser.add_argument(
        "--streams", type=int, default=STREAMS_GROUPS, metavar="SEEDS", help=f"seeds ({STREAMS_GROUPS}); 0 for none"
    )
    parser.add_argument(
        "--tasks", type=int, default=APPLICATIONS, metavar="APPLICATIONS", help=f"({APPLICATIONS:,}); 0 for none"
    )
    parser.add_argument(
        "--questions", type=int, default=QUESTIONS, metavar="SEEDS", help=f"of the authorizer ({QUESTIONS}); 0 for none"
    )
    options = parser.parse_args()
    try:
        failures = coordinators(options)
        if options.seed is None and options.transactions:
            failures += transaction_steps(list(range(options.start, options.start + options.transactions)))
        if options.seed is None and options.streams:
            failures += streams_group_steps(list(range(options.start, options.start + options.streams)))
        if options.seed is None and options.questions:
            failures += questions(list(range(options.start, options.start + options.questions)))
        if options.seed is None and options.assignors:
            failures += assignor_groups(options.assignors)
        if options.seed is None and options.tasks:
            failures += sum(placements(each, options.tasks) for each in (tasks, streams_tasks))
    except Unavailable as reason:
        sys.exit(f"lockstep needs Apache Kafka's jars and a Java that compiles: {reason}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
