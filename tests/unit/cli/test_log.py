"""`kohort log export`: what it prints is what the fleet reads from the log itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.fleet.written_log import COMMIT_VALUE, batch_of, commit_key

from kohort.cli.main import main
from kohort.wire.compression import Compression

COMMITS = [(commit_key("g", "t", number), COMMIT_VALUE) for number in range(3)]


def segment(folder: Path, content: bytes) -> Path:
    path = folder / "__consumer_offsets-7"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(content)
    return path


def test_every_record_is_a_line_with_its_bytes(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    segment(tmp_path, batch_of(COMMITS, compression=Compression.GZIP) + batch_of([(b"\x00\x02\x00\x01g", None)], 3))
    assert main(["log", "export", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(line["partition"], line["offset"]) for line in lines] == [(7, 0), (7, 1), (7, 2), (7, 3)]
    assert bytes.fromhex(lines[1]["key"]) == COMMITS[1][0]
    assert bytes.fromhex(lines[1]["value"]) == COMMIT_VALUE
    assert lines[3]["value"] is None


def test_a_broken_batch_ends_its_file_and_is_reported(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    broken = bytearray(batch_of(COMMITS, 3))
    broken[70] ^= 1
    segment(tmp_path, batch_of(COMMITS) + bytes(broken))
    assert main(["log", "export", str(tmp_path)]) == 1
    printed = capfdbinary.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert b"wrong CRC" in printed.err


def test_a_path_without_segments_is_a_wrong_use(tmp_path: Path) -> None:
    assert main(["log", "export", str(tmp_path)]) == 2
