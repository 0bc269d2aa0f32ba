"""The last generation of a group as its coordinator stored it in `__consumer_offsets`: ours and Apache Kafka alike."""

from __future__ import annotations

from kohort.group.events import GroupStored
from kohort.log.offsets_topic import Replay
from kohort.model.ids import TopicPartition, group_partition
from kohort.sync import Consumer
from kohort.wire.record_batches import Record

OFFSETS = "__consumer_offsets"


def last_stored(bootstrap: str, group: str, partitions: int) -> GroupStored:
    """Return the newest record of a group; `partitions` is how many the offsets topic has."""
    place = TopicPartition(OFFSETS, group_partition(group, partitions))
    replay = Replay()
    newest: GroupStored | None = None
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        at = 0
        while at < end:
            for batch in consumer.poll(timeout_ms=1000, max_records=10_000):
                at = batch.next_offset
                for record in batch:
                    event = replay.event_of(Record(record.offset, record.timestamp_ms, record.key, record.value))
                    if isinstance(event, GroupStored) and event.group_id == group:
                        newest = event
    assert newest is not None, f"nothing of {group} is stored"
    return newest


def leading_client(bootstrap: str, group: str, partitions: int = 8) -> str:
    """Return the client id of the member that leads a group."""
    stored = last_stored(bootstrap, group, partitions)
    return next(member.client_id for member in stored.members if member.member_id == stored.leader)
