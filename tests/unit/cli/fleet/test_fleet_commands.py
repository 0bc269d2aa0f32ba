"""What `kohort fleet` says of a command line that cannot be, before any Spark; and what it reads without one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import rmtree

import pytest
from tests.unit.fleet.published import publish

from kohort.cli.fleet.fleet_session import first_line
from kohort.cli.main import main
from kohort.fleet.schema import FINDINGS
from kohort.fleet.tables import Tables

FOUND = [
    ("prod", "orders", "idle_members", "warning", "has 3 members too many", 2.0),
    ("prod", "mail", "idle_members", "warning", "has 4 members too many", 5.0),
    ("prod", "bills\u202e", "stuck_group", "critical", "does not move", None),
    ("prod", "notes", "ready_for_consumer", "info", "can go", None),
]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The tables of a fleet in which a run found something."""
    rows = [
        {
            **dict(zip(("source", "group", "finding", "severity", "sentence", "value"), each, strict=True)),
            "advice": "mend it",
            "evidence": [{"partition": 7, "offset": 42, "at_ms": 1_793_664_000_000, "what": "a generation"}],
        }
        for each in FOUND
    ]
    publish(tmp_path, {FINDINGS: rows[:1]}, {"prod": {0: 7}})
    publish(tmp_path, {FINDINGS: rows}, {"prod": {0: 10, 3: 4}})
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "--tables", "DIR"], "holds no tables of a fleet: make them with `kohort fleet run --tables"),
        (["findings", "--tables", "DIR"], "holds no tables of a fleet"),
        (["tables", "--tables", "DIR"], "holds no tables of a fleet"),
        (["run", "--tables", "DIR", "nowhere"], "'nowhere' is no file, no directory, and no cluster's addresses"),
        (["run", "--tables", "DIR", "FULL", "--report", "gone/a.html"], "is no directory that can be written to"),
        (["run", "--tables", "DIR", "FULL", "--command-config", "gone.properties"], "gone.properties: No such file"),
        (["run", "--tables", "DIR", "FULL", "--storage-config", "gone.properties"], "gone.properties: No such file"),
        (
            ["run", "--tables", "DIR", "FULL", "--conf", "a=b"],
            "--conf is a setting of Spark, which starts with --master",
        ),
        (["demo", "--out", "DIR", "--tables", "MADE"], "a demo needs a place of its own"),
    ],
)
def test_what_cannot_be_is_one_sentence_before_spark(
    arguments: list[str], sentence: str, tmp_path: Path, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "full").mkdir()
    (tables / "full" / "dump.txt").write_text("Dumping 00000000000000000000.log\n")
    places = {"DIR": str(tmp_path / "empty"), "FULL": str(tables / "full"), "MADE": str(tables)}
    loaded = set(sys.modules)
    status = main(["fleet", *(places.get(each, each) for each in arguments)])
    printed = capsys.readouterr()
    assert status in (1, 2)
    assert printed.out == ""
    (last,) = printed.err.splitlines()
    assert last.startswith("kohort: ")
    assert sentence in last
    assert not {each for each in set(sys.modules) - loaded if each.startswith("pyspark")}


def test_a_report_is_html_or_json_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "report", "--tables", str(tmp_path), "--out", "fleet.pdf"])
    assert ended.value.code == 2
    assert "'fleet.pdf' is neither .html nor .json" in capsys.readouterr().err


def test_broken_tables_are_reported(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rmtree(tables / FINDINGS.path)
    assert main(["fleet", "findings", "--tables", str(tables)]) == 1
    assert FINDINGS.path in capsys.readouterr().err


def test_a_file_that_a_query_cannot_read_is_named(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = Tables(tables).files(FINDINGS)
    (tables / FINDINGS.path / file.path).write_bytes(b"PAR1")
    assert main(["fleet", "report", "--tables", str(tables), "--out", str(tables / "fleet.html")]) == 1
    printed = capsys.readouterr().err
    assert f"cannot be read: Invalid: Could not open Parquet input source '{file.path}'" in printed
    assert "restore the file" in printed


def test_an_earlier_run_is_shown_by_its_number(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "findings", "--tables", str(tables), "--run", "1", "--json"]) == 0
    assert [row["group"] for row in json.loads(capsys.readouterr().out)] == ["orders"]
    assert main(["fleet", "findings", "--tables", str(tables), "--run", "9"]) == 1
    assert "has no run 9: 1 to 2 are listed" in capsys.readouterr().err


def test_findings_are_printed_worst_first(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "findings", "--tables", str(tables)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.split()[:3] for line in lines] == [
        ["critical", "stuck_group", "bills\\u202e"],
        ["warning", "idle_members", "mail"],
        ["warning", "idle_members", "orders"],
        ["info", "ready_for_consumer", "notes"],
    ]


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        (["--severity", "critical"], ["bills\u202e"]),
        (["--severity", "warning"], ["bills\u202e", "mail", "orders"]),
        (["--finding", "idle_members", "--max", "1"], ["mail"]),
        (["--group", "notes"], ["notes"]),
        (["--group", "missing"], []),
    ],
)
def test_findings_can_be_chosen(
    options: list[str], groups: list[str], tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "findings", "--tables", str(tables), "--json", *options]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["group"] for row in rows] == groups
    assert all(row["evidence"][0]["offset"] == 42 for row in rows)


def test_evidence_is_printed_where_it_is_wanted(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "findings", "--tables", str(tables), "--severity", "critical", "--evidence"]) == 0
    assert "7:42 at 2026-11-03T00:00:00.000Z  a generation" in capsys.readouterr().out


def test_an_unknown_finding_is_refused_with_the_nearest_name(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "findings", "--tables", str(tables), "--finding", "idle_member"]) == 2
    assert "did you mean 'idle_members'?" in capsys.readouterr().err


def test_tables_are_listed_with_how_far_sources_were_read(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "tables", "--tables", str(tables), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    rows = {each["table"]: (each["rows"], each["files"]) for each in listed["tables"]}
    assert rows[FINDINGS.path] == (4, 1)
    assert rows["bronze/records"] == (0, 0)
    assert listed["positions"] == {"prod": {"0": 10, "3": 4}}


def test_a_failure_in_an_executor_is_reported_by_its_last_line() -> None:
    printed = RuntimeError(
        "org.apache.spark.SparkException: Job aborted\n  File x, line 3\n"
        "kohort.model.errors.KafkaError: no broker answers\n\tat org.apache.spark.Task.run(Task.scala)\n"
    )
    assert first_line(printed) == "kohort.model.errors.KafkaError: no broker answers"
    assert first_line(RuntimeError("")) == "RuntimeError"
