"""The edge of classic groups: assignors and orders of an operator, carried out on the traffic of leaders.

The laws. A leader's own assignments pass unless all of them are replaced by valid ones: an assignor that fails, is
late, or breaks a rule changes nothing. A SyncGroup waits for an assignor, and for nothing else, for a limited time; a
request behind it ends the wait. No round begins here: the answer to the leader's heartbeat has it join again.

Orders come by `drain` and `rebalance`, which every instance of the gateway gets; the one that the leader's requests
come through carries them out.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kohort.gateway.assigning.assignments import (
    COOPERATIVE_STICKY,
    PROTOCOLS,
    AssignorRunner,
    Intended,
    LeftAsItIs,
    by_assignor,
    members_of,
    own_assignments,
    with_single_owners,
    without_drained,
    written,
)
from kohort.gateway.assigning.orders import Orders, begins_round
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange, changed_frame
from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kohort.group.commands import Heartbeat, Join, Sync
from kohort.group.events import Event, RoundOpened
from kohort.group.results import JoinResult
from kohort.model.assignment import Partitions
from kohort.model.bounded_dict import BoundedDict
from kohort.model.cause import MAX_REASON_LENGTH, first_few
from kohort.model.printable import printable
from kohort.node.timers import Timers
from kohort.parking.parked_heartbeat import Follower
from kohort.wire.messages import JoinGroupRequest, SyncGroupRequest
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

ASSIGNOR_MS = 1_000
"""How long an assignor may take."""

MOST_BYTES = 64 << 20
"""How much metadata of leaders' JoinGroup answers is remembered; beyond that the leaders' own assignments pass."""

_MEMBER_BYTES = 500
"""What a member takes besides its metadata, about."""

MOST_LOGGED = 1_000
"""Of how many groups the last failure is remembered, so that it is logged once."""


class EdgeResult(StrEnum):
    """What became of a leader's assignments."""

    REPLACED = "replaced"
    REFUSED = "refused"
    """They are not touched: user data, a foreign protocol, SkipAssignment."""
    FAILED = "failed"
    """The assignor failed, was late, or returned what is not valid."""


@dataclass(slots=True)
class EdgeCounters:
    """How often leaders' assignments were replaced or not, and how long assignors took."""

    results: Counter[EdgeResult] = field(default_factory=Counter)
    assignor_ms: int = 0
    rounds_ordered: int = 0
    """Heartbeats answered with REBALANCE_IN_PROGRESS by order."""


Passes = Callable[[Sync, str, int], None]
"""Takes a command as it passes, for `kohort explain` what was done with its assignments, and the time."""


@dataclass(slots=True, eq=False)
class WaitingSync:
    """A leader's SyncGroup that waits for an assignor. `passes` is called, once, when the wait is over."""

    edge: Edge
    exchange: Exchange
    command: Sync
    passes: Passes
    is_over: bool = False

    def end(self, now_ms: int) -> None:
        """Pass the leader's own assignments: another request has come, or the time is up."""
        self.edge.abandon_assignor(self, now_ms)

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: the leader's own assignments pass."""
        del follower
        self.end(now_ms)
        return False

    def drop(self) -> None:
        """Forget it: it passes, or the connection has ended."""
        self.is_over = True
        self.edge.timers.disarm(self)

    def passed(self, remark: str, now_ms: int) -> None:
        """It is decided what passes."""
        self.drop()
        self.passes(self.command, remark, now_ms)


