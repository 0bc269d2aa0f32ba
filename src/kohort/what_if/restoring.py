"""A member in the middle of its life: it goes through a join of its own whose answers are what the live one got.

So a copy needs no way into the state machine but the one that everybody has: inputs.
"""

from __future__ import annotations

from kohort.assign.spec import MemberSpec
from kohort.member import ClassicMember, ConsumerMember, effects, inputs
from kohort.member.effects import ConsumerHeartbeat
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.what_if.copied_member import Actor
from kohort.what_if.group_facts import Cast
from kohort.what_if.seeding import GENERATION, with_ids

_STEPS = 20
"""More than any member needs to join."""


def restore(actor: Actor, member_id: str, cast: Cast) -> None:
    """Bring a new actor to where a member of the cast is."""
    member = actor.member
    if isinstance(member, ConsumerMember):
        member.member_id = member_id
    member.step(actor.seen(), actor.stage.now_ms)
    asked = list(member.step(inputs.Subscribed(tuple(sorted(actor.role.topics))), actor.stage.now_ms))
    for _ in range(_STEPS):
        if not asked:
            break
        effect = asked.pop(0)
        if isinstance(effect, effects.OnAssignment):
            actor.assignors[effect.protocol_name].on_assignment(effect.assignment, effect.generation)
        answer = _answer(actor, effect, member_id, cast)
        if answer is not None:
            asked += member.step(answer, actor.stage.now_ms)
    assert member.is_stable, f"{actor.role.name} is where it was"
    assert member.owned == cast.owned[member_id], f"{actor.role.name} owns what it owned"
    actor.stage.reading.start(member.owned, actor.stage.scheduler.now_us)
    actor.take(inputs.Tick())


def _answer(actor: Actor, effect: effects.Effect, member_id: str, cast: Cast) -> inputs.Input | None:
    owned: Partitions = cast.owned[member_id]
    match effect:
        case effects.Join(identity):
            leader, name = min(cast.roles), _assignor(actor, cast)
            seen = _seen_by_leader(cast) if leader == member_id else {}
            return inputs.JoinAnswered(identity, ErrorCode.NONE, GENERATION, member_id, leader, name, seen)
        case effects.Compute(identity):
            specs = actor.topic_specs()
            wanted = {topic for role in cast.roles.values() for topic in role.topics}
            return inputs.Computed(identity, {}, {topic: specs[topic] for topic in sorted(wanted & specs.keys())})
        case effects.Sync(identity):
            return inputs.SyncAnswered(identity, ErrorCode.NONE, Assignment(owned))
        case effects.RunCallback(callback):
            return inputs.CallbackFinished(callback)
        case ConsumerHeartbeat(number):
            interval_ms = actor.stage.node.config.group_consumer_heartbeat_interval_ms
            given = with_ids(owned, actor.stage.ids)
            return ConsumerHeartbeatAnswered(number, ErrorCode.NONE, None, GENERATION, interval_ms, given)
        case _:
            return None


def _seen_by_leader(cast: Cast) -> dict[str, MemberSpec]:
    return {
        each: MemberSpec(Subscription(tuple(sorted(role.topics)), rack=role.rack), role.instance_id)
        for each, role in sorted(cast.roles.items())
    }


def _assignor(actor: Actor, cast: Cast) -> str:
    """Return what the member's round agreed on; classic members of a consumer group have their first choice."""
    assert isinstance(actor.member, ClassicMember), "only classic members agree on an assignor"
    return cast.assignor if cast.assignor in actor.assignors else next(iter(actor.assignors))
