"""Heartbeats of classic members that are kept unanswered until there is news for their senders.

The laws: only a commit of the same member waits behind a kept heartbeat, while a round is being announced or for a
stated time; a heartbeat is answered in the turn in which its group's answer changes, eager members of a round together,
and no later than its sender's pace allows. What is kept is the command: to answer it, the group decides it again. This
module decides nothing itself and knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial

from kohort.group.commands import Heartbeat
from kohort.group.results import HeartbeatResult
from kohort.model.errors import ErrorCode
from kohort.node.announcement import Announcement
from kohort.node.groups.offsets_partition import Ticket
from kohort.node.pace import MARGIN_MS, SLACK_MS, Pace
from kohort.node.timers import Timers

_ALIVE = HeartbeatResult(ErrorCode.NONE)


class Follower(Enum):
    """A request that arrives on the connection of a kept heartbeat."""

    HEARTBEAT = auto()
    """The same member's next heartbeat."""
    COMMIT = auto()
    """A commit of the same member, which is carried out at once: only its answer can wait."""
    OTHER = auto()


class Kept:
    """One heartbeat that waits."""

    __slots__ = ("_parking", "command", "latest_ms", "pace", "ticket")

    def __init__(self, parking: Parking, command: Heartbeat, ticket: Ticket, pace: Pace, latest_ms: int) -> None:
        self.command = command
        self.ticket = ticket
        self.pace = pace
        self.latest_ms = latest_ms
        """When it must be answered so that the next one, an interval later, comes within its member's session."""
        self._parking = parking

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """Another request came behind it: return whether it goes on waiting. It does not if it was answered before."""
        return self._parking.followed(self, follower, now_ms)

    def release(self, now_ms: int) -> None:
        """Answer it for a request that cannot wait behind it; no harm if it was answered before."""
        self._parking.followed(self, Follower.OTHER, now_ms)

    def drop(self) -> None:
        """Forget it: its sender has gone."""
        self._parking.drop(self)


class _Group:
    """The kept heartbeats of one group, by member id."""

    __slots__ = ("announcement", "due", "group_id", "kept")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.kept: dict[str, Kept] = {}
        self.announcement: Announcement | None = None
        """The round of which its members have not learnt yet."""
        self.due: list[Kept] = []
        """Heartbeats that are to be answered while the round is announced: their members are out, or do not stop."""


