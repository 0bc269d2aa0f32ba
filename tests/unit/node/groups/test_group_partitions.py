"""Where groups are in `__consumer_offsets`, and how many names of groups a broker remembers for that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.model.ids import LONGEST_CACHED_NAME, group_partition
from kohort.node.groups import offsets_partition
from kohort.node.groups.offsets_partition import GroupPartitions

PARTITIONS: list[Any] = [SimpleNamespace(index=index) for index in range(50)]


def test_group_is_in_the_partition_of_the_hash_of_its_id() -> None:
    found = GroupPartitions(PARTITIONS)
    for name in ("readers", "", "é😀", "x" * 32_767):
        assert cast(Any, found[name]).index == group_partition(name, 50)
        assert cast(Any, found[name]).index == group_partition(name, 50), "asked for again"


def test_long_ids_of_unknown_members_are_not_remembered() -> None:
    found = GroupPartitions(PARTITIONS)
    for number in range(100):
        found[f"{number}" + "x" * LONGEST_CACHED_NAME]
    assert not found


def test_so_many_ids_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_partition, "MOST_GROUPS", 10)
    found = GroupPartitions(PARTITIONS)
    for number in range(1000):
        assert cast(Any, found[f"group-{number}"]).index == group_partition(f"group-{number}", 50)
        assert len(found) <= 10
