"""`kohort sim`: simulated worlds from seeds, with our brokers and members and all faults.

One seed is printed as a trace or drawn as a picture; many are counted. A failure is shrunk and printed with the command
line that reproduces it.
"""

from __future__ import annotations

import argparse
import os
import time
from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandFailed
from kohort.cli.terminal.options import add_json, add_option, amount, number, output_file, verb

if TYPE_CHECKING:
    from kohort.sim.scenario.world_plan import Broken, WorldOutcome, WorldPlan
    from kohort.sim.swarm.seed_batch import Tally

EXAMPLES = """
kohort sim --seed 7
kohort sim --seed 7 --log full --picture world.svg
kohort sim --seed 7 --plan
kohort sim --seed 7 --only 3,7,9
kohort sim --seeds 10000 --jobs 2
kohort sim --seeds 10000 --producers 2
kohort sim --rolling-restart 1000 --gateways 3
kohort sim --seeds 1000000 --spark 'spark://master:7077'
"""

SHRUNK = 5
"""How many failures of a batch are made smaller: the first of each invariant."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sim` to the command line."""
    summary = "run brokers and members in simulated worlds full of faults, and check every invariant"
    parser = verb(verbs, "sim", summary, run=run, examples=EXAMPLES)
    many = parser.add_mutually_exclusive_group(required=True)
    add_option(many, "--seed N", "the world of one seed", number(0, "a seed"))
    add_option(many, "--seeds COUNT", "so many worlds", number(1, "a number of seeds"))
    add_option(
        many,
        "--rolling-restart MEMBERS",
        "restart so many members of groups of each protocol one after the other, and kill a gateway",
        number(1, "a number of members"),
    )
    one = parser.add_argument_group("one seed")
    add_option(
        one, "--log", "how much of what happens is printed (short)", choices=("short", "full", "none"), default="short"
    )
    add_option(one, "--picture FILE", "draw the owners of partitions over time, as SVG", output_file(".svg"))
    add_option(one, "--plan", "print what the seed decides, and run nothing")
    add_option(one, "--only STEPS", "leave out all steps but these, such as 3,7,9 or none", steps)
    add_option(one, "--until SECONDS", "end the faults then", seconds_us)
    add_option(
        parser,
        "--gateways N",
        "put so many gateways, which may be killed, between the members and the brokers (0)",
        number(0, "a number of gateways"),
        default=0,
    )
    add_option(
        parser,
        "--producers N",
        "add so many transactional producers, and a reader of what they commit (0)",
        number(0, "a number of producers"),
        default=0,
    )
    batch = parser.add_argument_group("many seeds")
    add_option(batch, "--from N", "the first (0)", number(0, "a seed"), dest="first", default=0)
    add_option(batch, "--jobs N", "processes (as many as there are cores)", number(1, "a number of processes"))
    add_option(batch, "--spark MASTER", "spread the seeds over a Spark cluster, such as local[2]")
    add_option(parser, "--no-shrink", "do not make failures smaller")
    add_json(parser)


def steps(text: str) -> tuple[int, ...]:
    """Return the numbers of a list of steps."""
    if text == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no list of steps such as 3,7,9") from None


