"""Classic groups of which not all may be known: when they are looked up, and what is believed of what is found.

DescribeGroups shows no generation, and takes time. What it finds is taken up in the generation that caused it, unless
it is older than what was seen since. The rules stand in decision 86.
"""

from __future__ import annotations

from kohort.gateway.observing.describe_requests import DescribeRequests
from kohort.gateway.observing.last_requests import LastRequests
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.describe import DescribedGroup
from kohort.group.events import Event, GenerationFormed, GroupDeleted
from kohort.group.shard import Shard

LARGEST_GENERATION = 2**31 - 1
"""What the protocol can say; the one after it may be predicted from an answer that is garbage."""

DOUBTFUL_MS = 1_000
"""How long after a predicted round began, or formed, a heartbeat that is answered without an error contradicts it."""

MOST_SHOWN = 10_000
"""Of how many groups `_shown` has a generation; without another instance to send it to, nothing else empties it."""

_IN_A_ROUND = (Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)


class LookUps:
    """The look-ups of classic groups of one shard."""

    def __init__(self, shard: Shard, last_requests: LastRequests, describes: DescribeRequests) -> None:
        self._shard = shard
        self._last_requests = last_requests
        self._describes = describes
        self._uncertain: dict[str, int] = {}
        """Groups of which not all members may be known, and the generation that an answer has shown, or -1."""
        self._asked_ms: dict[str, int] = {}
        """By group that is being looked up, since when: a round that opens from then on is newer than what is found."""
        self._shown: dict[str, int] = {}
        """By group, the generation in which a heartbeat was answered last."""
        self._contradicted: dict[str, tuple[int, int]] = {}
        """By group, the generation that it has here, and the one in which a heartbeat was answered."""

    # When

    def ask(self, group_id: str, generation: int, now_ms: int) -> None:
        """Look a group up in this generation: members of it are not known here."""
        self._uncertain.setdefault(group_id, -1)
        self._describes.request(group_id, generation, now_ms)

    def ask_for_both(self, group_id: str, generation: int, now_ms: int) -> None:
        """Look a group up as one of either kind: it may have become the other unseen.

        Without a generation, -1, it is looked up in the one that is known.
        """
        self.ask(group_id, -1, now_ms)
        classic = generation if generation >= 0 else max(generation_of(self._shard.groups.get(group_id)), 0)
        self._describes.request(group_id, classic, now_ms, is_guess=generation < 0)

    def doubt(self, group: ClassicGroup, now_ms: int, shown: int = -1) -> None:
        """Look a group up: an answer contradicts what is known of it. `shown` is the generation of the answer."""
        if shown >= 0:
            self._uncertain[group.group_id] = shown
        self.ask(group.group_id, group.generation if shown < 0 else shown, now_ms)

    def doubt_round(self, group: ClassicGroup, now_ms: int) -> None:
        """Look a group up if a heartbeat or SyncGroup answered without an error shows that a round is none, or over.

        While a round gathers, none is, but for some that were faster than what opens it. While its members wait for
        their assignments, all are: then the answers of SyncGroup went another way, or the leader takes long.
        """
        if group.phase in _IN_A_ROUND and now_ms - group.state_timestamp_ms > DOUBTFUL_MS:
            self.doubt(group, now_ms)

    def heartbeat_answered(self, group_id: str, generation: int) -> None:
        """A heartbeat of this generation was answered without an error here, whether or not its group is known."""
        if len(self._shown) >= MOST_SHOWN:
            self._shown.clear()
        self._shown[group_id] = generation

    def take_shown(self) -> dict[str, int]:
        """Return by group the generation in which a heartbeat was answered since this was called last."""
        shown, self._shown = self._shown, {}
        return shown

    def generation_shown(self, group_id: str, generation: int, now_ms: int) -> None:
        """A heartbeat of this generation was answered without an error, here or elsewhere; -1 is none.

        Answers of several connections arrive in any order: a difference counts when it is there for a second time.
        """
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ClassicGroup) or generation < 0:
            return
        if generation == group.generation:
            self._contradicted.pop(group_id, None)
            if group_id in self._uncertain:
                self._distrust_shown(group_id)
                self._describes.generation_proved(group_id, generation)
            self.doubt_round(group, now_ms)
        elif self._contradicted.get(group_id) == (group.generation, generation):
            self.doubt(group, now_ms, generation)
        else:
            self._contradicted[group_id] = group.generation, generation

    def event_applied(self, event: Event) -> None:
        """An event has changed a group."""
        if isinstance(event, GenerationFormed | GroupDeleted):
            self._shown.pop(event.group_id, None)
            self._distrust_shown(event.group_id)
            if isinstance(event, GroupDeleted):
                self._asked_ms.pop(event.group_id, None)

    def _distrust_shown(self, group_id: str) -> None:
        """The generation that a heartbeat has shown, for which a look-up waits, is older than what was seen now."""
        if self._uncertain.get(group_id, -1) >= 0:
            self._uncertain[group_id] = -1

    # What is found

    def asked(self, group_id: str, now_ms: int) -> None:
        """A look-up of a group as a classic one begins."""
        if group_id in self._uncertain:
            self._asked_ms[group_id] = now_ms

    def settle(self, group_id: str) -> bool:
        """The kind of a group is found: return whether it was to be looked up. It need not be any more."""
        return self._uncertain.pop(group_id, None) is not None

    def is_believed(self, found: DescribedGroup, generation: int, now_ms: int) -> bool:
        """Whether what a look-up in this generation has found takes the place of what is known.

        Where a round has opened here since it was asked for, what is found may be older: it is looked up again.
        """
        known = self._shard.groups.get(found.group_id)
        asked_ms = self._asked_ms.pop(found.group_id, now_ms)
        if found.state is not Phase.STABLE:
            return False
        if isinstance(known, ClassicGroup) and known.is_gathering and known.state_timestamp_ms > asked_ms:
            self._describes.request(found.group_id, generation, now_ms)
            return False
        shown = self._uncertain.pop(found.group_id, None)
        if known is not None and known.members and shown is None:
            return False
        return not isinstance(known, ClassicGroup) or self._is_news(known, found, generation, shown)

    def _is_news(self, known: ClassicGroup, found: DescribedGroup, generation: int, shown: int | None) -> bool:
        """Whether a look-up shows what is not known, and no former group of the name has caused it.

        `generation` is the one in which it was looked up, `shown` the one that a heartbeat has shown.
        """
        if generation == known.generation:
            return not _is_as_described(known, found)
        # A heartbeat that comes late shows a lower one: a higher one need not be shown twice.
        is_shown_once = self._contradicted.get(found.group_id) == (known.generation, generation)
        if generation == shown or (is_shown_once and generation > known.generation):
            return True
        is_another = known.members.keys().isdisjoint(member.member_id for member in found.members)
        return (generation > known.generation or is_another) and not self._are_here(known, found)

    def _are_here(self, known: ClassicGroup, found: DescribedGroup) -> bool:
        """Whether all members of a described group have sent requests of the generation that is known."""
        return known.phase is Phase.STABLE and all(
            self._last_requests.is_here(known, each.member_id) for each in found.members
        )


def generation_of(group: ClassicGroup | ConsumerGroup | None) -> int:
    """Return the generation of a classic group, the epoch of a consumer group, or -1 where there is no group."""
    if group is None:
        return -1
    return min(group.generation if isinstance(group, ClassicGroup) else group.epoch, LARGEST_GENERATION)


def _is_as_described(known: ClassicGroup, group: DescribedGroup) -> bool:
    """Whether a look-up shows what is known of a stable group."""
    members = {(each.member_id, each.instance_id, each.client_id, each.assignment) for each in known.members.values()}
    described = {(each.member_id, each.instance_id, each.client_id, each.assignment) for each in group.members}
    return known.phase is Phase.STABLE and members == described
