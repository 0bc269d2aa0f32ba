"""Rebalances by group and cause, from events that any client may have written."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.group.explain.rebalance_counter import MOST_GROUPS, OTHER_GROUPS, RebalanceCounter

ODD: list[dict[str, Any]] = [
    {},
    {"group": 7, "at_ms": 1, "event": "round_opened"},
    {"group": "g", "at_ms": 1, "event": "round_opened", "cause": "text"},
    {"group": "g", "at_ms": 1, "event": "round_opened", "cause": {"kind": ["a"]}},
]


@pytest.mark.parametrize("event", ODD)
def test_an_event_that_is_none_ends_nothing(event: dict[str, Any]) -> None:
    counter = RebalanceCounter()
    counter.count(event)
    assert not counter.duration_s
    for number in range(MOST_GROUPS):
        counter.count({"group": f"g{number}", "at_ms": 1, "event": "nothing"})
    counter.count(event)
    assert {group for group, _ in counter.rebalances} <= {OTHER_GROUPS}
