"""The history of a fleet from a real Apache Kafka: read live, from its segment files, and from what its tool prints.

Groups of every type are in it, by real clients: classic eager and cooperative, consumer, by a pattern, share,
transactions. A streams group is joined by hand, for want of a client that speaks it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from interop.kafka import ApacheKafka
from interop.waiting import eventually

from interop import jars
from kohort.fleet import bronze
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.inputs.input_splits import text_splits

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("java")]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC = "orders"
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.compression.codec": "3",  # lz4
    "group.min.session.timeout.ms": "1000",
}
LOGGING = """
rootLogger.level = WARN
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = [%d] %p %m (%c)%n
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = INFO
logger.groups.name = org.apache.kafka.coordinator.group
logger.groups.level = INFO
"""


class Left(NamedTuple):
    """What a broker left, and what was read of it while it ran."""

    logs: Path
    broker_log: Path
    live: list[dict[str, Any]]
    cluster_id: str


class LoggedKafka(ApacheKafka):
    """A broker that logs as Kafka's own configuration has it."""

    def restart(self) -> None:
        properties = self.directory / "log4j2.properties"
        properties.write_text(LOGGING)
        log = f"-Dlog4j2.configurationFile={properties}"
        self._command = [log if "log4j2.configurationFile" in each else each for each in self._command]
        super().restart()


def rows_from(*given: str) -> list[dict[str, Any]]:
    splits = bronze.plan(parse_inputs(given), {})
    rows: list[dict[str, Any]] = [
        row for split in splits for batch in bronze.rows_of(split) for row in batch.to_pylist()
    ]
    return rows


def is_record(row: dict[str, Any]) -> bool:
    return row["reason"] is None and row["next_offset"] is None


def keyed(rows: list[dict[str, Any]]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return records by their place, without what says by which way they came."""
    by_the_way = ("source", "file", "position")
    return {
        (row["partition"], row["offset"]): {name: row[name] for name in row if name not in by_the_way}
        for row in rows
        if is_record(row)
    }


# -- the groups


@contextlib.contextmanager
def reading(bootstrap: str, group: str, *beside: Any, pattern: str = TOPIC, **settings: str) -> Iterator[Any]:
    """A consumer that has been assigned something and has committed it, while those beside it go on polling."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = kafka.Consumer({**config, **{name.replace("_", "."): value for name, value in settings.items()}})

    def has_something() -> bool:
        for each in (consumer, *beside):
            each.poll(0.2)
        return bool(consumer.assignment())

    try:
        consumer.subscribe([pattern])
        eventually(has_something, True, 60)
        consumer.commit(offsets=[kafka.TopicPartition(TOPIC, 0, 3, metadata="até aqui")], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def share(bootstrap: str) -> None:
    consumer = kafka.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "share"})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        consumer.poll(0.5)
    consumer.close()


def transact(bootstrap: str) -> None:
    with reading(bootstrap, "transactional") as consumer:
        for number, end in enumerate(("commit", "abort", "open")):
            producer = kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{end}"})
            producer.init_transactions(30)
            producer.begin_transaction()
            offsets = [kafka.TopicPartition(TOPIC, 1, 10 + number)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            if end == "commit":
                producer.commit_transaction(30)
            elif end == "abort":
                producer.abort_transaction(30)


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def join_streams(bootstrap: str, group: str) -> None:
    """Join a streams group (KIP-1071) with a topology of one topic, StreamsGroupHeartbeat v0 by hand."""
    none, empty = b"\x00", b"\x01"
    head = struct.pack(">hhih", 88, 0, 1, 4) + b"hand" + none
    member = compact(group) + compact("a-member")
    subtopology = compact("0") + b"\x02" + compact(TOPIC) + empty * 5 + none
    topology = b"\x01" + struct.pack(">i", 0) + b"\x02" + subtopology + none
    tasks, timeout = empty * 3, struct.pack(">i", 60_000)
    rest = compact("process") + b"\xff" + empty + none * 2 + b"\x00" + none
    body = member + struct.pack(">ii", 0, 0) + none * 2 + timeout + topology + tasks + rest
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">i", len(head + body)) + head + body)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        answer = connection.recv(size, socket.MSG_WAITALL)
    (code,) = struct.unpack_from(">h", answer, 4 + 1 + 4)
    assert code == 0, f"the broker refused the streams member: error {code}"


