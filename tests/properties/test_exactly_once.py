"""Every interleaving of two jobs that share a partition and are killed, late, or replaced at any step.

The table compares offsets by `check_steps`; the group gives the partition to the member that joined last, and former
owners do not notice. Searched whole, not at random; and it finds the fault where a rule is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import Fenced, OffsetStep, Position, check_steps

P = TopicPartition("flights", 0)
END = 3
"""Records of the partition."""

MOST_JOINS = 4


class Job(NamedTuple):
    """A running job: what it does next, the member it is, what it found in the table, and the round it has open."""

    does: str = "join"
    member: str = ""
    generation: int = 0
    found: int | None = None
    start: int = 0
    stop: int = 0


class World(NamedTuple):
    """The table (its offset, and the rows' offsets in the order in which they came), the group, and two jobs."""

    offset: int | None = None
    rows: tuple[int, ...] = ()
    generation: int = 0
    owner: str = ""
    committed: int | None = None
    joins: int = 0
    deletions: int = 0
    jobs: tuple[Job | None, ...] = (None, None)


Check = Callable[[str, str, Mapping[TopicPartition, Position], Mapping[TopicPartition, OffsetStep]], None]


@dataclass(frozen=True)
class Rules:
    """What the jobs and the table do; a test takes one away."""

    check: Check = check_steps
    table_first: bool = True
    from_table: bool = True


def found_in(offset: int | None) -> dict[TopicPartition, Position]:
    return {} if offset is None else {P: Position(offset)}


def step(expected: int | None, stop: int) -> OffsetStep:
    return OffsetStep(None if expected is None else Position(expected), Position(stop))


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
        yield world._replace(generation=0, owner="", committed=None, deletions=world.deletions + 1)


def with_job(world: World, *, job: Job | None, index: int) -> World:
    return world._replace(jobs=(*world.jobs[:index], job, *world.jobs[index + 1 :]))


def join(world: World, _: Job, put: Callable[..., World], __: Rules) -> Iterator[World]:
    if world.joins < MOST_JOINS:
        member, generation = f"m{world.joins}", world.generation + 1
        after = world._replace(generation=generation, owner=member, joins=world.joins + 1)
        yield put(after, job=Job("look", member, generation))


def look(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    """The table's offset comes first, then the group's, then the beginning."""
    held = world.offset if rules.from_table else None
    start = next((each for each in (held, world.committed) if each is not None), 0)
    yield put(world, job=job._replace(does="read", found=world.offset, start=start))


def read(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    for stop in range(job.start + 1, END + 1):
        yield put(world, job=job._replace(does="store" if rules.table_first else "commit", stop=stop))


def store(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    try:
        rules.check("t", "g", found_in(world.offset), {P: step(job.found, job.stop)})
    except Fenced:
        yield put(world, job=job._replace(does="look"))
    else:
        after = world._replace(offset=job.stop, rows=(*world.rows, *range(job.start, job.stop)))
        job = job._replace(found=job.stop)
        yield put(after, job=job._replace(does="commit") if rules.table_first else again(job))


def commit(world: World, job: Job, put: Callable[..., World], rules: Rules) -> Iterator[World]:
    if not is_member(world, job):
        yield put(world, job=job._replace(does="look"))
        yield put(world, job=Job())
    else:
        next_job = again(job) if rules.table_first else job._replace(does="store")
        yield put(world._replace(committed=job.stop), job=next_job)


def again(job: Job) -> Job:
    return job._replace(does="read", start=job.stop)


def is_member(world: World, job: Job) -> bool:
    return (world.owner, world.generation) == (job.member, job.generation)


STEPS: dict[str, Callable[..., Iterator[World]]] = {
    "join": join,
    "look": look,
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
    if world.rows != tuple(range(world.offset or 0)):
        return "rows are not each once, up to the table's offset"
    if (world.committed or 0) > (world.offset or 0):
        return "the group says that more is done than the table has"
    return None


def first_fault(rules: Rules) -> str | None:
    return next((found for each in worlds(rules) if (found := fault(each))), None)


@pytest.fixture(scope="module")
def reached() -> list[World]:
    """Return every world of the rules as they are: the search takes seconds."""
    return list(worlds(Rules()))


def test_each_offset_is_in_the_table_once_though_jobs_are_killed_or_late(reached: list[World]) -> None:
    for world in reached:
        assert fault(world) is None, world
    assert len(reached) > 10_000


def test_whatever_happened_a_fresh_job_alone_brings_everything_in(reached: list[World]) -> None:
    """Also after late owners, and a deleted group; many worlds differ only in jobs that are gone then."""
    for world in {each._replace(joins=0, jobs=(Job(), None)) for each in reached}:
        left = world
        for _ in range(12):
            job = left.jobs[0]
            assert job is not None
            if job.does == "read" and job.start == END:
                break
            *_, left = STEPS[job.does](left, job, partial(with_job, index=0), Rules())
        assert left.rows == tuple(range(END)), world


def anything(*_: object) -> None:
    """Compare nothing."""


@pytest.mark.parametrize(
    "rules",
    [
        Rules(check=anything),
        Rules(table_first=False),
        Rules(from_table=False),
        Rules(check=anything, from_table=False),
    ],
    ids=["nothing is compared", "the group first", "from the group's offsets", "Kafka's group alone"],
)
def test_the_search_finds_the_fault_where_a_rule_is_missing(rules: Rules) -> None:
    assert first_fault(rules) is not None


class Query(NamedTuple):
    """A query with `foreachBatch`: its batch comes again until it is done."""

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
                check_steps("t", "g", found_in(offset), {P: step(query.held, stop)})
            except Fenced:
                yield put(offset, rows, Query(query.batch))
            else:
                stored = range(max(start, query.held or 0), stop)
                yield put(stop, (*rows, *stored), Query())


def test_queries_store_each_offset_once() -> None:
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
