"""Bronze of a live broker, its segment files, an export; only what is new, and what could not be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.fleet.written_log import COMMIT_VALUE, batch_of, commit_key

from kohort.broker.embedded import EmbeddedBroker
from kohort.fleet import bronze
from kohort.fleet.inputs.export_lines import export_lines
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.schema import RECORDS
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

Rows = list[dict[str, Any]]


def read(given: list[Any], since: Any = None) -> Rows:
    """Return the rows of inputs, decoded once."""
    parts = bronze.read(parse_inputs([str(each) for each in given]), since or {}, 2)
    return [row for part in parts for batch in part() for row in batch.to_pylist()]


def records(rows: Rows) -> Rows:
    """Return the records among rows of three tables, in the order of the log."""
    found = [row for row in rows if row["reason"] is None and row["next_offset"] is None]
    found.sort(key=lambda row: (row["source"], row["partition"], row["offset"]))
    return [{name: row[name] for name in RECORDS.names if name not in ("source", "run")} for row in found]


def commit_some(broker: EmbeddedBroker, group: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.reset_offsets(group, {TopicPartition(group, number): number + 1 for number in range(3)})


def a_topic(broker: EmbeddedBroker, name: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, 3)


def test_a_live_broker_and_its_files_give_the_same_rows(shared_broker: EmbeddedBroker) -> None:
    a_topic(shared_broker, "live")
    commit_some(shared_broker, "live")
    live, files = read([shared_broker.bootstrap_servers]), read([shared_broker.data_dir])
    assert records(live) == records(files)
    found = {(row["topic_partition"], row["committed_offset"]) for row in records(live) if row["group"] == "live"}
    assert found >= {(0, 1), (1, 2), (2, 3)}
    assert [row for row in live if row["reason"] is not None] == []


def test_what_was_read_is_not_read_again(shared_broker: EmbeddedBroker) -> None:
    given = [f"here={shared_broker.bootstrap_servers}", f"files={shared_broker.data_dir}"]
    for name in ("before", "after"):
        a_topic(shared_broker, name)
    commit_some(shared_broker, "before")
    since: dict[str, dict[int, int]] = {}
    for row in sorted(
        (row for row in read(given) if row["next_offset"] is not None), key=lambda row: row["next_offset"]
    ):
        since.setdefault(row["source"], {})[row["partition"]] = row["next_offset"]
    assert since["here"].items() >= since["files"].items()
    assert records(read(given, since)) == []
    commit_some(shared_broker, "after")
    found = {(row["source"], row["group"]) for row in read(given, since) if row["record_type"] is not None}
    assert found == {("files", "after"), ("here", "after")}


def test_an_export_of_a_log_gives_the_rows_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    content = batch_of([(commit_key("g", "t", number), COMMIT_VALUE) for number in range(9)])
    (folder / f"{0:020}.log").write_bytes(content)
    (tmp_path / "export.jsonl").write_text("".join(f"{line}\n" for line in export_lines(content, 3)))
    log, export = records(read([f"a={folder}"])), records(read([f"a={tmp_path / 'export.jsonl'}"]))
    assert len(log) == 9
    assert log == export


def test_what_is_broken_is_put_aside(tmp_path: Path) -> None:
    content = batch_of([(commit_key("g", "t", 0), COMMIT_VALUE), (commit_key("g", "t", 0), None), (b"\x00\x63", b"")])
    write(tmp_path, 3, content)
    write(tmp_path, 4, content[:-1])
    write(tmp_path, 5, b"\x89PNG of something else")
    rows = read([f"a={tmp_path}"])
    assert sorted(row["partition"] for row in rows if row["reason"] is not None) == [4, 5]
    assert {row["record_type"] for row in records(rows)} == {1, 99}


def write(folder: Path, partition: int, content: bytes, first_offset: int = 0) -> None:
    path = folder / f"__consumer_offsets-{partition}"
    path.mkdir(exist_ok=True)
    (path / f"{first_offset:020}.log").write_bytes(content)
