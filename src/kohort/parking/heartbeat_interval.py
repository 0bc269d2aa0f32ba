"""How often one classic member sends heartbeats, and so how long one of them may be parked.

No request carries the interval. It is learnt from the time between SyncGroup's answer and the first heartbeat, and
between two heartbeats of which the first was answered at once. Java sends the next one on time, answered or not: its
heartbeats may wait until then, so that one is always parked. To other clients an answer after the next heartbeat is due
does harm: librdkafka skips that one, kafka-python polls without pause. Where the client's software does not show which
kind it is, the first heartbeat that is parked does; those of the second kind are answered a little before the next is
due. kgo sends the next one an interval after the answer: its heartbeats wait for whole intervals, so that the next one
comes when one would have come anyway. One heartbeat out of time changes nothing, since a pause of its process delays
it: two in a row do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import UNNAMED, ClientHabits, ClientPace, ClientSoftware
from kohort.parking.limits import (
    ANSWER_MARGIN_MS,
    FAST_INTERVAL_MS,
    FLOOD_MS,
    LEAST_REPEATED_MS,
    LONGEST_PARKED_MS,
    LONGEST_WHOLE_MS,
    NEXT_IS_NEAR_MS,
    NO_COMMIT_MS,
    SLACK_MS,
    USUAL_INTERVAL_MS,
)


class LastHeartbeat(Enum):
    """How the last heartbeat of a generation was answered, and so what the gap to the next one shows.

    | from | what happens | to |
    |---|---|---|
    | any | a generation begins (`begin`) | NONE |
    | any | a heartbeat is answered at once, or comes with the assignment (kohort) | AT_ONCE |
    | any | a heartbeat is parked, or must wait for a round (`await_round`) | PARKED |
    | PARKED, AT_ONCE | a commit ends one that waits, and its client is to send it again (`answered`) | REPEATED |
    """

    NONE = auto()
    """There was none: the gap begins with the generation, and is a first guess."""
    AT_ONCE = auto()
    """The next one shows the member's own interval: it is a probe."""
    PARKED = auto()
    """The gap is the interval of a client that sends the next one on time; of others it is longer."""
    REPEATED = auto()
    """A commit ended it, with the error after which its client sends it again: the gap shows nothing."""


class LearntInterval(Enum):
    """How well a member's interval is known.

    | from | what the next gap shows | to |
    |---|---|---|
    | GUESSED, SUSPECTED | it is alike | LEARNT |
    | GUESSED, SUSPECTED | it is longer, and began at the answer to a parked heartbeat | SUSPECTED |
    | GUESSED, SUSPECTED | it is another one | GUESSED |
    | GUESSED | it is that of a probe | LEARNT |
    | SUSPECTED | it is that of a probe | OUTDATED |
    | LEARNT, OUTDATED | it differs, as the one before did not | unchanged |
    | LEARNT, OUTDATED | it is longer for the second time, and began at the answer to a parked heartbeat | OUTDATED |
    | LEARNT, OUTDATED | anything else | LEARNT |
    """

    GUESSED = auto()
    """It is a first guess."""
    SUSPECTED = auto()
    """So too, and the next heartbeat seems to come an interval after the last answer, as of kgo."""
    LEARNT = auto()
    OUTDATED = auto()
    """It was learnt, and the next heartbeat seems to come an interval after the last answer."""


_GUESSES = (LearntInterval.GUESSED, LearntInterval.SUSPECTED)
_LATE = (LearntInterval.SUSPECTED, LearntInterval.OUTDATED)


