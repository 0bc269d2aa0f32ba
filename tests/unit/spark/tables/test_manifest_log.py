"""The numbered entries of a manifest table: who gets a number, who reads what, and what a crash leaves."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.tables.manifest_log import ENTRIES_PER_CHECKPOINT, ManifestLog, new_entry_id, now_ms
from kohort.spark.tables.manifest_state import Entry, RowsFile, TableState
from kohort.spark.tables.table import Claim, Held, TableBroken

P = TopicPartition("flights", 0)
FUTURE_MS = 1 << 50


def count_up(state: TableState) -> Entry:
    """Move the partition's offset by one: a lost or doubled entry shows in the number."""
    held = state.groups.get("g", {}).get(P, Held(0))
    assert held.offset is not None
    return Entry(new_entry_id(), "append", now_ms(), group="g", held={P: Held(held.offset + 1, held.claim)})


def offset(log: ManifestLog) -> int | None:
    return log.refresh().groups["g"][P].offset


def test_an_entry_says_everything_again_when_it_is_read() -> None:
    entry = Entry(
        "i",
        "append",
        5,
        {"type": "struct", "fields": []},
        (RowsFile("rows/a/part.parquet", 3, 700),),
        ("rows/b/part.parquet",),
        ("rows/c",),
        "g",
        {P: Held(7, Claim(2, "m")), TopicPartition("flights", 12): Held(None, Claim(2, "m"))},
    )
    assert Entry.from_json(entry.to_json(), "here") == entry
    assert Entry.from_json(Entry("i", "claim", 5).to_json(), "here") == Entry("i", "claim", 5)


def test_writers_at_once_lose_no_entry(tmp_path: Path) -> None:
    def write() -> None:
        log = ManifestLog(tmp_path)
        for _ in range(60):
            log.append(count_up)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert offset(ManifestLog(tmp_path)) == 240
    assert len(list((tmp_path / "entries").glob("[0-9]*"))) == 240


def test_the_loser_of_a_number_decides_anew_on_what_the_winner_wrote(tmp_path: Path) -> None:
    first, second = ManifestLog(tmp_path), ManifestLog(tmp_path)
    seen: list[int] = []

    def late(state: TableState) -> Entry:
        seen.append(state.version)
        if len(seen) == 1:
            second.append(count_up)
        return count_up(state)

    first.append(late)
    assert seen == [-1, 0]
    assert offset(second) == 2


def test_what_the_decision_raises_appends_nothing(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)

    def refuse(_: TableState) -> Entry:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        log.append(refuse)
    assert log.append(lambda _: None) is None
    assert ManifestLog(tmp_path).refresh().version == -1


def test_a_newcomer_reads_a_checkpoint_and_what_came_after(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    for _ in range(ENTRIES_PER_CHECKPOINT + 3):
        log.append(count_up)
    assert [int(path.stem) for path in (tmp_path / "checkpoints").iterdir()] == [ENTRIES_PER_CHECKPOINT - 1]
    for number in range(ENTRIES_PER_CHECKPOINT):
        (tmp_path / "entries" / f"{number:020d}.json").write_text("not looked at")
    newcomer = ManifestLog(tmp_path)
    assert offset(newcomer) == ENTRIES_PER_CHECKPOINT + 3
    assert newcomer.state == log.state


def test_a_writer_that_slept_through_a_cleaning_takes_no_old_number(tmp_path: Path) -> None:
    """The entries that it would have read are gone, and their numbers must not be free."""
    sleeper, log = ManifestLog(tmp_path), ManifestLog(tmp_path)
    sleeper.append(count_up)
    for _ in range(ENTRIES_PER_CHECKPOINT + 5):
        log.append(count_up)
    log.forget(FUTURE_MS)
    assert not (tmp_path / "entries" / f"{1:020d}.json").stat().st_size
    sleeper.append(count_up)
    assert offset(log) == ENTRIES_PER_CHECKPOINT + 7
    assert offset(ManifestLog(tmp_path)) == ENTRIES_PER_CHECKPOINT + 7


def test_a_file_that_a_killed_writer_left_unfinished_is_no_entry(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    log.append(count_up)
    (tmp_path / "entries" / ".0abc").write_bytes(b'{"format": 1, "ki')
    assert offset(ManifestLog(tmp_path)) == 1
    log.forget(FUTURE_MS)
    assert not (tmp_path / "entries" / ".0abc").exists()


def test_a_link_that_was_made_although_it_says_that_it_exists_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS answers when its first answer was lost."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError

    log = ManifestLog(tmp_path)
    monkeypatch.setattr(os, "link", twice)
    log.append(count_up)
    monkeypatch.undo()
    assert offset(ManifestLog(tmp_path)) == 1


def test_a_file_system_without_hard_links_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with pytest.raises(TableBroken, match="has no hard links"):
        ManifestLog(tmp_path).append(count_up)


def test_a_full_disk_is_a_full_disk_and_no_want_of_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        ManifestLog(tmp_path).append(count_up)


def test_a_cleaning_beside_writers_bears_that_their_unfinished_files_go_away(tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    log.append(count_up)
    (tmp_path / "entries" / ".gone").symlink_to("nowhere")  # it is listed, and not there when it is looked at
    log.forget(FUTURE_MS)
    assert offset(log) == 1


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"format": 2}), json.dumps({"format": 1})])
def test_an_entry_of_another_make_is_refused_by_name(text: str, tmp_path: Path) -> None:
    log = ManifestLog(tmp_path)
    log.append(count_up)
    (tmp_path / "entries" / f"{1:020d}.json").write_text(text)
    with pytest.raises(TableBroken, match=f"{1:020d}.json"):
        log.append(count_up)


def test_an_emptied_entry_without_its_checkpoint_is_damage_and_not_the_end(tmp_path: Path) -> None:
    log, other = ManifestLog(tmp_path), ManifestLog(tmp_path)
    log.append(count_up)
    other.append(count_up)
    (tmp_path / "entries" / f"{1:020d}.json").write_bytes(b"")
    with pytest.raises(TableBroken, match="no checkpoint has its content"):
        log.append(count_up)
