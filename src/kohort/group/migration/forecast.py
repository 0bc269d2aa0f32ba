"""What a rolling bounce will move and cost: the group as a plan sees it, taken through one restart after another.

The real assignors decide who gets what: the group's client-side one while it is classic, the server-side one as soon
as a member speaks the consumer protocol. Time is assumed (`Assumptions`), never measured, and the rule of cost is that
of `explain`: a partition costs while nobody owns it.
 - An eager round takes everything from everybody for one step; a cooperative one takes what changes hands.
 - In a consumer group what changes hands costs a step; an eager classic member that is called gives the rest up, too,
   for as long as it takes to join again.
 - A dynamic member that restarts leaves and joins: two rebalances. A static one comes back to what it had, which nobody
   owned while it was away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kohort.assign.capacity import CapacityAssignor
from kohort.assign.range import RangeAssignor
from kohort.assign.round_robin import RoundRobinAssignor
from kohort.assign.server import ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.assign.spec import GroupSpec, MemberSpec, TopicSpec
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.model.assignment import Assignment, Partitions
from kohort.model.id_partitions import IdPartitions, each, id_partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


class Kind(StrEnum):
    """How a member takes part."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"


class Assumptions(NamedTuple):
    """Times that a plan cannot know, in milliseconds; every forecast names them."""

    bounce_ms: int = 10_000
    """How long a restarting member is away."""
    step_ms: int = 100
    """How long one step of a rebalance takes, until whoever it concerns has heard of it and acted."""
    rejoin_ms: int = 50
    """How long a called eager member of a consumer group takes from its JoinGroup to its SyncGroup's answer."""


@dataclass(frozen=True, slots=True)
class Actor:
    """One member of a forecast."""

    member_id: str
    kind: Kind
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None


class Forecast(NamedTuple):
    """What is expected of one bounce. `moves` counts each time a partition goes from one owner to another."""

    moves: int
    unowned_partition_s: float


_Client = RangeAssignor | RoundRobinAssignor | CooperativeStickyAssignor | CapacityAssignor
_CLIENT: dict[str, _Client] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    # Both sticky ones have one engine; here all remember what they owned.
    "sticky": CooperativeStickyAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
    "capacity": CapacityAssignor(),
}
COOPERATIVE = frozenset({"cooperative-sticky", "capacity"})
"""Client-side assignors whose members keep their partitions through a rebalance, if they offer no eager one."""


def is_predictable(assignor: str) -> bool:
    """Whether it is known what a client-side assignor does."""
    return assignor in _CLIENT


