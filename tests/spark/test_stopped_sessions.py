"""A session that is stopped under idle queries and streams: their members leave the group at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.cluster import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]


def test_the_members_of_a_stopped_session_leave_at_once(topic: Topic, tmp_path: Path) -> None:
    """Each query continues where that of the session before ended, and the stream after all of them."""
    name = f"{topic.name}-stopped"
    command = [sys.executable, "-m", "tests.spark.stopped_sessions", topic.bootstrap_servers, name, str(tmp_path)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines() == ["found 0 6", "found again 1 12", "registered 2 18", "stream 3 24"]
