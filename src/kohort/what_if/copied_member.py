"""One member on the stage: the production state machine, and around it what its process and its user would do.

Effects become commands to the coordinator, callbacks take the time that they are said to take, deadlines are virtual.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign.server.standby import ACCEPTABLE_RECOVERY_LAG
from kohort.assign.spec import Assignor, GroupSpec, MemberSpec, TopicSpec
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Join, Leave, Leaving, Sync
from kohort.group.member_kinds import Kind
from kohort.group.results import (
    ConsumerHeartbeatResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    SyncResult,
)
from kohort.member import ClassicMember, ConsumerMember, MemberConfig, effects, inputs
from kohort.member import effects as native
from kohort.member.effects import Callback
from kohort.member.inputs import ConsumerHeartbeatAnswered, TopicsSeen
from kohort.model.assignment import Assignment, Partitions
from kohort.sim.kernel.scheduler import Due
from kohort.what_if.group_facts import CLIENT_SIDE, Role
from kohort.what_if.seeding import HOST, lags_with_ids
from kohort.what_if.virtual_broker import Sender, Stage
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

SPREAD = 0.02
"""How far the times of one callback lie apart: what one member has given up is taken while others still run theirs."""

_GOLDEN = 0.618034


class Actor(Sender):
    """One process of one member; a restart is another one."""

    def __init__(self, stage: Stage, role: Role) -> None:
        times = stage.times
        bound = role.acceptable_recovery_lag
        config = MemberConfig(
            acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG if bound is None else bound,
            session_timeout_ms=times.session_timeout_ms,
            rebalance_timeout_ms=times.rebalance_timeout_ms,
            heartbeat_interval_ms=times.heartbeat_interval_ms,
            instance_id=role.instance_id,
            rack=role.rack,
            server_assignor=role.server_assignor,
        )
        self.stage = stage
        self.role = role
        self.number = stage.next_number()
        self.is_dead = False
        self.failure = ""
        self.assignors: dict[str, Assignor] = {name: CLIENT_SIDE[name]() for name in role.offers}
        self.member = self._member(config)
        self._deadline: Due | None = None
        self._in_poll = True

    def _member(self, config: MemberConfig) -> ClassicMember | ConsumerMember:
        if self.role.kind is Kind.CONSUMER:
            member = ConsumerMember(config, f"{self.role.name}-{self.number}", _never_random)
            member.lag_source = lambda: self.role.lags
            return member
        return ClassicMember(config, list(self.assignors.values()), _never_random)

    @property
    def member_id(self) -> str:
        """The id that the coordinator knows it by."""
        return self.member.identity.member_id

    @property
    def place(self) -> float:
        """A number from 0 to 1 that is the member's own: so members are spread evenly, however many there are."""
        return self.number * _GOLDEN % 1

    @property
    def is_settled(self) -> bool:
        """Whether it has what it shall have and nothing is under way."""
        member = self.member
        return self.is_dead or member.is_closed or (member.is_stable and member.running is None and not self.failure)

    # -- the process

    def begin(self) -> None:
        """Start, and join."""
        self.look_around()
        self.take(inputs.Subscribed(tuple(sorted(self.role.topics))))

    def look_around(self) -> None:
        """See the cluster's topics as they are now."""
        self.take(self.seen())

    def seen(self) -> inputs.Input:
        """Return what the cluster shows of the topics."""
        if self.role.kind is Kind.CONSUMER:
            return TopicsSeen({topic_id: name for name, topic_id in self.stage.ids.items()})
        specs = self.topic_specs()
        return inputs.MetadataChanged({name: specs[name] for name in sorted(self.role.topics & specs.keys())})

    def topic_specs(self) -> dict[str, TopicSpec]:
        """Return the topics as assignors see them."""
        return {name: TopicSpec(count) for name, count in self.stage.partitions.items()}

    def stop(self) -> None:
        """Close in good order: the callback runs, and a dynamic member leaves."""
        self.take(inputs.CloseRequested("the consumer is being closed"))

    def kill(self) -> None:
        """Die without a word."""
        self.stage.reading.stop(self.reading, self.stage.scheduler.now_us)
        self._end()

    @property
    def reading(self) -> Partitions:
        """What it reads at this moment."""
        running = self.member.running
        return self.member.owned - (running[1] if running is not None else frozenset())

    def _end(self) -> None:
        self.is_dead = True
        if self._deadline is not None:
            self._deadline.cancel()
        self.stage.hang_up(self)
        self.stage.settle(self.number)

    # -- driving the state machine

    def take(self, event: inputs.Input) -> None:
        """Take what happened, and carry out what follows."""
        if self.is_dead:
            return
        for effect in self.member.step(event, self.stage.now_ms):
            self._carry_out(effect)
        if self.is_dead:
            return
        if self.is_settled:
            self.stage.settle(self.number)
            self._in_poll = False
        else:
            self.stage.unsettled.add(self.number)
        self._set_deadline()

    def _set_deadline(self) -> None:
        deadline_ms = self.member.next_deadline_ms()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if deadline_ms is not None and not self.member.is_closed:
            self._deadline = self.stage.at_ms(deadline_ms, self.take, inputs.Tick())

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Join():
                self._join(effect)
            case effects.Sync():
                self._sync(effect)
            case effects.Heartbeat(identity):
                command = Heartbeat(self.stage.group_id, identity.member_id, self.role.instance_id, identity.generation)
                self.stage.ask(self, command, lambda result: self._beat(identity, result))
            case effects.Leave():
                self._leave(effect)
            case effects.Compute():
                # A leader asks for metadata first.
                self.stage.after_ms(2 * self.stage.times.network_ms, self._compute, effect)
            case effects.RunCallback():
                self._run(effect)
            case effects.OnAssignment():
                self.assignors[effect.protocol_name].on_assignment(effect.assignment, effect.generation)
            case native.ConsumerHeartbeat():
                self._heartbeat(effect)
            case native.HurryHeartbeat():
                self.stage.hurry(self, lambda: self.take(inputs.Tick()))
            case native.NameTopics():
                self.stage.after_ms(2 * self.stage.times.network_ms, self.look_around)
            case effects.Fail():
                self.failure = effect.text
            case effects.Ended():
                self._end()
            case _:
                pass  # what is for its user's eyes, or looks up a coordinator that has not moved

    def _beat(self, identity: object, result: HeartbeatResult) -> None:
        self.take(inputs.HeartbeatAnswered(identity, result.error))  # type: ignore[arg-type]

    # -- the user's code

    def _run(self, effect: effects.RunCallback) -> None:
        times, stage = self.stage.times, self.stage
        if effect.callback is not Callback.ASSIGNED:
            stage.reading.stop(effect.partitions, stage.scheduler.now_us)
        took_ms = times.assigned_ms if effect.callback is Callback.ASSIGNED else times.revoked_ms
        took_ms *= 1 + SPREAD * (self.place - 0.5)
        wait_ms = 0.0
        if times.poll_ms and not self._in_poll and self.member.closing is None:
            # Callbacks run in poll: its user is somewhere between two of them.
            wait_ms = times.poll_ms * self.place
        self._in_poll = True
        stage.after_ms(wait_ms + took_ms, self._finish, effect)

    def _finish(self, effect: effects.RunCallback) -> None:
        if self.is_dead:
            return
        if effect.callback is Callback.ASSIGNED:
            self.stage.reading.start(effect.partitions & self.member.owned, self.stage.scheduler.now_us)
        self.take(inputs.CallbackFinished(effect.callback))

    # -- the classic protocol

    def _join(self, effect: effects.Join) -> None:
        asked_as, times, role = effect.identity, self.stage.times, self.role
        command = Join(
            group_id=self.stage.group_id,
            member_id=asked_as.member_id,
            instance_id=role.instance_id,
            client_id=role.name,
            client_host=HOST,
            session_timeout_ms=times.session_timeout_ms,
            rebalance_timeout_ms=times.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=tuple((name, encode_subscription(said)) for name, said in effect.protocols),
            new_member_id="" if asked_as.member_id else f"{role.instance_id or role.name}-what-if-{self.number}",
            reason=effect.reason,
        )

        def answered(result: JoinResult) -> None:
            if result.error:
                self.take(inputs.JoinAnswered(asked_as, result.error, member_id=result.member_id))
                return
            members = {
                each.member_id: MemberSpec(decode_subscription(each.metadata), each.instance_id)
                for each in result.members
            }
            name = result.protocol_name or ""
            self.take(
                inputs.JoinAnswered(
                    asked_as, result.error, result.generation, result.member_id, result.leader, name, members,
                    result.skip_assignment,
                )
            )  # fmt: skip

        self.stage.ask(self, command, answered)

    def _compute(self, effect: effects.Compute) -> None:
        specs = self.topic_specs()
        wanted = {topic for each in effect.members.values() for topic in each.subscription.topics}
        snapshot = {topic: specs[topic] for topic in sorted(wanted & specs.keys())}
        self.look_around()
        made: Mapping[str, Assignment] = {}
        if not effect.skip:
            made = self.assignors[effect.protocol_name].assign(GroupSpec(effect.members, snapshot))
        self.take(inputs.Computed(effect.identity, made, snapshot))

    def _sync(self, effect: effects.Sync) -> None:
        asked_as = effect.identity
        command = Sync(
            self.stage.group_id,
            asked_as.member_id,
            self.role.instance_id,
            asked_as.generation,
            "consumer",
            effect.protocol_name,
            tuple((to, encode_assignment(each)) for to, each in sorted(effect.assignments.items())),
            effect.failure,
        )

        def answered(result: SyncResult) -> None:
            given = Assignment() if result.error else decode_assignment(result.assignment)
            self.take(inputs.SyncAnswered(asked_as, result.error, given, result.error_message))

        self.stage.ask(self, command, answered)

    def _leave(self, effect: effects.Leave) -> None:
        asked_as = effect.identity
        command = Leave(self.stage.group_id, (Leaving(asked_as.member_id, self.role.instance_id, effect.reason),))

        def answered(result: LeaveResult) -> None:
            self.take(inputs.LeaveAnswered(asked_as, result.error))

        self.stage.ask(self, command, answered)

    # -- the consumer protocol

    def _heartbeat(self, effect: native.ConsumerHeartbeat) -> None:
        stage, role = self.stage, self.role
        command = ConsumerHeartbeat(
            stage.group_id,
            effect.member_id,
            effect.member_epoch,
            role.instance_id,
            effect.rack,
            effect.rebalance_timeout_ms,
            None if effect.topics is None else tuple(sorted(set(effect.topics))),
            effect.regex,
            effect.server_assignor,
            effect.owned,
            role.name,
            HOST,
            lags=None if effect.lags is None else lags_with_ids(dict(effect.lags), stage.ids),
            acceptable_recovery_lag=role.acceptable_recovery_lag,
            reason=effect.reason,
        )

        def answered(result: ConsumerHeartbeatResult) -> None:
            interval_ms = result.heartbeat_interval_ms
            if not stage.facts.is_ours and not result.error:
                # Ours asks for the next one soon where there is something to do; Apache Kafka does not.
                interval_ms = stage.node.config.group_consumer_heartbeat_interval_ms
            self.take(
                ConsumerHeartbeatAnswered(
                    effect.number, result.error, result.error_message, result.member_epoch, interval_ms,
                    result.assignment,
                )
            )  # fmt: skip

        stage.ask(self, command, answered)


def _never_random() -> float:
    return 0.5


__all__ = ["Actor"]
