"""Groups of which not all may be known: when they are looked up, and what is believed of what is found.

A group is looked up at its coordinator at once, and not twice within two seconds.
DescribeGroups shows no generation, and takes time. What it finds is taken up in the generation that caused it, unless
it is older than what was seen since. The states stand in `group_knowledge`, the rules in decision 86.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from kohort.gateway.observing.group_knowledge import IN_A_ROUND, Certainty, GroupKnowledge, generation_of
from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.last_requests import LastRequests
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.describe import DescribedGroup
from kohort.group.events import Event, GenerationFormed, GroupDeleted
from kohort.group.shard import Shard
from kohort.model.bounded_dict import BoundedDict
from kohort.node.timers import Timers

LookUp = Callable[[str, int | None], None]
"""Takes a group of which not all is known, and its generation, None for one with member epochs: what DescribeGroups,
ConsumerGroupDescribe or StreamsGroupDescribe shows goes to `described` of `ObservedGroups`, its `consumer_described` or
`streams.described`."""

LOOK_UP_AGAIN_MS = 2_000
"""How long to wait until the same group is looked up again."""

MOST_LOOKED_UP = 10_000
"""How many groups are remembered as looked up."""

DOUBTFUL_MS = 1_000
"""How long after a predicted round began, or formed, a heartbeat that is answered without an error contradicts it."""

MOST_SHOWN = 10_000
"""Of how many groups `_shown` has a generation; without another instance to send it to, nothing else empties it."""

_NOTHING = GroupKnowledge()
"""Of a group of which nothing is remembered; it is never changed."""


class DescribeRequests:
    """The look-ups of one gateway that were requested lately, or wait to be."""

    def __init__(self, timers: Timers, look_up: LookUp, signals: GroupSignals) -> None:
        self._timers = timers
        self._look_up = look_up
        self._signals = signals
        self._begun_ms: BoundedDict[tuple[str, bool], int] = BoundedDict(MOST_LOOKED_UP)
        """By group, and whether it is looked up as a classic one, when it was last."""

    def request(self, group_id: str, generation: int | None, now_ms: int, *, is_guess: bool = False) -> None:
        """Look a group up, soon. With `is_guess` it takes no other's place that waits."""
        key = group_id, generation is not None
        due_ms = self._begun_ms.get(key, -LOOK_UP_AGAIN_MS) + LOOK_UP_AGAIN_MS
        if due_ms > now_ms:
            waiting = "look up", key
            if not is_guess or self._timers.deadline_ms(waiting) is None:
                self._timers.arm(waiting, due_ms, partial(self.request, group_id, generation))
            return
        self._begun_ms[key] = now_ms
        self._signals.look_up_begun(group_id, generation, now_ms)
        self._look_up(group_id, generation)

    def generation_proved(self, group_id: str, generation: int) -> None:
        """A heartbeat shows that a classic group has this generation: a look-up of it that waits is in that one."""
        due_ms = self._timers.deadline_ms(("look up", (group_id, True)))
        if due_ms is not None:
            self._timers.arm(("look up", (group_id, True)), due_ms, partial(self.request, group_id, generation))


