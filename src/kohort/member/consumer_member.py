"""One member of a consumer group (KIP-848), without I/O: inputs and the time go in, effects come out.

The laws. Nothing is owned that has not been through `assigned`, nothing is given up but through `revoked` or `lost`,
and the heartbeat that says so leaves after that callback has finished: until then the coordinator gives the partition
to nobody. Who was put out *lost* its partitions, and joins again under the same id once that was said. One heartbeat is
under way at a time; only its answer counts. Its parts: consumer_heartbeat (what is said and heard), consumer_reconcile
(from one target to the next), consumer_exit (the ways out). Source: Java's ConsumerMembershipManager.
"""

from __future__ import annotations

from kohort.member import effects, inputs
from kohort.member.consumer_exit import ACTIVE, close, end, expire_poll, put_away
from kohort.member.consumer_heartbeat import beat, is_speaking, take_answer
from kohort.member.consumer_inputs import ConsumerHeartbeatAnswered, LagsReported, TopicsSeen
from kohort.member.consumer_reconcile import finish_callback, reconcile
from kohort.member.consumer_standing import ConsumerStanding
from kohort.member.effects import Effect
from kohort.member.member_state import ConsumerState
from kohort.model.errors import ErrorCode

OUT = frozenset({ConsumerState.FENCED, ConsumerState.STALE, ConsumerState.FATAL})


class ConsumerMember(ConsumerStanding):
    """The state machine. `step` is the only way in; the properties show what it came to."""

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Take one input at `now_ms` (any monotonic clock) and return what must be done, in order."""
        if self.is_closed:
            return ()
        self._take(event, now_ms)
        self._advance(now_ms)
        return self.drain()

    def next_deadline_ms(self) -> int | None:
        """Return when a Tick is due at the latest, or None where only an input can change anything."""
        session = self.session
        deadlines = [session.poll_ms, session.poll_warning_ms]
        if is_speaking(self) and self.in_flight is None:
            deadlines.append(session.retry_ms if self.is_urgent else session.heartbeat_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _take(self, event: inputs.Input, now_ms: int) -> None:
        match event:
            case inputs.Subscribed():
                self._subscribe(event)
            case inputs.PollEntered():
                self.is_away = False
                self.session.mark_poll_entered()
            case inputs.PollReturned():
                self.session.mark_poll_returned(now_ms)
            case inputs.CloseRequested():
                self.closing = self.closing or event
                self.discard()
            case inputs.CallbackFinished(callback, is_abandoned):
                finish_callback(self, callback, is_abandoned=is_abandoned)
            case TopicsSeen(names, gone):
                self.names, self.gone = names, gone
            case LagsReported(lags):
                if self.take_lags(lags, now_ms):
                    self.speak()
            case ConsumerHeartbeatAnswered(number) if number == self.in_flight:
                if self.is_leave_sent:
                    end(self)
                else:
                    take_answer(self, event, now_ms)
            case inputs.CommitAnswered(asked_as, error) if asked_as == self.identity and self.epoch > 0:
                if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
                    self.speak()  # the next heartbeat brings the newest epoch, or that there is none
            case _:
                pass  # an answer to a heartbeat that counts no more, or a wish that this protocol has no words for

    def _subscribe(self, event: inputs.Subscribed) -> None:
        topics = event.names if event.regex is not None else event.topics
        before, self.topics, self.regex = (set(self.topics), self.regex), tuple(dict.fromkeys(topics)), event.regex
        if self.state is ConsumerState.UNSUBSCRIBED:
            if self.topics or self.regex:
                self.join()
        elif self.state in ACTIVE and before != (set(self.topics), self.regex):
            self.speak()

    def _advance(self, now_ms: int) -> None:
        """Do what follows from where the member is now."""
        session = self.session
        if session.poll_ms is not None and now_ms >= session.poll_ms:
            expire_poll(self)
        elif session.is_poll_late(now_ms):
            self.do(effects.PollLate(session.mark_poll_late(now_ms)))
        if self.running is None:
            if self.closing is not None:
                close(self, self.closing)
            elif self.state in OUT and not self.is_away:
                put_away(self)
            elif self.state is ConsumerState.RECONCILING and not self.is_claiming:
                reconcile(self)
        beat(self, now_ms)


__all__ = ["ConsumerMember"]
