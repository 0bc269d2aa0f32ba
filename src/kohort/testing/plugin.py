"""The pytest plugin: `kohort_broker`, a broker on a real socket with its own port and directory.

A test that asks for the fixture gets a running `EmbeddedBroker`; it is stopped, and its directory removed,
when the test ends. `@pytest.mark.kohort_settings(num_partitions=3)` sets the broker's settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.broker.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that carries settings."""
    config.addinivalue_line("markers", "kohort_settings(**settings): settings of the kohort_broker fixture")


@pytest.fixture
def kohort_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of this test's own: `kohort_broker.bootstrap_servers` is where clients connect.

    Groups form at once here (`group.initial.rebalance.delay.ms` is 0) unless the marker says otherwise.
    """
    from kohort.broker.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    for marker in reversed(list(request.node.iter_markers("kohort_settings"))):
        settings.update(marker.kwargs)
    with EmbeddedBroker(tmp_path / "kohort-broker", **settings) as broker:
        yield broker
