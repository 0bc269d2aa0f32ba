"""One broker for the tests of a module that do not restart it, and the command line against it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.commands import Commands
from tests.integration.relayed_port import Run

from kohort.broker.embedded import EmbeddedBroker
from kohort.net.event_loop import new_event_loop


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


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine in an event loop of Python, and in the one that kohort uses."""

    def run_in_loop(scenario: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario)

    return run_in_loop
