"""What `kohort fleet` and `kohort log` do with the files of a fleet, where no Spark is needed for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.fleet.published import publish
from tests.unit.fleet.written_log import COMMIT_VALUE, batch_of, commit_key

from kohort.cli.main import main


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The tables of a fleet in which nothing was found."""
    publish(tmp_path, {})
    return tmp_path


def test_a_rule_that_found_nothing_is_no_wrong_name(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "findings", "--tables", str(tables), "--finding", "stuck_group", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["fleet", "findings", "--tables", str(tables), "--finding", "xyz"]) == 2
    assert "there are stuck_group, " in capsys.readouterr().err


def test_a_partition_that_two_brokers_have_is_two_logs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for broker in ("one", "two"):
        folder = tmp_path / broker / "__consumer_offsets-7"
        folder.mkdir(parents=True)
        key = b"\0\x11\0\1g"  # a streams group comes and goes, and a client commits under its name
        content = batch_of([(key, b"\0\0"), (key, None), (commit_key("g", "t", 0), COMMIT_VALUE)])
        (folder / f"{0:020}.log").write_bytes(content)
    assert main(["log", "check", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    assert "6 records in 2 partitions" in capfd.readouterr().out