@dataclass(slots=True)
class Group:
    """The group of a forecast, as it is at one moment. `client` and `server` are the assignors in force."""

    topics: Mapping[str, tuple[bytes, int]]
    """The id and the number of partitions of each topic."""
    client: str
    server: ServerAssignor
    assumed: Assumptions
    actors: dict[str, Actor] = field(default_factory=dict)
    owned: dict[str, Partitions] = field(default_factory=dict)
    is_consumer: bool = False
    orphans: dict[TopicPartition, str] = field(default_factory=dict)
    """Who owned last what nobody owns."""
    _moves: int = 0
    _unowned_ms: int = 0

    def bounce(self, member_id: str, back_as: Kind, client: str | None = None) -> Forecast:
        """Restart a member, which comes back as `back_as`; `client` is offered by all once its former self has gone."""
        self._moves = self._unowned_ms = 0
        actor = self.actors[member_id]
        renewed = Actor(member_id, back_as, actor.topics, actor.instance_id, actor.rack)
        is_changed = renewed != actor or (client is not None and client != self.client)
        self.client = client or self.client
        if actor.instance_id is not None:
            self._unowned_ms += len(self.owned[member_id]) * self.assumed.bounce_ms
            self.actors[member_id] = renewed
            if is_changed:
                self._settle(called_by=member_id)
        else:
            self._leave(member_id)
            self.actors[member_id] = renewed
            self.owned[member_id] = frozenset()
            self._settle(called_by=member_id)
        return Forecast(self._moves, self._unowned_ms / 1000)

    def _leave(self, member_id: str) -> None:
        del self.actors[member_id]
        left = self.owned.pop(member_id)
        self.orphans.update(dict.fromkeys(left, member_id))
        if not self.actors:
            self._unowned_ms += len(left) * self.assumed.bounce_ms
            self.is_consumer = False
            return
        self._settle(called_by=None)

    def _settle(self, called_by: str | None) -> None:
        """Let the group come to rest again."""
        kinds = {actor.kind for actor in self.actors.values()}
        self.is_consumer = Kind.CONSUMER in kinds
        target = self._server_target() if self.is_consumer else self._client_target()
        before = {partition: owner for owner, held in self.owned.items() for partition in held}
        step_ms = self.assumed.step_ms
        for member_id, held in target.items():
            for partition in held:
                owner = before.get(partition)
                if owner == member_id:
                    self._unowned_ms += self._kept_ms(member_id, is_caller=member_id == called_by)
                    continue
                self._unowned_ms += step_ms
                self._moves += (owner or self.orphans.get(partition)) not in (None, member_id)
        self.orphans.clear()
        self.owned = target

    def _kept_ms(self, member_id: str, *, is_caller: bool) -> int:
        """Return how long a partition is unowned whose owner stays the same."""
        if self.actors[member_id].kind is not Kind.EAGER or (is_caller and self.is_consumer):
            return 0
        return self.assumed.rejoin_ms if self.is_consumer else self.assumed.step_ms

    def _client_target(self) -> dict[str, Partitions]:
        topics = {name: TopicSpec(count) for name, (_, count) in self.topics.items() if count}
        members = {
            member_id: MemberSpec(
                Subscription(
                    tuple(sorted(actor.topics)),
                    owned=tuple(sorted(self.owned[member_id])),
                    generation=1,
                    rack=actor.rack,
                ),
                actor.instance_id,
            )
            for member_id, actor in sorted(self.actors.items())
        }
        wanted = {topic for actor in self.actors.values() for topic in actor.topics}
        spec = GroupSpec(members, {name: topic for name, topic in topics.items() if name in wanted})
        assignor = _CLIENT[self.client]
        found: Mapping[str, Assignment] = (
            assignor.assign(spec)
            if isinstance(assignor, RangeAssignor | RoundRobinAssignor)
            else assignor.intended(spec)
        )
        return {member_id: found[member_id].partitions for member_id in members}

    def _server_target(self) -> dict[str, Partitions]:
        ids = {name: topic_id for name, (topic_id, _) in self.topics.items()}
        names = {topic_id: name for name, topic_id in ids.items()}
        subscribed = {actor.topics for actor in self.actors.values()}
        topics = {
            topic_id: ServerTopic(name, count)
            for name, (topic_id, count) in sorted(self.topics.items())
            if any(name in each_of for each_of in subscribed)
        }
        by_ids = {names_of: frozenset(ids[name] for name in names_of if name in ids) for names_of in subscribed}
        members = {
            member_id: ServerMember(
                topics=by_ids[actor.topics],
                previous=_with_ids(self.owned[member_id], ids),
                instance_id=actor.instance_id,
                rack=actor.rack,
            )
            for member_id, actor in sorted(self.actors.items())
        }
        target = self.server.assign(ServerGroup(members, topics, len(subscribed) == 1))
        return {
            member_id: frozenset(
                TopicPartition(names[topic_id], number) for topic_id, number in each(target.get(member_id, ()))
            )
            for member_id in members
        }


def _with_ids(partitions: Partitions, ids: Mapping[str, bytes]) -> IdPartitions:
    return id_partitions((ids[topic], (number,)) for topic, number in partitions if topic in ids)
