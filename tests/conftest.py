"""With several processes, one runs all tests on Spark, which share a session, one all of tidy, which shares the parsed
tree; otherwise a process takes whole modules."""

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
            return next((shared for shared in ("tests/spark/", "tests/tidy/") if module.startswith(shared)), module)

    return ByModule(config, log)