def play(bootstrap: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([admin.NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
    producer = kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(40):
        producer.produce(TOPIC, str(number), partition=number % 4)
    producer.flush(30)
    with reading(bootstrap, "eager grün") as first, reading(bootstrap, "eager grün", first, client_id="second"):
        pass
    with reading(bootstrap, "cooperative", partition_assignment_strategy="cooperative-sticky", group_instance_id="i-1"):
        pass
    with reading(bootstrap, "native", group_protocol="consumer", group_remote_assignor="range"):
        pass
    with reading(bootstrap, "pattern", group_protocol="consumer", pattern="^ord.*"):
        pass
    with reading(bootstrap, "deleted"):
        pass
    client.delete_consumer_groups(["deleted"])["deleted"].result(30)
    share(bootstrap)
    transact(bootstrap)
    eventually(lambda: _joined(bootstrap), True, 30)


def _joined(bootstrap: str) -> bool:
    join_streams(bootstrap, "streams")
    return True


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    """A broker that has seen all of them, and has stopped."""
    broker = LoggedKafka(SETTINGS)
    broker.start()
    folder = tmp_path_factory.mktemp("fleet")
    try:
        play(broker.bootstrap)
        (given,) = parse_inputs([broker.bootstrap])
        live = rows_from(broker.bootstrap)
        broker.stop()
        shutil.copytree(broker.logs, folder / "data")
        shutil.copyfile(broker.child.output, folder / "server.log")
        yield Left(folder / "data", folder / "server.log", live, given.source)
    finally:
        broker.stop()
        broker.remove()


@pytest.fixture(scope="module")
def stored(left: Left) -> list[dict[str, Any]]:
    return rows_from(str(left.logs))


@pytest.fixture(scope="module")
def dump(left: Left, tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [str(file) for file in sorted(left.logs.glob("__consumer_offsets-*/*.log")) if file.stat().st_size]
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    path.write_text(jars.run(DUMP, "--offsets-decoder", "--files", ",".join(files)))
    return path


def test_nothing_that_kafka_wrote_is_put_aside(stored: list[dict[str, Any]]) -> None:
    assert [row for row in stored if row["reason"] is not None] == []
    by_type: dict[int | None, set[str]] = defaultdict(set)
    for row in stored:
        if is_record(row):
            by_type[row["record_type"]].add(row["group"])
    assert {1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23} <= by_type.keys()
    assert by_type[2] >= {"eager grün", "cooperative", "transactional", "deleted"}
    assert by_type[5] >= {"native", "pattern"}
    assert (by_type[16], by_type[10], by_type[23]) == ({"pattern"}, {"share"}, {"streams"})


def test_the_live_cluster_and_its_files_give_the_same_rows(left: Left, stored: list[dict[str, Any]]) -> None:
    ends = {row["partition"]: row["next_offset"] for row in left.live if row["next_offset"] is not None}
    read_live, held = keyed(left.live), keyed(stored)
    assert read_live == {place: row for place, row in held.items() if place[1] < ends.get(place[0], 0)}
    assert len(read_live) > 50
    assert {row["source"] for row in stored} == {left.cluster_id}


def test_the_dump_gives_the_same_rows(stored: list[dict[str, Any]], dump: Path) -> None:
    found = rows_from(str(dump))
    assert [row for row in found if row["reason"] is not None] == []
    assert keyed(found) == keyed(stored)


def test_values_are_shown_as_kafkas_own_tool_shows_them(stored: list[dict[str, Any]], dump: Path) -> None:
    held, partition, compared = keyed(stored), 0, 0
    for line in dump.read_text().splitlines():
        if line.startswith("Dumping "):
            partition = int(Path(line.removeprefix("Dumping ")).parent.name.rpartition("-")[2])
        elif line.startswith("| offset: ") and " payload: {" in line:
            row = held[partition, int(line.split()[2])]
            shown = json.loads(line.partition(" payload: ")[2])
            assert row["value_version"] == int(shown["version"])
            if row["record_type"] in (1, 2):
                continue
            ours = json.loads(row["fields"])
            assert {name: ours[name] for name in shown["data"]} == shown["data"]
            assert all(ours[name] in (0, -1, None) for name in ours.keys() - shown["data"].keys())
            compared += 1
    assert compared > 20


def test_commits_say_what_was_committed_and_how_their_transactions_ended(stored: list[dict[str, Any]]) -> None:
    commits = [row for row in stored if is_record(row) and row["record_type"] == 1 and not row["tombstone"]]
    found = {
        row["commit_metadata"].rstrip("\0") for row in commits if row["group"] == "eager grün"
    }  # the client adds one
    assert found == {"até aqui"}
    ended = {row["committed_offset"]: row["transaction"] for row in commits if row["producer_id"] is not None}
    assert ended == {10: "committed", 11: "aborted", 12: "open"}
    assert len({row["topic_id"] for row in commits if row["topic_id"]}) == 1


def test_the_brokers_log_has_joins_and_leaves_with_their_reasons(left: Left) -> None:
    (given,) = parse_inputs([f"a={left.broker_log}"])
    assert given.kind == "broker_log"
    rows = [row for split in text_splits(given, {}) for batch in bronze.rows_of(split) for row in batch.to_pylist()]
    seen = {(row["group"], row["change"]) for row in rows}
    for group in ("eager grün", "transactional"):
        assert {(group, "joined"), (group, "rebalance"), (group, "generation"), (group, "emptied")} <= seen, group
    # A static member goes without a word.
    assert {("cooperative", "joined"), ("cooperative", "rebalance"), ("cooperative", "generation")} <= seen
    for group in ("native", "pattern"):
        assert {(group, "joined"), (group, "epoch"), (group, "left")} <= seen, group
    assert {("share", "joined"), ("streams", "joined")} <= seen
    assert all(row["reason"] for row in rows if row["change"] in ("rebalance", "left") and row["group"] == "eager grün")
