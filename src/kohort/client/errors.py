"""Exceptions of clients: no broker reachable, unknown topic, refused commit, failed deserializer or transaction.

All but `NotReady` are `KafkaError`s, so one `except` takes them; `code` distinguishes them and `text` names the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition


class BrokerUnreachable(KafkaError):
    """No broker could be reached. `attempts` are (address, why)."""

    def __init__(self, attempts: Sequence[tuple[str, str]]) -> None:
        self.attempts = tuple(attempts)
        tried = "; ".join(why for _, why in attempts)
        super().__init__(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"no broker could be reached ({tried}): check bootstrap_servers and that a broker runs there",
        )


class ClientStopped(KafkaError):
    """The client was stopped while something of it was still under way. It is final: there is no retry."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, f"the client was stopped before {what}")


class UnknownTopic(KafkaError):
    """A topic does not exist on the cluster."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist: create it, or check its name"
        )


class UnknownPartition(KafkaError):
    """A topic has no such partition."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        self.partition = partition
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {partition.topic!r} has partitions 0 to {count - 1}, so there is no {partition.partition}",
        )


class CommitFailed(KafkaError):
    """Offsets were not committed: the coordinator does not, or no longer, accept this member id and generation.

    `generation` and `member_id` are those of the commit.
    """

    def __init__(self, code: ErrorCode, identity: tuple[int, str], text: str | None = None) -> None:
        self.generation, self.member_id = generation, member_id = identity
        super().__init__(
            code,
            text
            or f"the group refused the commit of member {member_id or '(none)'} in generation {generation}: {code.text}"
            " It took the partitions away: their new owners read the records again from the last commit; this member"
            " reports them as lost and joins again.",
        )


class RebalanceInProgress(CommitFailed):
    """The group is between two assignments and takes no commit now; no other member owns the partitions yet."""

    def __init__(self, identity: tuple[int, str]) -> None:
        generation, member_id = identity
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            identity,
            f"the group rebalances and took no commit from member {member_id} in generation {generation}:"
            " it joins again, and may commit these offsets once it is assigned the partitions again",
        )


class AssignmentFailed(KafkaError):
    """The group's leader could not make an assignment, so no member has one; all rejoin a little later.

    `text` names the leader and what went wrong there. Raised once for a round, by every member that waited for it.
    """

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class DeserializationFailed(KafkaError):
    """A consumer's `key_deserializer` or `value_deserializer` raised; `__cause__` is what it raised.

    The position stays at the record `offset` of `partition`: seek to `next_offset` to leave it out.
    """

    def __init__(self, partition: TopicPartition, offset: int, which: str, cause: Exception) -> None:
        self.partition = partition
        self.offset = offset
        self.next_offset = offset + 1
        self.which = which
        super().__init__(
            ErrorCode.INVALID_RECORD,
            f"{which}_deserializer raised {type(cause).__name__} for {partition} at offset {offset}: {cause}; seek to"
            f" {offset + 1} to leave the record out, or to {offset} to try it again",
        )


class NotReady(Exception):
    """A deserializer lacks something that would have to be waited for, such as the schema of a value.

    A consumer calls `load` in a thread, and then the deserializer again; what `load` raises is that deserializer's.
    """

    def __init__(self, what: str, load: Callable[[], object]) -> None:
        super().__init__(f"{what} is not loaded yet")
        self.load = load


class TransactionError(KafkaError):
    """A transaction cannot continue as requested. The three classes below it state what helps (KIP-1050)."""


class TransactionRetriable(TransactionError):
    """The coordinator did not answer within `max_block_ms`, and whether the transaction ended is not known.

    Call the same method again: `commit` after `commit`, `abort` after `abort`.
    """


class TransactionAbortable(TransactionError):
    """The open transaction can no longer be committed. Abort it, and do its work again in a new one.

    `async with producer.transaction()` has aborted it already when this leaves the block.
    """


class TransactionFatal(TransactionError):
    """The producer can do nothing more: stop it. A new one with the same transactional id begins after its end."""


class ProducerFenced(TransactionFatal):
    """Another producer has taken over the transactional id, or the coordinator aborted the transaction for its timeout.

    A program that was replaced stops; one that was slow makes a new producer.
    """


class TransactionAborted(TransactionError):
    """A record was not written, because its transaction was aborted first."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            f"the record was not written: the transaction of {transactional_id!r} was aborted before",
        )


class PartitionErrors(KafkaError):
    """Some partitions of a request failed. `codes` are theirs."""

    def __init__(self, what: str, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        self.codes = dict(codes)
        listed = ", ".join(f"{partition} {code.name}" for partition, code in sorted(self.codes.items()))
        super().__init__(next(iter(self.codes.values())), f"{what}: {listed}")


def raise_refusal(code: int, what: str, message: str | None = None) -> None:
    """Raise the `KafkaError` of a response's error code, with `what` failed and the broker's message; not for NONE."""
    if code:
        found = error_for(code)
        raise KafkaError(found, f"{what}: {message or found.text}")
