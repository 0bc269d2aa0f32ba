"""Our command line against a real Apache Kafka: the same answers as from our own broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.brokers import Broker
from tests.integration.commands import Commands


@pytest.fixture
def kohort(
    broker: Broker, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """Return the command line against each broker."""
    return Commands(broker.bootstrap, capfdbinary, tmp_path, monkeypatch)


@pytest.mark.capability("kohort", "command line")
def test_a_topic_and_a_group_live_their_lives(kohort: Commands, name: str) -> None:
    created = kohort("topics", "create", name, "--partitions", "2", "--config", "retention.ms=86400000")
    assert created.out == f"created {name} with 2 partitions\n"
    assert kohort("topics", "describe", name, "--json").json["configs"]["retention.ms"] == "86400000"
    lines = b"".join(b"k%d:v%d\n" % (n, n) for n in range(100))
    sent = kohort("produce", name, "--key-separator", ":", "--compression", "lz4", stdin=lines)
    assert sent.err.startswith(f"kohort: 100 records sent to {name} in ")

    read = ("consume", name, "--group", name, "--from-beginning", "--format", "{key}:{value}")
    first = kohort(*read, "--max", "60").out.splitlines()
    rest = kohort(*read, "--max", "40").out.splitlines()
    assert sorted(first + rest) == sorted(lines.decode().splitlines())

    offsets = kohort("groups", "describe", name, "--json").json["offsets"]
    assert [row["lag"] for row in offsets] == [0, 0]
    assert sum(row["end"] for row in offsets) == 100
    done = kohort("groups", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute", "--json").json
    assert [row["new"] for row in done["offsets"]] == [0, 0]
    assert sum(row["lag"] for row in kohort("groups", "describe", name, "--json").json["offsets"]) == 100
    assert kohort("groups", "delete", name, "--yes").out == f"deleted {name}\n"
    assert kohort("topics", "delete", name, "--yes").out == f"deleted {name}\n"


@pytest.mark.capability("kohort", "command line")
def test_names_that_do_not_exist_end_with_2(kohort: Commands, name: str) -> None:
    for words in (("topics", "describe", name), ("groups", "describe", name), ("consume", name), ("produce", name)):
        outcome = kohort(*words)
        assert outcome.status == 2
        assert outcome.err.startswith("kohort: there is no ")
