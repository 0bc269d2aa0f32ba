"""Descriptors are shared so that clients never take those of logs."""

from __future__ import annotations

import resource

import pytest

from kohort.broker.descriptors import SPARE, budget, raise_limit, share


@pytest.mark.parametrize("limit", [96, 256, 1024, 65_536, 1 << 20])
def test_clients_and_logs_together_stay_below_the_limit(limit: int) -> None:
    found = share(limit, in_use=12)
    assert found.connections + found.files + SPARE + 12 <= limit
    assert 0 < found.files <= found.connections


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        assert budget().limit == 200
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