class Parking:
    """The kept heartbeats of one node. `decide` gives the answer of a heartbeat as of now.

    The answer to a commit waits behind a heartbeat of a group at rest for `commit_hold_ms`. `announced` gets the group
    whose members learn of a round now, for how long they had waited, and the time.
    """

    def __init__(
        self,
        timers: Timers,
        decide: Callable[[Heartbeat, int], HeartbeatResult],
        announced: Callable[[str, int, int], None],
        commit_hold_ms: int = 0,
    ) -> None:
        self._timers = timers
        self._decide = decide
        self._announced = announced
        self._commit_hold_ms = commit_hold_ms
        self._groups: dict[str, _Group] = {}
        self._paces: dict[str, Pace] = {}
        """By member id, which is unique over all groups: it holds a UUID."""

    def __len__(self) -> int:
        return sum(len(group.kept) for group in self._groups.values())

    @property
    def remembered(self) -> int:
        """How many members' paces are known."""
        return len(self._paces)

    def is_kept(self, group_id: str, member_id: str) -> bool:
        """Whether a heartbeat of a member is here."""
        group = self._groups.get(group_id)
        return group is not None and member_id in group.kept

    # -- members come and go

    def begin(self, member_id: str, now_ms: int) -> None:
        """A member got its assignment, from which most clients measure to their first heartbeat."""
        pace = self._paces.get(member_id)
        if pace is None:
            pace = self._paces[member_id] = Pace(now_ms)
        pace.begin(now_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        """A member's JoinGroup waits. `group_changed` is called next."""
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.reach(member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        """A member is out, or another id has taken its place. `group_changed` is called next."""
        self._paces.pop(member_id, None)
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.reach(member_id)
            if member_id in group.kept:
                group.due.append(group.kept[member_id])

    # -- heartbeats come

    def keep(
        self, command: Heartbeat, result: HeartbeatResult, ticket: Ticket, session_timeout_ms: int, now_ms: int
    ) -> Kept | None:
        """Keep a member's heartbeat that `result` would answer; None when it is to be answered now."""
        if result.is_quiet:
            pace = self._paces.get(command.member_id)
            if pace is None:
                self._paces[command.member_id] = Pace(now_ms)
                return None
            wait_ms = pace.beat(now_ms, session_timeout_ms)
            return self._wait(command, ticket, pace, wait_ms, session_timeout_ms, now_ms) if wait_ms else None
        group = self._groups.get(command.group_id)
        if group is None or group.announcement is None or result.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        announcement = group.announcement
        announcement.reach(command.member_id)
        if announcement.is_due:
            self._announce(group, now_ms)
        elif command.member_id in announcement.stopping:
            pace = self._paces.get(command.member_id)
            if pace is None:
                pace = self._paces[command.member_id] = Pace(now_ms)
            wait_ms = pace.hold(now_ms, session_timeout_ms)
            return self._wait(command, ticket, pace, wait_ms, session_timeout_ms, now_ms) if wait_ms else None
        return None

    def _wait(
        self, command: Heartbeat, ticket: Ticket, pace: Pace, wait_ms: int, session_timeout_ms: int, now_ms: int
    ) -> Kept:
        group = self._group(command.group_id)
        before = group.kept.get(command.member_id)
        if before is not None:  # what a client sends twice is answered twice
            self.followed(before, Follower.HEARTBEAT, now_ms)
            group = self._group(command.group_id)
        command.is_counted = True
        latest_ms = now_ms + session_timeout_ms - pace.usual_ms - SLACK_MS
        kept = group.kept[command.member_id] = Kept(self, command, ticket, pace, latest_ms)
        self._timers.arm(kept, now_ms + wait_ms, partial(self._end_wait, kept))
        return kept

    def _group(self, group_id: str) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group(group_id)
        return group

    # -- news

    def announce(
        self, group_id: str, awaited: Iterable[str], stopping: frozenset[str], latest_ms: int, now_ms: int
    ) -> None:
        """A round has begun for which members in `stopping` stop reading. `group_changed` is called next."""
        group = self._group(group_id)
        if group.announcement is not None:
            self._timers.disarm(group.announcement)
        announcement = group.announcement = Announcement(awaited, stopping, now_ms, latest_ms)
        for member_id, kept in group.kept.items():
            announcement.reach(member_id)
            if member_id not in stopping:
                group.due.append(kept)
        self._timers.arm(announcement, latest_ms, partial(self._announce, group))

    def group_changed(self, group_id: str, now_ms: int, *, is_gathering: bool) -> None:
        """Something happened to a group: answer those of its heartbeats for whose senders there is news.

        `is_gathering`: whether a round gathers its members.
        """
        group = self._groups.get(group_id)
        if group is None:
            return
        if group.announcement is None:
            self._answer_news(group, group.kept.values(), now_ms)
            return
        due, group.due = group.due, []
        self._answer_news(group, due, now_ms)
        if group.announcement.is_due or not is_gathering:
            self._announce(group, now_ms, is_gathering=is_gathering)

    def _announce(self, group: _Group, now_ms: int, *, is_gathering: bool = True) -> None:
        """Have the members that are here learn of their round; the others learn of it by their next heartbeat."""
        announcement, group.announcement = group.announcement, None
        if announcement is not None:
            self._timers.disarm(announcement)
            if is_gathering and now_ms > announcement.began_ms:
                self._announced(group.group_id, now_ms - announcement.began_ms, now_ms)
        self._answer_news(group, group.kept.values(), now_ms)
        self._tidy(group)

    def _answer_news(self, group: _Group, several: Iterable[Kept], now_ms: int) -> None:
        for kept in list(several):
            result = self._decide(kept.command, now_ms)
            if not result.is_quiet and group.kept.get(kept.command.member_id) is kept:
                self._answer(group, kept, result, now_ms)

    # -- the end of a wait

    def followed(self, kept: Kept, follower: Follower, now_ms: int) -> bool:
        """Another request came behind a kept heartbeat: return whether it goes on waiting.

        While a round is announced a commit waits with it: the sender would stop before the others, or be out of reach
        when they stop. Where that takes longer than an interval, for a member that is silent, it gets its answer.
        """
        group = self._groups.get(kept.command.group_id)
        if group is None or group.kept.get(kept.command.member_id) is not kept:
            return False
        result = self._decide(kept.command, now_ms)
        if result.is_quiet and follower is Follower.COMMIT and self._commit_hold_ms:
            latest_ms = self._timers.deadline_ms(kept)
            assert latest_ms is not None, "what is kept has a timer"
            self._timers.move(kept, min(latest_ms, now_ms + self._commit_hold_ms))
            return True
        if self._is_held(group, kept, result):
            assert group.announcement is not None, "a heartbeat is held while its round is announced"
            is_long = now_ms - group.announcement.began_ms >= kept.pace.usual_ms
            if follower is Follower.COMMIT and not is_long:
                return True
            if follower is Follower.HEARTBEAT:
                result = _ALIVE
            elif is_long:
                result = _ALIVE
                group.announcement.lose(kept.command.member_id)
        self._answer(group, kept, result, now_ms)
        return False

    def _end_wait(self, kept: Kept, now_ms: int) -> None:
        """Answer a heartbeat before its sender minds: while its round is announced, that its member is alive."""
        group = self._groups[kept.command.group_id]
        result = self._decide(kept.command, now_ms)
        if self._is_held(group, kept, result):
            result = _ALIVE
            if not kept.pace.is_known and group.announcement is not None:
                # Its next heartbeat may be a whole interval away (kgo): within the first one it waits for the others.
                until_ms = min(group.announcement.began_ms + kept.pace.usual_ms + MARGIN_MS, kept.latest_ms)
                if now_ms < until_ms:
                    self._timers.arm(kept, until_ms, partial(self._end_wait, kept))
                    return
                group.announcement.lose(kept.command.member_id)
        self._answer(group, kept, result, now_ms)

    def _is_held(self, group: _Group, kept: Kept, result: HeartbeatResult) -> bool:
        announcement = group.announcement
        return (
            announcement is not None
            and result.error is ErrorCode.REBALANCE_IN_PROGRESS
            and kept.command.member_id in announcement.stopping
        )

    def drop(self, kept: Kept) -> None:
        """Keep a heartbeat no longer, without an answer: its sender has gone."""
        group = self._groups.get(kept.command.group_id)
        if group is None or group.kept.get(kept.command.member_id) is not kept:
            return
        if group.announcement is not None:
            group.announcement.lose(kept.command.member_id)
        self._remove(group, kept)

    def _answer(self, group: _Group, kept: Kept, result: HeartbeatResult, now_ms: int) -> None:
        self._remove(group, kept)
        kept.pace.answered_ms = now_ms
        kept.ticket(result)

    def _remove(self, group: _Group, kept: Kept) -> None:
        self._timers.disarm(kept)
        del group.kept[kept.command.member_id]
        self._tidy(group)

    def _tidy(self, group: _Group) -> None:
        if not group.kept and group.announcement is None:
            self._groups.pop(group.group_id, None)


__all__ = ["Follower", "Kept", "Parking"]
