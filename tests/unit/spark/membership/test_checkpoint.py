"""A restart: the checkpoint's last batch is [100, 200), and the group is somewhere."""

from __future__ import annotations

import pytest

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.ids import TopicPartition
from kohort.spark.membership.checkpoint import Checkpoint, OffsetMismatch
from kohort.spark.membership.commit_mark import JOB
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.member_options import Mismatch
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


def test_a_group_that_is_where_the_batch_ended_agrees_whoever_committed() -> None:
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
