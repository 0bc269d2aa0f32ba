"""What a policy chooses for partitions without a committed offset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.offset_specs import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kohort.model.ids import TopicPartition
from kohort.spark.membership.start_policy import Log, ResetPolicy

P = TopicPartition("flights", 0)


@pytest.mark.parametrize(("isolation", "start"), [(READ_UNCOMMITTED, 100), (READ_COMMITTED, 90)])
def test_the_latest_offset_is_before_what_an_open_transaction_has_written(
    isolation: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a consumer: the rows come when the transaction is committed."""

    async def stable(
        _: Cluster, partitions: Iterable[TopicPartition], which: int, isolation: int = 0, **__: object
    ) -> dict[TopicPartition, int]:
        assert (which, isolation) == (LATEST, READ_COMMITTED)
        return dict.fromkeys(partitions, 90)

    monkeypatch.setattr("kohort.spark.membership.start_policy.list_ends", stable)
    policy = ResetPolicy("latest", isolation)
    policy.see([P])
    assert asyncio.run(policy.begin(cast(Cluster, None), {P: Log(0, 100)})) == {P: start}
