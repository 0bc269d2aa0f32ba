"""Every error of a request about transactions, provoked once, in the version that shows it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer, batch
from tests.unit.node.group_desk import GroupMember

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

OPEN, ENDING, UNREADABLE, FULL = "open", "ending", "unreadable", "full"
"""The transaction of id "tx": open in t-0; its markers cannot be written; its log is damaged; it cannot be stored."""

PRODUCER: dict[str, Any] = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0}
STALE: dict[str, Any] = {"producer_epoch": -1}
STRANGE: dict[str, Any] = {"producer_id": 7}
UNNAMED: dict[str, Any] = {"transactional_id": ""}
Sent = Callable[[Peer], int]


def find(version: int, **fields: Any) -> Sent:
    def send(peer: Peer) -> int:
        message = FindCoordinatorRequest(**{"key_type": 1, "coordinator_keys": ["tx"], **fields})
        return int(peer.call(message, version).coordinators[0].error_code)

    return send


def init(version: int = 5, **fields: Any) -> Sent:
    message = InitProducerIdRequest(**{"transactional_id": "tx", "transaction_timeout_ms": 60_000, **fields})
    return lambda peer: int(peer.call(message, version).error_code)


def add(version: int, topic: str = "t", *partitions: int, **fields: Any) -> Sent:
    asked = AddPartitionsToTxnRequest.V3AndBelowTopic(name=topic, partitions=list(partitions or (0,)))
    producer = {f"v3_and_below_{name}": value for name, value in {**PRODUCER, **fields}.items()}
    message = AddPartitionsToTxnRequest(v3_and_below_topics=[asked], **producer)

    def send(peer: Peer) -> int:
        (result,) = peer.call(message, version).results_by_topic_v3_and_below
        return int(result.results_by_partition[0].partition_error_code)

    return send


def add_several(*partitions: int, **fields: Any) -> Sent:
    cls = AddPartitionsToTxnRequest.Transaction
    topic = cls.Topic(name="t", partitions=list(partitions or (0,)))
    message = AddPartitionsToTxnRequest(transactions=[cls(topics=[topic], **{**PRODUCER, **fields})])

    def send(peer: Peer) -> int:
        (transaction,) = peer.call(message, 5).results_by_transaction
        return int(transaction.topic_results[0].results_by_partition[0].partition_error_code)

    return send


def add_offsets(version: int = 4, **fields: Any) -> Sent:
    message = AddOffsetsToTxnRequest(**{**PRODUCER, "group_id": "g", **fields})
    return lambda peer: int(peer.call(message, version).error_code)


def commit(
    version: int = 5, *, topic: str = "t", partition: int = 0, metadata: str = "", topic_id: bytes = b"", **fields: Any
) -> Sent:
    cls = TxnOffsetCommitRequest.Topic
    offset = cls.Partition(partition_index=partition, committed_offset=5, committed_metadata=metadata)
    asked = cls(topic_id=topic_id, partitions=[offset]) if topic_id else cls(name=topic, partitions=[offset])
    message = TxnOffsetCommitRequest(**{**PRODUCER, "group_id": "g", "topics": [asked], **fields})
    return lambda peer: int(peer.call(message, version).topics[0].partitions[0].error_code)


def end(version: int = 5, **fields: Any) -> Sent:
    message = EndTxnRequest(**{**PRODUCER, "committed": True, **fields})
    return lambda peer: int(peer.call(message, version).error_code)


def marker(epoch: int = 0, coordinator_epoch: int = 0, partition: int = 0, producer_id: int = 0) -> Sent:
    cls = WriteTxnMarkersRequest.Marker
    asked = cls(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        topics=[cls.Topic(name="t", partition_indexes=[partition])],
    )

    def send(peer: Peer) -> int:
        (answer,) = peer.call(WriteTxnMarkersRequest(markers=[asked]), 2).markers
        return int(answer.topics[0].partitions[0].error_code)

    return send


def describe(transactional_id: str) -> Sent:
    message = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return lambda peer: int(peer.call(message, 0).transaction_states[0].error_code)


def producers(partition: int) -> Sent:
    topic = DescribeProducersRequest.Topic(name="t", partition_indexes=[partition])
    message = DescribeProducersRequest(topics=[topic])
    return lambda peer: int(peer.call(message, 0).topics[0].partitions[0].error_code)


def listed(peer: Peer) -> int:
    return int(peer.call(ListTransactionsRequest(transactional_id_pattern="("), 2).error_code)


def then(*requests: Sent) -> Sent:
    """Send several requests, and return the error of the last one."""
    return lambda peer: [request(peer) for request in requests][-1]


REFUSED: list[tuple[str, str, Sent]] = [
    # FindCoordinator
    ("INVALID_REQUEST", OPEN, find(6, key_type=2)),
    ("INVALID_REQUEST", OPEN, find(6, key_type=9)),
    # InitProducerId
    ("INVALID_REQUEST", OPEN, init(transactional_id="")),
    ("INVALID_REQUEST", OPEN, init(producer_id=0)),
    ("INVALID_TRANSACTION_TIMEOUT", OPEN, init(transaction_timeout_ms=0)),
    ("INVALID_TRANSACTION_TIMEOUT", OPEN, init(transaction_timeout_ms=2**31 - 1)),
    ("CONCURRENT_TRANSACTIONS", OPEN, init()),
    ("CONCURRENT_TRANSACTIONS", ENDING, init()),
    ("PRODUCER_FENCED", OPEN, init(4, producer_id=7, producer_epoch=0)),
    ("INVALID_PRODUCER_EPOCH", OPEN, init(3, producer_id=7, producer_epoch=0)),
    ("NOT_COORDINATOR", UNREADABLE, init()),
    ("NOT_COORDINATOR", FULL, init(transactional_id="other")),
    # AddPartitionsToTxn
    ("INVALID_REQUEST", OPEN, add(3, **UNNAMED)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, add(3, **STRANGE)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, add(3, transactional_id="other")),
    ("PRODUCER_FENCED", OPEN, add(2, **STALE)),
    ("INVALID_PRODUCER_EPOCH", OPEN, add(1, **STALE)),
    ("CONCURRENT_TRANSACTIONS", ENDING, add(3)),
    ("UNKNOWN_TOPIC_OR_PARTITION", OPEN, add(3, "nothing")),
    ("OPERATION_NOT_ATTEMPTED", OPEN, add(3, "t", 0, 7)),
    ("TOPIC_AUTHORIZATION_FAILED", OPEN, add(3, "__transaction_state")),
    ("NOT_COORDINATOR", UNREADABLE, add(3)),
    ("NOT_COORDINATOR", FULL, add(3, "t", 1)),
    ("INVALID_REQUEST", OPEN, add_several(**UNNAMED)),
    ("PRODUCER_FENCED", OPEN, add_several(**STALE)),
    ("OPERATION_NOT_ATTEMPTED", OPEN, add_several(0, 7)),
    ("INVALID_REQUEST", OPEN, add_several(**UNNAMED, verify_only=True)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, add_several(**STRANGE, verify_only=True)),
    ("PRODUCER_FENCED", OPEN, add_several(**STALE, verify_only=True)),
    ("TRANSACTION_ABORTABLE", OPEN, add_several(1, verify_only=True)),
    ("CONCURRENT_TRANSACTIONS", ENDING, add_several(producer_epoch=1, verify_only=True)),
    ("NOT_COORDINATOR", UNREADABLE, add_several(verify_only=True)),
    # AddOffsetsToTxn
    ("INVALID_REQUEST", OPEN, add_offsets(**UNNAMED)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, add_offsets(**STRANGE)),
    ("PRODUCER_FENCED", OPEN, add_offsets(2, **STALE)),
    ("INVALID_PRODUCER_EPOCH", OPEN, add_offsets(1, **STALE)),
    ("CONCURRENT_TRANSACTIONS", ENDING, add_offsets()),
    ("NOT_COORDINATOR", UNREADABLE, add_offsets()),
    ("NOT_COORDINATOR", FULL, add_offsets()),
    # TxnOffsetCommit
    ("INVALID_REQUEST", OPEN, commit(**UNNAMED)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, commit(**STRANGE)),
    ("INVALID_PRODUCER_EPOCH", OPEN, commit(**STALE)),
    ("TRANSACTION_ABORTABLE", OPEN, commit(4)),
    ("INVALID_TXN_STATE", OPEN, commit(3)),
    ("CONCURRENT_TRANSACTIONS", ENDING, commit(5)),
    ("COORDINATOR_NOT_AVAILABLE", ENDING, commit(4, producer_epoch=1)),
    ("NOT_COORDINATOR", UNREADABLE, commit()),
    ("NOT_COORDINATOR", FULL, commit()),
    ("INVALID_GROUP_ID", OPEN, commit(group_id="")),
    ("UNKNOWN_TOPIC_OR_PARTITION", OPEN, commit(topic="nothing")),
    ("UNKNOWN_TOPIC_OR_PARTITION", OPEN, commit(partition=9)),
    ("UNKNOWN_TOPIC_ID", OPEN, commit(6, topic_id=b"\1" * 16)),
    ("OFFSET_METADATA_TOO_LARGE", OPEN, commit(metadata="m" * 5_000)),
    ("ILLEGAL_GENERATION", OPEN, commit(group_id="unknown", generation_id_or_member_epoch=3, member_id="m")),
    ("UNKNOWN_MEMBER_ID", OPEN, commit(generation_id_or_member_epoch=1, member_id="m")),
    ("FENCED_INSTANCE_ID", OPEN, commit(generation_id_or_member_epoch=1, member_id="m", group_instance_id="i")),
    # EndTxn
    ("INVALID_REQUEST", OPEN, end(**UNNAMED)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, end(transactional_id="other")),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, end(**STRANGE)),
    ("INVALID_PRODUCER_ID_MAPPING", OPEN, end(4, **STRANGE)),
    ("PRODUCER_FENCED", OPEN, end(producer_epoch=5)),
    ("PRODUCER_FENCED", OPEN, end(2, **STALE)),
    ("INVALID_PRODUCER_EPOCH", OPEN, end(1, **STALE)),
    ("CONCURRENT_TRANSACTIONS", ENDING, end()),
    ("CONCURRENT_TRANSACTIONS", ENDING, end(4, producer_epoch=1)),
    ("INVALID_TXN_STATE", OPEN, then(end(4), end(4, committed=False))),
    ("INVALID_TXN_STATE", OPEN, then(end(5), end(5, producer_epoch=1))),
    ("NOT_COORDINATOR", UNREADABLE, end()),
    ("NOT_COORDINATOR", FULL, end()),
    # WriteTxnMarkers
    ("INVALID_PRODUCER_EPOCH", OPEN, then(marker(0), marker(-1))),
    ("TRANSACTION_COORDINATOR_FENCED", OPEN, then(marker(0, 5), marker(0, 4))),
    ("UNKNOWN_TOPIC_OR_PARTITION", OPEN, marker(partition=9)),
    ("KAFKA_STORAGE_ERROR", ENDING, marker(1)),
    ("NONE", OPEN, marker(producer_id=99)),
    # DescribeTransactions, ListTransactions, DescribeProducers
    ("TRANSACTIONAL_ID_NOT_FOUND", OPEN, describe("other")),
    ("INVALID_REQUEST", OPEN, describe("")),
    ("NOT_COORDINATOR", UNREADABLE, describe("tx")),
    ("INVALID_REGULAR_EXPRESSION", OPEN, listed),
    ("UNKNOWN_TOPIC_OR_PARTITION", OPEN, producers(9)),
]


def broken(paths: tuple[str, ...], operation: str, path: str) -> None:
    if operation in ("append", "write") and path.startswith(paths):
        raise StorageError(errno.EIO, "broken", path)


def given(state: str) -> Desk:
    """Return a node with producer 0 of id "tx", epoch 0, in a state, and a group with the static member "i"."""
    desk = Desk(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1)
    desk.create("t", 2)
    member = GroupMember(desk, instance_id="i", topic="t")
    member.enter()
    desk.advance(1)
    member.joined()
    peer = desk.connect()
    assert (init()(peer), add_several()(peer)) == (0, 0)
    if state == ENDING:
        desk.disk.fault = partial(broken, ("t-0",))
        assert end()(peer) == 0
    elif state == FULL:
        desk.disk.fault = partial(broken, ("__transaction_state",))
    elif state == UNREADABLE:
        number = desk.node.context.transactions.partition_of("tx")
        desk.node.topics.find_partition("__transaction_state", number).append([batch(b"no key")], desk.clock.now_ms())
        return desk.restart()
    return desk


@pytest.mark.parametrize(
    ("error", "state", "request_"), REFUSED, ids=[f"{n}-{row[0]}" for n, row in enumerate(REFUSED)]
)
def test_error_is_kafka_s_and_the_connection_continues(error: str, state: str, request_: Sent) -> None:
    peer = given(state).connect()
    assert ErrorCode(request_(peer)).name == error
    assert peer.closed is None


@pytest.mark.parametrize("request_", [find(6), init(), add(3), add_offsets(), commit(), end()])
def test_coordinator_is_not_available_where_its_topic_cannot_be_created(request_: Sent) -> None:
    desk = Desk()
    desk.create("t", 2)
    desk.disk.fault = partial(broken, ("",))
    assert ErrorCode(request_(desk.connect())) is ErrorCode.COORDINATOR_NOT_AVAILABLE
