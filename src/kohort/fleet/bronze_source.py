"""The data source through which Spark's executors decode `__consumer_offsets`: one task reads some pieces of input.

What the tasks are was decided in the driver (`bronze.read`), so that a wrong input is told before any job starts. The
format is ours alone: its options are the tasks, and which table of bronze they fill. Spark imports this module in a new
process whenever it plans a query, so it imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kohort.fleet.bronze_columns import DDL
from kohort.fleet.inputs.pieces import Piece, from_json
from kohort.fleet.schema import METRICS, STATE_CHANGES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "kohort-bronze"


def rows_of(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece: of `bronze_columns.DDL`, or of the table that its kind fills."""
    from kohort.fleet.inputs import broker_log, cluster, exports, kafka_dump, member_metrics, segment_files

    read: dict[str, Callable[[Piece], Iterator[pa.RecordBatch]]] = {
        "segment": segment_files.read,
        "cluster": cluster.read,
        "dump": kafka_dump.read,
        "export": exports.read,
        "metrics": member_metrics.read,
        "broker_log": broker_log.read,
    }
    return read[piece.kind](piece)


class Task(InputPartition):  # type: ignore[misc]
    """The pieces that one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(0)
        self.pieces = tuple(pieces)


class BronzeReader(DataSourceReader):  # type: ignore[misc]
    """Hands out the tasks, and reads one where it runs."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._tasks = options["tasks"]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        return [Task(pieces) for pieces in from_json(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises KafkaError when a cluster stays out of reach."""
        if isinstance(partition, Task):  # Spark plans one nameless partition where there is nothing to read
            for piece in partition.pieces:
                yield from rows_of(piece)


class BronzeSource(DataSource):  # type: ignore[misc]
    """The data source behind `bronze.read`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return {"metrics": METRICS.ddl, "broker_log": STATE_CHANGES.ddl}.get(self.options["kind"], DDL)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return the batch reader."""
        return BronzeReader(self.options)
