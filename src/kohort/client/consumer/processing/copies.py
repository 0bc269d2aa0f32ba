"""Exactly-once copies: what handlers return is written in one transaction with the offsets of what they handled.

The law: what a record's handler returned and the record's offset are in the same transaction, so both are there or
neither. A handler runs outside of transactions; what it returned waits in memory until the next one, which is short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from kohort.client.cluster.committed_offsets import GroupMetadata, PartitionOffsets
from kohort.client.cluster.retry import is_worth_a_retry
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.consumer.processing.schedule import PartitionWork
from kohort.client.errors import (
    CommitFailed,
    TransactionAbortable,
    TransactionFatal,
    TransactionRetriable,
    UnknownTopic,
)
from kohort.client.membership.protocol_driver import new_member_id
from kohort.client.producer.open_transaction import Transaction
from kohort.client.producer.producer import Producer
from kohort.client.settings import ClientConfig
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
"""After a kill, readers wait so long behind what the open transaction wrote; as in Kafka Streams."""

_LAST_WRITE_MS = 5_000


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record that a handler returns, to be written by `process(exactly_once=True)`. Raises TypeError."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def __post_init__(self) -> None:
        for name in ("value", "key"):
            if not isinstance(given := getattr(self, name), bytes | None):
                raise TypeError(f"OutputRecord: {name}={given!r} is not bytes")


def outputs_of(returned: object) -> list[OutputRecord]:
    """Return what a handler wants to have written. Raises TypeError."""
    if returned is None or isinstance(returned, OutputRecord):
        return [] if returned is None else [returned]
    found: list[Any] = list(returned) if isinstance(returned, Iterable) else [returned]
    if not all(isinstance(each, OutputRecord) for each in found):
        raise TypeError(
            f"the handler returned {returned!r}: with exactly_once it returns an OutputRecord, several, or None"
        )
    return found


class _Written(NamedTuple):
    work: PartitionWork
    output: OutputRecord


class CopyTransactions:
    """The transactions of one `process`. `end_with` ends it, where no further transaction can be made."""

    def __init__(self, config: ConsumerConfig, end_with: Callable[[BaseException], None]) -> None:
        own = {each.name: getattr(config, each.name) for each in fields(ClientConfig)}
        self._producer = Producer(
            **own,
            transactional_id=f"{config.group_id}-{config.group_instance_id or new_member_id()}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            allow_auto_create_topics=False,
        )
        self._end_with = end_with
        self._waiting: list[_Written] = []
        self._unanswered: tuple[Transaction, list[_Written]] | None = None

    async def start(self) -> None:
        """Connect, and end what an earlier process left open under this id. Raises as `Producer.start`."""
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect; a transaction that is open is aborted."""
        await self._producer.stop(timeout_ms=_LAST_WRITE_MS)

    def add(self, work: PartitionWork, outputs: Iterable[OutputRecord]) -> None:
        """Have these written with the next commit, in which their record is finished."""
        if not work.is_dropped:
            self._waiting += [_Written(work, output) for output in outputs]

    async def commit(
        self,
        offsets_now: Callable[[], tuple[GroupMetadata, PartitionOffsets]],
        finished: Callable[[TopicPartition], FinishedOffsets | None],
    ) -> PartitionOffsets:
        """Write what waits, and the offsets, in one transaction; return the offsets.

        `finished` returns what a partition has finished: of a partition that is no longer read nothing is written.
        Raises `TransactionAbortable` and `CommitFailed` where it was aborted and is to be tried again, `KafkaError`.
        """
        try:
            await self._finish_unanswered()
            group, offsets = offsets_now()
            written = [each for each in self._waiting if finished(each.work.partition) is each.work.finished]
            if not offsets:
                return offsets
            self._waiting = []
            await self._write(group, offsets, written)
        except (TransactionAbortable, CommitFailed) as error:
            log.info("the transaction was aborted, and is made again: %s", error.text)
            raise
        except Exception as error:
            may_pass = isinstance(error, KafkaError) and is_worth_a_retry(error)
            if not may_pass or isinstance(error, TransactionFatal | UnknownTopic):
                self._end_with(error)
            raise
        return offsets

    async def _write(self, group: GroupMetadata, offsets: PartitionOffsets, written: list[_Written]) -> None:
        is_ending = False
        try:
            async with self._producer.transaction() as transaction:
                for _, each in written:
                    where = (each.topic, each.value, each.key, each.partition)
                    await self._producer.send(*where, each.timestamp_ms, each.headers)
                await transaction.send_offsets(group, offsets)
                is_ending = True
                self._unanswered = transaction, written
                await self._finish_unanswered()
        except BaseException:
            if not is_ending:
                self._waiting = written + self._waiting
            raise

    async def _finish_unanswered(self) -> None:
        """Wait for a commit that was begun; what waited for it before may have been cancelled meanwhile."""
        while self._unanswered is not None:
            transaction, written = self._unanswered
            try:
                await transaction.commit()
            except TransactionRetriable as error:
                log.warning("the commit of a transaction is waited for: %s", error.text)
                continue
            except RuntimeError:
                pass  # it was answered while nothing waited for it
            except TransactionAbortable:
                self._unanswered = None
                self._waiting = written + self._waiting
                await transaction.abort()
                raise
            self._unanswered = None
