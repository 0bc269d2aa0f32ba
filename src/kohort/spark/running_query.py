"""The streaming query that calls a function of `foreachBatch`, with what its batch reads, as Spark's JVM has it.

Spark passes the function a frame and a number. The rest is in its log of offsets: of sources `kohort` a batch's end has
its ranges, its group and the ids of its topics, so that neither the rows nor the cluster are asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.model.ids import TopicPartition
from kohort.spark.membership.query_listener import is_published
from kohort.spark.membership.shared_state import SharedState
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.rows.record_frames import Spans
from kohort.spark.running_session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_ID = "sql.streaming.queryId"
"""The local property of the thread in which Spark runs a batch (`StreamExecution.QUERY_ID_KEY`)."""

_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator"


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """One batch of a streaming query. `id` is the same after restarts from its checkpoint, `run` is not.

    `ends` are the batch's ends in sources `kohort`; `has_others`: it has sources of other formats.
    `is_stateful`: rows may come from earlier batches, as those of joins, windows and deduplication do.
    """

    id: str
    run: str
    batch: int
    ends: tuple[StreamOffset, ...]
    has_others: bool
    is_stateful: bool

    def require_known_plan(self) -> None:
        """Raise SharedState if it is stateful, and its sources joined their groups as if it were not."""
        if self.is_stateful and self.ends and not is_published(self.run):
            raise SharedState(
                f"this query is stateful, and joined the group {self.ends[0].group!r} without a listener that reports"
                " it: other members could get a part of the rows of its windows, joins or keys. Call"
                " kohort.spark.register(spark) before the query starts, or start the session with kohort.spark.build"
            )

    @property
    def groups(self) -> frozenset[str]:
        """The groups that its sources are members of."""
        return frozenset(end.group for end in self.ends)

    @property
    def source_group(self) -> str | None:
        """The group whose rows come straight from its topics, in the order of their offsets; None for other queries."""
        return min(self.groups) if len(self.groups) == 1 and not self.has_others and not self.is_stateful else None

    @property
    def spans(self) -> Spans:
        """What the batch reads of each partition, unless that is nothing."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for each in (each for end in self.ends for each in end.ranges):
            start, stop = found.get(each.partition, (each.start, each.stop))
            found[each.partition] = min(start, each.start), max(stop, each.stop)
        return found

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that it reads."""
        return {topic: each for end in self.ends for topic, each in end.topic_ids.items()}


def running_query(frame: DataFrame, batch: int) -> RunningQuery | None:
    """Return the query whose micro-batch a frame is; None where it is of none, and in Spark Connect, which hides it."""
    spark = frame.sparkSession
    if is_remote(spark):
        return None
    mine = spark.sparkContext.getLocalProperty(_QUERY_ID)
    session = frame._jdf.sparkSession()
    for query in list(spark._jsparkSession.sharedState().activeStreamingQueries().values()):
        execution = query.lastExecution()
        # Code in a thread of its own has no local property; its frames are of the query's session.
        if query.id().toString() == mine or (execution is not None and execution.sparkSession().equals(session)):
            ends = [_end_of_source(each.json()) for each in _each(query.availableOffsets().values())]
            return RunningQuery(
                query.id().toString(),
                query.runId().toString(),
                batch,
                tuple(end for end in ends if end is not None),
                None in ends,
                _has(execution.executedPlan(), _java_class(spark, _STATEFUL)),
            )
    return None


def _end_of_source(text: str) -> StreamOffset | None:
    """Return the end of a batch in a source, or None for one of another format."""
    try:
        return StreamOffset.from_json(json.loads(text))
    except (AttributeError, ValueError):
        return None


def _java_class(spark: SparkSession, name: str) -> Any:
    lang = spark._jvm.java.lang
    return lang.Class.forName(name, False, lang.Thread.currentThread().getContextClassLoader())


def _has(plan: Any, kind: Any) -> bool:
    """Return whether a plan has an operator of a class. One with state is never inside an adaptive plan, a leaf."""
    return kind.isInstance(plan) or any(_has(each, kind) for each in _each(plan.children()))


def _each(found: Any) -> Iterator[Any]:
    """Return the elements of a collection of Scala."""
    elements = found.iterator()
    while elements.hasNext():
        yield elements.next()
