"""One broker for the tests of a module that do not restart it, and the command line against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.commands import Commands

from kohort.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[EmbeddedBroker]:
    """Return a broker that the tests of one module share; each uses topics and groups of its own."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def kohort(
    shared_broker: EmbeddedBroker,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    """Return the command line against the shared broker."""
    return Commands(shared_broker.bootstrap_servers, capfdbinary, tmp_path, monkeypatch)
