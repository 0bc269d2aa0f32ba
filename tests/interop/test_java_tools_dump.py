"""Apache Kafka's DumpLogSegments on the files of a broker that has stopped: segments, indexes, committed offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from interop.brokers import BROKERS
from interop.group import LIBRARIES, Group, Pair, Position, keyed, merged
from interop.producers import CODECS, produce
from interop.waiting import eventually

from interop import jars

pytestmark = [pytest.mark.timeout(150), pytest.mark.usefixtures("java")]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC = "dumped"
ROW = re.compile(r"^\| offset: (\d+) .*? key: (\S+) payload: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a broker left behind, and what is known to be in it."""

    logs: Path
    written: dict[Position, Pair]
    committed: dict[int, int]
    group: str


@pytest.fixture(scope="module", params=list(BROKERS))
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A broker that took records of every codec over several segments, saw a group read them, and has stopped."""
    admin = pytest.importorskip("confluent_kafka.admin")
    broker = BROKERS[request.param]()
    broker.start()
    try:
        config = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_topics([admin.NewTopic(TOPIC, 2, 1, config=config)])[TOPIC].result(20)
        eventually(lambda: len(client.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions), 2)
        pairs = [(key, f"{'x' * 3000}:{value}") for key, value in keyed(900, 30)]
        written = merged(
            [
                # In parts, so that a segment holds several batches and its index several entries.
                *(produce("librdkafka", broker.bootstrap, TOPIC, pairs[n : n + 60]) for n in range(0, len(pairs), 60)),
                *(
                    produce(library, broker.bootstrap, TOPIC, keyed(30, 30), codec=codec)
                    for library in (*LIBRARIES, "kohort")
                    for codec in CODECS
                ),
            ]
        )
        folder = tmp_path_factory.mktemp("members")
        with Group(broker.bootstrap, "dumped-group", TOPIC, 2, folder) as group:
            for _ in range(2):
                group.start("librdkafka")
            group.settle()
            group.drain(written)
            for member in list(group.members):
                group.leave(member)
            committed = group.committed()
        broker.stop()
        yield Stopped(broker.logs, written, committed, group.name)
    finally:
        broker.stop()
        broker.remove()


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    """Dump files and return what was printed."""
    return jars.run(DUMP, *options, "--files", ",".join(str(file) for file in files))


@pytest.mark.capability("Java tools", "DumpLogSegments on data segments and indexes", broker="{stopped}")
def test_every_record_is_in_the_segments(stopped: Stopped) -> None:
    for partition in (0, 1):
        files = sorted((stopped.logs / f"{TOPIC}-{partition}").glob("*.log"))
        assert len(files) > 1, "one segment only: nothing was rolled"
        text = dump(*files, options=("--print-data-log", "--deep-iteration", "--max-message-size", "10000000"))
        assert "isvalid: false" not in text
        found = {(partition, int(offset)): (key, value) for offset, key, value in ROW.findall(text)}
        assert found == {place: pair for place, pair in stopped.written.items() if place[0] == partition}
        assert set(re.findall(r"compresscodec: (\w+)", text)) == set(CODECS)


@pytest.mark.capability("Java tools", "DumpLogSegments on data segments and indexes", broker="{stopped}")
def test_indexes_point_into_their_segments(stopped: Stopped) -> None:
    for partition in (0, 1):
        folder = stopped.logs / f"{TOPIC}-{partition}"
        for suffix in ("index", "timeindex"):
            files = sorted(folder.glob(f"*.{suffix}"))
            assert len(files) == len(list(folder.glob("*.log")))
            text = dump(*files)
            assert not re.search("mismatch|corrupt|out of order|Found", text, re.IGNORECASE), text[:2000]
            first = text.split("Dumping ")[1]
            entries = re.findall(r"position: \d+" if suffix == "index" else r"timestamp: \d+", first)
            assert len(entries) > 1, f"{files[0]} is empty: {text[:600]}"


@pytest.mark.capability("Java tools", "DumpLogSegments on __consumer_offsets", broker="{stopped}")
def test_committed_offsets_are_in_the_group_log(stopped: Stopped) -> None:
    files = [file for file in sorted(stopped.logs.glob("__consumer_offsets-*/*.log")) if file.stat().st_size]
    text = dump(*files, options=("--offsets-decoder",))
    offsets: dict[int, int] = {}
    states: list[dict[str, object]] = []
    for _, key, payload in ROW.findall(text):
        read = json.loads(key)
        if read["data"].get("group") != stopped.group:
            continue
        # Types 0 and 1 are a committed offset, 2 is the group.
        if int(read["type"]) in (0, 1):
            assert read["data"]["topic"] == TOPIC
            offsets[read["data"]["partition"]] = json.loads(payload)["data"]["offset"]
        elif int(read["type"]) == 2:
            states.append(json.loads(payload)["data"])
    assert offsets == stopped.committed
    assert states, "the group itself was never written"
    assert states[-1]["members"] == []
    assert states[-1]["protocolType"] == "consumer"
    assert max(len(list(state["members"])) for state in states) == 2  # type: ignore[call-overload]
