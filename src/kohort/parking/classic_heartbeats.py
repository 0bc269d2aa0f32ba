"""Parking of heartbeats of classic members, and rounds that eager members learn of together.

The laws: a heartbeat is answered when its group's answer changes, which the group decides again, eager members of a
round together, and no later than its sender's interval allows. A commit of its member is answered ahead of it where the
client takes that, waits behind it if a timer sends it or a round is being announced, or ends it, with an error after
which the client sends it again at once, if there is one. Any other request ends it.

An eager member stops reading when it learns of a round, and none reads again before the last has joined. So members
whose heartbeats are parked read until each awaited member has sent a heartbeat or a JoinGroup, or has left. One whose
commits end each parked heartbeat learns by one of its own, at the time that leaves partitions standing still the least.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import UNNAMED, ClientPace, ClientSoftware
from kohort.parking.commit_pace import CommitPace
from kohort.parking.heartbeat_interval import HeartbeatInterval
from kohort.parking.limits import (
    ANSWER_MARGIN_MS,
    LATE_INTERVALS,
    MOST_WEIGHED,
    SLACK_MS,
    USUAL_COMMIT_DELAY_MS,
    USUAL_INTERVAL_MS,
)
from kohort.parking.parked_heartbeat import Follower, HeartbeatT, ParkedHeartbeat, Timers


class Answer(Protocol):
    """What a group answers to a heartbeat."""

    @property
    def error(self) -> ErrorCode:
        """NONE, or what its sender must do."""

    @property
    def is_quiet(self) -> bool:
        """Whether it has no update, and will not until the group's next event."""


AnswerT = TypeVar("AnswerT", bound=Answer)

ReachChanged = Callable[[str, Collection[str], bool], None]
"""Takes a group whose round is announced, members, and whether their heartbeats are parked here now, or no longer."""


class ParkedClassicHeartbeat(ParkedHeartbeat[HeartbeatT, AnswerT]):
    """A heartbeat of a classic member. `latest_ms` is when it must be answered for its member's session.

    The next heartbeat, an interval after the answer, then still arrives within the session.
    """

    __slots__ = ("commit_delay_ms", "has_commit", "interval", "latest_ms", "repeat_until_ms")
    interval: HeartbeatInterval
    latest_ms: int
    repeat_until_ms: int | None
    """Until when it may be answered so that its client sends it again, if at all."""
    commit_delay_ms: int
    """How long the answer to a commit of its member's timer is delayed behind it while nothing happens."""
    has_commit: bool
    """Whether the answer to a commit is delayed behind it."""


@dataclass(slots=True, eq=False)
class RoundAnnouncement:
    """A round of which members learn together: `stopping` are those that revoke their partitions for it."""

    stopping: frozenset[str]
    longest_ms: int
    """The longest of its members' intervals: one of a shorter interval, answered before, would miss the others."""
    began_ms: int
    parked_since_ms: int
    """From when heartbeats are parked for an interval: when the round began, later when each had sent something."""
    unreached: set[str]
    """Members with neither a parked heartbeat nor a JoinGroup that waits, and still in the group."""
    not_seen: set[str]
    """Those of them that have sent nothing since the round began, or are disconnected."""
    alone: frozenset[str] = frozenset()
    """Members whose commits end each parked heartbeat: each learns of the round by a heartbeat of its own."""
    alone_until_ms: int = 0
    """When the last one of them is to learn."""

    def reach(self, members: Iterable[str]) -> None:
        """Await these members no longer."""
        self.unreached.difference_update(members)
        self.not_seen.difference_update(members)


@dataclass(slots=True, eq=False)
class ParkedGroup(Generic[HeartbeatT, AnswerT]):
    """The parked heartbeats of one group, by member id."""

    group_id: str
    parked: dict[str, ParkedClassicHeartbeat[HeartbeatT, AnswerT]] = field(default_factory=dict)
    announcement: RoundAnnouncement | None = None
    """The round of which its members have not learnt yet."""
    due: list[ParkedClassicHeartbeat[HeartbeatT, AnswerT]] = field(default_factory=list)
    """Heartbeats to answer while the round is announced: their members have left, or do not stop."""

    def awaited_round(self, member_id: str, result: AnswerT) -> RoundAnnouncement | None:
        """Return the announcement for which a member's heartbeat waits although `result` is an update."""
        if self.announcement is None or result.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        return self.announcement if member_id in self.announcement.stopping else None


