"""What `explain` tells of a consumer group's rebalance beside what every rebalance has: epochs, steps, conversions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.group.explain.because import Because, cause_json


class Step(NamedTuple):
    """A member moved one step to its target: how much it gave up and got, and for whose partitions it waits yet."""

    at_ms: int
    member_id: str
    gave: int
    got: int
    awaited: int = 0
    """How many partitions of its target others have yet."""
    owners: tuple[str, ...] = ()
    """Those others."""
    asked: int = 0
    """How many partitions it was asked to give up."""


@dataclass(slots=True)
class GroupEpoch:
    """One group epoch: why it began, when its target was computed, and how long each member took to get there."""

    bumped_ms: int
    because: Because
    epoch: int
    computed_ms: int | None = None
    failure: Because | None = None
    """Why no target could be computed; the one before stays in force."""
    changed: int = 0
    """How many members' targets changed."""
    flows: tuple[tuple[str | None, str | None, int], ...] = ()
    """From whose target to whose, how many partitions."""
    steps: list[Step] = field(default_factory=list)
    revoke_ms: dict[str, int] = field(default_factory=dict)
    """How long after the target a member had given up what it was asked back."""
    reconcile_ms: dict[str, int] = field(default_factory=dict)
    """How long after the target a member had all of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        return {
            "epoch": self.epoch,
            "bumped_ms": self.bumped_ms,
            "cause": cause_json(self.because),
            "computed_ms": self.computed_ms,
            "changed": self.changed,
            "failure": None if self.failure is None else cause_json(self.failure),
            "revoke_ms": self.revoke_ms,
            "reconcile_ms": self.reconcile_ms,
        }


@dataclass(slots=True)
class Conversion:
    """The group went on as one of the other type; `taken` partitions were taken from members by that alone."""

    at_ms: int
    to: str
    because: Because
    taken: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        return {"at_ms": self.at_ms, "to": self.to, "cause": cause_json(self.because), "taken": self.taken}
