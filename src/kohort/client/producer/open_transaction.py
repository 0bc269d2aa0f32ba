"""One transaction of a producer: records and the offsets of what they were made from, together or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata, PartitionOffsets, committable
from kohort.client.errors import TransactionAbortable, TransactionError, TransactionFatal
from kohort.client.producer.sender import BatchSender
from kohort.client.producer.transaction_driver import TransactionDriver
from kohort.client.producer.transaction_machine import TransactionState
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class OffsetSource(Protocol):
    """The member of a group whose offsets a transaction commits: a `Consumer`."""

    def transaction_offsets(self, offsets: Offsets | None, /) -> tuple[GroupMetadata, PartitionOffsets]: ...


class Transaction:
    """A transaction of a producer, made by `Producer.transaction`; `async with` begins and ends it.

    What the producer sends in the block belongs to it. At the end of the block it is committed. An exception that
    leaves the block aborts it, and so does a commit that fails with `TransactionAbortable`, which is raised then.
    """

    def __init__(self, driver: TransactionDriver, sender: BatchSender) -> None:
        self._driver = driver
        self._sender = sender
        self._number = 0

    async def __aenter__(self) -> Transaction:
        await self.begin()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._is_open:
            return
        if error is None:
            try:
                await self.commit()
            except TransactionAbortable as failure:
                await self._abort_after(failure)
                raise
        else:
            await self._abort_after(error)

    async def begin(self) -> None:
        """Begin the transaction; an abort before it that was not answered is waited for.

        Raises RuntimeError where another one is open, `TransactionFatal`, `TransactionRetriable`.
        """
        if self._number:
            raise RuntimeError("this transaction was begun before: make a new one by producer.transaction()")
        if self._driver.machine.state is TransactionState.ABORTING:
            await _finish(self._driver, self._sender)
        self._number = self._driver.begin()

    async def send_offsets(self, group: OffsetSource | GroupMetadata, offsets: Offsets | None = None) -> None:
        """Commit offsets of a consumer's group with the transaction, by default all that the consumer has returned.

        The consumer needs `enable_auto_commit=False`. With `offsets`, the group's `GroupMetadata` is enough. Raises
        `TransactionAbortable` and `CommitFailed` where the group has rebalanced, `TransactionFatal`, TypeError and
        ValueError.
        """
        self._require_open()
        if not isinstance(group, GroupMetadata):
            metadata, found = group.transaction_offsets(offsets)
        elif offsets is not None:
            metadata, found = group, committable(offsets)
        else:
            raise TypeError("send_offsets(GroupMetadata) has no positions: pass offsets, or the consumer")
        if found:
            await self._driver.send_offsets(metadata, found)

    async def commit(self) -> None:
        """Write what waits, and commit. Raises a `TransactionError`, as its classes state; nothing is raised twice.

        After `TransactionRetriable` call it again; after `TransactionAbortable` call `abort`.
        """
        await self._end(is_commit=True)

    async def abort(self) -> None:
        """Abort: `read_committed` consumers skip its records, and the group's offsets stay. Raises `TransactionError`.

        Records that were not written yet fail with `TransactionAborted`.
        """
        await self._end(is_commit=False)

    async def _end(self, *, is_commit: bool) -> None:
        self._require_open()
        self._driver.begin_end(is_commit=is_commit)
        await _finish(self._driver, self._sender)

    async def _abort_after(self, error: BaseException) -> None:
        """Abort because of an exception, which is raised then; one that is fatal for the producer takes its place."""
        if self._driver.machine.state is TransactionState.COMMITTING:
            return  # a commit that was not answered cannot be aborted
        try:
            await self.abort()
        except TransactionFatal as fatal:
            if fatal is not error and isinstance(error, Exception):
                raise fatal from error
        except TransactionError as unanswered:
            log.warning("the abort after %r: %s", error, unanswered)

    @property
    def _is_open(self) -> bool:
        return self._driver.machine.is_open and self._driver.machine.begun == self._number

    def _require_open(self) -> None:
        if not self._number:
            raise RuntimeError("this transaction has not begun: use 'async with', or await begin()")
        if not self._is_open:
            self._driver.machine.check()
            raise RuntimeError("this transaction has ended: make a new one by producer.transaction()")


async def _finish(driver: TransactionDriver, sender: BatchSender) -> None:
    """Wait for the records that are on their way, and then for the end that was begun."""
    try:
        async with asyncio.timeout(driver.max_block_ms / 1000):
            await sender.flush()
    except TimeoutError:
        raise driver.end_timeout_error() from None
    await driver.end()


async def abandon(driver: TransactionDriver, sender: BatchSender) -> None:
    """End what a producer that stops left open: a transaction is aborted, a commit that was begun is finished."""
    if not driver.machine.is_open:
        return
    try:
        if driver.machine.state is not TransactionState.COMMITTING:
            log.warning("the producer %r stops: its open transaction is aborted", driver.transactional_id)
            driver.begin_end(is_commit=False)
        await _finish(driver, sender)
    except TransactionError as error:
        log.warning("the open transaction of %r: %s", driver.transactional_id, error)
