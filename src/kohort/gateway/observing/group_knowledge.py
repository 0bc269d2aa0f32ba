"""What is known of a group behind a gateway: one state machine for groups of all kinds.

A group with member epochs that is known is looked up too, as PREDICTED or CONFIRMED: an answer shows an epoch, and no
assignment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from zlib import crc32

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.reconcile import ids_of
from kohort.group.shard import Group
from kohort.group.streams.group import StreamsGroup
from kohort.model.cause import Cause

IN_A_ROUND = (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
GATHERED = (Phase.STABLE, Phase.COMPLETING_REBALANCE)
"""The phases in which a generation has its members."""

LARGEST_GENERATION = 2**31 - 1
"""The largest that the protocol has; the one after it may be predicted from an answer that is garbage."""


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
    """How often a group with member epochs has changed."""
    asked_at: int | None = None
    """How often it had when it was looked up: what has not changed since is no newer."""
    change: Cause | None = None
    """Why the epoch of such a group is about to grow."""

    def certainty(self, group: Group | None) -> Certainty:
        """Return the state of what is known of the group."""
        if self.is_in_doubt:
            return Certainty.IN_DOUBT if self.asked_ms is None else Certainty.LOOKED_UP
        if group is None:
            return Certainty.UNKNOWN
        is_in_round = isinstance(group, ClassicGroup) and group.phase in IN_A_ROUND
        return Certainty.PREDICTED if is_in_round or self.change is not None else Certainty.CONFIRMED


def generation_of(group: Group | None) -> int | None:
    """Return the generation of a classic group, the epoch of another one, or None where there is no group."""
    if group is None:
        return None
    return min(group.generation if isinstance(group, ClassicGroup) else group.epoch, LARGEST_GENERATION)


def generation_among(group: Group | None, members: Collection[str]) -> int | None:
    """Return `generation_of` where one of these members is in it, else None: it may be that of a former group."""
    return None if group is None or group.members.keys().isdisjoint(members) else generation_of(group)


def digest_of(group: Group | None) -> int:
    """Return a checksum of what each member of a group has; 0 where there is no group."""
    if group is None:
        return 0
    state: list[object] = [generation_of(group)]
    if isinstance(group, ConsumerGroup):
        state += [(each, member.epoch, ids_of(member.assigned)) for each, member in sorted(group.members.items())]
    elif isinstance(group, StreamsGroup):
        state += [(each, of.epoch, *map(sorted, of.assigned.tasks)) for each, of in sorted(group.members.items())]
    else:
        state += [group.phase, *sorted((each, member.assignment) for each, member in group.members.items())]
    return crc32(repr(state).encode())
