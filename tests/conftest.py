"""Each of several processes takes whole modules, those that take longest first, and one all of tidy, which shares the
parsed tree. Two take the modules that share a Spark session; others help them when they have nothing else."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable
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
    "tests/integration/test_examples.py",
    "tests/integration/test_what_if.py",
    "tests/integration/test_documents.py",
    "tests/sim/test_process_worlds.py",
    "tests/sim/test_seeds.py",
    "tests/spark/test_exactly_once_kills.py",
    "tests/properties/test_turns.py",
    "tests/sim/test_corpus.py",
    "tests/spark/test_stopped_sessions.py",
    "tests/integration/test_console.py",
    "tests/integration/test_gateway_rewriting.py",
    "tests/integration/test_fleet_findings.py",
    "tests/integration/test_client_scenarios.py",
    "tests/integration/test_transactions_of_processes.py",
    "tests/properties/test_exactly_once.py",
    "tests/integration/test_run.py",
    "tests/integration/test_broker_command.py",
    "tests/integration/test_failover.py",
    "tests/sim/test_user_world_clients.py",
    "tests/integration/test_gateway_command.py",
    "tests/integration/test_cli_signals.py",
    "tests/sim/test_standstill.py",
    "tests/spark/test_exactly_once_queries.py",
    "tests/spark/test_lake_tables.py",
    "tests/spark/test_joint_tables.py",
    "tests/spark/test_transactional_queries.py",
    "tests/spark/test_merges.py",
    "tests/spark/test_group_source.py",
    "tests/spark/test_dead_letters.py",
    "tests/spark/test_fleet_tasks.py",
]
"""What starts first: it takes longest, and would otherwise run alone at the end."""

SESSIONS = 2
"""So many processes start a Spark session for the modules that share one: a session waits more than it works."""

WORTH_A_SESSION = 5
"""So many modules must wait for a session before one more process starts it, which takes as long as a module."""

SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the Java processes that tests start: they end before optimized code and parallel collection pay."""


def _scope(nodeid: str) -> str:
    """Return what one process runs as a whole."""
    module = nodeid.partition("::")[0]
    return "tests/tidy/" if module.startswith("tests/tidy/") else module


def _shares_session(scope: str) -> bool:
    return scope.startswith("tests/spark/") and scope not in WITHOUT_THE_SESSION


def next_scope(waiting: Iterable[str], own: Iterable[str], others: Iterable[Iterable[str]]) -> str | None:
    """Return the scope that a process takes, of those that wait in their order; None if it has nothing more to do.

    `own` are the scopes that it has had, `others` those of each other process that runs.
    """
    queue = list(waiting)
    of_session = [scope for scope in queue if _shares_session(scope)]
    sessions = sum(any(map(_shares_session, each)) for each in others)
    may_share = any(map(_shares_session, own)) or sessions < SESSIONS
    if of_session and may_share:
        return of_session[0]
    plain = next((scope for scope in queue if not _shares_session(scope)), None)
    if plain is None and len(of_session) >= WORTH_A_SESSION:
        return of_session[0]
    return plain


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

        def _next_scope(self, node: Any) -> str | None:
            others = [self.assigned_work[each] for each in self.nodes if each is not node]
            return next_scope(self.workqueue, self.assigned_work[node], others)

        def _reschedule(self, node: Any) -> None:
            if self.workqueue and not node.shutting_down and self._next_scope(node) is None:
                node.shutdown()
            else:
                super()._reschedule(node)

        def _assign_work_unit(self, node: Any) -> None:
            if (scope := self._next_scope(node)) is not None:  # else it is one of many that start, and gets any
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return ByScope(config, log)
