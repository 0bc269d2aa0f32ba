"""Checkpoints and commits: a restart whose last batch is [100, 200), a new checkpoint in a group at offset 200."""

from __future__ import annotations

from typing import get_args

import pytest

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.ids import TopicPartition
from kohort.spark.membership.checkpoint import Checkpoint, CheckpointGone, NewCheckpoint, OffsetMismatch
from kohort.spark.membership.stream_offset import JOB, CommitMark, StreamOffset
from kohort.spark.options.member_options import Mismatch, OnNewCheckpoint
from kohort.spark.rows.rounds import OffsetRange

HERE, ELSEWHERE = TopicPartition("flights", 0), TopicPartition("flights", 1)
LAST = StreamOffset("g", 3, 7, (OffsetRange(HERE, 100, 200),))


def position(
    committed: OffsetAndMetadata | None,
    *,
    is_shared: bool = False,
    on_mismatch: Mismatch = "fail",
    last: StreamOffset = LAST,
) -> int | None:
    found = Checkpoint(last, "g", on_mismatch).positions(
        frozenset({HERE, ELSEWHERE}), {} if committed is None else {HERE: committed}, is_shared=is_shared
    )
    return found.get(HERE)


def by_a_job(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, JOB.text)


def test_a_group_at_the_end_of_the_batch_agrees_with_any_committer() -> None:
    assert position(by_a_job(200)) == position(OffsetAndMetadata(200)) == 200


def test_a_batch_that_was_finished_and_not_committed_is_not_read_again() -> None:
    assert position(by_a_job(100)) == 200


def test_a_group_that_has_lost_its_offsets_goes_on_after_the_batch() -> None:
    assert position(None) == 200


@pytest.mark.parametrize("offset", [150, 500])
def test_the_group_is_right_where_other_jobs_have_read_on(offset: int) -> None:
    assert position(by_a_job(offset)) == offset


@pytest.mark.parametrize("offset", [40, 100, 150, 500])
def test_the_group_is_right_where_it_has_other_members(offset: int) -> None:
    assert position(OffsetAndMetadata(offset), is_shared=True) == offset


@pytest.mark.parametrize("offset", [0, 40, 100, 150, 500])
def test_an_offset_that_was_reset_is_an_error_that_names_both(offset: int) -> None:
    with pytest.raises(OffsetMismatch) as raised:
        position(OffsetAndMetadata(offset))
    for part in ("flights-0", f"at offset {offset},", "100 to 200", "onOffsetMismatch", f"group (read on at {offset})"):
        assert part in raised.value.text


def test_jobs_commit_forward_only_so_an_offset_before_the_batch_was_reset() -> None:
    with pytest.raises(OffsetMismatch):
        position(by_a_job(99), is_shared=True)


def test_the_option_says_who_is_right() -> None:
    assert position(OffsetAndMetadata(40), on_mismatch="group") == 40
    assert position(OffsetAndMetadata(40), on_mismatch="checkpoint") == 200


def test_a_checkpoint_of_another_group_is_an_error_that_names_both() -> None:
    other = StreamOffset("old", 3, 7, LAST.places)
    with pytest.raises(OffsetMismatch, match=r"checkpoint is of the group 'old', and group\.id is 'g'"):
        position(by_a_job(50), last=other)
    assert position(by_a_job(50), last=other, on_mismatch="group") is None
    assert position(by_a_job(50), last=other, on_mismatch="checkpoint") == 200


def test_a_partition_that_the_last_batch_did_not_have_is_the_groups_alone() -> None:
    found = Checkpoint(LAST, "g").positions(frozenset({ELSEWHERE}), {ELSEWHERE: OffsetAndMetadata(7)}, is_shared=False)
    assert found == {}


def test_a_partition_has_been_asked_for_once_then_the_group_is_right() -> None:
    later = Checkpoint(LAST, "g").without(frozenset({HERE}))
    assert later.positions(frozenset({HERE}), {HERE: OffsetAndMetadata(7)}, is_shared=False) == {}


def test_a_query_that_has_had_no_batch_says_nothing() -> None:
    assert position(OffsetAndMetadata(5), last=StreamOffset("g")) is None
    assert position(None, last=StreamOffset("other")) is None


P = TopicPartition("flights", 0)
FINISHED, BEGUN = CommitMark("ab", 7).text, CommitMark("ab", -1).text


def new_position(
    metadata: str,
    on_new: OnNewCheckpoint = "fail",
    *,
    start: int | None = 0,
    is_shared: bool = False,
    is_latest: bool = False,
) -> int | None:
    entry = {P: OffsetAndMetadata(200, metadata)}
    new = NewCheckpoint("g", on_new, "startingOffsets=earliest", entry)
    found = new.positions(entry, {} if start is None else {P: start}, is_shared=is_shared, is_latest=is_latest)
    assert new.positions(entry, {P: 0}, is_shared=False, is_latest=False) == {}, "it is asked once"
    return found.get(P)


@pytest.mark.parametrize("mark", [JOB, CommitMark("ab", -1), CommitMark("ab", 7)])
def test_a_mark_comes_back_from_the_metadata_of_a_commit(mark: CommitMark) -> None:
    assert CommitMark.parse(mark.text) == mark


@pytest.mark.parametrize("metadata", ["", None, "kohort.spark of another kind"])
def test_other_metadata_is_no_mark(metadata: str | None) -> None:
    assert CommitMark.parse(metadata) is None


@pytest.mark.parametrize("start", [0, 300, None])
def test_commits_of_a_query_that_is_not_running_are_an_error_that_names_both_ways(start: int | None) -> None:
    with pytest.raises(CheckpointGone) as raised:
        new_position(FINISHED, start=start)
    for part in (
        "group 'g' is at offset 200 of flights-0",
        "group (read on at the group's offsets)",
        "startingOffsets (begin at startingOffsets=earliest",
        "kohort groups reset-offsets g --topic flights --to-earliest --execute",
    ):
        assert part in raised.value.text


def test_the_option_names_the_way() -> None:
    assert new_position(FINISHED, "group") is None
    assert new_position(FINISHED, "startingOffsets") == 0


@pytest.mark.parametrize("on_new", get_args(OnNewCheckpoint))
def test_a_group_that_is_where_the_query_begins_is_no_question(on_new: OnNewCheckpoint) -> None:
    assert new_position(FINISHED, on_new, start=200) is None


@pytest.mark.parametrize(("metadata", "is_shared"), [("", False), (JOB.text, False), (BEGUN, False), (FINISHED, True)])
def test_joining_what_others_advance_is_a_warning_with_what_is_skipped(
    metadata: str, is_shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert new_position(metadata, is_shared=is_shared) is None
    assert "skips 200 offsets of 1 partitions behind startingOffsets=earliest (flights-0: 0 to 199)" in caplog.text


def test_the_latest_offset_is_not_chosen_again_where_a_query_began_and_found_nothing() -> None:
    assert new_position(BEGUN, "startingOffsets", start=300, is_latest=True) is None
    assert new_position(FINISHED, "startingOffsets", start=300, is_latest=True) == 300


def test_a_commit_that_others_have_moved_since_the_query_began_is_not_in_question() -> None:
    new = NewCheckpoint("g", "fail", "startingOffsets=earliest", {P: OffsetAndMetadata(200, FINISHED)})
    moved = {P: OffsetAndMetadata(210, FINISHED)}
    assert new.positions(moved, {P: 0}, is_shared=False, is_latest=False) == {}
