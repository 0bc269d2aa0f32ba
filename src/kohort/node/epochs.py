"""Fencing by leader epoch (KIP-320): a client that knows an older or a newer leader is told so."""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.topics.partition import Partition


def check_leader_epoch(partition: Partition, current_leader_epoch: int) -> None:
    """Raise KafkaError when a client's epoch, -1 if it gave none, is not the partition's."""
    if current_leader_epoch < 0:
        return
    epoch = partition.leader_epoch
    if current_leader_epoch < epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if current_leader_epoch > epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
