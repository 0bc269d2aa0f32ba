"""What the senders of a run know: clients that follow the protocol as far as they like, one value for both sides.

A client has an epoch on each side, because the two may count differently where a listed difference says so; all else
is what both sides sent it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kohort.model.assignment import NOTHING, IdPartitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_subscription

THEIRS, OURS = 0, 1


class Step(NamedTuple):
    """One command of a client: it can be repeated in another run, where the ids may differ."""

    op: str
    who: int
    how: dict[str, Any]

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.how.items())
        return f"{self.op:14} c{self.who} {options}"


class Stage(StrEnum):
    """Where a classic client is."""

    OUT = "out"
    JOINING = "joining"
    JOINED = "joined"
    SYNCING = "syncing"
    STABLE = "stable"


@dataclass
class Client:
    """One client of one group."""

    number: int
    group: int
    instance_id: str | None
    version: int
    """Of its JoinGroup."""
    is_cooperative: bool
    topics: tuple[str, ...]
    protocols: tuple[str, ...]
    session_ms: int
    rebalance_ms: int
    embedded: int = 3
    is_native: bool = False
    member_id: str = ""
    old_id: str = ""
    """An id that it once had."""
    epochs: list[int] = field(default_factory=lambda: [-1, -1])
    stage: Stage = Stage.OUT
    leader: list[bool] = field(default_factory=lambda: [False, False])
    members: tuple[str, ...] = ()
    protocol: str | None = None
    owned: frozenset[TopicPartition] = frozenset()
    held: list[IdPartitions] = field(default_factory=lambda: [NOTHING, NOTHING])
    """The assignment of a native client, as each side sent it."""
    lives: int = 0
    """How many ids it has made."""
    regex: str | None = None
    assignor: str | None = None
    rack: str | None = None

    @property
    def client_id(self) -> str:
        return f"c{self.number}"

    def metadata(self) -> bytes:
        """Return its subscription as it joins now."""
        owned = tuple(sorted(self.owned)) if self.is_cooperative else ()
        generation = self.epochs[THEIRS] if self.is_cooperative else -1
        return encode_subscription(Subscription(self.topics, None, owned, generation, self.rack, self.embedded))

    def make_id(self) -> str:
        """Make a member id, as clients of the consumer protocol do."""
        self.lives += 1
        self.member_id = f"n{self.number}-{self.lives}"
        return self.member_id

    def forget(self) -> None:
        """Forget the identity."""
        self.old_id = self.member_id or self.old_id
        self.member_id = ""
        self.lose()

    def lose(self) -> None:
        """Have nothing, under the same id."""
        self.epochs = [-1, -1]
        self.stage = Stage.OUT
        self.leader = [False, False]
        self.owned = frozenset()
        self.held = [NOTHING, NOTHING]
