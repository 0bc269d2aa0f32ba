"""What is known of a group behind a gateway: one state machine for groups of both kinds.

A consumer group that is known is looked up too, as PREDICTED or CONFIRMED: an answer shows an epoch, and no assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.model.cause import Cause

IN_A_ROUND = (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)


class Certainty(Enum):
    """The state of what is known of one group.

    | from | what happens | to |
    |---|---|---|
    | UNKNOWN | a request or an answer shows the group | PREDICTED, CONFIRMED |
    | CONFIRMED | a request begins a round, or is about to raise the epoch | PREDICTED |
    | PREDICTED | an answer has the new generation or epoch | CONFIRMED |
    | PREDICTED | a heartbeat or SyncGroup is answered without an error, long after the round began | IN_DOUBT |
    | all above | members are not known here, or another instance knows the group otherwise (`LookUps.ask`) | IN_DOUBT |
    | all above | an answer contradicts, that of a heartbeat for the second time (`LookUps.doubt`) | IN_DOUBT |
    | IN_DOUBT | the coordinator is asked (`LookUps.begun`) | LOOKED_UP |
    | LOOKED_UP | a round gathers there, or has opened here since | IN_DOUBT |
    | LOOKED_UP | the kind of the group is found, or a stable group; decision 86 has which one is believed | CONFIRMED |
    """

    UNKNOWN = auto()
    """Nothing is."""
    PREDICTED = auto()
    """A request has changed it, and no answer has shown that yet."""
    CONFIRMED = auto()
    """It is what answers have shown."""
    IN_DOUBT = auto()
    """Not all members are known, or an answer contradicts: it is to be looked up."""
    LOOKED_UP = auto()
    """Its coordinator has been asked."""


@dataclass(slots=True)
class GroupKnowledge:
    """What is remembered of one group beside the group itself."""

    is_in_doubt: bool = False
    """Whether not all members of a classic group may be known."""
    proved: int | None = None
    """The generation that an answer has shown, for which the look-up waits."""
    contradicting: tuple[int, int] | None = None
    """The generation that is known, and the other one in which a heartbeat was answered once."""
    asked_ms: int | None = None
    """Since when it is looked up as a classic group: a round that opens from then on is newer than what is found."""
    changes: int = 0
    """How often a consumer group has changed."""
    asked_at: int | None = None
    """How often it had when it was looked up: what has not changed since is no newer."""
    change: Cause | None = None
    """Why the epoch of a consumer group is about to grow."""

    def certainty(self, group: ClassicGroup | ConsumerGroup | None) -> Certainty:
        """Return the state of what is known of the group."""
        if self.is_in_doubt:
            return Certainty.IN_DOUBT if self.asked_ms is None else Certainty.LOOKED_UP
        if group is None:
            return Certainty.UNKNOWN
        is_in_round = isinstance(group, ClassicGroup) and group.phase in IN_A_ROUND
        return Certainty.PREDICTED if is_in_round or self.change is not None else Certainty.CONFIRMED
