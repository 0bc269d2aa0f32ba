"""The gateway: one reader for each connection, the groups that they see together, and what is held for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kohort.gateway.apis.connection_traffic import ConnectionTraffic
from kohort.gateway.assigning.assignor_runner import AssignorRunner
from kohort.gateway.assigning.edge import ASSIGNOR_MS, Edge
from kohort.gateway.holding.classic_holding import ClassicHolding
from kohort.gateway.holding.consumer_holding import ConsumerHolding
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.peers.instances import Instances
from kohort.gateway.policies.fallbacks import FALLBACK_MS
from kohort.gateway.policies.group_policies import GroupPolicies
from kohort.gateway.policies.policies import OBSERVED, GroupProtocol, PolicyTable
from kohort.gateway.relay.read_budget import MAX_REQUEST_BYTES, ReadBudget
from kohort.gateway.relay.relay import Relay, Sink
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Announce
from kohort.group.events import ConsumerMemberDeleted, Event, MemberRemoved, RoundOpened, StaticMemberReplaced
from kohort.group.shard import Shard
from kohort.model.errors import ErrorCode
from kohort.node.timers import NodeClock, Timers

Noted = Callable[[Shard, Event, int], None]
"""Takes an event that has been applied to a group of a shard, and the time."""

LookUp = Callable[[str, int], None]
"""Takes a group of which not all is known, and its generation, -1 for a consumer group: what DescribeGroups or
ConsumerGroupDescribe shows goes to `ObservedGroups.described` or `ObservedConsumerGroups.described`."""

LOOK_UP_AGAIN_MS = 2_000
"""How long to wait until the same group is looked up again."""

EPOCH_PROTOCOLS = (GroupProtocol.CONSUMER, GroupProtocol.SHARE, GroupProtocol.STREAMS)
"""The protocols whose heartbeats are held themselves; of classic members the answers are."""

MOST_LOOKED_UP = 10_000
"""How many groups are remembered as looked up."""

_NO_LOOK_UPS: LookUp = lambda _group_id, _generation: None  # noqa: E731


class Gateway:
    """All connections of one process. `noted` gets what happens to the groups; `policies` what is done with them.

    `instance_id` names it among the instances of the gateway; without it there is only one. Of several that reach each
    other, `noted` of one gets the events of a group.
    """

    def __init__(
        self,
        settings: GroupSettings,
        noted: Noted,
        look_up: LookUp = _NO_LOOK_UPS,
        *,
        policies: PolicyTable = OBSERVED,
        fallback_ms: int = FALLBACK_MS,
        runner: AssignorRunner | None = None,
        assignor_ms: int = ASSIGNOR_MS,
        instance_id: str = "",
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.policies = GroupPolicies(policies, fallback_ms)
        self.budget = ReadBudget(max_request_bytes=max_request_bytes)
        """What all connections together may gather to read it."""
        self.clock = NodeClock(0)
        self.timers = Timers()
        self.groups = ObservedGroups(settings, self, self.timers)
        self._noted = noted
        self._look_up = look_up
        self._looked_up: dict[tuple[str, bool], int] = {}
        """By group of which not all is known, and whether it is a classic one, when it was looked up last."""
        self.edge = Edge(self.groups, self.timers, runner, assignor_ms, self.group_changed)
        """Replaces assignments of leaders, and takes an operator's orders."""
        news = self.policies.counters.news
        self._epoch_holdings = (
            {each: ConsumerHolding(each, self.timers, news) for each in EPOCH_PROTOCOLS} if policies.parks else {}
        )
        self.instances = Instances(
            instance_id, self.groups, self.policies.fallbacks, self._epoch_holdings, self.timers, self.clock
        )
        """The other instances of the gateway, with which this one exchanges what they see."""
        self.policies.fell_back = self.instances.fell_back
        self._holding = (
            ClassicHolding(
                self.groups,
                self.timers,
                self.clock,
                news,
                self.edge.interrupts,
                self.instances,
            )
            if policies.parks
            else None
        )
        self.instances.holding = self._holding

    def open(self, client_host: str, to_client: Sink, to_broker: Sink) -> Relay:
        """Return the relay of a new connection."""
        traffic = ConnectionTraffic(
            self.groups, client_host, self.policies, self.edge, self.instances, self._holding, self._epoch_holdings
        )
        return Relay(traffic, to_client, to_broker, self.budget)

    def held_heartbeats(self, protocol: GroupProtocol) -> int:
        """Return how many heartbeats of a protocol are held now: of classic members their answers are."""
        holding = self._holding if protocol is GroupProtocol.CLASSIC else self._epoch_holdings.get(protocol)
        return 0 if holding is None else len(holding)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is due at the latest, or None."""
        return self.timers.next_deadline_ms()

    def tick(self, now_ms: int) -> None:
        """Run what is due."""
        self.clock.advance(now_ms)
        self.timers.run_due(now_ms)

    # What the traffic shows (`GroupObserver`)

    def event_applied(self, shard: Shard, event: Event, now_ms: int, /) -> None:
        """An event has changed a group."""
        if self.instances.writes(event.group_id):
            self._noted(shard, event, now_ms)
        self.instances.group_changed(event)
        if isinstance(event, RoundOpened):
            self.edge.round_began(event.group_id)
        if self._holding is not None:
            if isinstance(event, MemberRemoved):
                self._holding.removed(event.group_id, event.member_id)
            elif isinstance(event, StaticMemberReplaced):
                self._holding.removed(event.group_id, event.old_member_id)
        if isinstance(event, ConsumerMemberDeleted) and (holding := self._epoch_holdings.get(GroupProtocol.CONSUMER)):
            holding.removed(event.group_id, event.member_id, now_ms)

    def member_joined(self, group_id: str, member_id: str, /) -> None:
        """A member's JoinGroup was sent."""
        if self._holding is not None:
            self._holding.joined(group_id, member_id)

    def member_synced(self, member_id: str, now_ms: int, /) -> None:
        """A member got its assignment."""
        if self._holding is not None:
            self._holding.synced(member_id, now_ms)

    def sync_released(self, group_id: str, member_id: str, error: ErrorCode, now_ms: int, /) -> None:
        """A held answer to SyncGroup goes to its member."""
        if self._holding is not None:
            self._holding.release_sync(group_id, member_id, error, now_ms)

    def round_announced(self, announce: Announce, now_ms: int, /) -> None:
        """Members should learn of a round together."""
        if self._holding is not None:
            self._holding.announce(announce, now_ms)

    def group_changed(self, group_id: str, now_ms: int, /) -> None:
        """All events of one request or answer have happened."""
        self.instances.assignments_changed(group_id)
        if self._holding is not None:
            self._holding.group_changed(group_id, now_ms)

    def group_unknown(self, group_id: str, generation: int, now_ms: int, /, *, is_guess: bool = False) -> None:
        """Not all of a group is known."""
        key = group_id, generation >= 0
        due_ms = self._looked_up.get(key, -LOOK_UP_AGAIN_MS) + LOOK_UP_AGAIN_MS
        if due_ms > now_ms:
            waiting = "look up", key
            if not is_guess or self.timers.deadline_ms(waiting) is None:
                self.timers.arm(waiting, due_ms, partial(self.group_unknown, group_id, generation))
            return
        if len(self._looked_up) >= MOST_LOOKED_UP:
            self._looked_up.clear()
        self._looked_up[key] = now_ms
        self.groups.asked(group_id, generation, now_ms)
        self._look_up(group_id, generation)

    def generation_proved(self, group_id: str, generation: int, /) -> None:
        """A look-up that waits was asked for in a generation that may be outdated."""
        waiting = "look up", (group_id, True)
        due_ms = self.timers.deadline_ms(waiting)
        if due_ms is not None:
            self.timers.arm(waiting, due_ms, partial(self.group_unknown, group_id, generation))
