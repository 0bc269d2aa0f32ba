"""Every interleaving of two jobs that share a partition and are killed, late, or replaced at any step.

The table runs the rules of `claims`; the group gives the partition to the member that joined last, and former owners do
not notice. Searched whole, not at random; and it finds the fault where a rule is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.tables import table
from kohort.spark.tables.table import Claim, Fenced, Held, Step, Superseded

P = TopicPartition("flights", 0)
END = 2
"""Records of the partition."""

MOST_JOINS = 4

NEW = Held()


class Job(NamedTuple):
    """A running job: what it does next, the member it is, and the round it has open."""

    does: str = "join"
    member: str = ""
    generation: int = 0
    claim: Claim | None = None
    start: int = 0
    stop: int = 0


@dataclass(frozen=True)
class World:
    """The table (what it holds, and the rows' offsets in the order in which they came), the group, and two jobs."""

    held: Held = NEW
    rows: tuple[int, ...] = ()
    generation: int = 0
    owner: str = ""
    committed: int | None = None
    joins: int = 0
    deletions: int = 0
    jobs: tuple[Job | None, ...] = (None, None)


@dataclass(frozen=True)
class Rules:
    """What the jobs and the table do; a test takes one away."""

    advance: Callable[[TopicPartition, Held, Step], Held] = table.advance
    table_first: bool = True
    from_table: bool = True


def moves(world: World, rules: Rules) -> Iterator[World]:
    """Yield the worlds that one step of one job, a kill, a start or a deletion of the group leads to."""
    for index, job in enumerate(world.jobs):
        put = partial(with_job, index=index)
        if job is None:
            yield put(world, job=Job())
        else:
            yield put(world, job=None)
            yield from STEPS[job.does](world, job, put, rules)
    if world.owner and world.deletions < 1:
        yield replace(world, generation=0, owner="", committed=None, deletions=world.deletions + 1)


def with_job(world: World, *, job: Job | None, index: int) -> World:
    return replace(world, jobs=(*world.jobs[:index], job, *world.jobs[index + 1 :]))


def join(world: World, _: Job, put: Callable[..., World], __: Rules) -> Iterator[World]:
    if world.joins < MOST_JOINS:
        member, generation = f"m{world.joins}", world.generation + 1
        after = replace(world, generation=generation, owner=member, joins=world.joins + 1)
        yield put(after, job=Job("claim", member, generation))


def claim(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    wanted = Claim(job.generation, job.member)
    try:
        held = table.claim(P, world.held, wanted)
    except Superseded:
        if world.held.offset is not None and not is_member(world, job):
            yield put(world, job=Job())  # the group does not take its commit: it joins again
            return
        yield put(world, job=job._replace(does="claim anew"))
        return
    yield put(replace(world, held=held), job=begun(held, job, wanted, world, rules))


def claim_anew(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    wanted = Claim(job.generation, job.member)
    held = table.claim(P, world.held, wanted, is_renewed=True)
    yield put(replace(world, held=held), job=begun(held, job, wanted, world, rules))


def begun(held: Held, job: Job, wanted: Claim, world: World, rules: Rules) -> Job:
    start = held.offset if rules.from_table else world.committed
    if start is None:
        return job._replace(does="place", claim=wanted)
    return job._replace(does="read", claim=wanted, start=start)


def place(world: World, job: Job, put: Callable[..., World], _: Rules) -> Iterator[World]:
    assert job.claim is not None, "a job places what it claimed"
    try:
        held = table.place(P, world.held, job.claim, world.committed or 0)
    except Fenced:
        yield put(world, job=job._replace(does="claim"))
    else:
        yield put(replace(world, held=held), job=job._replace(does="read", start=world.committed or 0))


def read(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    for stop in range(job.start + 1, END + 1):
        yield put(world, job=job._replace(does="store" if rules.table_first else "commit", stop=stop))


def store(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    try:
        held = rules.advance(P, world.held, Step(job.start, job.stop, job.claim))
    except Fenced:
        yield put(world, job=job._replace(does="claim"))
    else:
        after = replace(world, held=held, rows=(*world.rows, *range(job.start, job.stop)))
        yield put(after, job=job._replace(does="commit") if rules.table_first else again(job))


def commit(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    if not is_member(world, job):
        yield put(world, job=job._replace(does="claim"))
        yield put(world, job=Job())
    else:
        next_job = again(job) if rules.table_first else job._replace(does="store")
        yield put(replace(world, committed=job.stop), job=next_job)


def again(job: Job) -> Job:
    return job._replace(does="read", start=job.stop)


def is_member(world: World, job: Job) -> bool:
    return (world.owner, world.generation) == (job.member, job.generation)


STEPS: dict[str, Callable[..., Iterator[World]]] = {
    "join": join,
    "claim": claim,
    "claim anew": claim_anew,
    "place": place,
    "read": read,
    "store": store,
    "commit": commit,
}


def worlds(rules: Rules) -> Iterator[World]:
    """Yield every world that can be reached, each once."""
    start = World()
    seen, left = {start}, [start]
    while left:
        world = left.pop()
        yield world
        for after in moves(world, rules):
            if after not in seen:
                seen.add(after)
                left.append(after)


def fault(world: World) -> str | None:
    """Return what is wrong with the table or the group."""
    if world.rows != tuple(range(world.held.offset or 0)):
        return "rows are not each once, up to the table's offset"
    if (world.committed or 0) > (world.held.offset or 0):
        return "the group says that more is done than the table has"
    return None


def first_fault(rules: Rules) -> str | None:
    return next((found for each in worlds(rules) if (found := fault(each))), None)


def test_each_offset_is_in_the_table_once_though_jobs_are_killed_or_late() -> None:
    count = 0
    for world in worlds(Rules()):
        assert fault(world) is None, world
        count += 1
    assert count > 10_000


def test_whatever_happened_a_fresh_job_alone_brings_everything_in() -> None:
    """Also after late owners, a deleted group, and claims whose members were killed before they read."""
    for world in worlds(Rules()):
        left = replace(world, joins=0, jobs=(Job(), None))
        for _ in range(12):
            job = left.jobs[0]
            assert job is not None
            if job.does == "read" and job.start == END:
                break
            *_, left = STEPS[job.does](left, job, partial(with_job, index=0), Rules())
        assert left.rows == tuple(range(END)), world


def only_claims(partition: TopicPartition, held: Held, step: Step) -> Held:
    if held.claim != step.claim:
        raise Fenced(partition, held, step.claim, "rows")
    return Held(step.stop, held.claim)


def only_offsets(partition: TopicPartition, held: Held, step: Step) -> Held:
    return table.advance(partition, held, step._replace(claim=None))


def anything(_: TopicPartition, held: Held, step: Step) -> Held:
    return Held(max(step.stop, held.offset or 0), held.claim)


@pytest.mark.parametrize("advance", [only_claims, only_offsets])
def test_claims_and_offsets_each_keep_rows_once_alone(advance: Callable[..., Held]) -> None:
    """So that a fault in one of the two loses and doubles nothing."""
    assert first_fault(Rules(advance=advance)) is None


@pytest.mark.parametrize(
    "rules",
    [
        Rules(advance=anything),
        Rules(table_first=False),
        Rules(advance=anything, from_table=False),
        Rules(advance=only_claims, from_table=False),
    ],
    ids=["nothing is compared", "the group first", "Kafka's group alone", "claims, from the group's offsets"],
)
def test_the_search_finds_the_fault_where_a_rule_is_missing(rules: Rules) -> None:
    assert first_fault(rules) is not None


class Query(NamedTuple):
    """A query with `foreachBatch`: its batch comes again until it is done, and it has no claim."""

    batch: tuple[int, int] | None = None
    held: int | None = None
    is_looking: bool = True


def query_moves(world: tuple[int | None, tuple[int, ...], tuple[Query, ...]]) -> Iterator[tuple]:
    """Yield the steps of two queries: a batch comes or comes again (a kill), it looks, it stores what is missing."""
    offset, rows, queries = world
    for index, query in enumerate(queries):

        def put(offset: int | None, rows: tuple[int, ...], after: Query, index: int = index) -> tuple:
            return offset, rows, (*queries[:index], after, *queries[index + 1 :])

        if query.batch is None:
            # The source starts at the group's offset, which follows the table's: at or before it.
            yield from (
                put(offset, rows, Query((start, stop)))
                for start in range((offset or 0) + 1)
                for stop in range(start + 1, END + 1)
            )
        elif query.is_looking:
            yield put(offset, rows, query._replace(held=offset, is_looking=False))
        else:
            yield put(offset, rows, Query(query.batch))
            start, stop = query.batch
            if stop <= (query.held or 0):
                yield put(offset, rows, Query())
                continue
            try:
                held = table.advance(P, Held(offset), Step(query.held, stop))
            except Fenced:
                yield put(offset, rows, Query(query.batch))
            else:
                stored = range(max(start, query.held or 0), stop)
                yield put(held.offset, (*rows, *stored), Query())


def test_queries_without_claims_store_each_offset_once() -> None:
    start: tuple = (None, (), (Query(), Query()))
    seen, left = {start}, [start]
    while left:
        world = left.pop()
        assert world[1] == tuple(range(world[0] or 0)), world
        for after in query_moves(world):
            if after not in seen:
                seen.add(after)
                left.append(after)
    assert len(seen) > 100
