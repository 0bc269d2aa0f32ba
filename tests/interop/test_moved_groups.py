"""Groups move with their log: what Apache Kafka wrote is loaded by our broker and described the same, and back.

The members do not notice: the other broker comes up at the old address, and they go on where they were.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.moved_logs import OFFSETS, to_kafka, to_kohort
from interop.producers import produce
from interop.waiting import eventually
from tests.interop.kafka_tools import GROUPS, tool
from tests.interop.topics import create_topic

from kohort.broker.os_disk import OsDisk
from kohort.log.group_replay import records_of
from kohort.log.offsets_topic import Replay, record_of
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.wire.record_batches import decode_batch, iter_batches

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("java")]
TOPIC = "moved"
PARTITIONS = 6
CALM = {"session_ms": "60000"}
"""A member that bears the pause in which one broker goes and the other comes."""


class Cast:
    """Groups of every kind on one topic: classic, of the consumer protocol, mixed, by expression, without members."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.groups = {
            name: Group(bootstrap, name, TOPIC, PARTITIONS, folder)
            for name in ("classic", "native", "mixed", "matching", "emptied")
        }

    def __enter__(self) -> Cast:
        return self

    def __exit__(self, *_: object) -> None:
        for group in self.groups.values():
            for member in group.members:
                member.child.kill()

    @property
    def living(self) -> list[Group]:
        return [group for group in self.groups.values() if group.members]

    def enter(self) -> None:
        """Bring every group where it stays."""
        written = produce("librdkafka", self.bootstrap, TOPIC, keyed(120, 30))
        classic, native, mixed, matching, emptied = self.groups.values()
        classic.start("librdkafka", assignor="range", **CALM)
        classic.start("librdkafka", assignor="range", instance="fixed", **CALM)
        native.start("librdkafka", protocol="consumer")
        native.start("java", protocol="consumer", instance="fixed")
        mixed.start("java", **CALM)
        matching.start("java", protocol="consumer", regex="mo.*d")
        leaver = emptied.start("librdkafka", protocol="consumer")
        emptied.drain(written)
        emptied.leave(leaver)
        mixed.drain(written)
        mixed.start("librdkafka", protocol="consumer")
        for group in self.living:
            group.calm()
            group.drain(written)

    def owners(self) -> list[tuple[str, str, set[int], int]]:
        """Return what each member holds, and how often that has changed."""
        return [
            (group.name, member.library, member.owned, len(member.changes))
            for group in self.living
            for member in group.members
        ]

    def read_more(self) -> None:
        """See that every living group reads what is written now."""
        # The other broker does not know the ids of producers that the first one gave.
        written = produce("librdkafka", self.bootstrap, TOPIC, keyed(60, 30, start=1000), idempotent=False)
        for group in self.living:
            group.drain(written)


def described(broker: Broker) -> dict[str, list[str]]:
    """Return what Kafka's own tool says of every group, without the coordinator's address and what is being read."""

    def lines(*options: str) -> list[str]:
        text = tool(broker, GROUPS, "--describe", "--all-groups", *options)
        fields = (re.sub(r"\S+:\d+ +\(\d+\)", "", line).split() for line in text.splitlines())
        return sorted(" ".join(words) for words in fields if words and words[0] != "GROUP")

    eventually(lambda: len(lines("--members")), 7, 60)  # a broker that has just started loads its groups
    found = {
        "members": lines("--members", "--verbose"),
        "state": lines("--state", "--verbose"),
        "offsets": lines("--offsets"),
    }
    assert len(found["offsets"]) == 5 * PARTITIONS
    return found


def compared_records(logs: Path) -> Counter[int]:
    """Return how many records of each type stand in the logs of groups; our bytes for their events must be theirs."""
    counts: Counter[int] = Counter()
    for segment in sorted(logs.glob(f"{OFFSETS}-*/*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            for record in [] if header.is_control else decode_batch(batch):
                event = Replay().event_of(record)
                assert event is not None, f"{segment}: a record of an unknown type"
                assert record_of(event) == (record.key, record.value), event
                assert record.key is not None
                counts[int.from_bytes(record.key[:2], "big")] += 1
    return counts


@pytest.mark.capability("Java tools", "groups that Apache Kafka wrote, loaded by our broker")
def test_groups_that_kafka_wrote_live_on_in_our_broker(kafka: ApacheKafka, ours: KohortBroker, tmp_path: Path) -> None:
    create_topic(kafka.bootstrap, TOPIC, PARTITIONS)
    with Cast(kafka.bootstrap, tmp_path) as cast:
        cast.enter()
        before, owners = described(kafka), cast.owners()
        assert [line.split()[0] for line in before["state"] if "Empty" in line.split()] == ["emptied"]
        assert sum("Stable" in line.split() for line in before["state"]) == 4
        kafka.stop()
        assert set(compared_records(kafka.logs)) == {1, 2, 3, 5, 6, 7, 8, 16}
        to_kohort(kafka.logs, ours.logs, leader_epoch=9)
        ours.start()
        assert described(ours) == before
        cast.read_more()
        assert cast.owners() == owners


def clean(logs: Path) -> tuple[int, int]:
    """Clean the logs of groups to their ends, tombstones too; return how many records there were and are."""
    disk, counts = OsDisk(logs), [0, 0]
    for folder in sorted(logs.glob(f"{OFFSETS}-*")):
        config = LogConfig(cleanup_policy=("compact",), delete_retention_ms=1)
        log = PartitionLog.open(disk, folder.name, config, 0)
        counts[0] += len(list(records_of(log)))
        for now_ms in (0, 10):
            log.cleaner.first_dirty = 0
            log.compact(now_ms, roll=True)
        counts[1] += len(list(records_of(log)))
        log.close()
    return counts[0], counts[1]


@pytest.mark.capability("Java tools", "groups that our broker wrote, loaded by Apache Kafka")
@pytest.mark.parametrize("is_cleaned", [False, True], ids=["as written", "cleaned"])
def test_groups_that_our_broker_wrote_live_on_in_kafka(
    kafka: ApacheKafka, ours: KohortBroker, tmp_path: Path, is_cleaned: bool
) -> None:
    create_topic(kafka.bootstrap, TOPIC, PARTITIONS)
    tool(kafka, GROUPS, "--describe", "--group", "no-such-group", "--offsets")  # makes Kafka create the topic of groups
    eventually(lambda: len(list(kafka.logs.glob(f"{OFFSETS}-*/partition.metadata"))), 8)
    kafka.stop()
    to_kohort(kafka.logs, ours.logs)
    ours.start()
    with Cast(kafka.bootstrap, tmp_path) as cast:
        cast.enter()
        before, owners = described(ours), cast.owners()
        ours.stop()
        if is_cleaned:
            written, left = clean(ours.logs)
            assert left < written
        to_kafka(ours.logs, kafka.logs, (OFFSETS, TOPIC))
        kafka.restart()
        assert described(kafka) == before
        cast.read_more()
        assert cast.owners() == owners
