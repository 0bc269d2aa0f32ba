"""Our members of the consumer protocol on a real Apache Kafka: every scenario that they pass on our broker.

`KOHORT_KAFKA=HOST:PORT` names a cluster to use instead of one started here.
"""

from __future__ import annotations

import os
import uuid

import pytest
from tests.integration.native_scenarios import NATIVE
from tests.integration.scenario_book import Scenario, run


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    named = os.environ.get("KOHORT_KAFKA")
    address: str = named or request.getfixturevalue("apache").bootstrap
    return address


@pytest.mark.parametrize("scenario", NATIVE, ids=lambda scenario: scenario.__name__)
def test_on_apache_kafka(scenario: Scenario, bootstrap: str) -> None:
    run(scenario, bootstrap, f"n-{scenario.__name__[:40]}-{uuid.uuid4().hex[:6]}")
