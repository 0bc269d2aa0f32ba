"""Through which instance of the gateway each member was last seen: here, or at a peer.

Members of an eager group learn of a round together or not at all. So such a group is parked only while every member
was last seen at an instance that can be reached; else it is observed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kohort.gateway.observing.last_requests import MEMBER_FORGOTTEN_MS
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.group.classic.group import COOPERATIVE, ClassicGroup
from kohort.model.bounded_dict import BoundedDict
from kohort.model.ids import LONGEST_CACHED_NAME
from kohort.model.printable import printable

log = logging.getLogger("kohort.gateway")

HERE = ""
"""This instance."""

MOST_MEMBERS = 500_000
"""Of how many members it is known where they are, those seen last: a client may send heartbeats under any id."""

INCOMPLETE_MS = 10_000
"""After so long with a member at no live instance a group is reported."""

MOST_CHECKED = 100_000
"""For how many groups it is remembered whether all members can be reached."""


@dataclass(slots=True)
class _Location:
    group_id: str
    instance_id: str
    seen_ms: int


@dataclass(slots=True)
class _Reach:
    """Whether the members of one group can be reached."""

    is_complete: bool | None = None
    """Whether each is at a live instance, or the group is not eager; None where that is to be found out again."""
    since_ms: int | None = None
    """Since when a member is at no live instance."""
    is_reported: bool = False
    """Whether that was reported: it has been so for some time."""


class MemberLocations:
    """The locations of all members that were seen. A gateway that `is_alone` has no other instances."""

    def __init__(self, groups: ObservedGroups, *, is_alone: bool) -> None:
        self._groups = groups
        self._is_alone = is_alone
        self._at: OrderedDict[str, _Location] = OrderedDict()
        """By member id, which is unique over all groups; those seen last stand last."""
        self._live = {HERE}
        self._reaches: BoundedDict[str, _Reach] = BoundedDict(MOST_CHECKED)
        """By group."""

    def __len__(self) -> int:
        return len(self._at)

    @property
    def incomplete(self) -> int:
        """How many groups are only observed, for now, since a member has been at no live instance for some time."""
        return sum(reach.is_reported for reach in self._reaches.values())

    # Where members are

    def seen(self, group_id: str, member_id: str, instance_id: str, now_ms: int) -> bool:
        """A member has sent something through an instance: return whether it was last seen at another one.

        One with an id that is very long is at no instance.
        """
        if len(member_id) > LONGEST_CACHED_NAME:
            return False
        location = self._at.get(member_id)
        if location is None:
            if len(self._at) >= MOST_MEMBERS:
                self._at.popitem(last=False)
            self._at[member_id] = _Location(group_id, instance_id, now_ms)
            self._came(group_id)
            return False
        self._at.move_to_end(member_id)
        location.seen_ms = now_ms
        has_moved = location.instance_id != instance_id
        if has_moved:
            location.instance_id = instance_id
            self._came(group_id)
        return has_moved

    def _came(self, group_id: str) -> None:
        """A member of a group was seen at an instance where it was not before."""
        reach = self._reaches.get(group_id)
        if reach is not None and not reach.is_complete:
            reach.is_complete = None

    def is_here(self, member_id: str) -> bool:
        """Whether a member was last seen at this instance."""
        location = self._at.get(member_id)
        return location is not None and location.instance_id == HERE

    def removed(self, member_id: str) -> None:
        """A member is out of its group."""
        self._at.pop(member_id, None)

    def group_changed(self, group_id: str) -> None:
        """A group's members may have changed."""
        reach = self._reaches.get(group_id)
        if reach is not None and reach.since_ms is None:
            del self._reaches[group_id]
        elif reach is not None:
            reach.is_complete = None

    def members_at(self, instance_id: str) -> Iterator[tuple[str, str]]:
        """Return the group and the id of each member that was last seen at an instance."""
        for member_id, location in self._at.items():
            if location.instance_id == instance_id:
                yield location.group_id, member_id

    def forget_idle(self, now_ms: int) -> None:
        """Forget members that have sent nothing for long."""
        while self._at and now_ms - next(iter(self._at.values())).seen_ms >= MEMBER_FORGOTTEN_MS:
            self._at.popitem(last=False)

    # Instances

    def reachable(self, instance_id: str) -> None:
        """An instance can be reached."""
        self._live.add(instance_id)
        for group_id in self._reaches:
            self._came(group_id)

    def unreachable(self, instance_id: str) -> None:
        """An instance cannot be reached any more."""
        self._live.discard(instance_id)
        for reach in self._reaches.values():
            if reach.is_complete:
                reach.is_complete = None

    # Groups

    def can_be_parked(self, group_id: str, now_ms: int) -> bool:
        """Whether a group may be parked: its members can learn of a round together, or need not."""
        reach = self._reaches.get(group_id)
        if self._is_alone or (reach is not None and reach.is_complete):
            return True
        if reach is None or reach.is_complete is None:
            group = self._groups.group(group_id)
            if group is None:
                return True
            if reach is None:
                reach = self._reaches[group_id] = _Reach()
            reach.is_complete = not _is_eager(group) or all(map(self._is_reachable, group.members))
        self._report(group_id, reach, now_ms)
        return reach.is_complete

    def _is_reachable(self, member_id: str) -> bool:
        location = self._at.get(member_id)
        return location is not None and location.instance_id in self._live

    def _report(self, group_id: str, reach: _Reach, now_ms: int) -> None:
        if reach.is_complete:
            if reach.is_reported:
                log.info("group %s may be parked again: all its members can be reached", printable(group_id))
            reach.since_ms, reach.is_reported = None, False
            return
        reach.since_ms = now_ms if reach.since_ms is None else reach.since_ms
        if now_ms - reach.since_ms >= INCOMPLETE_MS and not reach.is_reported:
            reach.is_reported = True
            group = self._groups.group(group_id)
            missing = () if group is None else sorted(each for each in group.members if not self._is_reachable(each))
            log.warning(
                "group %s is only observed: %d of its members, such as %s, come through no live instance",
                printable(group_id),
                len(missing),
                printable(missing[0]) if missing else "none",
            )


def _is_eager(group: ClassicGroup) -> bool:
    """Whether any member revokes its partitions when it learns of a round."""
    return any(name not in COOPERATIVE for member in group.members.values() for name, _ in member.protocols)
