"""One member of a classic group, without I/O: inputs and the time go in, effects come out.

The laws. Nothing is owned that has not been through `assigned`, nothing is released but through `revoked` or `lost`,
and no request of the next round leaves before that callback has finished. A member whose generation or id was taken
away *lost* its partitions; a member that rejoins with both *revokes* them: all in EAGER, in COOPERATIVE what it may no
longer have. Only a response to a request of the present identity counts. Preparation runs once for each round and
subscription, however many JoinGroup attempts that takes.

Source: Java's ConsumerCoordinator, KIP-62, 345, 394, 429, 800.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.assign.spec import Assignor, RebalanceProtocol, TopicSpec
from kohort.assign.tasks import ReadsLags
from kohort.assign.user_data import assignment_error, without_error
from kohort.member import effects, inputs
from kohort.member.effects import Callback
from kohort.member.member_base import MemberBase, failure_text
from kohort.member.member_state import (
    BEATING,
    ENDING,
    MOVED,
    NO_GENERATION,
    NO_IDENTITY,
    POLL_EXPIRED,
    Identity,
    MemberConfig,
    State,
)
from kohort.member.rebalance_strategy import offer, protocol_for, revoked_after_sync, revoked_before_join
from kohort.model.assignment import Assignment, Partitions
from kohort.model.cause import HeartbeatReason, JoinReason
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.lag_watch import LagWatch

# KIP-800's words are those of Java's client where it has some.
SUBSCRIPTION_CHANGED = "subscription has changed"
ALREADY_REBALANCING = "group is already rebalancing"
NOT_MATCHING = "received assignment does not match the current subscription"
SECOND_ROUND = "need to revoke partitions and re-join"
UNUSED_ID = "the id came too late: the member no longer joins"
PROBING = "probing rebalance: a task waits until a copy has caught up"

FIRST_ID_MS = 1_000
"""How long a member that is closed waits for the answer to its first JoinGroup, which has the id to leave with."""


class ClassicMember(MemberBase):
    """The state machine. `step` is the only way in; a driver reads the attributes and writes none.

    More than 20 attributes: what the next request must carry, and what a driver reads.
    """

    def __init__(
        self,
        config: MemberConfig,
        assignors: Sequence[Assignor],
        random: Callable[[], float],
        member_id: str = NO_IDENTITY.member_id,
    ) -> None:
        """Make a member of no generation; `member_id` is what the coordinator knows it by already."""
        super().__init__(config, random)
        self.state = State.UNJOINED
        self.identity = Identity(NO_GENERATION, member_id)
        self.protocol_name = ""
        self.is_leader = False
        self.assignment_error: ErrorCode | None = None
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = protocol_for(assignors)
        self.lag_readers = [assignor for assignor in assignors if isinstance(assignor, ReadsLags)]
        self.lags: LagWatch[TopicPartition] = LagWatch(config.acceptable_recovery_lag, config.lag_growth_ms)
        self.lag_source: Callable[[], Mapping[TopicPartition, int]] | None = None
        """Read before each heartbeat and each JoinGroup, if it is set."""
        # What the next round is about: why to join, whether that reason must reach the coordinator, and how far it is.
        self.rejoin: str | None = None
        self.is_rejoin_forced = False
        self.request: str | None = None
        self.sync: effects.Sync | None = None
        self.is_sync_repeated = False
        self.is_prepared = False
        self.is_passed_by = False
        """Whether the group has formed another generation, which the answer to a JoinGroup under way has to name."""
        self.joined_topics: tuple[str, ...] = ()
        self.matches: Callable[[str], bool] | None = None
        self.received = Assignment()
        self.is_second_round_due = False
        # What the member has seen of its topics; a leader compares them with those that it assigned.
        self.metadata: Mapping[str, TopicSpec] = {}
        self.seen_topics: frozenset[str] = frozenset()
        self.gone_topics: frozenset[str] = frozenset()
        self.absent_topics: frozenset[str] = frozenset()
        self.missing: Partitions = frozenset()
        self.group_topics: frozenset[str] = frozenset()
        self.is_group_rack_aware = False
        self.snapshot: Mapping[str, TopicSpec] | None = None
        self.beat_as: Identity | None = None

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
        elif self.closing is not None and self.state is State.JOINING:
            deadlines.append(session.retry_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _receive(self, event: inputs.Input, now_ms: int) -> None:
        match event:
            case inputs.Tick():
                pass
            case inputs.Subscribed():
                self._change_subscription(event)
            case inputs.RejoinRequested(reason):
                self._note_rejoin_request(reason)
            case inputs.MetadataChanged():
                self._update_metadata(event)
            case inputs.LagsReported(lags):
                self._report_lags(lags, now_ms)
            case inputs.CloseRequested():
                self.closing = self.closing or event
            case inputs.CallbackFinished(callback, is_abandoned):
                self._finish_callback(callback, is_abandoned)
            case inputs.JoinAnswered() if self.state is State.JOINING and self._counts(event.asked_as):
                if self.closing is None:
                    self._complete_join(event, now_ms)
                else:
                    self._adopt_id_to_leave_with(event)
            case inputs.JoinAnswered(error=ErrorCode.MEMBER_ID_REQUIRED):
                self.do(effects.Leave(Identity(NO_GENERATION, event.member_id), UNUSED_ID))
            case inputs.Computed() if self.state is State.ASSIGNING and self._counts(event.asked_as):
                self._sync_computed(event)
            case inputs.ComputeFailed() if self.state is State.ASSIGNING and self._counts(event.asked_as):
                self._report_compute_failure(event)
            case inputs.SyncAnswered() if self.state is State.SYNCING and self._counts(event.asked_as):
                self._complete_sync(event, now_ms)
            case inputs.HeartbeatAnswered() if event.asked_as == self.beat_as:
                self.beat_as = None
                if self._counts(event.asked_as):
                    self._complete_heartbeat(event.error, now_ms)
            case inputs.CommitAnswered() if self._counts(event.asked_as) and self.identity.is_valid:
                self._apply_identity_error(event.error, "OFFSET_COMMIT")
            case inputs.LeaveAnswered() if self.state is State.LEAVING and self.is_leave_sent:
                self._end()
            case _:
                pass  # an answer to who this member no longer is, or to a state it has left

    def _counts(self, asked_as: Identity) -> bool:
        """Whether an answer to who the member was then is about who it is now (aiokafka#727)."""
        return asked_as == self.identity

    def _advance(self, now_ms: int) -> None:
        session = self.session
        if self._is_beating:
            self._beat(now_ms)
        if self.running is not None:
            return
        if self.closing is not None:
            self._close(self.closing, now_ms)
        elif self.state is State.FATAL:
            if self.owned and not self.identity.is_valid:
                # Fenced: the member that took the instance id over has the partitions too.
                self.run(Callback.LOST, self.owned, "the member was fenced for good")
        elif self.state is State.SYNCING:
            if session.retry_ms is not None and now_ms >= session.retry_ms:
                self._sync_again()
        else:
            if self.state is State.STABLE and session.is_rejoin_due(now_ms):
                session.rejoin_ms = None
                error = self.assignment_error
                self.request_rejoin(PROBING if error is None else f"the last assignment carried the error {error}")
            if self.is_rejoin_wanted and (session.retry_ms is None or now_ms >= session.retry_ms):
                session.retry_ms = None
                self._prepare()
            elif self._is_out_and_wants_nothing:
                self._run_before_join(Callback.LOST, self.owned, self.rejoin or "")

    def _beat(self, now_ms: int) -> None:
        session = self.session
        if session.is_session_over(now_ms):
            # The coordinator may have moved or hang; the group alone decides whether this member is out.
            session.wait_for_answer(now_ms)
            self.do(effects.Rediscover(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if self.beat_as is None and session.is_heartbeat_due(now_ms):
            session.mark_heartbeat_sent(now_ms)
            if self.lag_source is not None:
                self._report_lags(self.lag_source(), now_ms)
            self.beat_as = self.identity
            self.do(effects.Heartbeat(self.identity))

    @property
    def _is_beating(self) -> bool:
        return self.state in BEATING and self.identity.is_valid and not self.is_leave_sent

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no round is under way."""
        return self.state is State.STABLE

    @property
    def is_between(self) -> bool:
        """Whether calls into the user's code of the present round are still to come."""
        return self.state in (State.PREPARING, State.COMPLETING)

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows this member, as far as its answers show."""
        return bool(self.identity.member_id)

    @property
    def is_rejoin_wanted(self) -> bool:
        """Whether a round may begin as soon as no wait stands against it."""
        is_free = self.state in (State.UNJOINED, State.STABLE) and self.running is None
        # A member whose expression matches nothing any more takes part in its group's rounds; it does not join anew.
        is_awaited = bool(self.topics) or self.identity.is_valid
        return is_free and self.rejoin is not None and is_awaited and not self.is_away

    @property
    def _is_out_and_wants_nothing(self) -> bool:
        """Whether a member that was evicted will not join again, since its expression matches no topic any more."""
        is_out = self.state is State.UNJOINED and not self.identity.is_valid and not self.is_away
        return is_out and bool(self.owned) and not self.topics

    @property
    def is_subscription_new(self) -> bool:
        """Whether the user wants other topics than those of the last JoinGroup."""
        return set(self.topics) != set(self.joined_topics)

    # What all rules share

    def request_rejoin(self, reason: str, *, is_forced: bool = False) -> None:
        """Join again; the first reason is the one that counts, unless a later one must reach the coordinator."""
        if self.rejoin is None or (is_forced and not self.is_rejoin_forced):
            self.rejoin = reason
            self.is_rejoin_forced = is_forced

    def forget(self, error: ErrorCode) -> None:
        """The group no longer knows this generation, or this member at all."""
        member_id = self.identity.member_id if error is ErrorCode.ILLEGAL_GENERATION else NO_IDENTITY.member_id
        self.identity = Identity(NO_GENERATION, member_id)
        self.is_prepared = self.is_passed_by = self.is_leader = False
        self.session.end()

    def leave(self, reason: str) -> bool:
        """Ask to leave; return whether there is an id to leave with."""
        if self.identity.member_id:
            self.do(effects.Leave(self.identity, reason))
        return bool(self.identity.member_id)

    def fail(self, code: ErrorCode, text: str | None = None) -> None:
        """End here for good, with a sentence for the user; only closing follows."""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.identity = NO_IDENTITY
        if self.state in ENDING:
            return
        self.state = State.FATAL
        self.session.end()
        self.do(effects.Fail(code, text or failure_text(code, self.config, self.assignors)))

    # What starts a round: other topics, changed metadata, responses to heartbeats and commits

    def _change_subscription(self, event: inputs.Subscribed) -> None:
        """The user wants these topics."""
        self.topics = tuple(dict.fromkeys(event.topics))
        self.matches = event.matches
        if self.is_subscription_new:
            is_first = not self.joined_topics
            self.request_rejoin(JoinReason.BLIND if is_first else SUBSCRIPTION_CHANGED)

    def _note_rejoin_request(self, reason: str) -> None:
        """The user wants a rebalance. What it has changed may not be in a JoinGroup that is under way."""
        if self.state in (State.JOINING, State.ASSIGNING, State.SYNCING):
            self.request = reason
        else:
            self.request_rejoin(reason, is_forced=True)

    def _report_lags(self, lags: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Take the lags of the member's copies; a round begins if the leader can make use of them (KIP-848)."""
        self._pass_lags(lags)
        reason = self.lags.report(lags, now_ms)
        if reason is None or not self.identity.is_valid:
            return
        is_falling_behind = reason is HeartbeatReason.STANDBY_FALLING_BEHIND
        if any(is_falling_behind or not reader.is_settled for reader in self.lag_readers):
            self._note_rejoin_request(reason)

    def _pass_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        for reader in self.lag_readers:
            reader.update_lags(lags)

    def _complete_heartbeat(self, error: ErrorCode, now_ms: int) -> None:
        """A heartbeat was answered, as who the member still is."""
        if self.is_leave_sent:
            return
        if error in MOVED:
            self.do(effects.Rediscover(error))
            self.session.retry_heartbeat(now_ms)
        elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.session.retry_heartbeat(now_ms)
        else:
            if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.session.mark_answered(now_ms)
            if error is ErrorCode.NONE:
                self.session.mark_no_round()
            self._apply_identity_error(error, "HEARTBEAT")

    def _apply_identity_error(self, error: ErrorCode, request: str) -> None:
        """Act on the error of a heartbeat or commit about this identity."""
        if self.is_leave_sent or self.state is State.FATAL:
            return
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                if self.state in (State.STABLE, State.COMPLETING):
                    is_commit = request == "OFFSET_COMMIT"
                    self.request_rejoin(
                        f"offset commit failed since {ALREADY_REBALANCING}" if is_commit else ALREADY_REBALANCING
                    )
            case ErrorCode.ILLEGAL_GENERATION if self.state is State.JOINING:
                # The generation that this member waits for has formed: the answer to its JoinGroup has its number.
                self.is_passed_by = True
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self.forget(error)
                self.request_rejoin(f"encountered {error.name} from {request} response")
                if self.running is None and self.state not in ENDING:
                    self.state = State.UNJOINED
            case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self.fail(error)
            case _:
                pass  # what concerns the one request is its caller's business

    def _update_metadata(self, event: inputs.MetadataChanged) -> None:
        """The cluster looks like this now."""
        # A broker that does not know a topic yet answers that it does not exist: only what was there can be gone.
        self.seen_topics |= self.metadata.keys()
        self.gone_topics = event.gone & self.seen_topics
        self.absent_topics = event.gone
        self.metadata = event.topics
        self._check_metadata()

    def _check_metadata(self) -> None:
        """See whether the metadata asks for something from a stable member."""
        if self.state is not State.STABLE or self.running is not None or self.closing is not None:
            return
        # Only the leader rejoins (KIP-429): one member that notices is enough, all of them would be a stampede.
        if self.is_leader and self.snapshot is not None and self._has_metadata_changed(self.snapshot):
            self.request_rejoin(JoinReason.TOPIC_METADATA_CHANGE, is_forced=True)
        if lost := self._deleted_partitions():
            self.missing |= lost
            self.run(Callback.LOST, lost, "they no longer exist")
        elif any(self._exists(topic, partition) for topic, partition in self.missing):
            # The leader may never have seen them go.
            self.request_rejoin("partitions that were deleted are back")

    def _has_metadata_changed(self, assigned: Mapping[str, TopicSpec]) -> bool:
        """Return whether the group's topics are not what the leader has assigned, as far as the assignment may care."""
        seen = {topic: spec for topic, spec in self.metadata.items() if topic in self.group_topics}
        if seen.keys() != assigned.keys():
            return True
        return any(
            spec.partitions != assigned[topic].partitions
            or (self.is_group_rack_aware and _has_come_near(spec, assigned[topic]))
            for topic, spec in seen.items()
        )

    def _deleted_partitions(self, *, is_joining: bool = False) -> Partitions:
        """Return what the member owns and the cluster has no longer, where its protocol distinguishes that (KIP-429).

        A process that began after a topic was deleted has never seen it, and may have got it with a static member's
        assignment of before: what does not exist as far as the member knows is not claimed when it joins again.
        """
        if self.protocol is RebalanceProtocol.EAGER:  # it goes with all the rest
            return frozenset()
        gone = self.gone_topics | self.absent_topics if is_joining else self.gone_topics
        return frozenset(each for each in self.owned if each.topic in gone or not self._exists(*each, if_unknown=True))

    def _exists(self, topic: str, partition: int, *, if_unknown: bool = False) -> bool:
        spec = self.metadata.get(topic)
        return if_unknown if spec is None else partition < spec.partitions

    # One round: prepare, join, assign as the leader, sync, revoke and take over

    def _prepare(self) -> None:
        """Run the callback that stands before JoinGroup, if there is one, else join."""
        cause = self.rejoin or ""
        if not self.identity.is_valid:
            if self.owned:
                self._run_before_join(Callback.LOST, self.owned, cause)
                return
        elif lost := self._deleted_partitions(is_joining=True):
            self.missing |= lost
            self._run_before_join(Callback.LOST, lost, "they no longer exist")
            return
        else:
            revoked = revoked_before_join(self.protocol, self.owned, self.topics)
            # Prepared once, there is more only where the subscription has changed since.
            if revoked or (revoked is not None and not self.is_prepared):
                self.is_prepared = True
                self._run_before_join(Callback.REVOKED, revoked, cause)
                return
        self.is_prepared = True
        self._join()

    def _run_before_join(self, callback: Callback, partitions: Partitions, cause: str) -> None:
        self.state = State.PREPARING
        self.run(callback, partitions, cause)

    def _join(self) -> None:
        self.state = State.JOINING
        self.joined_topics = self.topics
        self.request = None
        self.session.rejoin_ms = None
        if self.lag_source is not None:
            self._pass_lags(self.lag_source())
        try:
            protocols = offer(self.assignors.values(), self.topics, self.owned, self.identity, self.config.rack)
        except Exception as error:  # an assignor may be a user's code
            text = f"an assignor of this member could not make its user data: {type(error).__name__}: {error}"
            self.fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        else:
            self.do(effects.Join(self.identity, protocols, self.rejoin or ""))

    def _complete_join(self, answer: inputs.JoinAnswered, now_ms: int) -> None:
        """JoinGroup was answered."""
        match answer.error:
            case ErrorCode.NONE if self._has_missed_generation(answer.generation, now_ms):
                self._retry_round(ErrorCode.ILLEGAL_GENERATION, now_ms, is_join=True)
            case ErrorCode.NONE:
                if not (answer.is_skip and answer.generation == self.identity.generation):
                    # Else it is the leader of before, and what it has assigned from is still to be compared.
                    self.snapshot = None
                self.identity = Identity(answer.generation, answer.member_id)
                self.is_passed_by = False
                self.protocol_name = answer.protocol_name
                self.is_leader = answer.leader == answer.member_id
                self.session.open(now_ms)
                if self.is_leader:
                    self.state = State.ASSIGNING
                    subscriptions = [each.subscription for each in answer.members.values()]
                    self.group_topics = frozenset(topic for each in subscriptions for topic in each.topics)
                    self.is_group_rack_aware = any(each.rack for each in subscriptions)
                    self.do(effects.Compute(self.identity, answer.protocol_name, answer.members, answer.is_skip))
                else:
                    self._sync({})
            case ErrorCode.MEMBER_ID_REQUIRED:
                # KIP-394: the same join again, for the same reason, now under the id that was given.
                self.identity = Identity(NO_GENERATION, answer.member_id)
                if self.owned:
                    # A coordinator that gives a member of a generation a new id does not know what it owned.
                    self.state = State.UNJOINED
                else:
                    self._join()
            case _:
                self._retry_round(answer.error, now_ms, is_join=True)

    def _has_missed_generation(self, joined: int, now_ms: int) -> bool:
        """Whether a generation formed between the last and the joined one, in which others may have got what it owns.

        A static member stays in its group while it is away. The generation alone does not show it: in a consumer group
        it is an epoch, which may rise by more than one. But no round ends without a member before its rebalance timeout
        has passed since the round opened.
        """
        if self.config.instance_id is None or not self.owned or joined <= self.identity.generation + 1:
            return False
        return self.is_passed_by or now_ms - self.session.no_round_ms >= self.config.rebalance_timeout_ms

    def _sync_computed(self, event: inputs.Computed) -> None:
        """The leader's assignor has an answer."""
        self.metadata = event.snapshot
        if self.snapshot is None:
            self.snapshot = event.snapshot
        self._sync(event.assignments)

    def _report_compute_failure(self, event: inputs.ComputeFailed) -> None:
        """The leader's assignor failed: report it in SyncGroup where the broker passes that on, else leave."""
        if event.is_passed_on:
            self._sync({}, failure=event.text)
            return
        self.leave("the leader could not assign")
        self.identity = NO_IDENTITY
        text = f"this member leads the group and could not assign: {event.text}"
        self.fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)

    def _sync(self, assignments: Mapping[str, Assignment], failure: str | None = None) -> None:
        self.state = State.SYNCING
        self.session.retry_ms = None
        self.is_sync_repeated = False
        self.sync = effects.Sync(self.identity, self.protocol_name, assignments, failure)
        self.do(self.sync)

    def _sync_again(self) -> None:
        """Send the same SyncGroup again.

        Where the coordinator has stored the assignment, it answers with the member's part of it; where it has not, it
        takes the leader's assignment from this request.
        """
        assert self.sync is not None, "what is sent again was sent"
        self.session.retry_ms = None
        self.is_sync_repeated = True
        self.do(self.sync)

    def _complete_sync(self, answer: inputs.SyncAnswered, now_ms: int) -> None:
        """SyncGroup was answered."""
        if answer.error in MOVED or answer.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Whether the coordinator took the assignment before it failed is for the next SyncGroup to find out.
            if answer.error in MOVED:
                self.do(effects.Rediscover(answer.error))
            self.session.wait_to_retry(now_ms)
            return
        if answer.error is ErrorCode.ILLEGAL_GENERATION and self.is_sync_repeated:
            # It has forgotten the generation with the assignment, and not the member: nothing was given to others.
            self.state = State.UNJOINED
            self.session.end()
            self.rejoin, self.is_rejoin_forced = JoinReason.BLIND, False
            return
        if answer.error is not ErrorCode.NONE:
            if answer.error_message is not None:
                self._fail_round(answer, now_ms)
            else:
                self._retry_round(answer.error, now_ms)
            return
        session = self.session
        session.mark_answered(now_ms)
        if self.config.is_first_heartbeat_at_once:
            # A coordinator that parks heartbeats announces a round through one: an interval from now would be late.
            session.heartbeat_ms = now_ms
        session.retry_ms = None
        self.rejoin, self.is_rejoin_forced, self.is_prepared = None, False, False
        self.rebalances += 1
        self._note_assignment_error(answer.assignment, now_ms)
        if not self._is_wanted(answer.assignment.partitions):
            self._complete_round(NOT_MATCHING)
            return
        revoked = revoked_after_sync(self.protocol, self.owned, answer.assignment.partitions)
        self.received = Assignment(answer.assignment.partitions, without_error(answer.assignment.user_data))
        reader = self.assignors.get(self.protocol_name)
        if isinstance(reader, ReadsLags) and (probing_ms := reader.probing_ms(self.received)) is not None:
            session.rejoin_ms = min(now_ms + probing_ms, session.rejoin_ms or now_ms + probing_ms)
        self.is_second_round_due = bool(revoked)
        # This round was joined without them, so the leader has dealt with them; asking again would never end.
        self.missing = frozenset()
        self.state = State.COMPLETING
        if revoked:
            self.run(Callback.REVOKED, revoked, "the new assignment gives them to another member")
        else:
            self._assign_received()

    def _is_wanted(self, assigned: Partitions) -> bool:
        """Return whether the assignment is about topics that the user wants."""
        others = tuple(sorted({topic for topic, _ in assigned} - set(self.topics)))
        if others and self.matches is not None and all(map(self.matches, others)):
            # The leader has seen topics that match the pattern and that this member has not met yet.
            self.topics += others
            self.joined_topics += others
            return True
        return not others

    def _note_assignment_error(self, assignment: Assignment, now_ms: int) -> None:
        """Note the leader's error about this group, and look again some time later whether it still stands."""
        self.assignment_error = assignment_error(assignment.user_data)
        if self.assignment_error is None:
            self.session.end_bad_rounds()
        else:
            self.session.rejoin_ms = self.session.wait_as_stable(now_ms)
            if self.session.rejoin_ms is None:
                self.do(effects.AssignmentErrorStays(self.assignment_error))

    def _fail_round(self, answer: inputs.SyncAnswered, now_ms: int) -> None:
        """The leader could not assign and every member learns it: report it, and join the next round a little later."""
        self.state = State.UNJOINED
        self.rejoin, self.is_rejoin_forced = "the leader could not assign", False
        self.session.end()
        self.session.retry_ms = self.session.wait_after_bad_round(now_ms)
        self.do(effects.RaiseInPoll(answer.error, answer.error_message or ""))

    def _retry_round(self, error: ErrorCode, now_ms: int, *, is_join: bool = False) -> None:
        """JoinGroup or SyncGroup failed: the round starts again, at once or later, or the member ends here."""
        self.state = State.UNJOINED
        self.session.end()
        if not (is_join and self.is_rejoin_forced and error is not ErrorCode.UNKNOWN_MEMBER_ID):
            # Whether the coordinator took what it did not answer is unknown, and nothing has changed here since.
            self.rejoin = JoinReason.BLIND if error in MOVED else f"rebalance failed due to {error.name}"
            self.is_rejoin_forced = False
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.forget(error)
        elif self.is_passed_by and self.owned and error in MOVED:
            # Its leader may have given away what this member, static and not back in time, had joined without.
            self.forget(ErrorCode.ILLEGAL_GENERATION)
            self.do(effects.Rediscover(error))
        elif error in MOVED:
            self.do(effects.Rediscover(error))
        elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self.fail(error)
            return
        is_waiting = error in MOVED or error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.session.wait_to_retry(now_ms, is_first_at_once=not is_waiting)

    def _finish_callback(self, callback: Callback, is_abandoned: bool) -> None:
        """A callback is over; continue where it stood in the way."""
        if self.running is None or self.running[0] is not callback:
            return
        partitions = self.running[1]
        self.running = None
        if callback is not Callback.ASSIGNED and not is_abandoned:
            self.owned -= partitions
        match self.state:
            case State.PREPARING:
                self.is_prepared = self.is_prepared and not is_abandoned
                self.state = State.UNJOINED
                self.session.retry_ms = None
            case State.COMPLETING | State.STABLE if not self.identity.is_valid:
                self.state = State.UNJOINED
            case State.COMPLETING if self.closing is not None:
                pass  # nothing new is taken over by a member that releases all
            case State.COMPLETING if callback is Callback.REVOKED:
                self._assign_received()
            case State.COMPLETING:
                self._complete_round(SECOND_ROUND if self.is_second_round_due else None)
            case State.STABLE:
                self._complete_round(None)
            case _:
                pass  # leaving continues with what is still owned

    def _assign_received(self) -> None:
        self.do(effects.OnAssignment(self.protocol_name, self.received, self.identity.generation))
        added = self.received.partitions - self.owned
        self.owned |= added
        self._adopt_leader_metadata(added)
        self.run(Callback.ASSIGNED, added, f"generation {self.identity.generation}")

    def _adopt_leader_metadata(self, added: Partitions) -> None:
        """The leader has seen these partitions; only metadata from now on can show that they are no more."""
        topics = {topic for topic, _ in added}
        self.absent_topics -= topics
        self.gone_topics -= topics
        grown: dict[str, TopicSpec] = {}
        for topic, partition in sorted(added):
            spec = grown.get(topic) or self.metadata.get(topic)
            if spec is not None and partition >= spec.partitions:
                grown[topic] = TopicSpec(partition + 1)
        if grown:
            self.metadata = {**self.metadata, **grown}

    def _complete_round(self, rejoin: str | None) -> None:
        """The round is over; see whether the next one is due already."""
        self.state = State.STABLE
        if rejoin is not None:
            self.request_rejoin(rejoin)
        if self.is_subscription_new:
            self.request_rejoin(SUBSCRIPTION_CHANGED)
        if self.request is not None:
            self.request_rejoin(self.request, is_forced=True)
        self._check_metadata()

    # The ways out: the user does not return to `poll` in time, or closes the member

    def _expire_poll(self) -> None:
        """The user did not come back: leave, so that others may read on, and send nothing until it does (KIP-62)."""
        self.session.mark_poll_entered()
        if self.state in ENDING:
            return
        is_leaving = self.config.instance_id is None
        self.do(effects.PollMissed(is_leaving))
        if is_leaving:
            self.leave(POLL_EXPIRED)
        self.forget(ErrorCode.UNKNOWN_MEMBER_ID)
        self.is_away = True
        self.rejoin, self.is_rejoin_forced = POLL_EXPIRED, False
        if self.running is None:
            self.state = State.UNJOINED

    def _adopt_id_to_leave_with(self, answer: inputs.JoinAnswered) -> None:
        """JoinGroup was answered to a member that is being closed: a round would wait for an id that no member uses."""
        self.identity = Identity(NO_GENERATION, answer.member_id)
        self.state = State.UNJOINED

    def _close(self, closing: inputs.CloseRequested, now_ms: int) -> None:
        """Release what is owned, then leave the group, then end: one of these for each call.

        A member with a generation *revokes*, in the middle of a round too: the coordinator takes its commits until the
        round forms the next generation, and again once the leader has synced. So a leader that owns partitions syncs
        first.
        """
        if self.owned:
            if self.state is State.ASSIGNING:
                return
            is_known = self.identity.is_valid and self.state is not State.FATAL
            self.state = State.LEAVING
            self.run(Callback.REVOKED if is_known else Callback.LOST, self.owned, closing.reason)
        elif self.is_leave_sent:
            return
        else:
            is_leaving = self.config.instance_id is None if closing.leave is None else closing.leave
            if is_leaving and self.state is State.JOINING and not self.identity.member_id:
                self.session.retry_ms = self.session.retry_ms or now_ms + FIRST_ID_MS
                if now_ms < self.session.retry_ms:
                    return
            self.state = State.LEAVING
            if is_leaving and self.leave(closing.reason):
                self.is_leave_sent = True
            else:
                self._end()

    def _end(self) -> None:
        """Be gone: nothing follows."""
        self.state = State.CLOSED
        self.is_closed = True
        self.identity = NO_IDENTITY
        self.session.end()
        self.session.mark_poll_entered()
        self.do(effects.Ended())


def _has_come_near(spec: TopicSpec, assigned: TopicSpec) -> bool:
    """Return whether some partition has a replica in a rack where it had none.

    A rack that is gone may be a broker that restarts: it would cost a rebalance now and one more when it is back
    (KAFKA-20778).
    """
    known = assigned.racks or (frozenset[str](),) * assigned.partitions
    return any(now - before for now, before in zip(spec.racks, known, strict=False))
