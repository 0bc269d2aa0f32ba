"""Transactions: what readers of committed records get, what the logs have, and that every transaction ends.

A transaction is known by its producer and number, which each record's value names. Whether it counts is what its
program asked for and was answered; where a program never learned of the end, the first thing seen decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kohort.model.ids import TopicPartition
from kohort.node.topics.topic import Partition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.fault_history import ALWAYS
from kohort.sim.checks.invariants import (
    ABORTED_STAYS_UNREAD,
    ALL_OR_NOTHING,
    EVERY_TRANSACTION_ENDS,
    FENCED_NEVER_ADDS,
    STABLE_OFFSET_MOVES,
)
from kohort.sim.kernel.world_observer import OUTPUT, SeenNode
from kohort.transaction.transaction import NOT_OPEN
from kohort.wire.record_batches import iter_batches

_READ_BYTES = 1 << 20


class _End(Enum):
    """How a transaction stands, as its program knows."""

    OPEN = "is open"
    COMMITTING = "is to be committed"
    COMMITTED = "was committed"
    ABORTED = "is aborted"


@dataclass(slots=True, eq=False)
class _SeenTransaction:
    """One transaction; its commit was answered at `ended_us`. `read` are the numbers of its records that were read."""

    records: int
    end: _End = _End.OPEN
    ended_us: int = ALWAYS
    read: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _SeenProducer:
    """One transactional id. `fences` has for each of its identities, by rank, the ends of the logs when it got it."""

    transactions: dict[int, _SeenTransaction] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    """Its producer ids, in the order in which it got them."""
    fences: dict[tuple[int, int], dict[TopicPartition, int]] = field(default_factory=dict)

    def rank(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """Return what is larger for the later of two identities."""
        return self.ids.index(producer_id), epoch


class TransactionChecker(Checker):
    """All invariants of transactions."""

    invariants = (
        ABORTED_STAYS_UNREAD,
        ALL_OR_NOTHING,
        FENCED_NEVER_ADDS,
        STABLE_OFFSET_MOVES,
        EVERY_TRANSACTION_ENDS,
    )

    def __init__(self) -> None:
        super().__init__()
        self._producers: defaultdict[str, _SeenProducer] = defaultdict(_SeenProducer)
        self._stable: dict[TopicPartition, int] = {}
        self._node: SeenNode | None = None

    def node_started(self, node: SeenNode) -> None:
        """Note which node has the logs."""
        self._node = node

    # -- what producers do

    def producer_identified(self, producer: str, producer_id: int, epoch: int) -> None:
        """Note where the logs end: nothing of an older identity follows."""
        seen = self._producers[producer]
        if producer_id not in seen.ids:
            seen.ids.append(producer_id)
        logs = ((partition, hosted.opened) for partition, hosted in self._output())
        ends = {partition: log.log_end_offset for partition, log in logs if log is not None}
        seen.fences[seen.rank(producer_id, epoch)] = ends

    def transaction_began(self, producer: str, number: int, records: int) -> None:
        """Note a transaction that is open until its program has ended it."""
        self._producers[producer].transactions[number] = _SeenTransaction(records)

    def transaction_ending(self, producer: str, number: int, is_commit: bool) -> None:
        """From here on it may count, or it never will."""
        self._producers[producer].transactions[number].end = _End.COMMITTING if is_commit else _End.ABORTED

    def transaction_ended(self, producer: str, number: int, is_commit: bool) -> None:
        """A commit that was answered counts."""
        if is_commit:
            transaction = self._producers[producer].transactions[number]
            transaction.end, transaction.ended_us = _End.COMMITTED, self.now_us

    def transaction_offset_found(self, producer: str, number: int, asked_us: int) -> None:
        """The offset of a producer that begins is that of its last transaction that counts; those after it do not.

        What was committed after the request left may count already, and need not: a process that was fenced meanwhile
        may get an answer that is older.
        """
        transactions = self._producers[producer].transactions
        last = max((each for each, known in transactions.items() if known.ended_us <= asked_us), default=-1)
        text = f"the group of {producer} stands at {number}, and transaction {last} was committed before it asked"
        self.compare(number >= last, ALL_OR_NOTHING, text)
        found = transactions.get(number)
        if number >= 0 and (found is None or found.end not in (_End.COMMITTING, _End.COMMITTED)):
            how = "is unknown" if found is None else found.end.value
            self.broken(ALL_OR_NOTHING, f"the group of {producer} stands at {number}, a transaction that {how}")

    # -- what is read

    def committed_read(
        self, partition: TopicPartition, values: Sequence[tuple[int, bytes]], next_offset: int, stable_offset: int
    ) -> None:
        """Judge each record by its transaction, and the last stable offset by the one before."""
        before = self._stable.get(partition, 0)
        if stable_offset < before:
            text = f"the last stable offset of {partition} is {stable_offset}, and was {before}"
            self.broken(STABLE_OFFSET_MOVES, text)
        self._stable[partition] = stable_offset
        self.count(STABLE_OFFSET_MOVES)
        if next_offset > stable_offset:
            text = f"{partition} is read up to {next_offset}, and its last stable offset is {stable_offset}"
            self.broken(STABLE_OFFSET_MOVES, text)
        for offset, value in values:
            producer, number, index = value.decode().split(":")
            transaction = self._producers[producer].transactions[int(number)]
            what = f"{partition}@{offset} is record {index} of transaction {number} of {producer}"
            is_wanted = transaction.end in (_End.COMMITTING, _End.COMMITTED)
            self.compare(is_wanted, ABORTED_STAYS_UNREAD, f"{what}, which {transaction.end.value}, and it was read")
            self.compare(int(index) not in transaction.read, ALL_OR_NOTHING, f"{what}, and it was read before")
            transaction.read.add(int(index))

    # -- the end

    def ended(self) -> None:
        """Compare what was read with what was committed, and look at the logs for fenced producers."""
        if not self._producers:
            return
        for name, producer in sorted(self._producers.items()):
            for number, transaction in producer.transactions.items():
                self._judge(name, number, transaction)
        for partition, hosted in self._output():
            stable, end = hosted.log.last_stable_offset, hosted.log.log_end_offset
            text = f"the last stable offset of {partition} is {stable} of {end}, and nothing is open"
            self.compare(stable == end, STABLE_OFFSET_MOVES, text)
            self._look_for_fenced(partition, hosted)
        node = None if self._node is None else self._node.node
        for each in () if node is None else node.context.transactions.transactions():
            text = f"the transaction of {each.transactional_id} is {each.state.text} in the end"
            self.compare(each.state in NOT_OPEN, EVERY_TRANSACTION_ENDS, text)

    def _judge(self, name: str, number: int, transaction: _SeenTransaction) -> None:
        count, read = transaction.records, len(transaction.read)
        what = f"transaction {number} of {name} {transaction.end.value}, and {read} of its {count} records were read"
        if transaction.end is _End.COMMITTED:
            self.compare(read == count, ALL_OR_NOTHING, what)
        elif transaction.end is _End.COMMITTING:
            self.compare(read in (0, count), ALL_OR_NOTHING, what)

    def _look_for_fenced(self, partition: TopicPartition, hosted: Partition) -> None:
        names = {producer_id: name for name, each in self._producers.items() for producer_id in each.ids}
        log = hosted.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for view in log.read(offset, _READ_BYTES, up_to=log.log_end_offset):
                for header, _ in iter_batches(view):
                    offset = header.last_offset + 1
                    name = names.get(header.producer_id)
                    if name is None or header.is_control:
                        continue
                    self.count(FENCED_NEVER_ADDS)
                    producer = self._producers[name]
                    rank = producer.rank(header.producer_id, header.producer_epoch)
                    for fence, ends in producer.fences.items():
                        if rank < fence and header.base_offset >= ends.get(partition, ALWAYS):
                            text = (
                                f"{partition}@{header.base_offset} is of {name} with id {header.producer_id} and epoch "
                                f"{header.producer_epoch}, and it had been fenced at {ends[partition]}"
                            )
                            self.broken(FENCED_NEVER_ADDS, text)

    def _output(self) -> Iterator[tuple[TopicPartition, Partition]]:
        node = None if self._node is None else self._node.node
        topic = None if node is None else node.topics.get(OUTPUT)
        for hosted in () if topic is None else topic.partitions:
            yield TopicPartition(OUTPUT, hosted.index), hosted
