"""Responses and their consequences: no member is refused without a cause, none starts a round without need.

A member that shows the epoch it was given is in its group until the log removes it, and one that joins shows none.
An answer to a former identity is none to the present one; a refusal because of its own round calls for no other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.invariants import FENCED_FOR_CAUSE, ROUNDS_HAVE_CAUSES
from kohort.sim.kernel.world_observer import Errors, Offsets, SeenMember

_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_HEARTBEATS = frozenset({"ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"})
"""Requests by which members join with epoch 0."""
_BY_COMMIT = "offset commit failed"
"""The beginning of a member's reason to join when a commit was refused because of a round."""


@dataclass(slots=True)
class SeenExchange:
    """The requests and responses of one process."""

    state: str = ""
    shown: int = -1
    """The generation that it showed last."""
    commits: dict[int, int] = field(default_factory=dict)
    """By number, the generation that a commit shows."""
    is_joining: bool = False
    """Whether the heartbeat that is under way shows no epoch."""
    is_misled: bool = False
    """Whether the last refusal concerned an older identity."""
    has_ground: bool = False
    """Whether a commit was refused because of a round, since the last one, while it was in none."""


class ResponseChecker(Checker):
    """FencedForCause and RoundsHaveCauses."""

    invariants = (FENCED_FOR_CAUSE, ROUNDS_HAVE_CAUSES)

    def __init__(self) -> None:
        super().__init__()
        self._exchanges: defaultdict[str, SeenExchange] = defaultdict(SeenExchange)
        """By member's name."""

    def member_started(self, member: SeenMember) -> None:
        self._exchanges[member.name] = SeenExchange()

    def member_ended(self, member: SeenMember, how: str) -> None:
        self._exchanges.pop(member.name, None)

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """Note where it is, and whether it went there by itself."""
        exchange = self._exchanges[member.name]
        exchange.state = state
        if cause == "Tick":
            exchange.is_misled = False

    # -- the group's requests

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Look at what made a member join."""
        exchange = self._exchanges[member.name]
        epoch = member.identity.generation
        if request in _HEARTBEATS:
            exchange.is_joining = epoch <= 0 and detail.startswith("epoch 0")
        elif request == "JoinGroup":
            self._judge(member, exchange, detail.partition(": ")[2])
        if epoch >= 0:
            exchange.shown = epoch
            exchange.is_misled = False

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Note the response, and check that a refusal has a cause."""
        exchange = self._exchanges[member.name]
        if error is not ErrorCode.NONE:
            exchange.is_misled = False
        elif request == "SyncGroup":
            exchange.has_ground = False
        if request in _HEARTBEATS and exchange.is_joining:
            text = f"{member.name} joins with epoch 0, and is fenced by its epoch"
            self.compare(error is not ErrorCode.FENCED_MEMBER_EPOCH, FENCED_FOR_CAUSE, text)

    # -- its commits

    def commit_shows(self, member: SeenMember, number: int, identity: Identity) -> None:
        """Note the identity of a commit, where it is not the member's of now."""
        self._exchanges[member.name].commits[number] = identity.generation

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        """Note what it shows."""
        self._exchanges[member.name].commits.setdefault(number, member.identity.generation)

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        """Note which identity a refusal concerns, and the member's state."""
        exchange = self._exchanges[member.name]
        shown = exchange.commits.pop(number, -1)
        error = next(iter(errors.values()), ErrorCode.NONE)
        if error in _OUT:
            exchange.is_misled = 0 <= shown < exchange.shown and member.identity.generation == exchange.shown
        elif error is ErrorCode.REBALANCE_IN_PROGRESS and exchange.state in ("stable", "completing"):
            exchange.has_ground = True

    # -- what it does

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        """Check that the refusal which lost everything concerned the member's identity of then."""
        if callback is Callback.LOST:
            self._judge(member, self._exchanges[member.name], "")

    def _judge(self, member: SeenMember, exchange: SeenExchange, reason: str) -> None:
        text = f"{member.name} abandons generation {exchange.shown} because a commit of an older one was refused"
        self.compare(not exchange.is_misled or member.identity.generation >= 0, ROUNDS_HAVE_CAUSES, text)
        text = f"{member.name} joins because of a commit that was refused in a round"
        self.require(exchange.has_ground or not reason.startswith(_BY_COMMIT), ROUNDS_HAVE_CAUSES, text)
