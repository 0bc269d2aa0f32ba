"""A query with a new checkpoint, whose starting offset is 0, in a group that is at offset 200."""

from __future__ import annotations

import pytest

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import JOB, CommitMark
from kohort.spark.membership.new_checkpoint import CheckpointGone, NewCheckpoint
from kohort.spark.options.member_options import ON_NEW_CHECKPOINT, OnNewCheckpoint

P = TopicPartition("flights", 0)
FINISHED, BEGUN = CommitMark("ab", 7).text, CommitMark("ab", -1).text


def position(
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
        position(FINISHED, start=start)
    for part in (
        "group 'g' is at offset 200 of flights-0",
        "group (read on at the group's offsets)",
        "startingOffsets (begin at startingOffsets=earliest",
        "kohort groups reset-offsets g --topic flights --to-earliest --execute",
    ):
        assert part in raised.value.text


def test_the_option_names_the_way() -> None:
    assert position(FINISHED, "group") is None
    assert position(FINISHED, "startingOffsets") == 0


@pytest.mark.parametrize("on_new", ON_NEW_CHECKPOINT)
def test_a_group_that_is_where_the_query_begins_is_no_question(on_new: OnNewCheckpoint) -> None:
    assert position(FINISHED, on_new, start=200) is None


@pytest.mark.parametrize(("metadata", "is_shared"), [("", False), (JOB.text, False), (BEGUN, False), (FINISHED, True)])
def test_joining_what_others_advance_is_a_warning_with_what_is_skipped(
    metadata: str, is_shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert position(metadata, is_shared=is_shared) is None
    assert "skips 200 offsets of 1 partitions behind startingOffsets=earliest (flights-0: 0 to 199)" in caplog.text


def test_the_latest_offset_is_not_chosen_again_where_a_query_began_and_found_nothing() -> None:
    assert position(BEGUN, "startingOffsets", start=300, is_latest=True) is None
    assert position(FINISHED, "startingOffsets", start=300, is_latest=True) == 300


def test_a_commit_that_others_have_moved_since_the_query_began_is_not_in_question() -> None:
    new = NewCheckpoint("g", "fail", "startingOffsets=earliest", {P: OffsetAndMetadata(200, FINISHED)})
    moved = {P: OffsetAndMetadata(210, FINISHED)}
    assert new.positions(moved, {P: 0}, is_shared=False, is_latest=False) == {}