class LedRounds:
    """By group, the JoinGroup answer of a leader that has not assigned yet, in bounded memory."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[str, JoinResult] = OrderedDict()
        self._bytes = 0

    def begin(self, group_id: str, result: JoinResult) -> None:
        """A leader has got its JoinGroup answer."""
        self.pop(group_id)
        self._rounds[group_id] = result
        self._bytes += _size(result)
        while self._bytes > MOST_BYTES:
            self.pop(next(iter(self._rounds)))

    def pop(self, group_id: str) -> JoinResult | None:
        """Return the answer, and forget it."""
        found = self._rounds.pop(group_id, None)
        if found is not None:
            self._bytes -= _size(found)
        return found


def _size(result: JoinResult) -> int:
    """Return how many bytes an answer takes, about."""
    return sum(len(each.metadata) + _MEMBER_BYTES for each in result.members)


class Edge:
    """Assignors and orders of one gateway. `assignor_ms` is how long an assignor may take."""

    def __init__(
        self,
        groups: ObservedGroups,
        timers: Timers,
        runner: AssignorRunner | None = None,
        assignor_ms: int = ASSIGNOR_MS,
        interrupted: Callable[[str, int], None] = lambda _group_id, _now_ms: None,
    ) -> None:
        self.timers = timers
        self.orders = Orders()
        self.counters = EdgeCounters()
        self._groups = groups
        self._runner = runner
        self.assignor_ms = assignor_ms
        self._interrupted = interrupted
        """Called with a group of which a parked heartbeat may now be answered."""
        self._rounds = LedRounds()
        self._logged: BoundedDict[str, str] = BoundedDict(MOST_LOGGED)
        """By group, the last failure."""

    # Orders

    def drain(self, group_id: str, names: Iterable[str]) -> None:
        """Have the members with these names stay in the group and get nothing, from its next round on.

        The names (`orders.names_of`) replace those given before; without any, no member is drained. `rebalance` begins
        the round.
        """
        self.orders.drain(group_id, names)

    def rebalance(self, group_id: str, reason: str, now_ms: int) -> None:
        """Have a classic group begin a round: its leader's next heartbeat, or the one that is parked, is answered so.

        The order lapses when a round begins for another reason, and after five minutes.
        """
        self.orders.order_round(group_id, reason, now_ms)
        self._interrupted(group_id, now_ms)

    def interrupts(self, command: Heartbeat, now_ms: int) -> bool:
        """Whether a heartbeat that the coordinator answers without an error is answered REBALANCE_IN_PROGRESS."""
        ordered = self.orders.ordered(command.group_id, now_ms)
        return ordered is not None and begins_round(self._groups.group(command.group_id), command.member_id)

    def give_reason(self, exchange: Exchange, command: Join, now_ms: int) -> None:
        """Let a JoinGroup that begins an ordered round have its reason, for the coordinator too from version 8 on."""
        ordered = self.orders.ordered(command.group_id, now_ms)
        if ordered is None or not begins_round(self._groups.group(command.group_id), command.member_id):
            return
        reason = command.reason = ordered.reason[:MAX_REASON_LENGTH]

        def change(message: JoinGroupRequest) -> None:
            message.reason = reason

        exchange.frame = changed_frame(exchange, JoinGroupRequest, change) or exchange.frame

    def event_applied(self, event: Event, _now_ms: int) -> None:
        """An event has changed a group: an ordered round may have begun."""
        if isinstance(event, RoundOpened):
            self.orders.round_began(event.group_id)

    # Assignments

    def join_answered(self, group_id: str, result: JoinResult) -> None:
        """A JoinGroup is answered; a leader's names the members that it assigns to."""
        if result.error or result.leader != result.member_id:
            return
        if self._assignor_of(group_id) is None and group_id not in self.orders.drained_names:
            return
        if result.skip_assignment:
            self._left(group_id, EdgeResult.REFUSED, "its leader came back and keeps the assignment (KIP-814)")
        else:
            self._rounds.begin(group_id, result)

    def replace_assignments(self, exchange: Exchange, command: Sync, now_ms: int, passes: Passes) -> WaitingSync | None:
        """Take a leader's SyncGroup; None where it passes as it is.

        `passes` is called, perhaps at once, when the exchange's frame is decided.
        """
        group_id = command.group_id
        drained = self.orders.drained(self._groups.group(group_id))
        assignor = self._assignor_of(group_id)
        if not command.assignments or (assignor is None and not drained):
            return None
        waiting = WaitingSync(self, exchange, command, passes)
        try:
            led = self._led_round(command)
            protocol = led.protocol_name or ""
            spec = members_of(protocol, led.members, self._seen(group_id))
            own = own_assignments(spec, command.assignments)
        except LeftAsItIs as why:
            self._left(group_id, EdgeResult.REFUSED, str(why))
            return None
        drained &= spec.members.keys()  # the coordinator's answer to the leader decides who is in the round
        if assignor is None and not drained:
            return None
        without = f"without {first_few(sorted(drained))}, drained" if drained else ""
        if assignor is None and protocol != COOPERATIVE_STICKY:
            try:
                self._replace(waiting, without_drained(spec, drained, own), without, now_ms)
            except LeftAsItIs as why:
                self._failed(waiting, str(why), now_ms)
            return waiting

        def done(intended: Intended | str, at_ms: int) -> None:
            if waiting.is_over:
                return
            self.counters.assignor_ms += max(0, at_ms - now_ms)
            try:
                if isinstance(intended, str):
                    raise LeftAsItIs(intended)
                decided = by_assignor(spec, protocol, drained, own, intended)
                self._replace(waiting, decided, f"by {assignor or 'uniform'} at the gateway {without}".rstrip(), at_ms)
            except LeftAsItIs as why:
                self._failed(waiting, str(why), at_ms)

        self.timers.arm(waiting, now_ms + self.assignor_ms, waiting.end)
        topics = frozenset(topic for member in spec.members.values() for topic in member.subscription.topics)
        if self._runner is not None:
            self._runner.assign(group_id, with_single_owners(spec, protocol, drained), topics, done)
        else:
            done(f"this gateway runs no assignor, so none for {group_id}", now_ms)
        return waiting

    def _assignor_of(self, group_id: str) -> str | None:
        return None if self._runner is None else self._runner.assignor_of(group_id)

    def abandon_assignor(self, waiting: WaitingSync, now_ms: int) -> None:
        """Pass the leader's own assignments."""
        if not waiting.is_over:
            is_late = waiting not in self.timers
            why = f"it took more than {self.assignor_ms} ms" if is_late else "the leader sent another request meanwhile"
            self._failed(waiting, why, now_ms)

    def _led_round(self, command: Sync) -> JoinResult:
        led = self._rounds.pop(command.group_id)
        if led is None or (led.generation, led.member_id) != (command.generation, command.member_id):
            raise LeftAsItIs("its leader's JoinGroup answer did not come through this gateway")
        if led.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or led.protocol_name not in PROTOCOLS:
            raise LeftAsItIs(
                f"its assignor is {led.protocol_name!r} of the type {led.protocol_type!r}, not one of"
                f" {', '.join(sorted(PROTOCOLS))} of consumers"
            )
        return led

    def _seen(self, group_id: str) -> dict[str, bytes]:
        group = self._groups.group(group_id)
        return {} if group is None else {name: member.assignment for name, member in group.members.items()}

    def _replace(self, waiting: WaitingSync, decided: dict[str, Partitions], remark: str, now_ms: int) -> None:
        """Pass these assignments in place of the leader's own. Raises LeftAsItIs."""
        command = waiting.command
        changed = replace(command, assignments=written(command.assignments, decided))
        waiting.exchange.frame = _with_assignments(waiting.exchange, changed)
        waiting.command = changed
        self.counters.results[EdgeResult.REPLACED] += 1
        self._logged.pop(command.group_id, None)
        waiting.passed(remark, now_ms)

    def _failed(self, waiting: WaitingSync, why: str, now_ms: int) -> None:
        group_id = waiting.command.group_id
        why = f"the assignor {self._assignor_of(group_id) or 'uniform'}: {why}"
        self._left(group_id, EdgeResult.FAILED, why)
        waiting.passed(f"the leader's own: {why}"[:MAX_REASON_LENGTH], now_ms)

    def _left(self, group_id: str, result: EdgeResult, why: str) -> None:
        self.counters.results[result] += 1
        if self._logged.get(group_id) != why:
            self._logged[group_id] = why
            log.warning("group %s keeps its leader's own assignment: %s", printable(group_id), printable(why))


def _with_assignments(exchange: Exchange, command: Sync) -> bytes:
    """Return a SyncGroup's frame with other assignments; all else stays as it is. Raises LeftAsItIs."""

    def change(message: SyncGroupRequest) -> None:
        message.assignments = [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=blob) for member_id, blob in command.assignments
        ]

    try:
        changed = changed_frame(exchange, SyncGroupRequest, change)
    except MalformedMessage as error:
        raise LeftAsItIs(f"its leader's SyncGroup cannot be read: {error}") from error
    if changed is None:
        raise LeftAsItIs("its leader's SyncGroup has fields that this gateway does not know")
    return changed
