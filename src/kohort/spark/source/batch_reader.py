"""`spark.read.format("kohort")`: topics from one offset to another, read by the executors in parallel, in Arrow.

The offsets are resolved once, when Spark plans the query; from then on the ranges are exact, and the same ranges give
the same rows. No group is joined and nothing is committed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import list_ends
from kohort.client.cluster.metadata import ClusterView
from kohort.client.cluster.offset_specs import ISOLATION, LATEST
from kohort.client.errors import UnknownPartition
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.options.offset_choice import OffsetChoice, resolve
from kohort.spark.options.source_options import SourceOptions
from kohort.spark.rows.read_settings import security
from kohort.spark.rows.rounds import OffsetRange, parted, parts_of_round, pieces
from kohort.spark.source.range_piece import RangePiece, read_piece
from kohort.wire.messages import MetadataRequest

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Plans one task per piece of a range, and reads a piece in its task."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces, one for each partition of a topic unless the options require more. Raises KafkaError."""
        options = self.options
        least, most = options.min_partitions or 1, options.max_records_per_partition
        if options.ranges is not None:  # a round, of which small ranges share a task
            return [RangePiece(each, options.topic_ids) for each in parts_of_round(options.ranges, least, most)]
        ranges, topic_ids = asyncio.run(find_ranges(options))
        cut = parted(pieces([each for each in ranges if each.size > 0], least, smallest=1), most)
        return [RangePiece((each,), topic_ids) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one piece's rows. Raises KafkaError where records were deleted."""
        yield from read_piece(self.options.read, partition)


async def find_ranges(options: SourceOptions) -> tuple[list[OffsetRange], dict[str, str]]:
    """Return the ranges that a batch's options stand for in the cluster as it is now, and the ids of their topics.

    Raises KafkaError, ValueError.
    """
    cluster = Cluster(
        options.read.bootstrap_servers,
        client_id=options.read.client_id,
        allow_auto_create_topics=False,
        **security(options.read.properties),
    )
    async with cluster:
        partitions = await _partitions(cluster, options)
        topic_ids = cluster.view.topic_id_texts
        starts = await resolve(cluster, options.starting, partitions)
        stops = await resolve(cluster, options.ending, partitions, isolation=ISOLATION[options.read.isolation])
        if options.read.fail_on_data_loss:
            await _require_starts(cluster, options.starting, stops)
    ranges = [OffsetRange(each, starts[each], max(starts[each], stops[each])) for each in sorted(partitions)]
    return ranges, {name: each for name, each in topic_ids.items() if name in {each.topic for each in partitions}}


async def _require_starts(cluster: Cluster, starting: OffsetChoice, stops: Mapping[TopicPartition, int]) -> None:
    """Refuse starting offsets beyond the end: the topic was recreated or truncated. Raises KafkaError."""
    named = {each: place for each in stops if (place := starting.place(each)) is not None and place > stops[each]}
    ends = await list_ends(cluster, named, LATEST)  # an open transaction, or a chosen end, is no loss
    for partition, place in sorted(named.items()):
        if place > ends[partition]:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{starting.option} is {place} for {partition}, which ends at {ends[partition]}: records were lost, or"
                " the topic was recreated; failOnDataLoss=false reads nothing there",
            )


async def _partitions(cluster: Cluster, options: SourceOptions) -> frozenset[TopicPartition]:
    """Return the partitions of the topics that the options name, or those partitions that they name."""
    if options.pattern is not None:
        view = ClusterView.read(await cluster.call_any(MetadataRequest(topics=None)))
        names = [name for name, topic in view.topics.items() if not topic.is_internal]
        topics = [name for name in sorted(names) if re.fullmatch(options.pattern, name)]
    else:
        topics = sorted({partition.topic for partition in options.assigned} | set(options.topics))
    there = {TopicPartition(topic, number) for topic in topics for number in (await cluster.topic(topic)).partitions}
    for partition in sorted(options.assigned - there):
        raise UnknownPartition(partition, sum(each.topic == partition.topic for each in there))
    return options.assigned or frozenset(there)
