"""`__consumer_offsets` of a live cluster, ours or an Apache Kafka, read by a consumer without a group.

Batches are read as they are in the log, with open transactions and markers. A partition is split by offsets; its end is
read once, when the run is planned, so that a run terminates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.client.cluster.list_offsets import OffsetAndTimestamp
from kohort.client.cluster.metadata import TopicView
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.client.config_file import connection_arguments
from kohort.client.consumer.range_reader import read_ranges
from kohort.client.errors import PartitionErrors, UnknownPartition, UnknownTopic
from kohort.fleet.decode.decoded_rows import Place, RowReader
from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.decode.value_json import topic_id
from kohort.fleet.inputs.input_splits import OFFSETS_TOPIC, Input, Since, Split
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.sync import Admin
from kohort.wire.record_batches import CorruptBatch

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS_OF_A_PIECE: Final = 500_000
UNLED: Final = -1
"""End offset of a partition without a leader."""
_FETCH_BYTES: Final = 4 << 20
_CLIENT_ID: Final = "kohort-fleet"
_BYTES_OF_AN_OFFSET: Final = 200  # about the size of a commit; it only affects the size of tasks


def cluster_name(where: str, properties: Mapping[str, str]) -> str:
    """Return the id of a cluster. Raises KafkaError when it cannot be reached."""
    with _admin(where, properties) as admin:
        return admin.describe_cluster().cluster_id or where


def plan(given: Input, since: Since) -> list[Split]:
    """Return the new ranges of offsets. Raises KafkaError when the cluster does not list them."""
    (where,) = given.where
    with _admin(where, given.properties) as admin:
        try:
            topic = admin.describe_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC]
        except UnknownTopic:  # no group has ever committed
            return []
        numbers = sorted(topic.partitions)
        led = [number for number in numbers if topic.partitions[number].leader >= 0]
        partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in led]
        firsts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    known = since.get(given.source, {})
    piece = partial(Split, "cluster", given.source, where, properties=given.properties)
    splits = [piece(number, known.get(number, 0), UNLED) for number in numbers if number not in led]
    for partition in partitions:
        first, end = firsts[partition], ends[partition]
        assert first is not None, "a partition has a first offset"
        assert end is not None, "a partition has an end"
        begin = max(known.get(partition.partition, 0), first.offset)
        for start in range(begin, end.offset, OFFSETS_OF_A_PIECE):
            stop = min(start + OFFSETS_OF_A_PIECE, end.offset)
            size = (stop - start) * _BYTES_OF_AN_OFFSET
            splits.append(piece(partition.partition, start, stop, size))
    return splits


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range. Raises KafkaError when the cluster stays unreachable."""
    partition = TopicPartition(OFFSETS_TOPIC, split.partition)
    place = Place(split.source, split.partition, f"{partition} of {split.where}")
    reader = RowReader(place, (split.start, split.stop), position=None)
    if split.stop == UNLED:
        reader.refuse(Fault("no broker leads this partition, so that nothing of it can be read", offset=split.start))
        yield from reader.finish(split.start)
        return
    wanted = [(partition, split.start, split.stop)]
    security = _security(split.properties)
    try:
        for _, batches, _ in read_ranges(split.where, wanted, _FETCH_BYTES, client_id=_CLIENT_ID, **security):
            yield from reader.read(batches)
    except CorruptBatch as corrupt:
        at = reader.next_offset
        reader.refuse(Fault(f"{corrupt}; what follows up to offset {split.stop} was not read", offset=at))
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        reader.refuse(Fault(error.text, offset=split.start))
    yield from reader.finish(split.stop)


def _admin(where: str, properties: Mapping[str, str]) -> Admin:
    return Admin(bootstrap_servers=where, client_id=_CLIENT_ID, **_security(properties))


def _security(properties: Mapping[str, str]) -> dict[str, Any]:
    secured = connection_arguments(properties)
    return {"tls": secured.get("tls"), "sasl": secured.get("sasl")}


def topics_of(given: Input) -> Iterator[dict[str, Any]]:
    """Yield the id, name, number of partitions and end offsets of each topic, -1 where unknown.

    Raises KafkaError.
    """
    (where,) = given.where
    with _admin(where, given.properties) as admin:
        topics = [topic for topic in admin.list_topics() if topic.partitions and not topic.is_internal]
        ends = ends_of(admin, topics)
    for topic in topics:
        at = [ends.get(TopicPartition(topic.name, number)) for number in sorted(topic.partitions)]
        known = [-1 if each is None else each.offset for each in at]
        yield {
            "topic_id": topic_id(topic.topic_id),
            "topic": topic.name,
            "partitions": len(known),
            "end_offsets": known,
        }


def ends_of(admin: Admin, topics: Iterable[TopicView]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return the end offsets of topics; deleted partitions and those without a leader are left out.

    Raises KafkaError for errors that do not concern single partitions.
    """
    wanted = {
        TopicPartition(topic.name, number)
        for topic in topics
        for number, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    while wanted:
        try:
            return admin.list_offsets(dict.fromkeys(sorted(wanted), LATEST))
        except PartitionErrors as failed:
            left_out = wanted & failed.codes.keys()
        except UnknownTopic as gone:
            left_out = {each for each in wanted if each.topic == gone.topic}
        except UnknownPartition as gone:
            left_out = wanted & {gone.partition}
        if not left_out:
            break
        wanted -= left_out
    return {}
