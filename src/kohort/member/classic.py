"""One member of a classic group, without I/O: inputs and the time go in, effects come out.

The laws. Nothing is owned that has not been through `assigned`, nothing is given up but through `revoked` or `lost`,
and no request of the next round leaves before that callback has finished. A member whose generation or id was taken
away *lost* its partitions; a member that rejoins with both *revokes* them. Only an answer to the present identity
counts. Join preparation runs once for each rebalance, however many JoinGroup attempts that takes. Source: the Java
client's ConsumerCoordinator, KIP-62, 345, 394, 429, 800.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.assign.spec import Assignor, TopicSpec
from kohort.member import effects, inputs
from kohort.member.effects import Callback, Effect
from kohort.member.failures import failure_text
from kohort.member.identity import NO_GENERATION, NOBODY, Identity
from kohort.member.session import Backoff, Session
from kohort.member.state import BEATING, MOVED, POLL_EXPIRED, MemberConfig, State
from kohort.member.strategy import Transition, offer, strategy_for
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode


class ClassicMember:
    """The state machine. `step` is the only way in; the properties show what it came to."""

    def __init__(self, config: MemberConfig, assignors: Sequence[Assignor], random: Callable[[], float]) -> None:
        self.config = config
        self.state = State.UNJOINED
        self.identity = NOBODY
        self.topics: tuple[str, ...] = ()
        self.owned: Partitions = frozenset()
        self.protocol_name = ""
        self.is_leader = False
        self.rebalances = 0
        self.failed_rebalances = 0
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._strategy = strategy_for(assignors)
        self._session = Session(
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            session_timeout_ms=config.session_timeout_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            backoff=Backoff(random),
        )
        self._effects: list[Effect] = []
        self._joined_topics: tuple[str, ...] = ()
        self._group_topics: frozenset[str] = frozenset()
        self._snapshot: Mapping[str, TopicSpec] | None = None
        self._metadata: Mapping[str, TopicSpec] = {}
        self._rejoin: str | None = None
        self._is_prepared = False
        self._running: tuple[Callback, Partitions] | None = None
        self._target: Transition | None = None
        self._beat_as: Identity | None = None
        self._is_away = False
        self._closing: inputs.CloseRequested | None = None
        self._is_leave_sent = False

    def step(self, event: inputs.Input, now_ms: int) -> tuple[Effect, ...]:
        """Take one input at `now_ms` (any monotonic clock) and return what must be done, in order."""
        if self.state is State.CLOSED:
            return ()
        self._take(event, now_ms)
        self._advance(now_ms)
        asked, self._effects = tuple(self._effects), []
        return asked

    def next_deadline_ms(self) -> int | None:
        """Return when a Tick is due at the latest, or None where only an input can change anything."""
        session = self._session
        deadlines = [session.poll_ms]
        if self._is_beating:
            deadlines.append(session.session_ms)
            deadlines.append(session.heartbeat_ms if self._beat_as is None else None)
        if self._is_rejoin_wanted:
            deadlines.append(session.retry_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def poll_deadline_ms(self) -> int | None:
        """When the user must be back at the latest; None while it polls or where no deadline is set."""
        return self._session.poll_ms

    # What happened

    def _take(self, event: inputs.Input, now_ms: int) -> None:
        match event:
            case inputs.Tick():
                pass
            case inputs.Subscribed(topics):
                self.topics = tuple(dict.fromkeys(topics))
                if set(self.topics) != set(self._joined_topics):
                    self._want("subscription changed" if self._joined_topics else "first subscription")
            case inputs.PollEntered():
                self._is_away = False
                self._session.mark_poll_entered()
            case inputs.PollReturned():
                self._session.mark_poll_returned(now_ms)
            case inputs.RejoinRequested(reason):
                self._want(reason)
            case inputs.MetadataChanged(topics):
                self._metadata = topics
                self._watch_metadata()
            case inputs.CloseRequested():
                self._closing = self._closing or event
            case inputs.CallbackFinished(callback, is_abandoned):
                self._finish_callback(callback, is_abandoned)
            case inputs.JoinAnswered() if self.state is State.JOINING and event.asked_as == self.identity:
                self._take_join(event, now_ms)
            case inputs.Computed() if self.state is State.ASSIGNING and event.asked_as == self.identity:
                self._snapshot = self._metadata = event.snapshot
                self._sync(event.assignments)
            case inputs.ComputeFailed() if self.state is State.ASSIGNING and event.asked_as == self.identity:
                self._leave("the leader could not assign")
                text = f"this member leads the group and could not assign: {event.text}"
                self._fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            case inputs.SyncAnswered() if self.state is State.SYNCING and event.asked_as == self.identity:
                self._take_sync(event, now_ms)
            case inputs.HeartbeatAnswered() if event.asked_as == self._beat_as:
                self._beat_as = None
                if event.asked_as == self.identity:
                    self._take_heartbeat(event.error, now_ms)
            case inputs.CommitAnswered() if event.asked_as == self.identity and self.identity.is_valid:
                self._take_verdict(event.error)
            case inputs.LeaveAnswered() if self.state is State.LEAVING and self._is_leave_sent:
                self._end()
            case _:
                pass  # an answer to who this member no longer is, or to a state it has left

    def _take_join(self, answer: inputs.JoinAnswered, now_ms: int) -> None:
        match answer.error:
            case ErrorCode.NONE:
                self.identity = Identity(answer.generation, answer.member_id)
                self.protocol_name = answer.protocol_name
                self.is_leader = answer.leader == answer.member_id
                self._snapshot = None
                self._session.open(now_ms)
                if self.is_leader:
                    self.state = State.ASSIGNING
                    topics = (topic for member in answer.members.values() for topic in member.subscription.topics)
                    self._group_topics = frozenset(topics)
                    self._do(effects.Compute(self.identity, answer.protocol_name, answer.members, answer.is_skip))
                else:
                    self._sync({})
            case ErrorCode.MEMBER_ID_REQUIRED:
                # KIP-394: the same join again, for the same reason, now under the id that was given.
                self.identity = Identity(NO_GENERATION, answer.member_id)
                self._join()
            case _:
                self._retry_round(answer.error, now_ms)

    def _take_sync(self, answer: inputs.SyncAnswered, now_ms: int) -> None:
        if answer.error is not ErrorCode.NONE:
            self._retry_round(answer.error, now_ms)
            return
        self._session.mark_heard(now_ms)
        self._session.retry_ms = None
        self._rejoin = None
        self._is_prepared = False
        self.rebalances += 1
        if any(topic not in self.topics for topic, _ in answer.assignment.partitions):
            self._settle("received assignment does not match the current subscription")
            return
        self._target = self._strategy.transition(self.owned, answer.assignment.partitions)
        self.state = State.COMPLETING
        if self._target.revoked:
            self._run(Callback.REVOKED, self._target.revoked, "the new assignment gives them to another member")
        else:
            self._take_over()

    def _retry_round(self, error: ErrorCode, now_ms: int) -> None:
        """JoinGroup or SyncGroup failed: the round starts again, at once or later, or the member ends here."""
        self.failed_rebalances += 1
        self.state = State.UNJOINED
        self._session.end()
        self._rejoin = f"rebalance failed due to {error.name}"
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget(error)
        elif error in MOVED:
            self._do(effects.Rediscover(error))
        elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self._fail(error)
            return
        is_waiting = error in MOVED or error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._session.wait_to_retry(now_ms, is_first_at_once=not is_waiting)

    def _take_heartbeat(self, error: ErrorCode, now_ms: int) -> None:
        if self._is_leave_sent:
            return
        if error in MOVED:
            self._do(effects.Rediscover(error))
            self._session.retry_heartbeat(now_ms)
        elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._session.retry_heartbeat(now_ms)
        else:
            if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self._session.mark_heard(now_ms)
            self._take_verdict(error)

    def _take_verdict(self, error: ErrorCode) -> None:
        """A heartbeat or commit says what the group thinks of this identity."""
        if self._is_leave_sent:
            return
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                if self.state in (State.STABLE, State.COMPLETING):
                    self._want("group is already rebalancing")
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._forget(error)
                self._want(f"rejoin after {error.name}")
                if self._running is None and self.state is not State.LEAVING:
                    self.state = State.UNJOINED
            case ErrorCode.FENCED_INSTANCE_ID:
                self.identity = NOBODY
                self._fail(error)
            case ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._fail(error)
            case _:
                pass  # what concerns the one request is its caller's business

    def _finish_callback(self, callback: Callback, is_abandoned: bool) -> None:
        if self._running is None or self._running[0] is not callback:
            return
        partitions = self._running[1]
        self._running = None
        if callback is not Callback.ASSIGNED and not is_abandoned:
            self.owned -= partitions
        match self.state:
            case State.PREPARING:
                self._is_prepared = self._is_prepared and not is_abandoned
                self.state = State.UNJOINED
                self._session.retry_ms = None
            case State.COMPLETING if not self.identity.is_valid:
                self.state = State.UNJOINED
            case State.COMPLETING if callback is Callback.REVOKED:
                self._take_over()
            case State.COMPLETING:
                is_rejoin = self._target is not None and self._target.is_rejoin
                self._settle("need to revoke partitions and re-join" if is_rejoin else None)
            case _:
                pass  # leaving goes on with what is still owned

    def _watch_metadata(self) -> None:
        # Only the leader watches (KIP-429): one member that notices is enough, all of them would be a stampede.
        if self.state is State.STABLE and self.is_leader and self._snapshot is not None:
            seen = {topic: spec for topic, spec in self._metadata.items() if topic in self._group_topics}
            if seen != dict(self._snapshot):
                self._want("topic_metadata_change")

    # What follows from where the member is

    def _advance(self, now_ms: int) -> None:
        session = self._session
        if session.poll_ms is not None and now_ms >= session.poll_ms:
            self._expire_poll()
        if self._is_beating:
            if session.is_silent(now_ms):
                # The coordinator may have moved or hang; the group alone decides whether this member is out.
                session.mark_heard(now_ms)
                self._do(effects.Rediscover(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            if self._beat_as is None and session.is_heartbeat_due(now_ms):
                session.mark_heartbeat_sent(now_ms)
                self._beat_as = self.identity
                self._do(effects.Heartbeat(self.identity))
        if self._running is not None:
            return
        if self._closing is not None:
            self._close(self._closing)
        elif self._is_rejoin_wanted and (session.retry_ms is None or now_ms >= session.retry_ms):
            session.retry_ms = None
            self._prepare()

    def _prepare(self) -> None:
        cause = self._rejoin or ""
        if not self._is_prepared:
            self._is_prepared = True
            if self.identity.is_valid:
                revoked = self._strategy.revoked_before_join(self.owned, self.topics)
                if revoked is not None:
                    self.state = State.PREPARING
                    self._run(Callback.REVOKED, revoked, cause)
                    return
            elif self.owned:
                self.state = State.PREPARING
                self._run(Callback.LOST, self.owned, cause)
                return
        self._join()

    def _join(self) -> None:
        self.state = State.JOINING
        self._joined_topics = self.topics
        protocols = offer(self._assignors.values(), self.topics, self.owned, self.identity, self.config.rack)
        self._do(effects.Join(self.identity, protocols, self._rejoin or ""))

    def _sync(self, assignments: Mapping[str, Assignment]) -> None:
        self.state = State.SYNCING
        self._do(effects.Sync(self.identity, self.protocol_name, assignments))

    def _take_over(self) -> None:
        assert self._target is not None, "an assignment is taken over after SyncGroup"
        self.owned |= self._target.added
        self._run(Callback.ASSIGNED, self._target.added, f"generation {self.identity.generation}")

    def _settle(self, rejoin: str | None) -> None:
        self.state = State.STABLE
        if rejoin is not None:
            self._want(rejoin)
        if set(self.topics) != set(self._joined_topics):
            self._want("subscription changed")
        self._watch_metadata()

    def _expire_poll(self) -> None:
        """The user did not come back: leave, so that others may read on, and say nothing until it does (KIP-62)."""
        self._session.mark_poll_entered()
        if self.state in (State.LEAVING, State.FATAL, State.CLOSED):
            return
        if self.config.instance_id is None:
            self._leave(POLL_EXPIRED)
        self._forget(ErrorCode.UNKNOWN_MEMBER_ID)
        self._is_away = True
        self._rejoin = POLL_EXPIRED
        if self._running is None:
            self.state = State.UNJOINED

    def _close(self, closing: inputs.CloseRequested) -> None:
        if self.owned:
            is_known = self.identity.is_valid and self.state is State.STABLE
            self.state = State.LEAVING
            self._run(Callback.REVOKED if is_known else Callback.LOST, self.owned, closing.reason)
        elif self._is_leave_sent:
            return
        else:
            is_leaving = self.config.instance_id is None if closing.leave is None else closing.leave
            self.state = State.LEAVING
            if is_leaving and self._leave(closing.reason):
                self._is_leave_sent = True
            else:
                self._end()

    # Small steps

    @property
    def _is_beating(self) -> bool:
        return self.state in BEATING and self.identity.is_valid and not self._is_leave_sent

    @property
    def _is_rejoin_wanted(self) -> bool:
        is_free = self.state in (State.UNJOINED, State.STABLE) and self._running is None
        return is_free and self._rejoin is not None and bool(self.topics) and not self._is_away

    def _want(self, reason: str) -> None:
        if self._rejoin is None:
            self._rejoin = reason

    def _forget(self, error: ErrorCode) -> None:
        """The group no longer knows this generation, or this member at all."""
        member_id = self.identity.member_id if error is ErrorCode.ILLEGAL_GENERATION else NOBODY.member_id
        self.identity = Identity(NO_GENERATION, member_id)
        self._is_prepared = False
        self.is_leader = False
        self._session.end()

    def _leave(self, reason: str) -> bool:
        if self.identity.member_id:
            self._do(effects.Leave(self.identity, reason))
        return bool(self.identity.member_id)

    def _fail(self, code: ErrorCode, text: str | None = None) -> None:
        self.state = State.FATAL
        self._session.end()
        self._do(effects.Fail(code, text or failure_text(code, self.config, self._assignors)))

    def _end(self) -> None:
        self.state = State.CLOSED
        self.identity = NOBODY
        self._session.end()
        self._session.mark_poll_entered()
        self._do(effects.Ended())

    def _run(self, callback: Callback, partitions: Partitions, cause: str) -> None:
        self._running = (callback, partitions)
        self._do(effects.RunCallback(callback, partitions, cause))

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)
