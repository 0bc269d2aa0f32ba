"""Summaries that instances exchange each second: whose members sent something, and how each group is known there.

One names a group by its generation and by a digest of what its members own. A receiver that knows it otherwise names it
in its own next summary, and looks it up where the difference stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from kohort.gateway.observing.group_knowledge import digest_of, generation_among
from kohort.gateway.observing.member_locations import MOST_CHECKED
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.peers.instance_messages import LiveGroup, LiveMembers, encode_message
from kohort.model.bounded_dict import BoundedDict

MOST_MEMBERS = 1_000
"""How many members one summary names; more take several."""

MOST_DIFFERENCES = 10_000
"""How many groups that peers know otherwise are remembered."""


class LiveSummaries:
    """What is to be sent next, and what peers have sent of groups that are known otherwise here."""

    def __init__(self, groups: ObservedGroups) -> None:
        self._groups = groups
        self._sent: defaultdict[str, set[str]] = defaultdict(set)
        """By group, the members that have sent something here since the last summary."""
        self._differing: dict[str, tuple[str, ...]] = {}
        """By group that a peer knows otherwise, the members by which it named the group since the last summary."""
        self._digests: BoundedDict[str, int] = BoundedDict(MOST_CHECKED)
        """By group, its digest since it has changed last."""
        self._differences: BoundedDict[tuple[str, str], tuple[tuple[int, int], int, int | None]]
        self._differences = BoundedDict(MOST_DIFFERENCES)
        """By peer and group, our digest and the peer's that differ, how often they did, and the peer's generation."""

    def seen(self, group_id: str, member_id: str) -> None:
        """A member has sent something here."""
        self._sent[group_id].add(member_id)

    def group_changed(self, group_id: str, _now_ms: int = 0) -> None:
        """A group may have changed."""
        self._digests.pop(group_id, None)

    def clear(self) -> None:
        """Forget what was to be sent: there is no peer."""
        self._sent.clear()
        self._differing.clear()
        self._groups.look_ups.pop_shown()

    def pop_messages(self) -> tuple[bytes, ...]:
        """Return the next summary."""
        sent, self._sent = self._sent, defaultdict(set)
        return *self.messages_of(sent), *self._answered_differences(sent)

    def messages_of(self, members: Mapping[str, Iterable[str]]) -> Iterable[bytes]:
        """Return messages that name these members by group; one at least."""
        groups: list[LiveGroup] = []
        shown = self._groups.look_ups.pop_shown()
        room = MOST_MEMBERS
        for group_id, each in sorted(members.items()):
            several = sorted(each)
            digest = self._digest(group_id)
            for start in range(0, len(several), MOST_MEMBERS):
                part = tuple(several[start : start + MOST_MEMBERS])
                if len(part) > room:
                    yield encode_message(LiveMembers(tuple(groups)))
                    groups, room = [], MOST_MEMBERS
                generation = generation_among(self._groups.shard.groups.get(group_id), part)
                groups.append(LiveGroup(group_id, generation, digest, shown.get(group_id), part))
                room -= len(part)
        yield encode_message(LiveMembers(tuple(groups)))

    def _answered_differences(self, named: Collection[str]) -> Iterable[bytes]:
        """Return messages that name the groups that a peer knows otherwise, without members, but for those `named`."""
        differing, self._differing = self._differing, {}
        known = self._groups.shard.groups
        groups = [
            LiveGroup(group_id, generation_among(known.get(group_id), members), self._digest(group_id), None, ())
            for group_id, members in sorted(differing.items())
            if group_id not in named
        ]
        for start in range(0, len(groups), MOST_MEMBERS):
            yield encode_message(LiveMembers(tuple(groups[start : start + MOST_MEMBERS])))

    def differs(self, instance_id: str, live: LiveGroup) -> tuple[bool, int | None]:
        """Return whether a peer knows a group otherwise, and a look-up may show who is right; and its generation there.

        An answer to a difference names no members, and so no generation, and members that have left show none: it is
        the one that the peer named before.

        What the peer sees arrives here a moment later: a difference counts where it stays the same. One that look-ups
        do not end is looked up ever more seldom. The peer learns of it too: it may be the one that missed something,
        and members that send to it alone are in no summary that it receives. Both answer until both have counted it,
        also where no member sends anything more.
        """
        key, group_id = (instance_id, live.group_id), live.group_id
        own = self._digest(group_id)
        if own == live.digest or not own or not live.digest:
            self._differences.pop(key, None)
            return False, live.generation
        before, times, generation = self._differences.get(key, (None, 0, None))
        if live.generation is not None:
            generation = live.generation
        times = times + 1 if before == (own, live.digest) else 0
        if live.members or times <= 1:  # else the peer has only answered a difference
            self._differing[group_id] = live.members or self._differing.get(group_id, ())
        self._differences[key] = (own, live.digest), times, generation
        return times > 0 and times & (times - 1) == 0, generation

    def _digest(self, group_id: str) -> int:
        digest = self._digests.get(group_id)
        if digest is None:
            digest = self._digests[group_id] = digest_of(self._groups.shard.groups.get(group_id))
        return digest