class LookUps:
    """The look-ups of classic groups of one shard, and what is remembered of the groups of both kinds."""

    def __init__(self, shard: Shard, last_requests: LastRequests, describes: DescribeRequests) -> None:
        self._shard = shard
        self._last_requests = last_requests
        self._describes = describes
        self.known: defaultdict[str, GroupKnowledge] = defaultdict(GroupKnowledge)
        """By group."""
        self._shown: BoundedDict[str, int] = BoundedDict(MOST_SHOWN)
        """By group, the generation in which a heartbeat was answered last."""

    def certainty(self, group_id: str) -> Certainty:
        """Return the state of what is known of a group."""
        return self.known.get(group_id, _NOTHING).certainty(self._shard.groups.get(group_id))

    # When

    def ask(self, group_id: str, generation: int | None, now_ms: int) -> None:
        """Look a group up in this generation: members of it are not known here."""
        self.known[group_id].is_in_doubt = True
        self._describes.request(group_id, generation, now_ms)

    def ask_for_both(self, group_id: str, generation: int | None, now_ms: int) -> None:
        """Look a group up as one of either kind: it may have become the other unseen.

        Without a generation it is looked up in the one that is known.
        """
        self.ask(group_id, None, now_ms)
        classic = generation if generation is not None else generation_of(self._shard.groups.get(group_id))
        self._describes.request(group_id, classic or 0, now_ms, is_guess=generation is None)

    def doubt(self, group: ClassicGroup, now_ms: int, shown: int | None = None) -> None:
        """Look a group up: an answer contradicts what is known of it. `shown` is the generation of the answer."""
        if shown is not None:
            self.known[group.group_id].proved = shown
        self.ask(group.group_id, group.generation if shown is None else shown, now_ms)

    def doubt_round(self, group: ClassicGroup, now_ms: int) -> None:
        """Look a group up if a heartbeat or SyncGroup answered without an error shows that a round is none, or over.

        While a round gathers, none is, but for some that were faster than what opens it. While its members wait for
        their assignments, all are: then the answers of SyncGroup went another way, or the leader takes long.
        """
        if group.phase in IN_A_ROUND and now_ms - group.state_timestamp_ms > DOUBTFUL_MS:
            self.doubt(group, now_ms)

    def heartbeat_answered(self, group_id: str, generation: int) -> None:
        """A heartbeat of this generation was answered without an error here, whether or not its group is known."""
        self._shown[group_id] = generation

    def pop_shown(self) -> dict[str, int]:
        """Return by group the generation in which a heartbeat was answered since this was called last."""
        shown = dict(self._shown)
        self._shown.clear()
        return shown

    def generation_shown(self, group_id: str, generation: int, now_ms: int) -> None:
        """A heartbeat of this generation was answered without an error, here or elsewhere.

        Answers of several connections arrive in any order: a difference counts when it is there for a second time.
        """
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return
        known = self.known.get(group_id, _NOTHING)
        if generation == group.generation:
            if known is not _NOTHING:
                known.contradicting = known.proved = None
            if known.is_in_doubt:
                self._describes.generation_proved(group_id, generation)
            self.doubt_round(group, now_ms)
        elif known.contradicting == (group.generation, generation):
            self.doubt(group, now_ms, generation)
        else:
            self.known[group_id].contradicting = group.generation, generation

    def event_applied(self, event: Event) -> None:
        """An event has changed a group."""
        if isinstance(event, GenerationFormed | GroupDeleted):
            self._shown.pop(event.group_id, None)
            known = self.known.get(event.group_id)
            if known is not None:
                known.proved = None  # it is older than what was seen now
                if isinstance(event, GroupDeleted):
                    known.asked_ms = None
                self._forget_if_blank(event.group_id, known)

    def _forget_if_blank(self, group_id: str, known: GroupKnowledge) -> None:
        if known == _NOTHING:
            self.known.pop(group_id, None)

    # What is found

    def begun(self, group_id: str, now_ms: int) -> None:
        """The look-up of a group as a classic one begins."""
        known = self.known.get(group_id)
        if known is not None and known.is_in_doubt:
            known.asked_ms = now_ms

    def resolve(self, group_id: str) -> bool:
        """The kind of a group is found: return whether it was to be looked up. It need not be any more."""
        known = self.known.get(group_id)
        if known is None or not known.is_in_doubt:
            return False
        known.is_in_doubt, known.proved, known.asked_ms = False, None, None
        self._forget_if_blank(group_id, known)
        return True

    def is_believed(self, found: DescribedGroup, generation: int, now_ms: int) -> bool:
        """Whether what a look-up in this generation has found takes the place of what is known.

        Where a round has opened here since it was asked for, what is found may be older: it is looked up again.
        """
        known = self._shard.groups.get(found.group_id)
        before = self.known.get(found.group_id, _NOTHING)
        asked_ms, proved = before.asked_ms, before.proved
        if before is not _NOTHING:
            before.asked_ms = None
        if found.state is not Phase.STABLE:
            return False
        if (
            isinstance(known, ClassicGroup)
            and known.is_gathering
            and known.state_timestamp_ms > (now_ms if asked_ms is None else asked_ms)
        ):
            self._describes.request(found.group_id, generation, now_ms)
            return False
        if not self.resolve(found.group_id) and known is not None and known.members:
            return False
        return not isinstance(known, ClassicGroup) or self._is_update(known, found, generation, proved)

    def _is_update(self, known: ClassicGroup, found: DescribedGroup, generation: int, proved: int | None) -> bool:
        """Whether a look-up shows what is not known, and no former group of the name has caused it.

        `generation` is the one in which it was looked up, `proved` the one that a heartbeat has shown.
        """
        if generation == known.generation:
            return not _is_as_described(known, found)
        # A heartbeat that comes late shows a lower one: a higher one need not be shown twice.
        contradicting = self.known.get(found.group_id, _NOTHING).contradicting
        is_shown_once = contradicting == (known.generation, generation)
        if generation == proved or (is_shown_once and generation > known.generation):
            return True
        is_another = known.members.keys().isdisjoint(member.member_id for member in found.members)
        return (generation > known.generation or is_another) and not self._are_here(known, found)

    def _are_here(self, known: ClassicGroup, found: DescribedGroup) -> bool:
        """Whether all members of a described group have sent requests of the generation that is known."""
        return known.phase is Phase.STABLE and all(
            self._last_requests.is_here(known, each.member_id) for each in found.members
        )


def _is_as_described(known: ClassicGroup, group: DescribedGroup) -> bool:
    """Whether a look-up shows what is known of a stable group."""
    members = {(each.member_id, each.instance_id, each.client_id, each.assignment) for each in known.members.values()}
    described = {(each.member_id, each.instance_id, each.client_id, each.assignment) for each in group.members}
    return known.phase is Phase.STABLE and members == described
