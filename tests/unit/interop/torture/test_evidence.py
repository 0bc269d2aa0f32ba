"""What a run left is judged from its files alone; a directory of something else is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interop.torture.__main__ import main
from interop.torture.checks.anomaly import Name
from interop.torture.evidence import Clients, Evidence, GroupFiles, NoEvidence, WriterFile
from interop.torture.history import Logged


def leave(folder: Path, log: dict[tuple[str, int], list[Logged]]) -> None:
    """Write what a run of one writer, which got one record acknowledged, and one group would leave."""
    lines = {
        "w-1.jsonl": [
            {"event": "append", "partition": 0, "first": 0, "count": 1, "at_s": 1.0},
            {"event": "appended", "partition": 0, "number": 0, "offset": 0, "at_s": 2.0},
        ],
        "m.jsonl": [
            {"event": "read", "records": [[0, 0, None, "w-1:0:0"]]},
            {"event": "committing", "offsets": {"0": 1}, "at_s": 3.0},
            {"event": "committed", "at_s": 4.0},
        ],
        "offsets.jsonl": [{"group": "g", "partition": 0, "offset": 1, "sent_s": 5.0, "answered_s": 6.0}],
    }
    for name, events in lines.items():
        (folder / name).write_text("".join(json.dumps(event) + "\n" for event in events))
    groups = [GroupFiles("g", "t", False, ["m.jsonl"]), GroupFiles("copier", "t", True, [], "copied")]
    Clients([WriterFile("w-1.jsonl", "t", True, False)], groups).write(folder, log)


def test_a_run_is_judged_from_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path, {("t", 0): [Logged(0, "w-1:0:0")], ("copied", 0): []})
    evidence = Evidence.read(tmp_path)
    assert list(evidence.judge()) == []
    counts = evidence.counts()
    assert (counts["records acknowledged"], counts["records read"], counts["commits acknowledged"]) == (1, 1, 1)
    assert main(["--judge", str(tmp_path)]) == 0
    assert "lost: 0" in capsys.readouterr().out


def test_a_record_that_is_not_in_the_log_is_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path, {("t", 0): []})
    assert {each.name for each in Evidence.read(tmp_path).judge()} == {Name.LOST_RECORD, Name.VANISHED_RECORD}
    assert main(["--judge", str(tmp_path), "--json"]) == 1
    assert "LOST_RECORD" in {each["name"] for each in json.loads(capsys.readouterr().out)["anomalies"]}


def test_a_directory_of_something_else_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--judge", str(tmp_path)]) == 2
    assert f"there is no {tmp_path / 'clients.json'}" in capsys.readouterr().out
    leave(tmp_path, {})
    (tmp_path / "clients.json").write_text("[]")
    with pytest.raises(NoEvidence, match="files that no run has written"):
        Evidence.read(tmp_path)
