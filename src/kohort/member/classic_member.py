"""One member of a classic group, without I/O: inputs and the time go in, effects come out.

The laws. Nothing is owned that has not been through `assigned`, nothing is given up but through `revoked` or `lost`,
and no request of the next round leaves before that callback has finished. A member whose generation or id was taken
away *lost* its partitions; a member that rejoins with both *revokes* them: all in EAGER, in COOPERATIVE what it may no
longer have. Only an answer to the present identity counts. Its halves: classic_round (from one assignment to the
next), classic_triggers (what starts a round). Source: Java's ConsumerCoordinator, KIP-62, 345, 394, 429, 800.
"""

from __future__ import annotations

from kohort.member import effects, inputs
from kohort.member.classic_exit import close, end, expire_poll
from kohort.member.classic_round import (
    finish_callback,
    prepare,
    sync_again,
    take_computed,
    take_failure,
    take_join,
    take_sync,
)
from kohort.member.classic_state import Standing
from kohort.member.classic_triggers import (
    take_heartbeat,
    take_metadata,
    take_request,
    take_subscription,
    take_verdict,
)
from kohort.member.effects import Callback, Effect
from kohort.member.identity import Identity
from kohort.member.member_state import BEATING, State
from kohort.model.errors import ErrorCode


class ClassicMember(Standing):
    """The state machine. `step` is the only way in; the properties show what it came to."""

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Take one input at `now_ms` (any monotonic clock) and return what must be done, in order."""
        if self.state is State.CLOSED:
            return ()
        self._take(event, now_ms)
        self._advance(now_ms)
        return self.drain()

    def next_deadline_ms(self) -> int | None:
        """Return when a Tick is due at the latest, or None where only an input can change anything."""
        session = self.session
        deadlines = [session.poll_ms, session.poll_warning_ms]
        if self._is_beating:
            deadlines.append(session.session_ms)
            deadlines.append(session.heartbeat_ms if self.beat_as is None else None)
        if self.is_rejoin_wanted or self.state is State.SYNCING:
            deadlines.append(session.retry_ms)
        elif self.state is State.STABLE and self.running is None:
            deadlines.append(session.rejoin_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _take(self, event: inputs.Input, now_ms: int) -> None:
        match event:
            case inputs.Tick():
                pass
            case inputs.Subscribed():
                take_subscription(self, event)
            case inputs.PollEntered():
                self.is_away = False
                self.session.mark_poll_entered()
            case inputs.PollReturned():
                self.session.mark_poll_returned(now_ms)
            case inputs.RejoinRequested(reason):
                take_request(self, reason)
            case inputs.MetadataChanged():
                take_metadata(self, event)
            case inputs.CloseRequested():
                self.closing = self.closing or event
            case inputs.CallbackFinished(callback, is_abandoned):
                finish_callback(self, callback, is_abandoned, now_ms)
            case inputs.JoinAnswered() if self.state is State.JOINING and self._counts(event.asked_as):
                take_join(self, event, now_ms)
            case inputs.Computed() if self.state is State.ASSIGNING and self._counts(event.asked_as):
                take_computed(self, event)
            case inputs.ComputeFailed() if self.state is State.ASSIGNING and self._counts(event.asked_as):
                take_failure(self, event)
            case inputs.SyncAnswered() if self.state is State.SYNCING and self._counts(event.asked_as):
                take_sync(self, event, now_ms)
            case inputs.HeartbeatAnswered() if event.asked_as == self.beat_as:
                self.beat_as = None
                if self._counts(event.asked_as):
                    take_heartbeat(self, event.error, now_ms)
            case inputs.CommitAnswered() if self._counts(event.asked_as) and self.identity.is_valid:
                take_verdict(self, event.error, "OFFSET_COMMIT")
            case inputs.LeaveAnswered() if self.state is State.LEAVING and self.is_leave_sent:
                end(self)
            case _:
                pass  # an answer to who this member no longer is, or to a state it has left

    def _counts(self, asked_as: Identity) -> bool:
        """Whether an answer to who the member was then is about who it is now (aiokafka#727)."""
        return asked_as == self.identity

    def _advance(self, now_ms: int) -> None:
        """Do what follows from where the member is now."""
        session = self.session
        if session.poll_ms is not None and now_ms >= session.poll_ms:
            expire_poll(self)
        elif session.is_poll_late(now_ms):
            self.do(effects.PollLate(session.mark_poll_late(now_ms)))
        if self._is_beating:
            self._beat(now_ms)
        if self.running is not None:
            return
        if self.closing is not None:
            close(self, self.closing)
        elif self.state is State.FATAL:
            if self.owned and not self.identity.is_valid:
                # Fenced: whoever took the instance id over has the partitions too.
                self.run(Callback.LOST, self.owned, "the member was put out of its group for good")
        elif self.state is State.SYNCING:
            if session.retry_ms is not None and now_ms >= session.retry_ms:
                sync_again(self)
        else:
            if self.state is State.STABLE and session.is_rejoin_due(now_ms):
                session.rejoin_ms = None
                self.want(f"the last assignment carried the error {self.assignment_error or 0}")
            if self.is_rejoin_wanted and (session.retry_ms is None or now_ms >= session.retry_ms):
                session.retry_ms = None
                prepare(self)

    def _beat(self, now_ms: int) -> None:
        session = self.session
        if session.is_silent(now_ms):
            # The coordinator may have moved or hang; the group alone decides whether this member is out.
            session.mark_heard(now_ms)
            self.do(effects.Rediscover(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if self.beat_as is None and session.is_heartbeat_due(now_ms):
            session.mark_heartbeat_sent(now_ms)
            self.beat_as = self.identity
            self.do(effects.Heartbeat(self.identity))

    @property
    def _is_beating(self) -> bool:
        return self.state in BEATING and self.identity.is_valid and not self.is_leave_sent
