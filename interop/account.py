"""What one member has reported: its partitions over time, the records that it read, and its acknowledged commits."""

from __future__ import annotations

Row = tuple[int, int, str, str]  # partition, offset, key, value


class Account:
    """The events of one member, in the order in which it printed them (see interop/members)."""

    def __init__(self, name: str, *, is_native: bool = False, is_cooperative: bool = False) -> None:
        self.name = name
        self.is_native = is_native  # of the consumer protocol (KIP-848)
        self._is_cooperative = is_cooperative
        self._turning_s = 0.0
        self.owned: set[int] = set()
        self.changes: list[tuple[str, set[int]]] = []
        self.changed_s: list[float] = []  # when each of `changes` was
        self.reads: list[tuple[float, frozenset[int]]] = []  # when it read, and from which partitions
        self.started_s: float | None = None  # when it began, its program loaded
        self.ended_s: float | None = None  # when it began to leave, or was dead
        self.rows: list[Row] = []
        self.read_s: list[float] = []  # when it read each of `rows`
        self.committed: dict[int, int] = {}
        self.commits: list[tuple[float, dict[int, int]]] = []  # when it had been confirmed what it committed
        self.refusals: list[str] = []
        self.troubles: list[str] = []
        self.timeouts = 0  # requests that it abandoned; librdkafka and kgo count them
        self.has_left = False

    @property
    def is_incremental(self) -> bool:
        """Whether it gives up only what it must when its group changes."""
        return self.is_native or self._is_cooperative

    def take(self, event: dict[str, object]) -> None:
        """Take in one event more."""
        match event:
            case {"event": "owns", "partitions": list(partitions), "why": str(why), "at_s": float(at_s)}:
                self.owned = set(partitions)
                self.changes.append((why, self.owned))
                self.changed_s.append(at_s)
            case {"event": "read", "records": list(records), "at_s": float(at_s)}:
                self.rows += [tuple(row) for row in records]
                self.read_s += [at_s] * len(records)
                self.reads.append((at_s, frozenset(row[0] for row in records)))
            case {"event": "committed", "offsets": dict(offsets), "at_s": float(at_s)}:
                confirmed = {int(partition): offset for partition, offset in offsets.items()}
                self.committed |= confirmed
                self.commits.append((at_s, confirmed))
            case {"event": "refused", "error": str(error)}:
                self.refusals.append(error)
            case {"event": "troubled", "error": str(error)}:
                self.troubles.append(error)
            case {"event": "timed_out"}:
                self.timeouts += 1
            case {"event": "starting", "at_s": float(at_s)}:
                self.started_s = at_s
            case {"event": "leaving", "at_s": float(at_s)}:
                self.ended_s = at_s
            case {"event": "left"}:
                self.has_left = True
            case {"event": "turning", "at_s": float(at_s)}:
                self._turning_s = at_s
            case {"event": "turned"}:
                self.is_native = not self.is_native
                if self.owned:  # its library closes without a callback
                    self.owned = set()
                    self.changes.append(("revoked", self.owned))
                    self.changed_s.append(self._turning_s)
