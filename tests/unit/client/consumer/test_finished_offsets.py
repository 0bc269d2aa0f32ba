"""What a commit remembers of records that finished out of order: what it lists, what fits, and what is rubbish."""

from __future__ import annotations

import random

import pytest

from kohort.client.consumer.finished_offsets import (
    PREFIX,
    FinishedOffsets,
    NotRuns,
    Waiting,
    finished_of,
    metadata_of,
    shortened,
    waiting_of,
)


def listed(work: FinishedOffsets) -> set[int]:
    """Return the offsets that a commit says have finished above its own."""
    text = work.metadata()
    return {offset for run in finished_of(work.offset, text) for offset in run} if text else set()


def test_the_commit_is_the_lowest_unfinished_record_and_lists_what_finished_above_it() -> None:
    work = FinishedOffsets(10)
    assert work.take(range(10, 16), 16) == [10, 11, 12, 13, 14, 15]
    for offset in (11, 12, 15):
        work.finish(offset)
    assert (work.offset, listed(work)) == (10, {11, 12, 15})
    work.finish(10)
    assert (work.offset, listed(work)) == (13, {15})


def test_where_all_has_finished_the_commit_is_the_end_and_lists_nothing() -> None:
    work = FinishedOffsets(3)
    for offset in work.take([3, 7], 9):
        work.finish(offset)
    assert (work.offset, work.metadata()) == (9, "")


def test_the_next_owner_takes_only_what_had_not_finished() -> None:
    before = FinishedOffsets(0)
    before.take(range(8), 8)
    for offset in (1, 2, 5, 7):
        before.finish(offset)
    after = FinishedOffsets(before.offset, finished_of(before.offset, before.metadata()))
    assert after.take(range(4), 4) == [0, 3]
    assert listed(after) == {1, 2, 5, 7}, "what is finished further on is not forgotten before it is reached"
    assert after.take(range(4, 10), 10) == [4, 6, 8, 9]


def test_an_offset_without_a_record_counts_as_finished_once_a_later_one_was_taken() -> None:
    work = FinishedOffsets(0)
    work.take([0, 4], 5)
    work.finish(0)
    assert work.offset == 4


@pytest.mark.parametrize("seed", range(60))
def test_whatever_finishes_in_whatever_order_the_next_owners_handle_each_record_once(seed: int) -> None:
    draw = random.Random(seed)
    records = sorted(draw.sample(range(400), draw.randint(1, 300)))
    handled: list[int] = []
    offset, metadata = 0, ""
    while True:
        work = FinishedOffsets(offset, finished_of(offset, metadata) if metadata else ())
        running: list[int] = []
        end = draw.randint(offset, 420)
        at = offset
        while at < end:
            stop = min(end, at + draw.randint(1, 50))
            running += work.take([each for each in records if at <= each < stop], stop)
            at = stop
        for each in draw.sample(running, draw.randint(0, len(running))):
            work.finish(each)
            handled.append(each)
        if not running and end > records[-1]:
            break
        assert len(work.metadata()) <= work.limit
        offset, metadata = work.offset, work.metadata()
    assert sorted(handled) == records


@pytest.mark.parametrize("limit", [60, 200, 4_096])
@pytest.mark.parametrize("base", [0, 2**40])
def test_what_is_taken_within_the_room_always_fits_even_if_every_second_one_finishes(limit: int, base: int) -> None:
    work = FinishedOffsets(base, limit=limit)
    stuck = base
    for _ in range(50):
        if not (room := work.room):
            break
        start = work.next_offset
        taken = work.take(range(start, start + room), start + room)
        for offset in taken[1::2]:
            work.finish(offset)
        text = work.metadata()
        assert len(text) <= limit
        assert listed(work) == set(range(stuck, work.next_offset)) - set(work._open), "nothing was left out"
    assert work.unfinished, "the worst case was reached"


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    runs = [range(start, start + 1) for start in range(1, 2_000, 2)]
    text = metadata_of(0, runs, limit=100)
    assert len(text) <= 100
    found = finished_of(0, text)
    assert found == runs[: len(found)]
    assert len(found) > 30


def test_a_commit_written_before_the_limit_fell_does_not_lower_it_again() -> None:
    work = FinishedOffsets(0, limit=128)
    assert work.lower_limit(refused=127)
    assert not work.lower_limit(refused=127), "it was written for 128 too"
    assert work.limit == 64


def test_where_commits_take_no_metadata_it_is_empty_and_needs_no_room() -> None:
    work = FinishedOffsets(0, limit=0)
    work.take(range(5_000), 5_000)
    work.finish(7)
    assert work.metadata() == ""
    assert work.room > 0


def test_what_waits_for_an_attempt_stands_behind_what_has_finished_until_it_has_finished_too() -> None:
    work = FinishedOffsets(10)
    work.take(range(10, 16), 16)
    work.waiting = {10: Waiting(2, 1_700_000_001_000, True), 14: Waiting(1, 1_700_003_600_500, False)}
    work.finish(12)
    text = work.metadata()
    assert finished_of(10, text) == [range(12, 13)]
    assert waiting_of(10, text) == {
        10: Waiting(2, 1_700_000_001_000, True),
        14: Waiting(1, 1_700_003_601_000, False),
    }, "in whole seconds, and no earlier"
    work.finish(10)
    work.finish(14)
    assert waiting_of(work.offset, work.metadata()) == {}


def test_of_what_waits_as_much_is_listed_as_what_has_finished_leaves_room_for() -> None:
    waiting = {at: Waiting(1, at * 1000, True) for at in range(0, 400, 2)}
    text = metadata_of(0, [range(1, 2), range(3, 4)], 100, waiting)
    assert len(text) <= 100
    found = waiting_of(0, text)
    assert 10 < len(found) < 30
    assert found.items() <= waiting.items()
    less = shortened(0, text, 60)
    assert len(less) <= 60
    assert finished_of(0, less) == finished_of(0, text)
    assert 0 < len(waiting_of(0, less)) < len(found)


@pytest.mark.parametrize(
    ("offset", "metadata", "why"),
    [
        (5, "checkpoint 17", "not written by this client"),
        (5, "kohort2:BQEC", "not written by this client, or by another version"),
        (5, f"{PREFIX}***", "not base64|it belongs to"),
        (6, metadata_of(5, [range(6, 9)]), "it belongs to offset 5, not to 6"),
        (5, PREFIX, "it belongs to offset none"),
        (5, metadata_of(5, [range(6, 9)])[:-1] + "A", "in turn|cut off"),
        (5, PREFIX + "_____________w", "longer than 64 bits|cut off"),
    ],
)
def test_metadata_that_is_no_list_of_finished_offsets_is_refused_with_the_reason(
    offset: int, metadata: str, why: str
) -> None:
    with pytest.raises(NotRuns, match=why):
        finished_of(offset, metadata)


def test_no_rubbish_raises_anything_else() -> None:
    for seed in range(2_000):
        draw = random.Random(seed)
        text = PREFIX + "".join(draw.choices("ABCabc019_-=é \x00", k=draw.randint(0, 40)))
        try:
            found = finished_of(0, text)
            waiting_of(0, text + "." + text.removeprefix(PREFIX))
        except NotRuns:
            continue
        assert all(run.start >= 0 and len(run) for run in found), text
