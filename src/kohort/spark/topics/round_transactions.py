"""The driver's part of a round that tasks write to a topic: its transaction, and the positions that it commits.

It runs in one event loop. Who writes under its producer id and epoch is not its concern: the caller commits only what
`records_written` and the stage's progress allow.

The position of a partition that is read is its own commit. Kafka commits offsets of topics that exist only, so the
number of the next micro-batch is the commit of partition 0 of the topic that is written. The metadata of both is their
origin: the topic's id and the group that reads it, or the query's id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata, fetch_committed
from kohort.client.producer.accumulator import NO_PRODUCER_ID, sequence_after
from kohort.client.producer.producer_config import ProducerConfig
from kohort.client.producer.transaction_driver import TransactionDriver
from kohort.client.producer.transaction_machine import TransactionState
from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import OffsetStep, OtherTopic, Position, Positions, is_of_batches, most_rows
from kohort.spark.topics.write_plan import WritePlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RoundTransactions:
    """The transactions of one transactional id, one for each round; made by `start`, ended by `stop`.

    `plan` has what each task's `WritePlan` has besides: `producer` and `properties`.
    """

    def __init__(
        self, cluster: Cluster, driver: TransactionDriver, topic: str, plan: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._cluster = cluster
        self._driver = driver
        self._topic = topic
        self._plan = plan
        self._identity = NO_PRODUCER_ID
        self._sequences: dict[int, int] = {}
        """The next number of each partition under this identity; version 1 carries it from commit to commit."""

    @classmethod
    async def start(
        cls, config: ProducerConfig, topic: str, producer: Mapping[str, Any], properties: Mapping[str, str]
    ) -> RoundTransactions:
        """Connect, fence earlier jobs of the transactional id, and end what they left open.

        Raises `UnknownTopic`, `TransactionFatal`, `TransactionRetriable` and the `KafkaError` of a cluster that cannot
        be reached.
        """
        assert config.transactional_id is not None, "a job's transactions have an id"
        cluster = config.cluster()
        driver = TransactionDriver(cluster, config.transactional_id, config.transaction_timeout_ms, config.max_block_ms)
        try:
            await cluster.start()
            await cluster.topic(topic)
            await driver.start()
        except BaseException:
            await driver.stop()
            await cluster.close()
            raise
        return cls(cluster, driver, topic, {"producer": producer, "properties": properties})

    async def stop(self) -> None:
        """Abort what is open, and end every connection."""
        try:
            await self.abort()
        finally:
            await self._driver.stop()
            await self._cluster.close()

    async def committed(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's commits, when no transaction that writes them is open.

        Raises `UnknownTopic` for partitions that are not of this cluster, which has no offsets of them; `KafkaError`.
        """
        for topic in sorted({each.topic for each in partitions}):
            await self._cluster.topic(topic)
        return await fetch_committed(self._cluster, group_id, sorted(partitions))

    async def begin(self) -> WritePlan:
        """Begin a transaction, and return with what tasks write in it. Raises `KafkaError`."""
        driver = self._driver
        driver.machine.check()
        partitions = len((await self._cluster.topic(self._topic)).partitions)
        driver.begin()
        # With version 1 a partition is added before it is written to; tasks choose theirs later.
        for number in range(partitions):
            driver.add(TopicPartition(self._topic, number))
        await driver.wait_until_added()
        if driver.identity != self._identity:
            self._identity = driver.identity
            self._sequences.clear()
        return WritePlan(
            self._topic, partitions, driver.transactional_id, driver.identity, driver.version, dict(self._sequences),
            **self._plan,
        )  # fmt: skip

    async def commit(
        self,
        written: Mapping[int, int],
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Commit a round of which `written` records of each partition are acknowledged, and a group's offsets.

        Raises `TransactionAbortable` where it can only be aborted, also because the group refused the offsets;
        `TransactionFatal`; and `TransactionRetriable` where no answer came, so that it is not known.
        """
        driver = self._driver
        await driver.send_offsets(group, offsets)
        driver.begin_end(is_commit=True)
        await driver.end()
        for partition, records in written.items():
            self._sequences[partition] = sequence_after(self._sequences.get(partition, 0), records)

    async def abort(self) -> None:
        """Abort the open transaction, if there is one: nothing of its round counts. Raises `TransactionFatal`."""
        driver = self._driver
        if not driver.machine.is_open or driver.machine.state is TransactionState.COMMITTING:
            driver.machine.check()
            return
        driver.begin_end(is_commit=False)
        await driver.end()

    @property
    def is_usable(self) -> bool:
        """Whether another round may begin, or is refused for good; not while the end of one is unknown."""
        return not self._driver.machine.is_open


Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_TEXT = re.compile(r"kohort\.written (?:query|topic)=(?P<id>\S*)(?: group=(?P<group>.*))?", re.DOTALL)


class Origin(NamedTuple):
    """What a position counts: offsets of a topic that `group` reads, or, without a group, micro-batches of a query."""

    id: str
    """The id of the topic or query; empty where the cluster has no ids of topics."""
    group: str | None = None

    @property
    def text(self) -> str:
        """The metadata of the commit."""
        return f"kohort.written {self}"

    @classmethod
    def parse(cls, metadata: str) -> Origin | None:
        """Return the origin in a commit's metadata; None where it was committed without one, or reset."""
        found = _TEXT.fullmatch(metadata)
        return found and cls(found["id"], found["group"])

    def __str__(self) -> str:
        return f"query={self.id}" if self.group is None else f"topic={self.id} group={self.group}"


@dataclass(frozen=True, slots=True)
class CommittedPositions:
    """Writes rows to `topic` with commits of the group `name`; a `Table` of one call of a function in `foreachBatch`.

    `committed(partitions)` returns commits of that group, and `write(frame, size, offsets)` writes about `size` rows in
    one transaction with its commits. `origins` are those of the query that calls, by the topic of a position; a
    program's own call has none, and then none is compared or stored.
    """

    topic: str
    name: str
    committed: Callable[[Collection[TopicPartition]], Offsets]
    write: Callable[[DataFrame, float, Offsets], None]
    origins: Mapping[str, Origin]

    def __repr__(self) -> str:
        return f"TransactionalTopic({self.topic!r}, group={self.name!r})"

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:  # noqa: ARG002
        """Return the positions of these partitions. Raises OtherTopic for those of another origin, and KafkaError."""
        asked = {self._place(each): each for each in partitions}
        found: Positions = {}
        for place, entry in sorted(self.committed(asked).items()):
            partition, origin = asked[place], Origin.parse(entry.metadata)
            now = self.origins.get(partition.topic)
            if origin and now and (origin.group != now.group or (origin.id and now.id and origin.id != now.id)):
                raise OtherTopic(
                    f"{self!r} has the position {entry.offset} of {partition} from {origin}, and this is {now}: two"
                    " queries write under one name, the checkpoint was deleted, or the topic was created again. Give"
                    f" it another group, or reset the offsets of {self.name} (kohort groups reset-offsets)"
                )
            found[partition] = Position(entry.offset, (origin and origin.id) or None)
        return found

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:  # noqa: ARG002
        """Write a frame's rows, and commit the steps in the same transaction. Raises KafkaError."""
        commits = {}
        for partition, step in steps.items():
            origin = self.origins.get(partition.topic)
            commits[self._place(partition)] = OffsetAndMetadata(step.stop.offset, origin.text if origin else "")
        size = frame.count() if any(map(is_of_batches, steps)) else most_rows(steps)
        self.write(frame, size, commits)

    def _place(self, partition: TopicPartition) -> TopicPartition:
        """Return the partition whose commit is this position."""
        return TopicPartition(self.topic, 0) if is_of_batches(partition) else partition
