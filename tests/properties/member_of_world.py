"""A member of ours in a world of ours: its effects become commands, the answers come back as bytes would carry them.

Requests of one member are answered in order, on a connection that may break; then neither side knows what was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tests.unit.group.world import Answer, World

from kohort.assign import Assignor, GroupSpec, MemberSpec, TopicSpec
from kohort.group.commands import Heartbeat, Leaving
from kohort.member import ClassicMember, MemberConfig, State, effects, inputs
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

Request = effects.Join | effects.Sync | effects.Heartbeat | effects.Leave

TIMEOUTS = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 30_000}


class MemberOfWorld:
    """One member; `loss` is how likely the connection breaks at each request and at each answer."""

    def __init__(
        self,
        name: str,
        world: World,
        topics: dict[str, TopicSpec],
        assignors: Sequence[Assignor],
        random: Random,
        instance_id: str | None,
    ) -> None:
        self.name = name
        self.instance_id = instance_id
        self.loss = 0.0
        self.is_dead = False
        self.failure: effects.Fail | None = None
        self._world = world
        self._topics = topics
        self._assignors = {each.name: each for each in assignors}
        self._random = random
        self._asked: list[tuple[Request, Answer | None]] = []
        self._work: list[effects.Compute | effects.RunCallback] = []
        self.member = ClassicMember(MemberConfig(**TIMEOUTS, instance_id=instance_id), assignors, random.random)

    @property
    def is_settled(self) -> bool:
        return self.member.state is State.STABLE

    def take(self, event: inputs.Input) -> None:
        for effect in self.member.step(event, self._world.now_ms):
            self._carry_out(effect)

    def look_around(self) -> None:
        """See the cluster's topics as they are now."""
        self.take(inputs.MetadataChanged(dict(self._topics), frozenset(self.member.topics) - self._topics.keys()))

    def live(self) -> None:
        """Process responses, carry out effects, and pass the time."""
        deadline_ms = self.member.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self._world.now_ms:
            self.take(inputs.Tick())
        self._receive()
        while self._work and self._random.random() < 0.7:
            self._do(self._work.pop(0))
        self._receive()
        self.is_dead |= self.member.state is State.CLOSED

    def lose_connection(self) -> None:
        asked, self._asked = self._asked, []
        for request, _ in asked:
            self._answer(request, ErrorCode.NETWORK_EXCEPTION, None)

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Join() | effects.Sync() | effects.Heartbeat() | effects.Leave():
                is_lost = self._random.random() < self.loss
                self._asked.append((effect, None if is_lost else self._send(effect)))
            case effects.Compute() | effects.RunCallback():
                self._work.append(effect)
            case effects.OnAssignment():
                self._assignors[effect.protocol_name].on_assignment(effect.assignment, effect.generation)
            case effects.Fail():
                self.failure = effect
            case _:
                pass

    def _send(self, request: Request) -> Answer | None:
        world, instance_id = self._world, self.instance_id
        member_id, generation = request.identity.member_id, request.identity.generation
        match request:
            case effects.Join(_, protocols, reason):
                offer = tuple((name, encode_subscription(subscription)) for name, subscription in protocols)
                return world.join(member_id, instance_id=instance_id, protocols=offer, reason=reason, **TIMEOUTS)
            case effects.Sync():
                made = tuple((to, encode_assignment(each)) for to, each in request.assignments.items())
                return world.sync(
                    member_id, generation, instance_id=instance_id, assignments=made, failure=request.failure
                )
            case effects.Heartbeat():
                return world.submit(Heartbeat("g", member_id, instance_id, generation))
            case effects.Leave():
                return world.leave(Leaving(member_id, instance_id, request.reason))

    def _receive(self) -> None:
        while self._asked:
            request, answer = self._asked[0]
            if answer is not None and answer.is_waiting:
                return
            if answer is None or self._random.random() < self.loss:
                self.lose_connection()
                return
            del self._asked[0]
            self._answer(request, answer.error, answer)

    def _answer(self, request: Request, error: ErrorCode, answer: Answer | None) -> None:
        asked_as = request.identity
        result = None if answer is None else answer.result
        match request:
            case effects.Join() if result is not None:
                members = {
                    each.member_id: MemberSpec(decode_subscription(each.metadata), each.instance_id)
                    for each in result.members
                }
                self.take(
                    inputs.JoinAnswered(
                        asked_as, error, result.generation, result.member_id, result.leader,
                        result.protocol_name or "", members, result.skip_assignment,
                    )
                )  # fmt: skip
            case effects.Join():
                self.take(inputs.JoinAnswered(asked_as, error))
            case effects.Sync():
                given = decode_assignment(result.assignment) if result is not None and not error else Assignment()
                self.take(inputs.SyncAnswered(asked_as, error, given, result.error_message if result else None))
            case effects.Heartbeat():
                self.take(inputs.HeartbeatAnswered(asked_as, error))
            case effects.Leave():
                self.take(inputs.LeaveAnswered(asked_as, error))

    def _do(self, work: effects.Compute | effects.RunCallback) -> None:
        if isinstance(work, effects.RunCallback):
            self.take(inputs.CallbackFinished(work.callback))
            return
        snapshot = self._known(work.members)
        # As the client does: metadata is processed before the assignment that was computed from it.
        self.look_around()
        made = {} if work.skip else self._assignors[work.protocol_name].assign(GroupSpec(work.members, snapshot))
        self.take(inputs.Computed(work.identity, made, snapshot))

    def _known(self, members: Mapping[str, MemberSpec]) -> dict[str, TopicSpec]:
        wanted = {topic for each in members.values() for topic in each.subscription.topics}
        return {topic: self._topics[topic] for topic in sorted(wanted & self._topics.keys())}
