"""Consumers that are named as pods are: a client id each, and no group.instance.id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from kohort import RebalanceListener, TopicPartition, sync
from kohort.assign import Assignor
from kohort.broker.embedded import EmbeddedBroker


class Pod(RebalanceListener):
    """A consumer in a thread that has no group.instance.id, and how many partitions it was assigned and revoked.

    Without an assignor it is one of the consumer protocol.
    """

    def __init__(self, bootstrap_servers: str, client_id: str, assignor: Assignor | None, group_id: str = "g") -> None:
        self.moved = self.owned = 0
        self.assigned = threading.Event()
        self._stopped = threading.Event()
        classic: Any = {"assignors": [assignor], "heartbeat_interval_ms": 200}
        self.consumer = sync.Consumer(
            "t",
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            client_id=client_id,
            listener=self,
            **({"group_protocol": "consumer"} if assignor is None else classic),
        )
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self.consumer.poll(timeout_ms=20)

    def __enter__(self) -> Pod:
        self.consumer.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.consumer.stop()

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._move(1, partitions)
        self.assigned.set()

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._move(-1, partitions)

    def _move(self, sign: int, partitions: Iterable[TopicPartition]) -> None:
        count = len(list(partitions))
        self.moved += count
        self.owned += sign * count


def settle(broker: EmbeddedBroker, expected: list[tuple[str | None, int]], group_id: str = "g") -> None:
    """Wait until the members have these instance ids, and so many partitions."""
    waits_until, found = time.monotonic() + 40, None
    with sync.Admin(broker.bootstrap_servers) as admin:
        while found != expected:
            assert time.monotonic() < waits_until, (found, expected)
            members = admin.describe_groups([group_id])[group_id].members if admin.list_groups() else ()
            found = sorted(((each.instance_id, len(each.assignment)) for each in members), key=str)
