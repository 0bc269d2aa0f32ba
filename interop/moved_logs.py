"""The partitions of one broker put in another's place, both stopped: those of coordinators, and the topics they name.

Both write the same segments; only where topics and their ids are listed differs. A group's records name topics by id,
so the ids must be the same on both sides.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterable
from pathlib import Path

from kohort.broker.os_disk import OsDisk
from kohort.node.disk_health import DiskHealth
from kohort.node.metadata_log import Entry, MetadataLog
from kohort.node.timers import NodeClock

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
CHECKPOINTS = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)
"""What a Kafka broker believes of its logs after a clean end; without it, it looks."""


def topics_of_kafka(logs: Path) -> dict[str, tuple[bytes, int]]:
    """Return id and number of partitions of the topics in a Kafka broker's folder, by name."""
    found: dict[str, tuple[bytes, int]] = {}
    for metadata in logs.glob("*-*/partition.metadata"):
        name, _, number = metadata.parent.name.rpartition("-")
        text = metadata.read_text().partition("topic_id: ")[2].split()[0]
        topic_id = base64.urlsafe_b64decode(text + "==")
        found[name] = topic_id, max(int(number) + 1, found.get(name, (b"", 0))[1])
    return found


def to_kohort(kafka_logs: Path, logs: Path, leader_epoch: int = 0) -> None:
    """Make a data folder for our broker of what a stopped Kafka broker wrote.

    Our broker will lead in an epoch after `leader_epoch`: clients believe no leader of an older one than they saw.
    """
    logs.mkdir(parents=True, exist_ok=True)
    topics = topics_of_kafka(kafka_logs)
    cluster_id = (kafka_logs / "meta.properties").read_text().partition("cluster.id=")[2].split()[0]
    list_topics(logs, topics, cluster_id, leader_epoch)
    for name, (_, partitions) in topics.items():
        for index in range(partitions):
            _copy_segments(kafka_logs / f"{name}-{index}", logs / f"{name}-{index}")


def list_topics(logs: Path, topics: dict[str, tuple[bytes, int]], cluster_id: str, leader_epoch: int) -> None:
    """Write down in a fresh data folder of our broker that these topics exist, under these ids."""
    disk = OsDisk(logs)
    entries: list[Entry] = [{"type": "cluster", "id": cluster_id}]
    entries += [
        {
            "type": "topic",
            "name": name,
            "id": topic_id.hex(),
            "partitions": partitions,
            "configs": {"cleanup.policy": "compact"} if name in (OFFSETS, TRANSACTIONS) else {},
            "epoch": 0,
            "at_ms": 0,
        }
        for name, (topic_id, partitions) in sorted(topics.items())
    ]
    entries.append({"type": "epoch", "epoch": leader_epoch, "at_ms": 0})
    log = MetadataLog(disk, DiskHealth(NodeClock(0), disk.directory))
    log.open(0, fsync=False)
    log.append(entries, 0)
    log.close()


def to_kafka(our_logs: Path, kafka_logs: Path, names: Iterable[str]) -> None:
    """Put topics that our broker wrote in the place of a stopped Kafka broker's, which has them under the same ids."""
    for name in names:
        for folder in kafka_logs.glob(f"{name}-*"):
            for path in folder.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            if (our_logs / folder.name).is_dir():
                _copy_segments(our_logs / folder.name, folder)
    for name in CHECKPOINTS:
        (kafka_logs / name).unlink(missing_ok=True)


def _copy_segments(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for segment in sorted(source.glob("*.log")):
        shutil.copyfile(segment, target / segment.name)
