"""What a policy chooses for partitions without a committed offset."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import cast

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import OffsetAndTimestamp
from kohort.client.cluster.offset_specs import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kohort.model.ids import TopicPartition
from kohort.spark.membership.start_policy import Log, NoOffset, ResetPolicy, TopicDeleted, TopicRecreated

P = TopicPartition("flights", 0)


@pytest.mark.parametrize(("isolation", "start"), [(READ_UNCOMMITTED, 100), (READ_COMMITTED, 90)])
def test_the_latest_offset_is_before_what_an_open_transaction_has_written(
    isolation: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a consumer: the rows come when the transaction is committed."""

    async def stable(
        _: Cluster, wanted: Mapping[TopicPartition, int], *, isolation: int = 0, **__: object
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        assert (wanted, isolation) == ({P: LATEST}, READ_COMMITTED)
        return {P: OffsetAndTimestamp(90)}

    monkeypatch.setattr("kohort.spark.membership.start_policy.list_starts", stable)
    policy = ResetPolicy("latest", isolation)
    policy.see([P])
    assert asyncio.run(policy.begin(cast(Cluster, None), {P: Log(0, 100)})) == {P: start}


def test_a_time_is_for_partitions_that_exist_when_the_group_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_time(
        _: Cluster, wanted: Mapping[TopicPartition, int], **__: object
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        assert min(wanted.values()) > 0
        return dict.fromkeys(wanted, OffsetAndTimestamp(50))

    monkeypatch.setattr("kohort.spark.membership.start_policy.list_starts", at_time)
    policy = ResetPolicy("by_duration:P1D")
    policy.see([P])
    later = TopicPartition("flights", 1)
    chosen = asyncio.run(policy.begin(cast(Cluster, None), {P: Log(0, 100), later: Log(0, 100)}))
    assert chosen == {P: 50, later: 0}
    assert policy.is_marking


@pytest.mark.parametrize(
    ("has_store", "move"), [(False, "reset the group's offsets"), (True, "set the table's offsets (set_offsets)")]
)
def test_a_lost_offset_is_to_be_moved_where_it_is_stored(has_store: bool, move: str) -> None:
    policy = ResetPolicy(None, fails_on_data_loss=True)
    policy.has_store = has_store
    with pytest.raises(NoOffset, match=rf"{re.escape(move)}, or pass fail_on_data_loss=False"):
        policy.instead(P, 5, Log(10, 20))


def test_without_a_reset_an_option_alone_does_not_continue() -> None:
    policy = ResetPolicy("none", fails_on_data_loss=False)
    with pytest.raises(NoOffset, match=r'is "none": .*, or choose earliest or latest with fail_on_data_loss=False'):
        policy.instead(P, 5, Log(10, 20))


def test_a_job_that_may_miss_no_row_ends_where_a_topic_is_deleted_or_created_again() -> None:
    policy = ResetPolicy(None)
    policy.deleted([P])
    policy.recreated([P])
    policy.is_exact = True
    with pytest.raises(TopicDeleted, match="flights-0: the topic was deleted, and fail_on_data_loss is true"):
        policy.deleted([P])
    with pytest.raises(TopicRecreated, match=r"created again, and fail_on_data_loss is true.* set fail_on_data_loss="):
        policy.recreated([P])
    policy.has_store = True  # a table compares the ids itself, and names the way on
    policy.recreated([P])
    accepting = ResetPolicy(None, fails_on_data_loss=False)
    accepting.is_exact = True
    accepting.deleted([P])
    accepting.recreated([P])
