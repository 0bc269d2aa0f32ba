"""One Spark session and one broker for all of these tests: starting Spark takes ten seconds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import SparkSession
from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import build

FEW_ROWS = {
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": False,
}
"""Settings for frames of some rows, for which compiled plans and statistics of shuffles come too late.

The examples and `tests/interop` run with Spark's own.
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    session = build("kohort tests", java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", conf=FEW_ROWS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker in this process, whose groups form at once, and miss a killed member soon where it asks for that."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1000) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> Iterator[Topic]:
    """A new topic of three partitions."""
    with Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as made:
        yield made
