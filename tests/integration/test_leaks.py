"""Groups that lived and died and connections that came and went leave a broker's process no descriptor and no task."""

from __future__ import annotations

import sys

import pytest
from interop.leaks import grown, measure


@pytest.mark.skipif(sys.platform != "linux", reason="the counts are those of /proc")
def test_groups_and_connections_that_are_gone_leave_no_descriptor_and_no_task() -> None:
    before, after = measure(20, 200, lambda _: None)
    for name in ("descriptors", "tasks"):
        assert after[name] == before[name], name


def test_what_has_grown_is_named() -> None:
    assert grown({"tasks": 1, "memory, KiB": 100}, {"tasks": 2, "memory, KiB": 105}) == []
    assert grown({"tasks": 1, "memory, KiB": 100}, {"tasks": 3, "memory, KiB": 106}) == ["tasks", "memory, KiB"]
