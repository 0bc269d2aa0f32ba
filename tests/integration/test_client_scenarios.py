"""Our client on our broker: every scenario of `client_scenarios`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.client_scenarios import SCENARIOS, Scenario, run

from kohort.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_on_our_broker(scenario: Scenario, bootstrap: str) -> None:
    run(scenario, bootstrap, scenario.__name__[:40])
