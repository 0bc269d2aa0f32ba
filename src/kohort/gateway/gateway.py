"""The gateway without sockets: the groups that its connections see together, and what waits for them.

The rooms know each other downwards only; what one does for a room above, or beside it, is a signal. Who takes which
signal stands at the end of `Gateway.__init__`, where all parts exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.gateway.apis.connection_state import Rooms
from kohort.gateway.apis.connection_traffic import ConnectionTraffic
from kohort.gateway.assigning.assignments import AssignorRunner
from kohort.gateway.assigning.edge import ASSIGNOR_MS, Edge
from kohort.gateway.assigning.static_members import StaticMembers
from kohort.gateway.holding.parked_answers import ParkedAnswers
from kohort.gateway.holding.parked_requests import ParkedRequests
from kohort.gateway.holding.waiting_answers import RequestRepeats, WithheldSyncs
from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.look_ups import DescribeRequests, LookUp
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.peers.instances import Instances
from kohort.gateway.policies.group_policies import FALLBACK_MS, GroupPolicies
from kohort.gateway.policies.policies import OBSERVED, GroupProtocol, PolicyTable
from kohort.gateway.relay.read_budget import MAX_REQUEST_BYTES, ReadBudget
from kohort.gateway.relay.relay import Relay, Sink
from kohort.group.commands import Leave
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.node.timers import NodeClock, Timers

Noted = Callable[[Shard, Event, int], None]
"""Takes an event that has been applied to a group of a shard, and the time."""

EPOCH_PROTOCOLS = (GroupProtocol.CONSUMER, GroupProtocol.SHARE, GroupProtocol.STREAMS)
"""The protocols whose heartbeats are parked themselves; of classic members the answers are."""


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits that an operator may set."""

    fallback_ms: int = FALLBACK_MS
    """For how long a group is only observed in which parking did harm."""
    assignor_ms: int = ASSIGNOR_MS
    """How long an assignor may take."""
    max_request_bytes: int = MAX_REQUEST_BYTES
    """A longer request ends its connection."""


_NO_LOOK_UPS: LookUp = lambda _group_id, _generation: None  # noqa: E731
_NO_LEAVES: Callable[[Leave], None] = lambda _leave: None  # noqa: E731
_DEFAULT_LIMITS = GatewayLimits()


class Gateway:
    """All connections of one process. `noted` gets what happens to the groups; `policies` what is done with them.

    `instance_id` names it among the instances of the gateway; without it there is only one. Of several that reach each
    other, `noted` of one gets the events of a group. `leave` sends a LeaveGroup that was delayed, by its own login.
    `may_park`: policies that `change` brings may park where these do not.
    """

    def __init__(
        self,
        settings: GroupSettings,
        noted: Noted,
        look_up: LookUp = _NO_LOOK_UPS,
        *,
        policies: PolicyTable = OBSERVED,
        runner: AssignorRunner | None = None,
        instance_id: str = "",
        limits: GatewayLimits = _DEFAULT_LIMITS,
        may_park: bool = False,
        leave: Callable[[Leave], None] = _NO_LEAVES,
    ) -> None:
        self.clock = NodeClock(0)
        self.timers = Timers()
        self.budget = ReadBudget(max_request_bytes=limits.max_request_bytes)
        """What all connections together may gather to read it."""
        self._noted = noted
        signals = GroupSignals()
        self.policies = GroupPolicies(policies, limits.fallback_ms, signals.fell_back)
        self.describes = DescribeRequests(self.timers, look_up, signals)
        self.groups = ObservedGroups(settings, signals, self.timers, self.describes)
        self.edge = Edge(self.groups, self.timers, runner, limits.assignor_ms, signals.group_changed)
        """Replaces assignments of leaders, and takes an operator's orders."""
        self._static_members = StaticMembers(self.groups, self.timers, leave)
        updates, repeats = self.policies.counters.updates, RequestRepeats(self.groups, self.timers, self.clock)
        syncs = WithheldSyncs(repeats)
        self._answers, self._requests = None, dict[GroupProtocol, ParkedRequests]()
        if policies.parks or may_park:
            self._answers = ParkedAnswers(self.groups, repeats, updates, self.edge.interrupts, signals)
            syncs.is_awaited = self._answers.parking.is_awaited
            self._requests = {each: ParkedRequests(each, self.timers, updates) for each in EPOCH_PROTOCOLS}
        self.instances = Instances(
            instance_id, self.groups, self.policies.fallbacks, self._answers, self._requests, self.timers, self.clock
        )
        """The other instances of the gateway, with which this one exchanges what they see."""
        self._rooms = Rooms(
            self.groups,
            self.policies,
            self.edge,
            self._static_members,
            self.instances,
            self._answers,
            syncs,
            self._requests,
        )
        # Who takes what
        signals.look_up_begun.connect(self.groups.look_up_begun)
        signals.fell_back.connect(self.instances.fell_back)
        signals.event_applied.connect(self._note, self.instances.event_applied, self.edge.event_applied)
        signals.event_applied.connect(self._static_members.event_applied)
        signals.group_changed.connect(self.instances.summaries.group_changed)
        signals.reach_changed.connect(self.instances.reach_changed)
        signals.round_awaited.connect(self.instances.round_awaited)
        if self._answers is not None:
            signals.event_applied.connect(self._answers.event_applied)
            for protocol in (GroupProtocol.CONSUMER, GroupProtocol.STREAMS):
                signals.event_applied.connect(self._requests[protocol].event_applied)
            signals.member_joined.connect(self._answers.parking.joined)
            signals.member_synced.connect(self._answers.parking.begin)
            signals.sync_released.connect(syncs.release)
            signals.round_announced.connect(self._answers.announce)
            signals.group_changed.connect(self._answers.group_changed)

    def change(self, policies: PolicyTable, limits: GatewayLimits) -> None:
        """Treat requests by these policies and limits from now on; of the groups nothing is lost."""
        self.policies.table = policies
        self.policies.fallbacks.fallback_ms = limits.fallback_ms
        self.edge.assignor_ms = limits.assignor_ms
        self.budget.max_request_bytes = limits.max_request_bytes

    def open(self, client_host: str, to_client: Sink, to_broker: Sink) -> Relay:
        """Return the relay of a new connection."""
        return Relay(ConnectionTraffic(self._rooms, client_host), to_client, to_broker, self.budget)

    def parked_heartbeats(self, protocol: GroupProtocol) -> int:
        """Return how many heartbeats of a protocol are parked now: of classic members their answers are."""
        parked = self._answers if protocol is GroupProtocol.CLASSIC else self._requests.get(protocol)
        return 0 if parked is None else len(parked)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is due at the latest, or None."""
        return self.timers.next_deadline_ms()

    def tick(self, now_ms: int) -> None:
        """Run what is due."""
        self.clock.advance(now_ms)
        self.timers.run_due(now_ms)

    def _note(self, event: Event, now_ms: int) -> None:
        if self.instances.writes(event.group_id):
            self._noted(self.groups.shard, event, now_ms)
