"""What `explain` prints as the cause of a rebalance on Apache Kafka, from the events of a gateway that observes.

The causes are those of `test_causes`, as far as they are in the traffic: what topics have become is looked up later.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway
from tests.interop.conftest import SHORT_SESSIONS
from tests.interop.libraries import need
from tests.interop.test_causes import LIBRARIES, Column, expected

pytestmark = pytest.mark.timeout(600)
ON_KAFKA = (*LIBRARIES, "kgo")
CAUSES = {
    "start", "graceful leave", "kill", "poll timeout", "rolling restart", "static restart",
    "topic of a pattern created", "topic of a pattern deleted",
}  # fmt: skip


class ColumnOnKafka(Column):
    """The cells of one client, as far as they can be filled there."""

    def fill(self) -> dict[str, str]:
        for name in ("a", "b", "p1"):
            self._topics.create(f"{self.library}-{name}")
        for part in (self._comings_and_goings, self._patterns, self._static_restart):
            part()
        return self.cells


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[dict[str, str]]]]:
    """Play the columns of all clients side by side."""
    with (
        ApacheKafka(SHORT_SESSIONS, heap="512m") as kafka,
        KohortGateway(kafka.bootstrap, "--events", "topic") as gateway,
        ThreadPoolExecutor(len(ON_KAFKA)) as pool,
    ):
        yield {
            library: pool.submit(ColumnOnKafka(library, gateway.bootstrap, tmp_path_factory.mktemp(library)).fill)
            for library in ON_KAFKA
        }


@pytest.mark.parametrize("library", ON_KAFKA)
@pytest.mark.capability(
    "kohort gateway", "causes of rebalances of a group that it observes, {library}", broker="apache"
)
def test_cause_that_a_gateway_derives_is_what_was_done(
    library: str, columns: dict[str, Future[dict[str, str]]]
) -> None:
    need(library)
    printed = columns[library].result()
    assert printed == {cause: expected(cause, library) for cause in printed}
    assert set(printed) == (CAUSES - {"poll timeout"} if library == "kgo" else CAUSES)
