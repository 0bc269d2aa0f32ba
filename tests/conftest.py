"""With several processes, one runs all tests that share a Spark session, one all of tidy, which share the parsed tree;
otherwise a process takes whole modules, those that take longest first."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.depth import examples

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it runs in the background so, and programs that tests start and interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast a machine draws examples is not what the tests are about: two cores may have twenty processes.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("any machine")

WITHOUT_THE_SESSION = {
    "tests/spark/test_demo.py",
    "tests/spark/test_lone_reader.py",
    "tests/spark/test_exactly_once_kills.py",
    "tests/spark/test_stream_member.py",
    "tests/spark/test_data_loss.py",
    "tests/spark/test_new_checkpoint.py",
    "tests/spark/test_siblings.py",
    "tests/spark/test_shared_state.py",
    "tests/spark/test_stopped_sessions.py",
    "tests/spark/test_discovery.py",
    "tests/spark/test_iceberg_upkeep.py",
    "tests/spark/test_tasks.py",
}
"""Modules that start Spark in other processes, or only use its classes: any process may run them."""

LONGEST = [
    "tests/spark/",
    "tests/integration/test_examples.py",
    "tests/integration/test_what_if.py",
    "tests/sim/test_seeds.py",
    "tests/properties/test_turns.py",
    "tests/sim/test_corpus.py",
    "tests/integration/test_documents.py",
    "tests/integration/test_gateway_rewriting.py",
    "tests/spark/test_stopped_sessions.py",
    "tests/integration/test_fleet_findings.py",
    "tests/integration/test_client_scenarios.py",
    "tests/integration/test_broker_command.py",
    "tests/integration/test_failover.py",
    "tests/integration/test_gateway_command.py",
    "tests/integration/test_cli_signals.py",
    "tests/spark/test_exactly_once_kills.py",
]
"""What starts first: it takes longest, and would otherwise run alone at the end."""

SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the Java processes that tests start: they end before optimized code and parallel collection pay."""


def _scope(nodeid: str) -> str:
    """Return what one process runs as a whole."""
    module = nodeid.partition("::")[0]
    if module in WITHOUT_THE_SESSION:
        return module
    return next((shared for shared in ("tests/spark/", "tests/tidy/") if module.startswith(shared)), module)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest scopes first, then those of the most tests, for the scheduler below."""
    if not any(item.get_closest_marker("interop") for item in items):  # which measure others' Java
        os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JAVA)
    if hasattr(config, "workerinput"):
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()) and item.nodeid.partition("::")[0] in WITHOUT_THE_SESSION:
                raise pytest.UsageError(f"{item.nodeid} uses the session: another process would start a second one")
        sizes = Counter(_scope(item.nodeid) for item in items)
        rank = {scope: number for number, scope in enumerate(LONGEST)}
        items.sort(key=lambda item: (rank.get(scope := _scope(item.nodeid), len(rank)), -sizes[scope], scope))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler, which assigns scopes in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False
    return ByScope(config, log)
