"""One member of a consumer group (KIP-848), without I/O: inputs and the time go in, effects come out.

The laws. Nothing is owned that has not been through `assigned`, nothing is released but through `revoked` or `lost`,
and the heartbeat that reports it leaves after that callback has finished: until then the coordinator gives the
partition to no other member. A fenced member *lost* its partitions, and joins again under the same id once that was
reported. One heartbeat is under way at a time; only its answer counts. One reconciliation runs at a time, with the part
of the target whose topics have names by now. Partitions go by name towards the user and by topic id towards the
coordinator. Source: Java's ConsumerMembershipManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple

from kohort.member import effects, inputs
from kohort.member.effects import Callback, ConsumerHeartbeat, ExpediteHeartbeat, NameTopics
from kohort.member.inputs import ConsumerHeartbeatAnswered, LagsReported, TopicsSeen
from kohort.member.member_base import MemberBase, consumer_failure_text
from kohort.member.member_state import MOVED, NO_GENERATION, POLL_EXPIRED, ConsumerState, Identity, MemberConfig
from kohort.model.assignment import NOTHING, IdPartitions, Partitions, each, id_partitions
from kohort.model.cause import HeartbeatReason
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.lag_watch import LagWatch

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

ACTIVE = frozenset(
    {ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE}
)
"""In its group, or on the way there."""
OUT = frozenset({ConsumerState.FENCED, ConsumerState.STALE, ConsumerState.FATAL})
BEATING = ACTIVE | {ConsumerState.PREPARE_LEAVING}

SHORTEST_INTERVAL_MS = 5
"""A broker that names no interval, or none that can be meant, is not sent heartbeats in a tight loop."""


class Numbered(NamedTuple):
    """An assignment and its number in the order of arrival: what was reconciled is the target if both are equal."""

    number: int
    partitions: IdPartitions


class SentFields(NamedTuple):
    """What the coordinator has been sent and need not receive again."""

    topics: tuple[str, ...]
    regex: str | None
    owned: Numbered | None


class ConsumerMember(MemberBase):
    """The state machine. `step` is the only way in; a driver reads the attributes and writes none but `lag_source`.

    More than 20 attributes: what the next heartbeat must carry, and what a driver reads.
    """

    protocol = "consumer"
    # What a classic member may be and this one never is.
    is_leader = False
    assignment_error: ErrorCode | None = None

    def __init__(self, config: MemberConfig, member_id: str, random: Callable[[], float]) -> None:
        super().__init__(config, random)
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_id = member_id
        self.epoch = 0
        self.regex: str | None = None
        # What should be owned, what was reconciled last, and what is still to be done on the way from one to the other.
        self.target: Numbered | None = None
        self.current: Numbered | None = None
        self.underway: Numbered | None = None
        self.steps: list[tuple[Callback, Partitions]] = []
        self.topic_ids: dict[str, bytes] = {}
        self.names: Mapping[bytes, str] = {}
        self.gone: frozenset[bytes] = frozenset()
        self.unresolved: frozenset[bytes] = frozenset()
        # Heartbeats: the number of the one under way, and whether the next one may wait for its time.
        self.number = 0
        self.in_flight: int | None = None
        # Whether the last claim of what is owned is unanswered: what is taken over now might be given to others for it.
        self.is_claiming = False
        self.sent_ms = 0
        self.is_urgent = False
        self.is_expedited = False
        self.sent_fields: SentFields | None = None
        self.is_regex_sent = False
        self.is_join_unsure = False
        self.lag_source: Callable[[], Mapping[TopicPartition, int]] | None = None
        self.lags: LagWatch[TopicPartition] = LagWatch(config.acceptable_recovery_lag, config.lag_growth_ms)
        self.reason: HeartbeatReason | None = None
        self.reason_number = 0
        self.fenced_by: ErrorCode = ErrorCode.NONE

    def next_deadline_ms(self) -> int | None:
        """Return when a Tick is due at the latest, or None where only an input can change anything."""
        session = self.session
        deadlines = [session.poll_ms, session.poll_warning_ms]
        if self._is_beating and self.in_flight is None:
            deadlines.append(session.retry_ms if self.is_urgent else session.heartbeat_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _receive(self, event: inputs.Input, now_ms: int) -> None:
        match event:
            case inputs.Subscribed():
                self._subscribe(event)
            case inputs.CloseRequested():
                self.closing = self.closing or event
                self.discard()
            case inputs.CallbackFinished(callback, is_abandoned):
                self._finish_callback(callback, is_abandoned=is_abandoned)
            case TopicsSeen(names, gone):
                self.names, self.gone = names, gone
            case LagsReported(lags):
                if self.update_lags(lags, now_ms):
                    self.speak()
            case ConsumerHeartbeatAnswered(number) if number == self.in_flight:
                self.in_flight = None
                if self.is_leave_sent:
                    self._end()
                elif event.error is ErrorCode.NONE:
                    self._complete_heartbeat(event, now_ms)
                else:
                    self._fail_heartbeat(event, now_ms)
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
        if self.running is None:
            if self.closing is not None:
                self._close(self.closing)
            elif self.state in OUT and not self.is_away:
                self._lose_all()
            elif self.state is ConsumerState.RECONCILING and not self.is_claiming:
                self._reconcile()
        self._beat(now_ms)

    @property
    def identity(self) -> Identity:
        """The member epoch and id that commits carry; no epoch while the member is not in the group."""
        return Identity(self.epoch if self.epoch > 0 else NO_GENERATION, self.member_id)

    @property
    def is_stable(self) -> bool:
        """Whether the member owns its target, and the coordinator knows."""
        return self.state is ConsumerState.STABLE

    @property
    def is_between(self) -> bool:
        """Whether calls into the user's code of the present reconciliation are still to come."""
        return self.underway is not None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows this member, as far as its answers show."""
        return self.epoch > 0

    @property
    def owned_ids(self) -> IdPartitions:
        """What is owned, by topic id."""
        return id_partitions((self.topic_ids[topic], (partition,)) for topic, partition in self.owned)

    # What all rules share

    def speak(self, *, is_full: bool = False) -> None:
        """Have the next heartbeat leave as soon as it may."""
        self.is_urgent = True
        if is_full:
            self.sent_fields = None

    def update_lags(self, lags: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """Take the lags of now; return whether the coordinator must know them at once."""
        reason = self.lags.report(lags, now_ms)
        if reason is None or self.epoch <= 0:
            return False
        self.reason = reason
        return True

    def join(self) -> None:
        """Begin to join, with nothing in hand."""
        assert not self.owned, "who joins owns nothing"
        self.state = ConsumerState.JOINING
        self.speak(is_full=True)

    def forget_epoch(self) -> None:
        """The member is not in the group any more: no epoch, no target, nothing that was sent counts."""
        self.epoch = 0
        self.target = self.current = self.sent_fields = None
        self.discard()
        self.is_urgent = False
        if self.unresolved:
            self.unresolved = frozenset()
            self.do(NameTopics(self.unresolved))

    def discard(self) -> None:
        """Let a reconciliation that is under way come to nothing, once its callback has finished."""
        self.underway = None
        self.steps = []

    def leave(self, cause: str, epoch: int) -> int:
        """Send a heartbeat that leaves, whatever is under way; return its number."""
        self.number += 1
        self.do(ConsumerHeartbeat(self.number, self.member_id, epoch, cause=cause))
        return self.number

    def fail(self, code: ErrorCode, text: str | None) -> None:
        """End here for good, with a sentence for the user; what is owned is lost, and only closing follows."""
        if self.state in (ConsumerState.LEAVING, ConsumerState.FATAL) or self.is_closed:
            return
        self.forget_epoch()
        self.state = ConsumerState.FATAL
        self.do(effects.Fail(code, consumer_failure_text(code, self.config, text, self.regex)))

    # Heartbeats: the first of an epoch, and each after a failed one, has all fields; the others what has changed since

    @property
    def _is_beating(self) -> bool:
        """Return whether heartbeats leave in this state."""
        return self.state in BEATING and (self.epoch > 0 or self.state is ConsumerState.JOINING)

    def _beat(self, now_ms: int) -> None:
        """Send a heartbeat if one is due."""
        session = self.session
        if not self._is_beating or (session.retry_ms is not None and now_ms < session.retry_ms):
            return
        if self.in_flight is None and (self.is_urgent or session.is_heartbeat_due(now_ms)):
            self._send(now_ms)
        # What came meanwhile is taken over when the claim under way was answered, and a broker may park that.
        is_waiting = self.is_claiming and self.state is ConsumerState.RECONCILING and self.underway is None
        if self.in_flight is not None and (self.is_urgent or is_waiting) and not self.is_expedited:
            self.is_expedited = True
            self.do(ExpediteHeartbeat())

    def _send(self, now_ms: int) -> None:
        is_joining = self.state is ConsumerState.JOINING
        sent, config = self.sent_fields, self.config
        is_full = sent is None
        now_sent = SentFields(tuple(sorted(self.topics)), self.regex, self.current)
        owned = None
        if is_joining:
            owned = NOTHING
        elif sent is None or now_sent.owned != sent.owned:
            owned = self._claimed_partitions()
        regex = None
        if sent is None or now_sent.regex != sent.regex:
            regex = now_sent.regex or ("" if self.is_regex_sent else None)
        self.is_regex_sent |= bool(regex)
        if self.lag_source is not None:
            self.update_lags(self.lag_source(), now_ms)
        has_reason = self.reason is not None and not is_joining
        lags = self.lags.lags
        self.number += 1
        self.do(
            ConsumerHeartbeat(
                self.number,
                self.member_id,
                self.epoch,
                topics=now_sent.topics if sent is None or now_sent.topics != sent.topics else None,
                regex=regex,
                rebalance_timeout_ms=config.rebalance_timeout_ms if is_full else -1,
                server_assignor=config.server_assignor if is_full else None,
                rack=config.rack if is_full else None,
                owned=owned,
                lags=lags if has_reason or (is_full and lags) else None,
                reason=self.reason or "" if has_reason else "",
                cause=f"it was fenced by {self.fenced_by.name}" if is_joining and self.fenced_by else "",
            )
        )
        self.in_flight, self.sent_ms = self.number, now_ms
        self.is_claiming = owned is not None
        self.sent_fields = now_sent
        self.is_urgent = self.is_expedited = False
        self.reason_number = self.number if has_reason else self.reason_number
        self.session.heartbeat_ms = self.session.retry_ms = None
        if is_joining:
            self.reason = None
        elif self.state is ConsumerState.ACKNOWLEDGING:
            self.state = ConsumerState.STABLE if self.current == self.target else ConsumerState.RECONCILING

    def _claimed_partitions(self) -> IdPartitions:
        """Return what the member owns: also what it is revoking, and what it has been given and is taking over."""
        reconciled = [each.partitions for each in (self.current, self.underway) if each is not None]
        if len(reconciled) == 1 and self.underway is None:
            return reconciled[0]
        return id_partitions(chain(self.owned_ids, *reconciled))

    def _complete_heartbeat(self, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
        session = self.session
        self.is_claiming = False
        session.mark_answered(now_ms)
        session.heartbeat_ms = max(now_ms, self.sent_ms + max(answer.interval_ms, SHORTEST_INTERVAL_MS))
        self.epoch = answer.member_epoch
        self.is_join_unsure = False
        self.fenced_by = ErrorCode.NONE
        if self.reason is not None and self.reason_number == answer.number:
            self.reason = None
        if answer.text:
            # The group could not be given a new assignment; the one in force stays.
            self.do(effects.RaiseInPoll(ErrorCode.UNKNOWN_SERVER_ERROR, answer.text))
        assignment = answer.assignment
        if assignment is None and self.state is ConsumerState.JOINING:
            assignment = NOTHING
        if assignment is None or self.state is ConsumerState.PREPARE_LEAVING:
            return
        if self.target is None or self.target.partitions != assignment:
            self.target = Numbered(1 if self.target is None else self.target.number + 1, assignment)
        if self.current != self.target:
            self.state = ConsumerState.RECONCILING
        elif self.state in (ConsumerState.JOINING, ConsumerState.RECONCILING) and self.underway is None:
            self.state = ConsumerState.STABLE

    def _fail_heartbeat(self, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
        error, session = answer.error, self.session
        is_joining = self.state is ConsumerState.JOINING
        # What the coordinator took of it is unknown, or nothing: the next one reports everything.
        self.sent_fields = None
        session.heartbeat_ms = None
        match error:
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                session.wait_to_retry(now_ms)
            case _ if error in MOVED:
                self.is_join_unsure |= is_joining
                self.do(effects.Rediscover(error))
                session.wait_to_retry(now_ms)
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._fence(error, now_ms)
                return
            case ErrorCode.UNRELEASED_INSTANCE_ID if is_joining and self.is_join_unsure:
                self._free_instance()
                session.wait_to_retry(now_ms)
            case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # The member stays, and the right may be granted any time.
                self.do(effects.RaiseInPoll(error, answer.text or error.text))
                session.wait_to_retry(now_ms)
            case _:
                self.fail(error, answer.text)
                return
        session.heartbeat_ms = session.retry_ms

    # From one target to the next: revoke, take over, acknowledge

    def _reconcile(self) -> None:
        """Begin to move towards the target, as far as the names of its topics are known."""
        assert self.target is not None, "what is reconciled is a target"
        resolved, names, unresolved = self._resolve(self.target.partitions)
        if unresolved != self.unresolved:
            self.unresolved = unresolved
            self.do(NameTopics(unresolved))
        reached = Numbered(self.target.number, resolved)
        if self.current is not None and self.current.partitions == resolved:
            if self.current != reached:
                self._acknowledge(reached)
            return  # or all that can be done is done, until the other topics have names
        wanted = {TopicPartition(names[topic_id], partition): topic_id for topic_id, partition in each(resolved)}
        retained = frozenset(each for each in self.owned if wanted.get(each) == self.topic_ids[each.topic])
        left = self.owned - retained
        deleted = frozenset(each for each in left if self.topic_ids[each.topic] in self.gone)
        added = frozenset(wanted) - retained
        self.underway = reached
        self.steps = [(Callback.LOST, deleted)] if deleted else []
        if left - deleted:
            self.steps.append((Callback.REVOKED, left - deleted))
        self.steps.append((Callback.ASSIGNED, added))
        self._run_next_step()

    def _finish_callback(self, callback: Callback, *, is_abandoned: bool) -> None:
        """A callback is over: continue the reconciliation, unless that was discarded."""
        if self.running is None or self.running[0] is not callback:
            return
        partitions = self.running[1]
        self.running = None
        if callback is not Callback.ASSIGNED and not is_abandoned:
            self.owned -= partitions
            topics = {topic for topic, _ in self.owned}
            self.topic_ids = {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic in topics}
        if self.underway is None:
            return
        if is_abandoned:
            self.discard()
        elif self.steps:
            self._run_next_step()
        else:
            reached, self.underway = self.underway, None
            self.rebalances += 1
            self._acknowledge(reached)

    def _run_next_step(self) -> None:
        assert self.underway is not None, "a step belongs to a reconciliation"
        callback, partitions = self.steps.pop(0)
        if callback is Callback.ASSIGNED:
            self.owned |= partitions
            self.topic_ids |= self._ids(partitions, self.underway.partitions)
        cause = "they no longer exist" if callback is Callback.LOST else f"member epoch {self.epoch}"
        self.run(callback, partitions, cause)

    def _acknowledge(self, reached: Numbered) -> None:
        self.current = reached
        self.state = ConsumerState.ACKNOWLEDGING
        self.speak()

    def _resolve(self, target: IdPartitions) -> tuple[IdPartitions, dict[bytes, str], frozenset[bytes]]:
        """Return the part of a target whose topics have names, those names, and the ids of the others."""
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        names |= {topic_id: self.names[topic_id] for topic_id, _ in target if topic_id in self.names}
        # A topic that was made anew under its name: the old one's partitions belong to no member.
        newest = {name: topic_id for topic_id, name in names.items() if topic_id not in self.gone}
        known = tuple(part for part in target if (name := names.get(part[0])) and newest.get(name, part[0]) == part[0])
        return known, names, frozenset(topic_id for topic_id, _ in target if topic_id not in names)

    def _ids(self, partitions: Partitions, reached: IdPartitions) -> dict[str, bytes]:
        topics = {topic for topic, _ in partitions}
        return {self.names[topic_id]: topic_id for topic_id, _ in reached if self.names.get(topic_id) in topics}

    # The ways out: fenced, the user does not return to `poll` in time, or closes the member

    def _fence(self, error: ErrorCode, now_ms: int) -> None:
        """The coordinator does not know the member, or not in this epoch: all is lost, and it joins again."""
        was_joining = self.state is ConsumerState.JOINING
        self.fenced_by = error
        self.forget_epoch()
        if was_joining:
            if error is ErrorCode.FENCED_MEMBER_EPOCH:
                # Brokers of before KAFKA-19233 refuse a join under an id that is still a member's: that one goes first.
                self.leave("it joins again", LEAVE_EPOCH)
            self.join()
            self.session.wait_to_retry(now_ms)
        elif self.state is not ConsumerState.PREPARE_LEAVING:
            self.state = ConsumerState.FENCED

    def _free_instance(self) -> None:
        """Leave for a while under this id, which may be in the group already: the answer to the join was lost.

        A coordinator refuses a join under an instance id that is taken, also by the same member (kafka#23542). If
        another member has it, that leave is refused, and the next join reports it.
        """
        self.is_join_unsure = False
        self.leave("its join was not answered", LEAVE_STATIC_EPOCH)
        self.speak(is_full=True)

    def _lose_all(self) -> None:
        """Report as lost what a member still owns that is out of its group; after that it may join again."""
        if self.owned:
            why = "it was fenced" if self.fenced_by is ErrorCode.NONE else self.fenced_by.name
            self.run(Callback.LOST, self.owned, POLL_EXPIRED if self.state is ConsumerState.STALE else why)
        elif self.state is ConsumerState.FATAL:
            return
        elif self.topics or self.regex:
            self.join()
        else:
            self.state = ConsumerState.UNSUBSCRIBED

    def _expire_poll(self) -> None:
        """The user did not come back: leave, so that others may read on, and send nothing until it does."""
        session = self.session
        session.mark_poll_entered()
        if self.state is ConsumerState.FENCED:
            self.is_away = True
        if self.state not in ACTIVE:
            return
        self.do(effects.PollMissed(is_leaving=True))
        if self._is_in_group():
            is_static = self.config.instance_id is not None
            self.leave(POLL_EXPIRED, LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH)
        self.forget_epoch()
        self.in_flight = None
        session.heartbeat_ms = session.retry_ms = None
        self.fenced_by = ErrorCode.NONE
        self.state = ConsumerState.STALE
        self.is_away = True

    def _close(self, closing: inputs.CloseRequested) -> None:
        """Release what is owned, then leave the group, then end: one of these for each call."""
        if self.is_leave_sent:
            return
        if self.owned:
            is_known = self.epoch > 0
            if self.state is not ConsumerState.FATAL:
                self.state = ConsumerState.PREPARE_LEAVING
            self.discard()
            self.run(Callback.REVOKED if is_known else Callback.LOST, self.owned, closing.reason)
            return
        epoch = self._leave_epoch(closing.leave)
        if epoch is None or not self._is_in_group():
            self._end()
            return
        self.state = ConsumerState.LEAVING
        self.is_leave_sent = True
        self.in_flight = self.leave(closing.reason, epoch)

    def _end(self) -> None:
        """Be gone: nothing follows."""
        self.forget_epoch()
        self.state = ConsumerState.UNSUBSCRIBED
        self.is_closed = True
        self.in_flight = None
        self.session.end()
        self.session.retry_ms = None
        self.session.mark_poll_entered()
        self.do(effects.Ended())

    def _is_in_group(self) -> bool:
        """Return whether the coordinator may take this for a member: also where a join is still to be answered."""
        is_asked = self.in_flight is not None or self.is_join_unsure
        return self.epoch > 0 or (self.state is ConsumerState.JOINING and is_asked)

    def _leave_epoch(self, leave: bool | None) -> int | None:
        """Return the epoch that means how to leave (KIP-1092), or None to stay until the session ends."""
        if self.config.instance_id is None:
            return None if leave is False else LEAVE_EPOCH
        return LEAVE_EPOCH if leave else LEAVE_STATIC_EPOCH
