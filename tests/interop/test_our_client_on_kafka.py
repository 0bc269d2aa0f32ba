"""Our client on a real Apache Kafka, 4.3.1 and the newest: every scenario that it passes on our broker.

`KOHORT_KAFKA=HOST:PORT` names a cluster to use instead of one started here.
"""

from __future__ import annotations

import os
import uuid

import pytest
from tests.integration.client_scenarios import SCENARIOS, Scenario, run


@pytest.fixture(scope="module", params=["apache", "newest"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    named = os.environ.get("KOHORT_KAFKA")
    address: str = named or request.getfixturevalue(request.param).bootstrap
    return address


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_on_apache_kafka(scenario: Scenario, bootstrap: str) -> None:
    run(scenario, bootstrap, f"{scenario.__name__[:40]}-{uuid.uuid4().hex[:6]}")
