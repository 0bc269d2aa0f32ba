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
def data(tmp_path: Path) -> Path:
    """The directory of a broker that took records and was stopped."""
    folder = tmp_path / "data"
    with EmbeddedBroker(folder) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=1)
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send("orders", b"order %d" % number)
                if number % 10 == 9:
                    producer.flush()
    return folder


@pytest.fixture
def commands(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands("127.0.0.1:1", capfdbinary, tmp_path, monkeypatch)


def segment(data: Path) -> Path:
    return data / "orders-0" / "00000000000000000000.log"


def damage(file: Path, text: bytes) -> None:
    content = file.read_bytes()
    at = content.index(text)
    file.write_bytes(content[:at] + b"#" + content[at + 1 :])


def consumed(data: Path) -> list[bytes]:
    with EmbeddedBroker(data) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "all", "auto_offset_reset": "earliest"}
        with Consumer("orders", **settings) as consumer:
            found: list[bytes] = []
            while not found or consumer.position(TopicPartition("orders", 0)) < COUNT:
                found += [record.value for batch in consumer.poll(timeout_ms=1000) for record in batch]
            return found


def test_sound_directory_has_no_findings(data: Path, commands: Commands) -> None:
    outcome = commands("log", "verify", str(data))
    assert (outcome.status, outcome.out) == (0, "")
    assert "every byte is sound" in outcome.err
    assert commands("log", "repair", str(data), "--json").json["is_sound"] is True


def test_damaged_record_is_named_repaired_and_only_its_batch_is_lost(data: Path, commands: Commands) -> None:
    damage(segment(data), b"order 55")
    outcome = commands("log", "verify", str(data))
    assert outcome.status == 1
    assert outcome.out.startswith(f"{segment(data)}: damaged batch at byte ")
    assert "the CRC of the batch is wrong; offset" in outcome.out
    before = segment(data).read_bytes()
    dry = commands("log", "repair", str(data), "--dry-run")
    assert dry.status == 1
    assert "bytes out of the file, and keep them in" in dry.out
    assert "nothing was changed" in dry.err
    assert segment(data).read_bytes() == before
    (finding,) = commands("log", "verify", str(data / "orders-0"), "--json").json["findings"]
    repaired = commands("log", "repair", str(data), "--json")
    assert (repaired.status, repaired.json["left"]) == (0, [])
    assert commands("log", "verify", str(data)).status == 0
    lost = range(finding["first_offset"], finding["last_offset"] + 1)
    assert 55 in lost
    assert consumed(data) == [b"order %d" % number for number in range(COUNT) if number not in lost]


def test_running_broker_is_verified_but_not_repaired(data: Path, commands: Commands) -> None:
    damage(segment(data), b"order 55")
    with EmbeddedBroker(data):
        outcome = commands("log", "verify", str(data))
        assert outcome.status == 1
        assert "a broker uses this directory" in outcome.err
        refused = commands("log", "repair", str(data))
    assert (refused.status, refused.out) == (2, "")
    assert "stop it, then repair" in refused.err


def test_path_without_logs_is_refused(tmp_path: Path, commands: Commands) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        assert commands("log", "verify", str(path)).status == 2
