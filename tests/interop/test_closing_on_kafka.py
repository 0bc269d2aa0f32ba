"""Our consumer, closed within a cooperative round of a group on a real Apache Kafka, commits what is finished."""

from __future__ import annotations

import uuid

import pytest
from interop.kafka import ApacheKafka
from tests.integration.scenario_book import Scenario, run
from tests.integration.test_commits_in_rounds import IN_A_ROUND


@pytest.mark.parametrize("scenario", IN_A_ROUND, ids=lambda scenario: scenario.__name__)
def test_on_apache_kafka(scenario: Scenario, apache: ApacheKafka) -> None:
    run(scenario, apache.bootstrap, f"{scenario.__name__}-{uuid.uuid4().hex[:6]}")