def seconds_us(text: str) -> int:
    """Return seconds of the world as microseconds."""
    return round(amount("time of the world in seconds, such as 12.5", least=1e-6, below=1e6)(text) * 1_000_000)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for, and return the exit status: 1 where a world broke."""
    if args.rolling_restart is not None:
        return run_rolling_restart(args)
    foreign = ("first", "jobs", "spark") if args.seed is not None else ("picture", "plan", "only", "until")
    for name in foreign:
        if getattr(args, name):
            option = "from" if name == "first" else name
            raise CommandFailed(f"--{option} goes with {'--seeds' if args.seed is not None else '--seed'}", USAGE)
    if args.seed is not None:
        return run_one(args)
    return print_summary(args, outcomes(args, range(args.first, args.first + args.seeds)))


# A rolling restart


def run_rolling_restart(args: argparse.Namespace) -> int:
    """Run the rolling restart, and print its cost."""
    import resource

    from kohort.sim.swarm.seed_batch import outcome_as_json
    from kohort.sim.swarm.seed_plan import restart_checkers, rolling_restart
    from kohort.sim.swarm.world_run import run as run_plan

    given = (
        name
        for name in ("first", "jobs", "spark", "picture", "plan", "only", "until", "producers")
        if getattr(args, name)
    )
    if option := next(given, None):
        raise CommandFailed(f"--{'from' if option == 'first' else option} does not go with --rolling-restart", USAGE)
    plan = rolling_restart(args.rolling_restart, args.gateways)
    started_s = time.process_time()
    outcome = run_plan(plan, checkers=restart_checkers())
    cpu_s = time.process_time() - started_s
    cost = {
        "members": len(plan.members),
        "groups": len(plan.groups),
        "gateways": len(plan.gateways),
        "restarts": outcome.met.get("bounce", 0),
        "events": outcome.events,
        "virtual_s": round(outcome.virtual_us / 1e6, 1),
        "unowned_partition_s": round(outcome.unowned_us / 1e6, 1),
        "cpu_s": round(cpu_s, 1),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    failure = [] if outcome.broken is None else [f"{outcome.broken.invariant} broken: {outcome.broken.sentence}"]
    lines = [*(f"{name.replace('_', ' '):<20} {value:>14,}" for name, value in cost.items()), *failure]
    output.put_result(args, cost | {"outcome": outcome_as_json(outcome)}, "\n".join(lines))
    return 0 if outcome.broken is None else FAILED


# One world


def run_one(args: argparse.Namespace) -> int:
    """Run and print one world."""
    from kohort.sim import picture, trace
    from kohort.sim.kernel.world_observer import Observer
    from kohort.sim.scenario.world_plan import show
    from kohort.sim.swarm.world_run import run as run_plan

    whole, plan = cut(args)
    if args.plan:
        output.put("\n".join(show(plan)))
        return 0
    observers: list[Observer] = []
    if args.log != "none" and not args.json:
        observers.append((trace.Trace if args.log == "full" else trace.ShortTrace)(output.put))
    drawing = picture.Picture(f"kohort sim --seed {args.seed}") if args.picture else None
    if drawing is not None:
        observers.append(drawing)
    try:
        outcome = run_plan(plan, *observers)
    finally:
        if drawing is not None:
            output.write_file(args.picture, drawing.svg())
    smaller = ""
    if outcome.broken is not None and not args.no_shrink and args.only is None:
        smaller = smallest(whole, plan, outcome.broken)
    return print_outcome(args, outcome, smaller)


def print_outcome(args: argparse.Namespace, outcome: WorldOutcome, smaller: str) -> int:
    """Print the outcome of a world, and return the exit status."""
    from kohort.sim.swarm.seed_batch import outcome_as_json

    lines, document = list(outcome_lines(outcome)), outcome_as_json(outcome)
    if smaller:
        lines.append(f"smaller: {smaller}")
        document["shrunk"] = smaller
    output.put_result(args, document, "\n".join(lines))
    return 0 if outcome.broken is None else FAILED


def cut(args: argparse.Namespace) -> tuple[WorldPlan, WorldPlan]:
    """Return the plan of a seed, whole and as the options want it."""
    from kohort.sim.swarm.seed_plan import draw_plan

    whole = plan = draw_plan(args.seed, args.gateways, args.producers)
    if args.only is not None:
        known = {step.number for step in whole.steps}
        if unknown := [step for step in args.only if step not in known]:
            raise CommandFailed(f"seed {args.seed} has no step {unknown[0]}: it has 1 to {len(known)}", USAGE)
        plan = plan.only(args.only)
    return whole, plan if args.until is None else plan.until(args.until)


def outcome_lines(outcome: WorldOutcome) -> Iterator[str]:
    """Yield the outcome of a world as sentences."""
    extent = f"{outcome.events:,} events in {outcome.virtual_us / 1e6:.1f} virtual seconds"
    if outcome.broken is None:
        rest = "" if outcome.rest_us < 0 else f", converged {outcome.rest_us / 1e6:.1f} s after the healing"
        yield f"seed {outcome.seed}: passed, {extent}{rest}"
    else:
        broken = outcome.broken
        yield f"seed {outcome.seed}: {broken.invariant} broken at {broken.at_us / 1e6:.6f} s, event {broken.event}"
        yield f"  {broken.sentence}"


def smallest(whole: WorldPlan, plan: WorldPlan, broken: Broken) -> str:
    """Return the command line of the smallest plan that fails as this one does."""
    from kohort.sim.scenario.shrinking import TRIES, replay, shrink
    from kohort.sim.swarm.world_run import run as run_plan

    with output.Meter("making it smaller", total=TRIES, unit="worlds") as meter:

        def tried(smaller: WorldPlan) -> Broken | None:
            meter.advance()
            return run_plan(smaller).broken

        return replay(shrink(plan, broken, tried).plan, whole)


# Many worlds


def print_summary(args: argparse.Namespace, worlds: Generator[WorldOutcome]) -> int:
    """Summarize worlds as they end, and return the exit status; Ctrl-C prints the summary so far."""
    from kohort.sim.swarm.seed_batch import Tally

    tally = Tally()
    started = time.perf_counter()
    is_interrupted = False
    try:
        with (
            output.Meter("simulating", total=args.seeds, unit="seeds") as meter,
            closing(worlds) as each,
        ):
            for outcome in each:
                tally.add(outcome)
                meter.advance()
    except KeyboardInterrupt:
        is_interrupted = True
    elapsed_s = time.perf_counter() - started
    replays = {} if args.no_shrink or is_interrupted else smaller_of(tally)
    if args.json:
        shown = tally.as_json() | {"seconds": round(elapsed_s, 3), "interrupted": is_interrupted}
        for failure in shown["failures"]:
            failure["replay"] = replays.get(failure["seed"], failure["replay"])
        output.put_json(shown)
    else:
        output.put("\n".join(summary(tally, replays)))
        speed = f"{elapsed_s:,.1f} s, {tally.events / elapsed_s:,.0f} events/s"
        output.put(f"{tally.summary()}; {speed}{'; interrupted' if is_interrupted else ''}")
    if is_interrupted:
        return INTERRUPTED
    return FAILED if tally.broken else 0


def outcomes(args: argparse.Namespace, seeds: range) -> Generator[WorldOutcome]:
    """Yield the outcomes of the seeds, run here or on a Spark cluster."""
    if args.spark is None:
        from kohort.sim.swarm.seed_batch import run_seeds

        yield from run_seeds(seeds, args.jobs or os.cpu_count() or 1, args.gateways, args.producers)
        return
    from kohort.spark.spark_session import SparkMissing, build

    try:
        session = build("kohort sim", master=args.spark)
    except SparkMissing as error:
        raise CommandFailed(str(error)) from None
    from kohort.sim.swarm.seed_batch import spread

    try:
        yield from spread(session, seeds, gateways=args.gateways, producers=args.producers)
    finally:
        session.stop()


def smaller_of(tally: Tally) -> dict[int, str]:
    """Return the command lines of the first failures of each invariant, made smaller, by seed."""
    from kohort.sim.swarm.seed_plan import draw_plan

    first: dict[str, tuple[int, Broken]] = {}
    for outcome in sorted(tally.broken):
        if outcome.broken is not None and len(first) < SHRUNK:
            first.setdefault(outcome.broken.invariant, (outcome.seed, outcome.broken))
    found: dict[int, str] = {}
    gateways, producers = (tally.broken[0].gateways, tally.broken[0].producers) if tally.broken else (0, 0)
    for seed, broken in first.values():
        whole = draw_plan(seed, gateways, producers)
        found[seed] = smallest(whole, whole, broken)
    return found


def summary(tally: Tally, replays: dict[int, str]) -> Iterator[str]:
    """Yield the summary of many worlds: by fault, by invariant, and each failure with its replay."""
    from kohort.sim.swarm.seed_batch import replay_of

    yield output.table(("fault", "worlds", "drawn", "met"), tally.faults())
    yield ""
    yield output.table(("invariant", "worlds", "compared", "broken"), tally.invariants())
    if tally.failures:
        yield ""
        yield output.table(("members that failed", "times"), sorted(tally.failures.items()))
    for outcome in sorted(tally.broken):
        broken = outcome.broken
        assert broken is not None, "a broken world names its invariant"
        yield ""
        yield f"seed {outcome.seed}: {broken.invariant} at {broken.at_us / 1e6:.6f} s: {broken.sentence}"
        yield f"  {replays.get(outcome.seed, replay_of(outcome))}"
    yield ""
