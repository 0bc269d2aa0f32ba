"""Writes the markers that end a transaction on its partitions, all of which are on this node.

A partition that is gone needs none. One whose disk fails now is tried again. A producer or a coordinator that has come
since makes a marker needless: it has ended the transaction there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.durability import Durability
from kohort.node.groups.coordinator import OFFSETS_TOPIC, Coordinator
from kohort.node.services import Services
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.transaction.effects import WriteMarkers
from kohort.transaction.transaction import TopicPartition
from kohort.wire.record_batches import Marker, encode_marker

log = logging.getLogger("kohort.node")

AGAIN_MS = 1_000
"""How long to wait before a marker is written, or something decided, again whose record could not be stored."""

_MARKER_STEPS = 4


class MarkerWriter:
    """Writes markers; `groups` returns the group coordinator, for offsets that transactions commit."""

    def __init__(self, services: Services, groups: Callable[[], Coordinator]) -> None:
        self._services = services
        self._groups = groups

    def write(self, markers: WriteMarkers, coordinator_epoch: int, written: Callable[[], None]) -> None:
        """Write all markers of a transaction, and call `written` once they are as durable as their topics promise.

        They begin in the next turn of the event loop: EndTxn is answered before, as Kafka does.
        """
        self._write(markers, coordinator_epoch, sorted(markers.partitions), written)

    def _write(
        self, markers: WriteMarkers, coordinator_epoch: int, left: list[TopicPartition], written: Callable[[], None]
    ) -> None:
        self._services.steps.in_slices(self._steps(markers, coordinator_epoch, left, written))

    def _steps(
        self, markers: WriteMarkers, coordinator_epoch: int, left: list[TopicPartition], written: Callable[[], None]
    ) -> Steps[None]:
        failed: list[TopicPartition] = []
        ended: list[tuple[TopicPartition, Partition]] = []
        for topic, index in left:
            found = self._services.topics.get(topic)
            if found is not None and index < len(found.partitions):
                partition = found.partitions[index]
                try:
                    self.end(partition, markers, coordinator_epoch)
                    ended.append(((topic, index), partition))
                except StorageError:  # logged by the partition, once
                    failed.append((topic, index))
                except KafkaError as error:
                    log.info("no marker of producer %d in %s: %s", markers.producer_id, partition.directory, error)
            yield _MARKER_STEPS

        def tried() -> None:
            if not failed:
                written()
                return
            again = partial(self._write, markers, coordinator_epoch, failed, written)
            deadline_ms = self._services.clock.now_ms + AGAIN_MS
            self._services.timers.arm(("markers", markers.transactional_id), deadline_ms, lambda _: again())

        _when_all_durable(self._services.durability, ended, failed, tried)

    def end(self, partition: Partition, markers: WriteMarkers, coordinator_epoch: int) -> None:
        """End a producer's transaction in one partition. Raises KafkaError, StorageError.

        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED report that a newer producer or coordinator was there.
        """
        now_ms = self._services.clock.now_ms
        producer_id, epoch = markers.producer_id, markers.epoch
        partition.log.producers.check_marker(producer_id, epoch, coordinator_epoch)
        marker = encode_marker(producer_id, epoch, Marker(markers.is_commit, coordinator_epoch), now_ms)
        partition.append([marker], now_ms)
        if partition.topic.name == OFFSETS_TOPIC:
            self._groups().end_transaction(partition.index, producer_id, is_commit=markers.is_commit)
        self._services.durability.wake_fetches(partition)


def _when_all_durable(
    durability: Durability,
    ended: list[tuple[TopicPartition, Partition]],
    failed: list[TopicPartition],
    tried: Callable[[], None],
) -> None:
    """Call `tried` when no marker waits for its flush; those whose flush fails join the `failed`."""
    waiting = 1

    def released(place: TopicPartition | None, error: ErrorCode) -> None:
        nonlocal waiting
        waiting -= 1
        if error and place is not None:
            failed.append(place)
        if not waiting:
            tried()

    for place, partition in ended:
        if durability.when_durable(partition, partial(released, place)):
            waiting += 1
    released(None, ErrorCode.NONE)
