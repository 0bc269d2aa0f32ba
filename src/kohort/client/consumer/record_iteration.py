"""Iteration over a consumer: a step of it is a poll for one record.

So the record before counts as finished, and rebalance callbacks run between two records. But most steps need nothing of
a poll except its record: for `AT_ONCE_S` after a poll, the records of the same batch are returned at once, without the
event loop. The blocking client takes them on its caller's thread. That is safe because nothing on the loop's thread
changes what a step changes while the user has records: callbacks wait for it (`CallbackGate`), a response only appends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.consumer.fetcher import FetchCollector
from kohort.client.consumer.partition_state import PartitionState
from kohort.client.consumer.rebalance_callbacks import CallbackGate
from kohort.client.record import Record

AT_ONCE_S = 0.01
"""How long commits, errors, the poll deadline and other tasks of the loop wait for the next poll."""


class RecordIteration:
    """The steps between two polls."""

    def __init__(self, collector: FetchCollector, gate: CallbackGate) -> None:
        self._collector = collector
        self._gate = gate
        self._state: PartitionState | None = None
        self._clock_s: Callable[[], float]
        self._until_s = 0.0

    def begin(self, clock_s: Callable[[], float]) -> None:
        """Continue with the partition whose record a poll has just returned."""
        self._state, self._clock_s = self._collector.begun, clock_s
        self._until_s = clock_s() + AT_ONCE_S

    def end(self) -> None:
        """Have the next step be a poll."""
        self._state = None

    def next_at_once(self) -> Record[Any, Any] | None:
        """Return the next record, or None where only a poll can."""
        state = self._state
        if state is None or not (state.left and state.is_served and self._gate.is_idle):
            return None
        if self._clock_s() >= self._until_s:
            return None
        state.mark_consumed()
        return self._collector.next_of(state)
