"""With several processes, one of them runs all tests on Spark, which share a session; the others take whole modules."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return who hands out tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByModule(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return "tests/spark" if module.startswith("tests/spark/") else module

    return ByModule(config, log)
