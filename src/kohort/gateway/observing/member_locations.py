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


class MemberLocations:
    """The locations of all members that were seen. A gateway that `is_alone` has no other instances."""

    def __init__(self, groups: ObservedGroups, *, is_alone: bool) -> None:
        self._groups = groups
        self._is_alone = is_alone
        self._at: OrderedDict[str, _Location] = OrderedDict()
        """By member id, which is unique over all groups; those seen last stand last."""
        self._live = {HERE}
        self._complete: set[str] = set()
        """Groups of which it was found that each member is at a live instance."""
        self._incomplete: dict[str, int] = {}
        """Eager groups of which a member is not, and since when."""
        self._checked: set[str] = set()
        """Those of them in which nothing has changed since that was found."""
        self._reported: set[str] = set()
        """Those of them that were reported: it has been so for some time."""

    def __len__(self) -> int:
        return len(self._at)

    @property
    def incomplete(self) -> int:
        """How many groups are only observed, for now, since a member has been at no live instance for some time."""
        return len(self._reported)

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
            self._checked.discard(group_id)
            return False
        self._at.move_to_end(member_id)
        location.seen_ms = now_ms
        has_moved = location.instance_id != instance_id
        if has_moved:
            location.instance_id = instance_id
            self._checked.discard(group_id)
        return has_moved

    def is_here(self, member_id: str) -> bool:
        """Whether a member was last seen at this instance."""
        location = self._at.get(member_id)
        return location is not None and location.instance_id == HERE

    def removed(self, member_id: str) -> None:
        """A member is out of its group."""
        self._at.pop(member_id, None)

    def group_changed(self, group_id: str) -> None:
        """A group's members may have changed."""
        self._complete.discard(group_id)
        self._checked.discard(group_id)

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
        self._checked.clear()

    def unreachable(self, instance_id: str) -> None:
        """An instance cannot be reached any more."""
        self._live.discard(instance_id)
        self._complete.clear()

    # Groups

    def can_be_parked(self, group_id: str, now_ms: int) -> bool:
        """Whether a group may be parked: its members can learn of a round together, or need not."""
        if self._is_alone or group_id in self._complete:
            return True
        if group_id not in self._checked:
            group = self._groups.group(group_id)
            if group is None:
                return True
            if not _is_eager(group) or all(map(self._is_reachable, group.members)):
                self._now_complete(group_id)
                return True
            if len(self._checked) >= MOST_CHECKED:
                self._checked.clear()
            self._checked.add(group_id)
        self._check_report(group_id, now_ms)
        return False

    def _is_reachable(self, member_id: str) -> bool:
        location = self._at.get(member_id)
        return location is not None and location.instance_id in self._live

    def _now_complete(self, group_id: str) -> None:
        if len(self._complete) >= MOST_CHECKED:
            self._complete.clear()
        self._complete.add(group_id)
        self._incomplete.pop(group_id, None)
        if group_id in self._reported:
            self._reported.discard(group_id)
            log.info("group %s may be parked again: all its members can be reached", printable(group_id))

    def _check_report(self, group_id: str, now_ms: int) -> None:
        if len(self._incomplete) >= MOST_CHECKED:
            self._incomplete.clear()
            self._reported.clear()
        since_ms = self._incomplete.setdefault(group_id, now_ms)
        if now_ms - since_ms >= INCOMPLETE_MS and group_id not in self._reported:
            self._reported.add(group_id)
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
