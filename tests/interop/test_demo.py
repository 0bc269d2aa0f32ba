"""The demo, small: the same story, the same proof, and a report that needs nothing from outside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars
import pytest
from tests.spark.test_demo import DEMO, running

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EXPLAIN = [sys.executable, "-m", "kohort", "explain"]


def test_no_row_is_lost_when_a_worker_is_killed(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [*DEMO, "--rows", "20000", "--json", "--out", tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert (found["rows_sent"], found["rows_lost"], found["rows_counted_twice"]) == (20_000, 0, 0)
    assert found["rows_delivered"] == 20_000 + found["rows_read_again"]
    assert found["rows_read_again"] == found["rows_of_rounds_cut_off"] > 0
    stored = polars.read_delta(found["table"]).select("partition", "offset")
    assert (found["table_rows"], stored.height, stored.n_unique()) == (20_000, 20_000, 20_000)
    causes = [each["cause"]["kind"] for each in found["rebalances"]]
    assert "session_timeout" in causes
    assert causes[-1] == "member_left", "at the end both are stopped"
    explained = subprocess.run(
        [*EXPLAIN, "delays", "--json", "--data-dir", tmp_path / "out" / "broker"], capture_output=True, check=True
    )
    figures = ("sentence", "duration_ms", "unowned_partition_s", "silent_partition_s")
    shown = [[each[name] for name in figures] for each in json.loads(explained.stdout)["rebalances"]]
    assert [[each[name] for name in figures] for each in found["rebalances"]] == shown
    assert 5.5 < found["takeover_s"] < 120
    report = (tmp_path / "out" / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']+|url\((?!#)|@import""", report)
    assert "session timeout" in report
    assert "no heartbeat for 6.0 s; " in report
    assert report.count('class="ownership"') == 1
    assert not running(str(tmp_path))
