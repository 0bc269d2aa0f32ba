"""The driver's part of a round that tasks write to a topic: it begins, commits or aborts the transaction.

It runs in one event loop. Who writes under its producer id and epoch is not its concern: the caller commits only what
`records_written` and the stage's progress allow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, fetch_committed
from kohort.client.group_metadata import GroupMetadata
from kohort.client.producer.accumulator import NO_PRODUCER_ID, sequence_after
from kohort.client.producer.producer_config import ProducerConfig
from kohort.client.producer.transaction_driver import TransactionDriver
from kohort.client.producer.transaction_machine import TransactionState
from kohort.model.ids import TopicPartition
from kohort.spark.topics.write_plan import WritePlan


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
