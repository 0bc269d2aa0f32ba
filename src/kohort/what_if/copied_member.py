"""One copied member: the production state machine, and around it what its process and its application do.

Effects become commands to the coordinator, callbacks take the given times, deadlines are virtual. A copy is restored by
a join of its own whose answers are what the live member got, so that it needs no input but those of every member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.assign.server.standby import ACCEPTABLE_RECOVERY_LAG
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, TopicSpec
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Join, Leave, Leaving, Sync
from kohort.group.migration.migration_plan import Kind
from kohort.group.results import ConsumerHeartbeatResult, JoinResult, SyncResult
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.sim.kernel.scheduler import Due
from kohort.what_if.group_facts import CLIENT_SIDE, MemberProfile, Roster
from kohort.what_if.virtual_broker import GENERATION, HOST, Sender, VirtualBroker, lags_with_ids, with_ids
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

SPREAD = 0.02
"""How much the times of one callback differ: what one member revokes is assigned while others still run theirs."""

JOIN_STEPS = 20
"""More effects than any member has until it has joined."""

_GOLDEN = 0.618034


class CopiedMember(Sender):
    """One process of one member; a restart is another one."""

    def __init__(self, broker: VirtualBroker, profile: MemberProfile) -> None:
        times = broker.times
        bound = profile.acceptable_recovery_lag
        config = MemberConfig(
            acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG if bound is None else bound,
            session_timeout_ms=times.session_timeout_ms,
            rebalance_timeout_ms=times.rebalance_timeout_ms,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            instance_id=profile.instance_id,
            rack=profile.rack,
            server_assignor=profile.server_assignor,
        )
        self.broker = broker
        self.profile = profile
        self.number = next(broker.numbers)
        self.is_dead = False
        self.failure = ""
        self.assignors: dict[str, Assignor] = {name: CLIENT_SIDE[name]() for name in profile.offers}
        self.machine: ClassicMember | ConsumerMember
        if profile.kind is Kind.CONSUMER:
            self.machine = ConsumerMember(config, f"{profile.name}-{self.number}", _never_random)
            self.machine.lag_source = lambda: profile.lags
        else:
            self.machine = ClassicMember(config, list(self.assignors.values()), _never_random)
        self._deadline: Due | None = None
        self._in_poll = True

    @property
    def member_id(self) -> str:
        """Its member id."""
        return self.machine.identity.member_id

    @property
    def place(self) -> float:
        """A number from 0 to 1 of its own, which spreads members evenly, however many there are."""
        return self.number * _GOLDEN % 1

    @property
    def is_settled(self) -> bool:
        """Whether it owns its assignment and nothing is under way."""
        member = self.machine
        return self.is_dead or member.is_closed or (member.is_stable and member.running is None and not self.failure)

    # -- the process

    def begin(self) -> None:
        """Start, and join."""
        self.refresh_topics()
        self.take(self._subscribed())

    def _subscribed(self) -> inputs.Input:
        return inputs.Subscribed(tuple(sorted(self.profile.topics)))

    def refresh_topics(self) -> None:
        """Take the topics of the cluster as they are now."""
        self.take(self._topics_seen())

    def _topics_seen(self) -> inputs.Input:
        if self.profile.kind is Kind.CONSUMER:
            return inputs.TopicsSeen({topic_id: name for name, topic_id in self.broker.ids.items()})
        return inputs.MetadataChanged(self._specs_of([self.profile.topics]))

    def _specs_of(self, subscriptions: Iterable[Iterable[str]]) -> dict[str, TopicSpec]:
        """Return those of the subscribed topics that exist, as assignors see them."""
        counts, topics = self.broker.partitions, set().union(*subscriptions)
        return {name: TopicSpec(counts[name]) for name in sorted(topics & counts.keys())}

    def stop(self) -> None:
        """Close: the callback runs, and a dynamic member leaves."""
        self.take(inputs.CloseRequested("the consumer is being closed"))

    def kill(self) -> None:
        """End without LeaveGroup."""
        self.broker.readers.stop(self.read_partitions, self.broker.scheduler.now_us)
        self._end()

    @property
    def read_partitions(self) -> Partitions:
        """The partitions that it reads now."""
        running = self.machine.running
        return self.machine.owned - (running[1] if running is not None else frozenset())

    def _end(self) -> None:
        self.is_dead = True
        if self._deadline is not None:
            self._deadline.cancel()
        self.broker.disconnect(self)
        self.broker.mark_settled(self.number)

    # -- the beginning of a copy

    def restore(self, member_id: str, roster: Roster) -> None:
        """Take the member of the roster as it is: it joins, and gets the answers that the live one got."""
        machine, now_ms = self.machine, self.broker.now_ms
        if isinstance(machine, ConsumerMember):
            machine.member_id = member_id
        machine.step(self._topics_seen(), now_ms)
        requested = list(machine.step(self._subscribed(), now_ms))
        for _ in range(JOIN_STEPS):
            if not requested:
                break
            effect = requested.pop(0)
            if isinstance(effect, effects.OnAssignment):
                self.assignors[effect.protocol_name].on_assignment(effect.assignment, effect.generation)
            answer = self._restored(effect, member_id, roster)
            if answer is not None:
                requested += machine.step(answer, now_ms)
        assert machine.is_stable, f"{self.profile.name} is where it was"
        assert machine.owned == roster.owned[member_id], f"{self.profile.name} owns what it owned"
        self.broker.readers.start(machine.owned, self.broker.scheduler.now_us)
        self.take(inputs.Tick())

    def _restored(self, effect: effects.Effect, member_id: str, roster: Roster) -> inputs.Input | None:
        """Return the answer to a request of a join that is restored."""
        owned = roster.owned[member_id]
        match effect:
            case effects.Join(identity):
                # Classic members of a consumer group have their first choice.
                offers = self.assignors
                name = roster.assignor if roster.assignor in offers else next(iter(offers))
                leader = min(roster.profiles)
                members = roster.subscriptions() if leader == member_id else {}
                return inputs.JoinAnswered(identity, ErrorCode.NONE, GENERATION, member_id, leader, name, members)
            case effects.Compute(identity):
                topics = (profile.topics for profile in roster.profiles.values())
                return inputs.Computed(identity, {}, self._specs_of(topics))
            case effects.Sync(identity):
                return inputs.SyncAnswered(identity, ErrorCode.NONE, Assignment(owned))
            case effects.Heartbeat(identity):
                return inputs.HeartbeatAnswered(identity, ErrorCode.NONE)
            case effects.RunCallback(callback):
                return inputs.CallbackFinished(callback)
            case effects.ConsumerHeartbeat(number):
                interval_ms = self.broker.node.config.group_consumer_heartbeat_interval_ms
                given = with_ids(owned, self.broker.ids)
                return inputs.ConsumerHeartbeatAnswered(number, ErrorCode.NONE, None, GENERATION, interval_ms, given)
            case _:
                return None

    # -- driving the state machine

    def take(self, event: inputs.Input) -> None:
        """Pass an input to the state machine, and carry out its effects."""
        if self.is_dead:
            return
        for effect in self.machine.step(event, self.broker.now_ms):
            self._carry_out(effect)
        if self.is_dead:
            return
        if self.is_settled:
            self.broker.mark_settled(self.number)
            self._in_poll = False
        else:
            self.broker.unsettled.add(self.number)
        self._set_deadline()

    def _set_deadline(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if deadline_ms is not None and not self.machine.is_closed:
            self._deadline = self.broker.at_ms(deadline_ms, self.take, inputs.Tick())

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Join():
                self._join(effect)
            case effects.Sync():
                self._sync(effect)
            case effects.Heartbeat(identity):
                self._beat(identity)
            case effects.Leave():
                self._leave(effect)
            case effects.Compute():
                # A leader asks for metadata first.
                self.broker.after_ms(2 * self.broker.times.network_ms, self._compute, effect)
            case effects.RunCallback():
                self._run(effect)
            case effects.OnAssignment():
                self.assignors[effect.protocol_name].on_assignment(effect.assignment, effect.generation)
            case effects.ConsumerHeartbeat():
                self._heartbeat(effect)
            case effects.HurryHeartbeat():
                self.broker.release_heartbeat(self, lambda: self.take(inputs.Tick()))
            case effects.NameTopics():
                self.broker.after_ms(2 * self.broker.times.network_ms, self.refresh_topics)
            case effects.Fail():
                self.failure = effect.text
            case effects.Ended():
                self._end()
            case _:
                pass  # reports to the user, or looks up a coordinator that has not moved

    # -- the application's code

    def _run(self, effect: effects.RunCallback) -> None:
        times, broker = self.broker.times, self.broker
        if effect.callback is not Callback.ASSIGNED:
            broker.readers.stop(effect.partitions, broker.scheduler.now_us)
        took_ms = times.assigned_ms if effect.callback is Callback.ASSIGNED else times.revoked_ms
        took_ms *= 1 + SPREAD * (self.place - 0.5)
        wait_ms = 0.0
        if times.poll_ms and not self._in_poll and self.machine.closing is None:
            # Callbacks run in poll, and the application is between two of them.
            wait_ms = times.poll_ms * self.place
        self._in_poll = True
        broker.after_ms(wait_ms + took_ms, self._finish, effect)

    def _finish(self, effect: effects.RunCallback) -> None:
        if self.is_dead:
            return
        if effect.callback is Callback.ASSIGNED:
            self.broker.readers.start(effect.partitions & self.machine.owned, self.broker.scheduler.now_us)
        self.take(inputs.CallbackFinished(effect.callback))

    # -- the classic protocol

    def _beat(self, identity: Identity) -> None:
        command = Heartbeat(self.broker.group_id, identity.member_id, self.profile.instance_id, identity.generation)
        self.broker.submit(self, command, lambda result: self.take(inputs.HeartbeatAnswered(identity, result.error)))

    def _join(self, effect: effects.Join) -> None:
        identity, times, profile = effect.identity, self.broker.times, self.profile
        command = Join(
            group_id=self.broker.group_id,
            member_id=identity.member_id,
            instance_id=profile.instance_id,
            client_id=profile.name,
            client_host=HOST,
            session_timeout_ms=times.session_timeout_ms,
            rebalance_timeout_ms=times.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=tuple((name, encode_subscription(each)) for name, each in effect.protocols),
            new_member_id="" if identity.member_id else f"{profile.instance_id or profile.name}-what-if-{self.number}",
            reason=effect.reason,
        )

        def answered(result: JoinResult) -> None:
            members = {
                each.member_id: MemberSpec(decode_subscription(each.metadata), each.instance_id)
                for each in result.members
            }
            name = result.protocol_name or ""
            self.take(
                inputs.JoinAnswered(
                    identity, result.error, result.generation, result.member_id, result.leader, name, members,
                    result.skip_assignment,
                )
            )  # fmt: skip

        self.broker.submit(self, command, answered)

    def _compute(self, effect: effects.Compute) -> None:
        snapshot = self._specs_of(each.subscription.topics for each in effect.members.values())
        self.refresh_topics()
        made: Mapping[str, Assignment] = {}
        if not effect.skip:
            made = self.assignors[effect.protocol_name].assign(GroupSpec(effect.members, snapshot))
        self.take(inputs.Computed(effect.identity, made, snapshot))

    def _sync(self, effect: effects.Sync) -> None:
        identity = effect.identity
        command = Sync(
            self.broker.group_id,
            identity.member_id,
            self.profile.instance_id,
            identity.generation,
            "consumer",
            effect.protocol_name,
            tuple((to, encode_assignment(each)) for to, each in sorted(effect.assignments.items())),
            effect.failure,
        )

        def answered(result: SyncResult) -> None:
            given = Assignment() if result.error else decode_assignment(result.assignment)
            self.take(inputs.SyncAnswered(identity, result.error, given, result.error_message))

        self.broker.submit(self, command, answered)

    def _leave(self, effect: effects.Leave) -> None:
        identity = effect.identity
        command = Leave(self.broker.group_id, (Leaving(identity.member_id, self.profile.instance_id, effect.reason),))
        self.broker.submit(self, command, lambda result: self.take(inputs.LeaveAnswered(identity, result.error)))

    # -- the consumer protocol

    def _heartbeat(self, effect: effects.ConsumerHeartbeat) -> None:
        broker, profile = self.broker, self.profile
        command = ConsumerHeartbeat(
            broker.group_id,
            effect.member_id,
            effect.member_epoch,
            profile.instance_id,
            effect.rack,
            effect.rebalance_timeout_ms,
            None if effect.topics is None else tuple(sorted(set(effect.topics))),
            effect.regex,
            effect.server_assignor,
            effect.owned,
            profile.name,
            HOST,
            lags=None if effect.lags is None else lags_with_ids(dict(effect.lags), broker.ids),
            acceptable_recovery_lag=profile.acceptable_recovery_lag,
            reason=effect.reason,
        )

        def answered(result: ConsumerHeartbeatResult) -> None:
            interval_ms = result.heartbeat_interval_ms
            if not broker.facts.is_ours and not result.error:
                # Ours requests the next one soon where there is something to do; Apache Kafka does not.
                interval_ms = broker.node.config.group_consumer_heartbeat_interval_ms
            self.take(
                inputs.ConsumerHeartbeatAnswered(
                    effect.number, result.error, result.error_message, result.member_epoch, interval_ms,
                    result.assignment,
                )
            )  # fmt: skip

        broker.submit(self, command, answered)


def _never_random() -> float:
    return 0.5