class ClassicParking(Generic[HeartbeatT, AnswerT]):
    """The parked heartbeats of classic members, of all groups.

    `decide` returns the answer to a heartbeat as of now, `answer_with` one with an error. `announced` is
    called with the group whose members learn of a round now, for how many milliseconds they had waited, and the time.
    Where several processes park heartbeats of the same groups, `reach_changed` reports which members are reached here,
    for the others.
    """

    def __init__(
        self,
        timers: Timers,
        decide: Callable[[HeartbeatT, int], AnswerT],
        answer_with: Callable[[ErrorCode], AnswerT],
        announced: Callable[[str, int, int], None],
        reach_changed: ReachChanged | None = None,
    ) -> None:
        self._reach_changed = reach_changed or (lambda _group_id, _members, _is_reached: None)
        self._timers = timers
        self._decide = decide
        self._answer_with = answer_with
        self._alive = answer_with(ErrorCode.NONE)
        self._announced = announced
        self._groups: dict[str, ParkedGroup[HeartbeatT, AnswerT]] = {}
        self._intervals: dict[str, HeartbeatInterval] = {}
        """By member id, which is unique over all groups: it has a UUID in it."""
        self._paces: dict[str, CommitPace] = {}
        """By member id, how it commits."""
        self._unreachable: dict[str, set[str]] = {}
        """By group id, members whose commits end each parked heartbeat, and that send none again."""

    def __len__(self) -> int:
        return sum(len(group.parked) for group in self._groups.values())

    @property
    def known_members(self) -> int:
        """The number of members whose interval is being learnt."""
        return len(self._intervals)

    def is_parked(self, group_id: str, member_id: str) -> bool:
        """Whether a heartbeat of a member waits."""
        group = self._groups.get(group_id)
        return group is not None and member_id in group.parked

    def unreached(self, group_id: str) -> frozenset[str]:
        """Return the members for which a round waits that is announced to all together."""
        group = self._groups.get(group_id)
        return frozenset() if group is None or group.announcement is None else frozenset(group.announcement.unreached)

    # -- members join and leave

    def begin(self, member_id: str, now_ms: int) -> None:
        """A member got its assignment, from which most clients measure to their first heartbeat."""
        self._interval_of(member_id, now_ms).begin(now_ms)
        self._pace_of(member_id, now_ms).begun_ms = now_ms

    def joined(self, group_id: str, member_id: str) -> None:
        """A member's JoinGroup waits. `group_changed` is called next."""
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.reach((member_id,))

    def forget(self, group_id: str, member_id: str) -> None:
        """A member has left, or another id has replaced it. `group_changed` is called next."""
        self._intervals.pop(member_id, None)
        self._paces.pop(member_id, None)
        if (unreachable := self._unreachable.get(group_id)) is not None:
            unreachable.discard(member_id)
            if not unreachable:
                del self._unreachable[group_id]
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.reach((member_id,))
            if member_id in group.parked:
                group.due.append(group.parked[member_id])

    # -- heartbeats arrive

    def park(
        self,
        heartbeat: HeartbeatT,
        result: AnswerT,
        answer: Callable[[AnswerT], None],
        session_timeout_ms: int,
        now_ms: int,
        *,
        client: ClientSoftware = UNNAMED,
        can_wait: bool = True,
        commit_delay_ms: int = -1,
    ) -> ParkedHeartbeat[HeartbeatT, AnswerT] | None:
        """Park a heartbeat that `result` would answer; None when it is to be answered now.

        With `can_wait` False it is answered at once while its group is stable. The answer to a commit that its member's
        timer sends is delayed behind it for `commit_delay_ms` at most; -1: as the client's habits allow.
        """
        member_id = heartbeat.member_id
        if result.is_quiet:
            interval = self._intervals.get(member_id)
            if interval is None:
                self._intervals[member_id] = HeartbeatInterval(now_ms)
                return None
            if interval.software is not client:
                interval.note_software(client)
            if commit_delay_ms < 0:
                commit_delay_ms = USUAL_COMMIT_DELAY_MS if client.habits.delays_commits else 0
            is_delayed = commit_delay_ms > 0 and self._pace_of(member_id, now_ms).is_regular
            if not is_delayed and interval.may_be_cut_short(now_ms):
                if interval.is_cut_short(now_ms, session_timeout_ms):
                    can_wait = False
                    self._unreachable.setdefault(heartbeat.group_id, set()).add(member_id)
                else:
                    can_wait &= not self._has_unreachable(heartbeat.group_id, now_ms)
            wait_ms = interval.beat(now_ms, session_timeout_ms, can_wait=can_wait)
            if not wait_ms:
                return None
            parked = self._wait(heartbeat, answer, interval, wait_ms, session_timeout_ms, now_ms)
            parked.commit_delay_ms = commit_delay_ms
            return parked
        group = self._groups.get(heartbeat.group_id)
        if group is None or group.announcement is None or result.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if member_id in group.announcement.unreached:
            group.announcement.reach((member_id,))
            self._reach_changed(group.group_id, (member_id,), True)
        self._announce_if_due(group, group.announcement, now_ms)
        if group.announcement is not None and member_id in group.announcement.stopping:
            interval = self._interval_of(member_id, now_ms)
            interval.note_software(client)
            wait_ms = interval.await_round(now_ms, session_timeout_ms)
            return self._wait(heartbeat, answer, interval, wait_ms, session_timeout_ms, now_ms) if wait_ms else None
        return None

    def _learns_alone(self, announcement: RoundAnnouncement, member_id: str, now_ms: int, *, is_long: bool) -> bool:
        """Whether a commit is to end a member's parked heartbeat with the round: its next one would come too late.

        That is after the planned end. Where nothing was planned, as no member was known then to commit each batch, it
        is after the next heartbeats of those that are not reached yet, as far as these are known. A member that seldom
        commits learns now unless it would stand still for longer than the round would be late, or it is long.
        """
        interval = self._interval_of(member_id, now_ms)
        next_ms = interval.next_ms(now_ms, is_parked=True)
        if member_id in announcement.alone:
            return next_ms > announcement.alone_until_ms + ANSWER_MARGIN_MS
        others = [self._interval_of(each, now_ms) for each in announcement.unreached]
        if interval.commits_often(now_ms):
            last_ms = max((each.next_ms(now_ms, is_parked=False) for each in others if each.is_learnt), default=now_ms)
            return next_ms > last_ms + ANSWER_MARGIN_MS
        # One without a heartbeat in its generation yet is taken to be as fast as this one.
        expected_ms = (
            each.next_ms(now_ms, is_parked=False) if each.interval_ms else each.arrived_ms + interval.usual_ms
            for each in others
        )
        last_ms = max(expected_ms, default=now_ms)
        return not is_long and next_ms - last_ms > max(last_ms - now_ms, ANSWER_MARGIN_MS)

    def _interval_of(self, member_id: str, now_ms: int) -> HeartbeatInterval:
        interval = self._intervals.get(member_id)
        if interval is None:
            interval = self._intervals[member_id] = HeartbeatInterval(now_ms)
        return interval

    def _pace_of(self, member_id: str, now_ms: int) -> CommitPace:
        pace = self._paces.get(member_id)
        if pace is None:
            pace = self._paces[member_id] = CommitPace(now_ms)
        return pace

    def _wait(
        self,
        heartbeat: HeartbeatT,
        answer: Callable[[AnswerT], None],
        interval: HeartbeatInterval,
        wait_ms: int,
        session_timeout_ms: int,
        now_ms: int,
    ) -> ParkedClassicHeartbeat[HeartbeatT, AnswerT]:
        before = self._group(heartbeat.group_id).parked.get(heartbeat.member_id)
        if before is not None:  # what a client sends twice is answered twice
            before.followed(Follower.HEARTBEAT, now_ms)
        parked = ParkedClassicHeartbeat(self, heartbeat, answer)
        parked.interval = interval
        parked.commit_delay_ms, parked.has_commit = 0, False
        parked.latest_ms = min(now_ms - interval.usual_ms, interval.alive_ms) + session_timeout_ms - SLACK_MS
        repeat_until_ms = parked.repeat_until_ms = interval.repeat_until_ms(session_timeout_ms)
        self._group(heartbeat.group_id).parked[heartbeat.member_id] = parked
        until_ms = now_ms + wait_ms
        if interval.pace is ClientPace.FROM_ANSWER and repeat_until_ms is not None and now_ms < repeat_until_ms:
            until_ms = min(until_ms, repeat_until_ms + 1)
        self._timers.arm(parked, until_ms, partial(self._end_wait, parked))
        return parked

    def _group(self, group_id: str) -> ParkedGroup[HeartbeatT, AnswerT]:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ParkedGroup(group_id)
        return group

    # -- commits

    def committed(self, member_id: str, now_ms: int, *, is_in_round: bool = False) -> None:
        """A member sends a commit. Where a heartbeat of it waits, `followed` is called before."""
        interval = self._intervals.get(member_id)
        if interval is None:
            return  # no member, as far as is known
        if not is_in_round:
            interval.committed(now_ms)
        self._pace_of(member_id, now_ms).committed(now_ms, is_in_round=is_in_round)

    def is_awaited(self, member_id: str, now_ms: int) -> bool:
        """Whether a program waits for the answer to a commit that its member sends now, as far as is known."""
        pace = self._paces.get(member_id)
        return pace is not None and pace.is_of_a_user(now_ms)

    def _has_unreachable(self, group_id: str, now_ms: int) -> bool:
        """Whether a member of a group learns of a round by its next heartbeat only, as it commits that often.

        One commit shows nothing yet: that of a timer may come as soon after its member was first seen.
        """
        members = self._unreachable.get(group_id)
        if not members:
            return False
        for member_id in list(members):
            interval = self._intervals.get(member_id)
            if interval is None or not (interval.has_committed_twice and interval.commits_often(now_ms)):
                members.discard(member_id)
        if not members:
            del self._unreachable[group_id]
        return bool(members)

    # -- updates

    def announce(
        self, group_id: str, awaited: Iterable[str], stopping: frozenset[str], latest_ms: int, now_ms: int
    ) -> None:
        """A round has begun for which the members of `stopping` stop reading. `group_changed` is called next.

        They learn of it once every member of `awaited` can be reached, and no later than `latest_ms`.
        """
        group = self._group(group_id)
        if group.announcement is not None:
            self._timers.disarm(group.announcement)
        awaited = set(awaited)
        unreached, longest_ms = awaited - group.parked.keys(), self._longest_ms(awaited)
        announcement = group.announcement = RoundAnnouncement(
            stopping, longest_ms, now_ms, now_ms, unreached, set(unreached)
        )
        group.due += [parked for member_id, parked in group.parked.items() if member_id not in stopping]
        self._plan(group, announcement, stopping & awaited, now_ms)
        self._timers.arm(announcement, latest_ms, partial(self._announce, group))
        self._reach_changed(group_id, group.parked.keys(), True)

    def _plan(
        self,
        group: ParkedGroup[HeartbeatT, AnswerT],
        announcement: RoundAnnouncement,
        members: frozenset[str],
        now_ms: int,
    ) -> None:
        """Find which members learn alone, and when the last one of them should."""
        if not self._has_unreachable(group.group_id, now_ms):
            return
        heartbeats: dict[str, tuple[int, int]] = {}
        earliest_ms = now_ms
        for member_id in members & self._intervals.keys():
            interval, is_parked = self._intervals[member_id], member_id in group.parked
            next_ms = interval.next_ms(now_ms, is_parked=is_parked)
            if not is_parked and interval.is_learnt:
                earliest_ms = max(earliest_ms, next_ms)
            if not interval.is_overtaken and interval.commits_often(now_ms):
                # Who has a heartbeat parked may learn by it, when the next commit ends it.
                heartbeats[member_id] = next_ms - is_parked * interval.usual_ms, max(1, interval.usual_ms)
        announcement.alone = frozenset(heartbeats)
        announcement.alone_until_ms = _best_end_ms(heartbeats.values(), earliest_ms)

    def is_announcing(self, group_id: str) -> bool:
        """Whether members of a group have yet to learn of a round."""
        group = self._groups.get(group_id)
        return group is not None and group.announcement is not None

    def reached_elsewhere(self, group_id: str, members: Iterable[str], now_ms: int) -> None:
        """Another process has parked heartbeats of members, while a round is announced."""
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.reach(members)
            self._announce_if_due(group, group.announcement, now_ms)

    def lost_elsewhere(self, group_id: str, members: Iterable[str]) -> None:
        """Another process no longer has parked heartbeats of members that are in the group and have not joined."""
        group = self._groups.get(group_id)
        if group is not None and group.announcement is not None:
            group.announcement.unreached.update(members)

    def release_group(self, group_id: str, now_ms: int) -> None:
        """Answer all that is parked for a group, without an update, and announce nothing."""
        group = self._groups.get(group_id)
        if group is None:
            return
        announcement, group.announcement = group.announcement, None
        if announcement is not None:
            self._timers.disarm(announcement)
        for parked in list(group.parked.values()):
            if parked.parking is not None:
                self._answer(parked, self._alive, now_ms)
        self._tidy(group)

    def group_changed(self, group_id: str, now_ms: int, *, is_gathering: bool) -> None:
        """Something happened to a group: answer the heartbeats whose answer is an update now.

        `is_gathering`: whether a round gathers its members.
        """
        group = self._groups.get(group_id)
        if group is None:
            return
        if group.announcement is None:
            self._answer_updates(group.parked.values(), now_ms)
            return
        due, group.due = group.due, []
        self._answer_updates(due, now_ms)
        if is_gathering:
            self._announce_if_due(group, group.announcement, now_ms)
        else:
            self._announce(group, now_ms, is_gathering=False)

    def _announce_if_due(
        self, group: ParkedGroup[HeartbeatT, AnswerT], announcement: RoundAnnouncement, now_ms: int
    ) -> None:
        """Announce a round if all are reached. Once each has sent something, the others come within an interval.

        Until then the heartbeats of those that were reached are parked again: else they might never all be parked at
        the same time.
        """
        if not announcement.unreached:
            self._announce(group, now_ms)
        elif not announcement.not_seen and announcement.parked_since_ms == announcement.began_ms:
            announcement.parked_since_ms = now_ms
            latest_ms = self._timers.deadline_ms(announcement)
            assert latest_ms is not None, "an announcement has a timer"
            # A little later than the last of them, and before the heartbeats that are parked have waited for too long.
            longest_ms = self._longest_ms(announcement.unreached)
            self._timers.move(announcement, min(latest_ms, now_ms + longest_ms + ANSWER_MARGIN_MS // 2))

    def _longest_ms(self, members: Iterable[str]) -> int:
        """Return the longest interval of these members."""
        known = [self._intervals.get(each) for each in members]
        return max(
            (USUAL_INTERVAL_MS if interval is None else interval.usual_ms for interval in known),
            default=USUAL_INTERVAL_MS,
        )

    def _announce(self, group: ParkedGroup[HeartbeatT, AnswerT], now_ms: int, *, is_gathering: bool = True) -> None:
        """Have the members with a parked heartbeat learn of their round; the others learn by their next heartbeat."""
        announcement, group.announcement = group.announcement, None
        if announcement is not None:
            self._timers.disarm(announcement)
            if is_gathering and now_ms > announcement.began_ms:
                self._announced(group.group_id, now_ms - announcement.began_ms, now_ms)
        self._answer_updates(group.parked.values(), now_ms)
        self._tidy(group)

    def _answer_updates(self, several: Iterable[ParkedClassicHeartbeat[HeartbeatT, AnswerT]], now_ms: int) -> None:
        for parked in list(several):
            result = self._decide(parked.heartbeat, now_ms)
            if not result.is_quiet and parked.parking is not None:
                self._answer(parked, result, now_ms)

    # -- the end of a wait

    def followed(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT], follower: Follower, now_ms: int) -> bool:
        """Another request arrived behind a parked heartbeat: return whether it stays parked.

        While a round is announced a commit waits with it: the sender would stop before the others, or not be
        reached when they stop. One whose program waits for it does not: the sender leaves or stops now. Where the round
        takes longer than an interval, for a member that is dead or late, commits are answered; after two also those
        whose program is known not to wait.
        """
        assert isinstance(parked, ParkedClassicHeartbeat), "what waits here was parked here"
        if parked.interval.is_overtaken and follower is Follower.COMMIT:
            return True
        group = self._groups[parked.heartbeat.group_id]
        result = self._decide(parked.heartbeat, now_ms)
        pace = self._paces.get(parked.heartbeat.member_id)
        is_timer = follower is Follower.COMMIT and pace is not None and pace.is_on_time(now_ms)
        if result.is_quiet and is_timer and parked.commit_delay_ms and parked.repeat_until_ms is None:
            assert pace is not None, "a timer has a pace"
            latest_ms = self._timers.deadline_ms(parked)
            assert latest_ms is not None, "a parked heartbeat has a timer"
            self._timers.move(parked, min(latest_ms, now_ms + pace.delay_ms(parked.commit_delay_ms)))
            parked.has_commit = True
            return True
        announcement = group.awaited_round(parked.heartbeat.member_id, result)
        if announcement is not None:
            intervals = (now_ms - announcement.parked_since_ms) // max(1, announcement.longest_ms)
            is_long = intervals >= 1
            is_commit = follower is Follower.COMMIT
            waits = is_commit and (pace is None or not pace.is_of_a_user(now_ms))
            if waits and (not is_long or (intervals < LATE_INTERVALS and pace is not None and pace.is_timer)):
                parked.has_commit = True
                return True
            is_back = is_commit and self._is_back_in_time(announcement, parked, now_ms)
            learns = (
                is_commit
                and not is_back
                and self._learns_alone(announcement, parked.heartbeat.member_id, now_ms, is_long=is_long)
            )
            if follower is Follower.HEARTBEAT:
                result = self._alive
            elif not learns and (is_long or is_back or (is_commit and not self._is_repeated(parked, now_ms))):
                result = self._alive
                self._lose(announcement, parked)
        if follower is Follower.COMMIT and not parked.interval.is_repeated:
            self._unreachable.setdefault(group.group_id, set()).add(parked.heartbeat.member_id)
        self._answer(parked, result, now_ms, can_repeat=follower is Follower.COMMIT)
        return False

    def _end_wait(self, parked: ParkedClassicHeartbeat[HeartbeatT, AnswerT], now_ms: int) -> None:
        """Answer a heartbeat in time for its sender: while its round is announced, that its member is alive."""
        group = self._groups[parked.heartbeat.group_id]
        result = self._decide(parked.heartbeat, now_ms)
        announcement = group.awaited_round(parked.heartbeat.member_id, result)
        if announcement is not None:
            result = self._alive
            if not parked.interval.is_known:
                # Its next heartbeat may be a whole interval away (kgo): within the first one it waits for the others.
                until_ms = min(
                    announcement.parked_since_ms + announcement.longest_ms + ANSWER_MARGIN_MS, parked.latest_ms
                )
                if now_ms < until_ms:
                    self._timers.arm(parked, until_ms, partial(self._end_wait, parked))
                    return
                self._lose(announcement, parked)
        self._answer(parked, result, now_ms, can_repeat=parked.interval.pace is ClientPace.FROM_ANSWER)

    def drop(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT]) -> None:
        """Remove a heartbeat without an answer: its sender has disconnected."""
        group = self._groups[parked.heartbeat.group_id]
        if group.announcement is not None:
            self._lose(group.announcement, parked)
            group.announcement.not_seen.add(parked.heartbeat.member_id)
        self._remove(parked)

    def _lose(self, announcement: RoundAnnouncement, parked: ParkedHeartbeat[HeartbeatT, AnswerT]) -> None:
        """A member is not reached until its next heartbeat."""
        heartbeat = parked.heartbeat
        announcement.unreached.add(heartbeat.member_id)
        self._reach_changed(heartbeat.group_id, (heartbeat.member_id,), False)

    def _answer(
        self,
        parked: ParkedClassicHeartbeat[HeartbeatT, AnswerT],
        result: AnswerT,
        now_ms: int,
        *,
        can_repeat: bool = False,
    ) -> None:
        """Answer a heartbeat; one without an error, if it may be, so that its client sends it again soon."""
        error = self._repeat_error(parked, now_ms) if can_repeat and not result.error else ErrorCode.NONE
        self._remove(parked)
        parked.interval.answered(now_ms, is_for_repeat=bool(error))
        if parked.has_commit and (pace := self._paces.get(parked.heartbeat.member_id)) is not None:
            pace.answered(now_ms)
        parked.answer(self._answer_with(error) if error else result)

    def _repeat_error(self, parked: ParkedClassicHeartbeat[HeartbeatT, AnswerT], now_ms: int) -> ErrorCode:
        """Return the error with which to end a wait now so that the client sends the heartbeat again soon, or NONE."""
        may_end_so = self._is_repeated(parked, now_ms) and now_ms <= (parked.repeat_until_ms or 0)
        return parked.interval.error_for_repeat(now_ms) if may_end_so else ErrorCode.NONE

    def _is_repeated(self, parked: ParkedClassicHeartbeat[HeartbeatT, AnswerT], now_ms: int) -> bool:
        """Whether an error has the client send a heartbeat again soon, and that is of use to its group."""
        return parked.interval.is_repeated and not self._has_unreachable(parked.heartbeat.group_id, now_ms)

    def _is_back_in_time(
        self, announcement: RoundAnnouncement, parked: ParkedClassicHeartbeat[HeartbeatT, AnswerT], now_ms: int
    ) -> bool:
        """Whether a client would send its heartbeat again before the last member comes that is not reached yet."""
        if not self._repeat_error(parked, now_ms):
            return False
        others = (self._interval_of(each, now_ms) for each in announcement.unreached)
        back_ms = now_ms + parked.interval.repeats_after_ms()
        return any(back_ms <= each.next_ms(now_ms, is_parked=False) for each in others)

    def _remove(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT]) -> None:
        parked.parking = None
        self._timers.disarm(parked)
        group = self._groups[parked.heartbeat.group_id]
        del group.parked[parked.heartbeat.member_id]
        self._tidy(group)

    def _tidy(self, group: ParkedGroup[HeartbeatT, AnswerT]) -> None:
        if not group.parked and group.announcement is None and self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]


def _best_end_ms(heartbeats: Collection[tuple[int, int]], earliest_ms: int) -> int:
    """Return when the last of several members should learn of a round, `earliest_ms` or later.

    Each learns by its own heartbeat: the next one, and the time between two of them, are in milliseconds. A member that
    learns before the last one stands still until then, and what the round is to assign does so all the time: each of
    them is taken to be one share of the partitions.
    """
    if len(heartbeats) > MOST_WEIGHED:
        return earliest_ms
    ends_ms = {earliest_ms} | {next_ms - (next_ms - earliest_ms) // gap_ms * gap_ms for next_ms, gap_ms in heartbeats}
    return min(ends_ms, key=lambda end_ms: end_ms + sum((end_ms - next_ms) % gap_ms for next_ms, gap_ms in heartbeats))
