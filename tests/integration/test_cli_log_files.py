"""`kohort log verify` and `kohort log repair` on the data directory of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.commands import Commands

from kohort.broker.embedded import EmbeddedBroker
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer, Producer

COUNT = 200


@pytest.fixture
def broker_directory(tmp_path: Path) -> Path:
    """The directory of a broker that took records and was stopped."""
    directory = tmp_path / "broker"
    with EmbeddedBroker(directory) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=1)
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("orders", b"order %d" % number)
                if number % 10 == 9:
                    producer.flush()
    return directory


@pytest.fixture
def commands(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands("127.0.0.1:1", capfdbinary, tmp_path, monkeypatch)


def segment(folder: Path) -> Path:
    return folder / "orders-0" / "00000000000000000000.log"


def damage(file: Path, text: bytes) -> None:
    content = file.read_bytes()
    at = content.index(text)
    file.write_bytes(content[:at] + b"#" + content[at + 1 :])


def consumed(folder: Path) -> list[bytes]:
    with EmbeddedBroker(folder) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "all", "auto_offset_reset": "earliest"}
        with Consumer("orders", **settings) as consumer:
            found: list[bytes] = []
            while not found or consumer.position(TopicPartition("orders", 0)) < COUNT:
                found += [record.value for batch in consumer.poll(timeout_ms=1000) for record in batch]
            return found


def test_intact_directory_has_no_findings(broker_directory: Path, commands: Commands) -> None:
    outcome = commands("log", "verify", str(broker_directory))
    assert (outcome.status, outcome.out) == (0, "")
    assert "every byte is sound" in outcome.err
    assert commands("log", "repair", str(broker_directory), "--yes", "--json").json["is_sound"] is True


def test_damaged_record_is_named_repaired_and_only_its_batch_is_lost(
    broker_directory: Path, commands: Commands
) -> None:
    damage(segment(broker_directory), b"order 55")
    outcome = commands("log", "verify", str(broker_directory))
    assert outcome.status == 1
    assert outcome.out.startswith(f"{segment(broker_directory)}: damaged batch at byte ")
    assert "the CRC of the batch is wrong; offset" in outcome.out
    before = segment(broker_directory).read_bytes()
    dry = commands("log", "repair", str(broker_directory), "--dry-run")
    assert dry.status == 1
    assert "bytes out of the file, and store them in" in dry.out
    assert "nothing was changed" in dry.err
    assert segment(broker_directory).read_bytes() == before
    (finding,) = commands("log", "verify", str(broker_directory / "orders-0"), "--json").json["findings"]
    repaired = commands("log", "repair", str(broker_directory), "--yes", "--json")
    assert (repaired.status, repaired.json["left"]) == (0, [])
    assert commands("log", "verify", str(broker_directory)).status == 0
    lost = range(finding["first_offset"], finding["last_offset"] + 1)
    assert 55 in lost
    assert consumed(broker_directory) == [b"order %d" % number for number in range(COUNT) if number not in lost]


def test_running_broker_is_verified_but_not_repaired(broker_directory: Path, commands: Commands) -> None:
    damage(segment(broker_directory), b"order 55")
    with EmbeddedBroker(broker_directory):
        outcome = commands("log", "verify", str(broker_directory))
        assert outcome.status == 1
        assert "a broker uses this directory" in outcome.err
        refused = commands("log", "repair", "--yes", str(broker_directory))
    assert (refused.status, refused.out) == (2, "")
    assert "stop it, then repair" in refused.err


def test_path_without_logs_is_refused(tmp_path: Path, commands: Commands) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        assert commands("log", "verify", str(path)).status == 2


def test_a_directory_whose_lock_may_not_be_read_is_a_sentence(broker_directory: Path, commands: Commands) -> None:
    (broker_directory / ".lock").unlink()
    (broker_directory / ".lock").mkdir()  # as one of another user: root may open every file
    for words in (("verify",), ("repair", "--yes")):
        outcome = commands("log", *words, str(broker_directory))
        assert (outcome.status, outcome.err) == (1, f"kohort: {broker_directory}/.lock: Is a directory\n")
