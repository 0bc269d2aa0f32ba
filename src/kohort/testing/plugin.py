"""The pytest plugin: fixtures that are a broker on a real socket, and the options of simulated worlds.

`kohort_broker` is a running `EmbeddedBroker` of the test's own; it is stopped, and its directory removed, when the test
ends. `@pytest.mark.kohort_settings(num_partitions=3)` sets its settings. `kohort_session_broker` is one broker for all
tests of the run; the fixture `kohort_session_settings`, overridden in a conftest.py, returns its settings.
`--kohort-seed` and `--kohort-seeds` select the seeds of tests decorated with `kohort.sim.world`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.broker.embedded import EmbeddedBroker


_SETTINGS: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
_SEEDS = (("--kohort-seed", "KOHORT_SEED"), ("--kohort-seeds", "KOHORT_SEEDS"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of simulated worlds."""
    group = parser.getgroup("kohort")
    group.addoption("--kohort-seed", type=int, metavar="N", help="run seed N alone in tests of kohort.sim.world")
    group.addoption("--kohort-seeds", type=int, metavar="COUNT", help="run so many seeds in tests of kohort.sim.world")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that carries settings, and hand the options on to the tests of this process."""
    config.addinivalue_line("markers", "kohort_settings(**settings): settings of the kohort_broker fixture")
    for option, variable in _SEEDS:
        if (value := config.getoption(option)) is not None:
            before = os.environ.get(variable)
            os.environ[variable] = str(value)
            config.add_cleanup(partial(_restore, variable, before))


def _restore(variable: str, before: str | None) -> None:
    if before is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = before


@pytest.fixture
def kohort_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of this test's own: `kohort_broker.bootstrap_servers` is where clients connect.

    Groups form at once here (`group.initial.rebalance.delay.ms` is 0) unless the marker sets it.
    """
    from kohort.broker.embedded import EmbeddedBroker

    settings = dict(_SETTINGS)
    for marker in reversed(list(request.node.iter_markers("kohort_settings"))):
        settings.update(marker.kwargs)
    with EmbeddedBroker(tmp_path / "kohort-broker", **settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def kohort_session_settings() -> dict[str, Any]:
    """Settings of `kohort_session_broker`: override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kohort_session_broker(kohort_session_settings: dict[str, Any]) -> Iterator[EmbeddedBroker]:
    """One broker for all tests of the run, which use topics and groups of their own; groups form at once here too."""
    from kohort.broker.embedded import EmbeddedBroker

    with EmbeddedBroker(**(_SETTINGS | kohort_session_settings)) as broker:
        yield broker