@dataclass(slots=True, eq=False)
class HeartbeatInterval:
    """The heartbeats of one member."""

    arrived_ms: int
    """When the last heartbeat arrived, or the generation began."""
    answered_ms: int = field(init=False)
    _begun_ms: int = field(init=False)
    """When the generation began, for all its members at about the same time."""
    alive_ms: int = field(init=False)
    """When a heartbeat was last answered without an error that its client sends it again for: its session runs on."""
    committed_ms: int = field(init=False)
    """When the member committed last, or was first seen."""
    commit_gap_ms: int = NO_COMMIT_MS
    """The time between its last two commits; the first time since it was first seen."""
    has_committed_twice: bool = False
    _has_committed: bool = False
    interval_ms: int = 0
    """What was learnt; 0 when nothing is known."""
    _learnt: LearntInterval = LearntInterval.GUESSED
    _odd_ms: int = 0
    """The last gap, where it contradicts the interval."""
    _last: LastHeartbeat = LastHeartbeat.AT_ONCE
    pace: ClientPace = ClientPace.UNKNOWN
    _trial_end_ms: int = 0
    software: ClientSoftware = UNNAMED
    """What its client was at the last heartbeat."""
    _habits: ClientHabits = UNNAMED.habits
    """Those of its client, once that has named itself; without a `repeat_error` after a flood."""
    _repeats: int = 0
    """How many heartbeats in a row ended with that error."""

    def __post_init__(self) -> None:
        self.answered_ms = self.committed_ms = self.alive_ms = self._begun_ms = self.arrived_ms

    @property
    def is_overtaken(self) -> bool:
        """Whether its client takes the answers to commits before that to a heartbeat."""
        return self._habits.matches_by_id

    @property
    def is_repeated(self) -> bool:
        """Whether there is an error after which its client sends a heartbeat again soon."""
        return bool(self._habits.repeat_error)

    def commits_often(self, now_ms: int) -> bool:
        """Whether it commits more often than it sends heartbeats, so that nearly each one that waits is ended."""
        return max(3 * self.commit_gap_ms, now_ms - self.committed_ms) < 2 * self.usual_ms

    @property
    def usual_ms(self) -> int:
        """The interval as far as it is known, else the default of every client."""
        return self.interval_ms or USUAL_INTERVAL_MS

    def next_ms(self, now_ms: int, *, is_parked: bool) -> int:
        """Return when the next heartbeat is expected; if one is parked, where that is answered now."""
        if self._last is LastHeartbeat.REPEATED and not is_parked:
            return max(now_ms, self.answered_ms + self.repeats_after_ms(self._repeats - 1))
        if self.pace is not ClientPace.FROM_ANSWER:
            last_ms = self.arrived_ms
        else:
            last_ms = now_ms if is_parked else self.answered_ms
        return max(now_ms, last_ms + self.usual_ms)

    @property
    def is_known(self) -> bool:
        """Whether it is known when the next heartbeat comes if the last one waits."""
        is_after_answer = self.pace in (ClientPace.UNKNOWN, ClientPace.FROM_ANSWER)
        return not is_after_answer and self._learnt is LearntInterval.LEARNT

    @property
    def is_learnt(self) -> bool:
        """Whether the interval was learnt, and not only guessed."""
        return self._learnt not in _GUESSES

    def is_cut_short(self, now_ms: int, session_timeout_ms: int) -> bool:
        """Whether a wait that begins now would make the next heartbeat late, where a commit may cut one short.

        A commit has a parked heartbeat answered early, and the next one then comes an interval after the answer: the
        member would learn later of a round than without parking, and the whole group with it. So would one that commits
        each batch, though its client sends the heartbeat again: each time later, so that it comes at another time than
        those of the members that are not parked, and an eager round waits for both. So would one whose session is due
        for a success, as no error may end that wait.
        """
        repeat_until_ms = self.repeat_until_ms(session_timeout_ms)
        return self.commits_often(now_ms) or repeat_until_ms is None or now_ms >= repeat_until_ms

    def may_be_cut_short(self, now_ms: int) -> bool:
        """Whether a commit would make the next heartbeat late if it ended the wait without an error."""
        if self.pace is not ClientPace.FROM_ANSWER:
            return False
        return not self.is_overtaken and now_ms - self.committed_ms < NO_COMMIT_MS

    def committed(self, now_ms: int) -> None:
        """The member commits, while no round lasts."""
        self.committed_ms, self.commit_gap_ms = now_ms, now_ms - self.committed_ms
        self.has_committed_twice, self._has_committed = self._has_committed, True

    def repeat_until_ms(self, session_timeout_ms: int) -> int | None:
        """Return until when a heartbeat may end with an error after which its client sends it again; None: never.

        A client's session lasts from the last success, so one is due in each third of the session: in the whole
        intervals of it since the generation began. Then the members of a group are not parked at the same time, and
        the next heartbeat comes when it would have come without parking. One that succeeded by itself shortly before
        needs no other. A third that is shorter than two intervals is not worth it.
        """
        third_ms, interval_ms = session_timeout_ms // 3, self.usual_ms
        if not self._habits.repeat_error or interval_ms < LEAST_REPEATED_MS or third_ms < 2 * interval_ms:
            return None
        # Intervals are learnt some milliseconds too long: the last one that fits must not be lost to that.
        whole_ms = third_ms * 21 // 20 // interval_ms * interval_ms
        return self._begun_ms + ((self.alive_ms - self._begun_ms + whole_ms // 3) // whole_ms + 1) * whole_ms

    def error_for_repeat(self, now_ms: int) -> ErrorCode:
        """Return the error with which to end a wait now so that the client sends the heartbeat again soon, or NONE.

        NONE too where the next heartbeat comes sooner after a success: clients wait longer for each error in a row.
        """
        next_ms = (
            self.interval_ms if self.pace is ClientPace.FROM_ANSWER else self.arrived_ms + self.interval_ms - now_ms
        )
        is_near = next_ms < max(NEXT_IS_NEAR_MS, self.repeats_after_ms())
        return ErrorCode.NONE if is_near else self._habits.repeat_error

    def repeats_after_ms(self, repeats: int | None = None) -> int:
        """Return how soon its client sends a heartbeat again that ends with an error, after so many in a row."""
        habit = self._habits.repeats_after_ms
        return habit[min(self._repeats if repeats is None else repeats, len(habit) - 1)]

    def answered(self, now_ms: int, *, is_for_repeat: bool = False) -> None:
        """A heartbeat that waited is answered, perhaps with an error after which its client sends it again."""
        self.answered_ms = now_ms
        if is_for_repeat:
            self._last = LastHeartbeat.REPEATED
            self._repeats += 1
        else:
            self._succeed(now_ms)

    def _succeed(self, now_ms: int) -> None:
        self.alive_ms, self._repeats = now_ms, 0

    @property
    def _is_first_at_once(self) -> bool:
        return self.pace is ClientPace.FIRST_AT_ONCE and self._last is LastHeartbeat.NONE

    def note_software(self, client: ClientSoftware) -> None:
        """Take the habits that a client's software is known to have; of one without a name the pace is found out."""
        self.software, habits = client, client.habits
        if client.is_named and self._habits is UNNAMED.habits:
            self._habits = habits
        if habits.pace is not ClientPace.UNKNOWN:
            self.pace = habits.pace
        elif self.pace in (ClientPace.FROM_ANSWER, ClientPace.FIRST_AT_ONCE):
            self.pace = ClientPace.NEEDS_ANSWER

    def begin(self, now_ms: int) -> None:
        """Begin a generation: clients restart their interval here, or continue the old one."""
        self.arrived_ms = self.answered_ms = self._begun_ms = now_ms
        self._succeed(now_ms)
        self._last = LastHeartbeat.NONE
        self._trial_end_ms = 0

    def beat(self, now_ms: int, session_timeout_ms: int, *, can_wait: bool = True) -> int:
        """Note a heartbeat that arrives now, and return for how long it may wait: 0 is not at all."""
        if self._last is LastHeartbeat.REPEATED:
            return self._wait_of_repeated(now_ms, session_timeout_ms, can_wait=can_wait)
        idle_ms = now_ms - self.answered_ms
        gap_ms = idle_ms if self.pace is ClientPace.FROM_ANSWER else now_ms - self.arrived_ms
        if can_wait and self._is_first_at_once and not 0 < self.interval_ms < FAST_INTERVAL_MS:
            return self._wait_of_first(now_ms, session_timeout_ms)
        if gap_ms < FAST_INTERVAL_MS:  # heartbeats by the thousand arrive here: nothing below may cost them time
            self.arrived_ms = self.answered_ms = now_ms
            if self._last is not LastHeartbeat.NONE:
                self.interval_ms = gap_ms
            self._last = LastHeartbeat.AT_ONCE
            self._trial_end_ms = 0
            return 0
        is_changed = not self._has_waited(idle_ms) and self._learn(gap_ms, idle_ms)
        self.arrived_ms = self.answered_ms = now_ms
        return self._wait(now_ms, session_timeout_ms) if can_wait and not is_changed else self._answer_at_once(now_ms)

    def _wait(self, now_ms: int, session_timeout_ms: int) -> int:
        wait_ms = self._wait_ms(session_timeout_ms)
        if not wait_ms:
            return self._answer_at_once(now_ms)
        self._last = LastHeartbeat.PARKED
        if self.pace is ClientPace.UNKNOWN:
            self._trial_end_ms = now_ms + wait_ms
        return wait_ms

    def _answer_at_once(self, now_ms: int) -> int:
        self._last = LastHeartbeat.AT_ONCE
        self._succeed(now_ms)
        return 0

    def _wait_of_repeated(self, now_ms: int, session_timeout_ms: int, *, can_wait: bool) -> int:
        """Return how long a heartbeat waits that was sent again: Java and kgo begin another interval with it."""
        if now_ms - self.answered_ms < FLOOD_MS:
            self._habits = replace(self._habits, repeat_error=ErrorCode.NONE)
        self.arrived_ms = self.answered_ms = now_ms
        return self._wait(now_ms, session_timeout_ms) if can_wait else self._answer_at_once(now_ms)

    def _wait_of_first(self, now_ms: int, session_timeout_ms: int) -> int:
        """Return how long a heartbeat waits that came with the assignment, and shows nothing of the interval.

        If that is longer than the interval, the next one comes with the answer, and waits for less until they agree.
        """
        self._last = LastHeartbeat.AT_ONCE  # answered for a round or by its timer, it shows the interval all the same
        self.arrived_ms = self.answered_ms = now_ms
        return self._bounded_ms(self.usual_ms - ANSWER_MARGIN_MS, session_timeout_ms)

    def await_round(self, now_ms: int, session_timeout_ms: int) -> int:
        """Note a heartbeat that must wait, and return for how long it may: as `beat`, but nothing is tried out.

        0 is not at all: its sender is fast.
        """
        is_first = self._is_first_at_once
        self.beat(now_ms, session_timeout_ms)
        if 0 < self.interval_ms < FAST_INTERVAL_MS:
            return 0
        self._last = LastHeartbeat.AT_ONCE if is_first else LastHeartbeat.PARKED
        self._trial_end_ms = 0
        if self.pace is ClientPace.OVERLAPS:
            return self._wait_ms(session_timeout_ms)
        return self._bounded_ms(self.usual_ms - ANSWER_MARGIN_MS, session_timeout_ms)

    def _has_waited(self, idle_ms: int) -> bool:
        """Return whether the sender let the whole wait pass, which is found out only once."""
        trial_end_ms, self._trial_end_ms = self._trial_end_ms, 0
        if self.pace is not ClientPace.UNKNOWN:
            return False  # its software has been named meanwhile
        if trial_end_ms and idle_ms == 0 and self.answered_ms < trial_end_ms:
            self.pace = ClientPace.OVERLAPS  # it was this heartbeat that had the last one answered
        # One that was answered early, and an interval that is only guessed, show nothing.
        elif (
            trial_end_ms
            and self.answered_ms >= trial_end_ms
            and (self._learnt not in _GUESSES or idle_ms <= ANSWER_MARGIN_MS)
        ):
            self.pace = ClientPace.NEEDS_ANSWER
            return True
        return False

    def _learn(self, gap_ms: int, idle_ms: int) -> bool:
        """Take the interval from the last gap; return whether it contradicts what was known and needs a probe."""
        if self._last is LastHeartbeat.NONE:
            # Not a whole interval for a client whose clock runs through the rebalance: only a first guess.
            if not self.interval_ms:
                is_early = self.pace is ClientPace.FROM_ANSWER and gap_ms < LEAST_REPEATED_MS  # kgo's, if cooperative
                self.interval_ms = USUAL_INTERVAL_MS if is_early else gap_ms
            return self.interval_ms < FAST_INTERVAL_MS
        is_probe = self._last is LastHeartbeat.AT_ONCE
        was_late, is_after_answer = self._learnt in _LATE, not is_probe and idle_ms > ANSWER_MARGIN_MS
        if self._learnt in _GUESSES or self.interval_ms < FAST_INTERVAL_MS:
            if is_probe:
                was_fast = 0 < self.interval_ms < FAST_INTERVAL_MS
                self.interval_ms = gap_ms
                self._learnt = LearntInterval.OUTDATED if was_late else LearntInterval.LEARNT
                return was_fast
            is_alike = _is_alike(gap_ms, self.interval_ms)
            self._learnt = LearntInterval.LEARNT if is_alike else LearntInterval.GUESSED
            if is_after_answer and 4 * gap_ms > 5 * self.interval_ms:
                self._learnt = LearntInterval.SUSPECTED
            self.interval_ms = min(self.interval_ms, gap_ms)
            return self._learnt is LearntInterval.SUSPECTED
        odd_ms, self._odd_ms = self._odd_ms, 0 if _is_alike(gap_ms, self.interval_ms) else gap_ms
        if self._odd_ms and not _is_alike(gap_ms, odd_ms):
            return False
        if self._odd_ms and is_after_answer and gap_ms > self.interval_ms:
            self._learnt = LearntInterval.OUTDATED
            return True
        self._learnt = LearntInterval.LEARNT
        self.interval_ms = gap_ms if is_probe or self._odd_ms else min(self.interval_ms, gap_ms)
        return False

    def _wait_ms(self, session_timeout_ms: int) -> int:
        """Return for how long a heartbeat may wait so that the member's session never depends on it."""
        interval_ms = self.interval_ms
        if self.pace is ClientPace.FROM_ANSWER and interval_ms:
            whole_ms = min(session_timeout_ms // 3, LONGEST_WHOLE_MS) // interval_ms * interval_ms
            if whole_ms:
                return whole_ms
        # One heartbeat may be lost to finding out; so short a session cannot spare it.
        is_tried = self.pace is ClientPace.UNKNOWN and 3 * interval_ms <= session_timeout_ms
        if is_tried or self.pace is ClientPace.OVERLAPS:
            wait_ms = interval_ms + min(SLACK_MS, max(FAST_INTERVAL_MS, interval_ms // 5))
        else:
            wait_ms = interval_ms - ANSWER_MARGIN_MS
        return self._bounded_ms(wait_ms, session_timeout_ms)

    def _bounded_ms(self, wait_ms: int, session_timeout_ms: int) -> int:
        """Bound a wait so that a heartbeat an interval after its end still comes within the session."""
        latest_ms = session_timeout_ms - self.usual_ms - SLACK_MS
        return max(0, min(wait_ms, latest_ms, session_timeout_ms // 3, LONGEST_PARKED_MS))


def _is_alike(one_ms: int, other_ms: int) -> bool:
    """Whether two gaps are of one interval."""
    return 4 * one_ms <= 5 * other_ms and 4 * other_ms <= 5 * one_ms
