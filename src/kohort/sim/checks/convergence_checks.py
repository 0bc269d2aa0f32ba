"""Convergence: requests are answered in time, a healed world has complete groups, no partition waits too long.

The time without an owner is summed for every world, and limited in each round of a classic group around which nothing
but clean closes, starts and new subscriptions happened; so is the time until its members learn of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.gateway.assigning.edge import ASSIGNOR_MS
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import GroupState
from kohort.group.events import (
    Event,
    GenerationFormed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    MemberRemoved,
    PendingMemberDropped,
    RoundOpened,
)
from kohort.group.shard import Group, Shard
from kohort.group.streams.group import StreamsGroup, StreamsGroupState
from kohort.model.assignment import Partitions
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.parking.client_software import REPEAT_ERRORS
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.group_ledger import Ledgers, active_in
from kohort.sim.checks.invariants import (
    CONVERGES_AFTER_HEALING,
    EVERY_PARKED_REPLY_ANSWERED,
    LEARNS_NO_LATER,
    STANDSTILL_BOUNDED,
)
from kohort.sim.kernel.world_observer import SeenGateway, SeenMember, SeenNode

GRACE_US = 30_000_000
"""After so long a healed world has no half-open connection left that a request could be sent on."""

_PARKED = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"})


class EndChecker(Checker):
    """ConvergesAfterHealing, and EveryParkedReplyAnswered where a client sees it."""

    invariants = (CONVERGES_AFTER_HEALING, EVERY_PARKED_REPLY_ANSWERED)

    def __init__(self, ledgers: Ledgers) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._healed_us: int | None = None
        self._asked_us: dict[tuple[str, str], int] = {}

    def healed(self) -> None:
        """From here on nothing breaks any more."""
        self._healed_us = self.now_us

    def fault(self, name: str, subject: str, detail: str) -> None:
        """A fault after the healing, of a world that is led by hand, begins it anew."""
        if self._healed_us is not None:
            self._healed_us = self.now_us

    def member_ended(self, member: SeenMember, how: str) -> None:
        for request in sorted(_PARKED):
            self._asked_us.pop((member.name, request), None)

    # -- answers

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Note when a request that may wait was sent."""
        if request in _PARKED:
            self._asked_us[member.name, request] = self.now_us

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """A request of a healed world is answered."""
        asked_us = self._asked_us.pop((member.name, request), None)
        if asked_us is None or self._healed_us is None or asked_us < self._healed_us + GRACE_US:
            return
        self.count(EVERY_PARKED_REPLY_ANSWERED)
        if error is ErrorCode.REQUEST_TIMED_OUT:
            waited_s = (self.now_us - asked_us) / 1_000_000
            self.broken(
                EVERY_PARKED_REPLY_ANSWERED,
                f"{request} of {member.name} got no answer within {waited_s:.1f} s, and nothing is broken any more",
            )

    # -- the end

    def ended(self) -> None:
        """Check that every member is in its group, and that every partition which the group reads has one owner."""
        if self._healed_us is None:
            return
        groups: dict[str, list[SeenMember]] = {}
        for _, member in sorted(self._ledgers.members.items()):
            groups.setdefault(member.group_id, []).append(member)
        for node in self._ledgers.nodes:
            for hosted in active_in(node.node):
                for group_id, group in sorted(hosted.shard.groups.items()):
                    if group_id in groups:
                        self.count(CONVERGES_AFTER_HEALING)
                        if lack := self._lack_of(hosted.shard, group, groups[group_id]):
                            self.broken(CONVERGES_AFTER_HEALING, f"{group_id}: {lack}")

    def _lack_of(self, shard: Shard, group: Group, members: list[SeenMember]) -> str | None:
        if isinstance(group, ClassicGroup):
            if group.phase not in (Phase.STABLE, Phase.EMPTY):
                return f"it is {group.phase} in the end"
            topics: set[str] = set()
            for member in group.members.values():
                topics |= shard.settings.topics_of(member.metadata(group.protocol_name)) or set()
        elif isinstance(group, StreamsGroup):
            if group.state not in (StreamsGroupState.STABLE, StreamsGroupState.EMPTY, StreamsGroupState.NOT_READY):
                return f"it is {group.state} in the end"
            topics = set()
        else:
            if group.state not in (GroupState.STABLE, GroupState.EMPTY):
                return f"it is {group.state} in the end"
            topics = set(group.subscribers).union(*(stored.topics for stored in group.regexes.values()))
        ids = {member.identity.member_id for member in members}
        if unknown := sorted(group.members.keys() - ids):
            return f"{unknown[0]} is in it, and no process has that id any more"
        owned: dict[TopicPartition, str] = {}
        ledger = self._ledgers.groups[group.group_id]
        for each in members:
            if ledger.is_out(each.identity.member_id):
                continue  # it was removed, and has not sent a request since
            for partition in sorted(self._ledgers.owned.get(each.name, ())):
                if partition in owned:
                    return f"{owned[partition]} and {each.name} both own {partition}"
                owned[partition] = each.name
        for name in sorted(topics):
            topic = shard.settings.image.topic(name)
            for number in range(0 if topic is None else topic.partitions):
                if TopicPartition(name, number) not in owned:
                    return f"no member owns {name}-{number}"
        return None


QUIET_US = 20_000_000
"""So long before a round, and until its end, no member may have been killed, frozen or cut off."""

AT_ONCE_US = 50_000
"""An answer within this time was not parked: where the heartbeat was sent again, its member has another pace from then
on, once; else its pace is that of plain Kafka."""

SLACK_US = 1_000_000
"""What a round takes besides: requests, flushes, the leader's look at the cluster, a heartbeat that is sent again."""

_ANSWERS = frozenset({"JoinGroup", "LeaveGroup"})
_WITH_HEARTBEATS = frozenset({"stable", "completing"})
"""States in which a member learns of a round by its next heartbeat."""


@dataclass(slots=True)
class _Round:
    """One round that gathers. `learnt_us` is when each member learnt of it, by name, and `names` are these by id.

    `due_us` is when the next heartbeat of each member comes that has one parked or sends one, by name; `latest_us` the
    latest of these, and of what members between two states may take. `late` are sentences of those that learnt later.
    """

    opened_us: int
    is_initial: bool
    due_us: dict[str, int]
    latest_us: int
    learnt_us: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    slowest_us: int = 0
    has_joined: set[str] = field(default_factory=set)
    late: list[str] = field(default_factory=list)

    def learnt(self, member: SeenMember, now_us: int) -> None:
        """A member has learnt of it."""
        if member.name in self.learnt_us:
            return
        self.learnt_us[member.name], self.names[member.identity.member_id] = now_us, member.name
        if (due_us := self.due_us.get(member.name)) is None:
            return
        limit_us = due_us if member.kind == "cooperative" else self.latest_us
        if now_us > limit_us + SLACK_US:
            passed_s, due_s = (now_us - self.opened_us) / 1e6, (due_us - self.opened_us) / 1e6
            latest_s = (self.latest_us - self.opened_us) / 1e6
            self.late.append(
                f"{member.name} learnt of a round after {passed_s:.3f} s, and its heartbeat was due after {due_s:.3f} "
                f"s, that of the last member after {latest_s:.3f} s"
            )

    def joined(self, name: str, now_us: int) -> None:
        """A member has joined, or is waited for no longer."""
        self.slowest_us = max(self.slowest_us, now_us - self.learnt_us.get(name, now_us))
        self.has_joined.add(name)


class StandstillChecker(Checker):
    """StandstillBounded, LearnsNoLater, and the sum.

        due = sent + k · interval   the first after the round began; sent: its last heartbeat, or SyncGroup's answer
        a cooperative member learns until its due + SLACK_US
        an eager member learns      until the latest due + SLACK_US: none reads again before the last has joined
        a round lasts               until the latest due + the slowest join + SLACK_US, and a gateway's assignor

    A leader for which a gateway assigns learns of a round that opens meanwhile when that is done: this is a due too.

    On plain Kafka heartbeats are answered at once, so that every client sends the next one when it is due.
    """

    invariants = (STANDSTILL_BOUNDED, LEARNS_NO_LATER)

    def __init__(self, faults: FaultsSeen) -> None:
        super().__init__()
        self.unowned_us = 0
        """Microseconds without an owner, added up over all partitions of all groups."""
        self._faults = faults
        self._owned: dict[str, Partitions] = {}
        """By member's name."""
        self._owners: dict[str, dict[TopicPartition, int]] = {}
        """By group, how many members own each partition."""
        self._gaps: dict[str, dict[TopicPartition, int]] = {}
        """By group, since when a partition is without an owner."""
        self._members: dict[str, set[str]] = {}
        """By group, the names of those that run."""
        self._intervals_us: dict[str, dict[str, int]] = {}
        """By group and name, the time between two heartbeats that are not parked."""
        self._sent_us: dict[str, int] = {}
        """By member's name, when its last heartbeat was sent for the first time, or its generation began."""
        self._repeated_us: dict[str, int | None] = {}
        """When a heartbeat was sent again after an error that asks for it, None before; by member's name."""
        self._waiting: set[str] = set()
        """The names of members whose JoinGroup or LeaveGroup is unanswered."""
        self._assigning_us = 0
        """How long gateways may take to assign in place of a leader."""
        self._formed_us: dict[str, int] = {}
        """By group, when its generation formed: a gateway may be assigning until that has lasted its time."""
        self._rounds: dict[str, _Round] = {}
        self._ended_us: dict[str, int] = {}
        """By group, when a member ended last, or stopped polling, that its group may still wait for: killed, failed,
        or static."""
        self._left: set[str] = set()
        """The names of members that have sent LeaveGroup, which ends their identity, since they were started."""
        self._away: dict[str, set[str]] = {}
        """By group, the instances of static members that do not run. As in Kafka, each generation begins their sessions
        anew: rounds that follow each other may wait for one for long."""

    def gateway_started(self, gateway: SeenGateway) -> None:
        self._assigning_us = 1_000 * ASSIGNOR_MS

    # -- members

    def configured(self, member: SeenMember, heartbeat_interval_ms: int) -> None:
        self._intervals_us.setdefault(member.group_id, {})[member.name] = heartbeat_interval_ms * 1000

    def member_started(self, member: SeenMember) -> None:
        self._members.setdefault(member.group_id, set()).add(member.name)
        self._left.discard(member.name)
        self._waiting.discard(member.name)
        self._sent_us.pop(member.name, None)
        if member.instance_id is not None:
            self._away.setdefault(member.group_id, set()).discard(member.instance_id)

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Remove it; without any member a group has no gaps."""
        members = self._members.setdefault(member.group_id, set())
        members.discard(member.name)
        # One that was closed before it got its id could not leave.
        has_left = bool(member.identity.member_id) or member.name in self._left
        if how != "closed" or member.instance_id is not None or not has_left:
            self._ended_us[member.group_id] = self.now_us
        if member.instance_id is not None:
            self._away.setdefault(member.group_id, set()).add(member.instance_id)
        if not members:
            self._gaps.pop(member.group_id, None)

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """Begin and end gaps."""
        before, group_id = self._owned.get(member.name, frozenset()), member.group_id
        self._owned[member.name] = partitions
        owners = self._owners.setdefault(group_id, {})
        gaps = self._gaps.setdefault(group_id, {})
        for partition in sorted(partitions - before):
            owners[partition] = owners.get(partition, 0) + 1
            since_us = gaps.pop(partition, None)
            if since_us is not None:
                self.unowned_us += self.now_us - since_us
        for partition in sorted(before - partitions):
            owners[partition] -= 1
            if not owners[partition]:
                gaps[partition] = self.now_us

    # -- rounds

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """Begin a round, or compare one that has its assignment with the bound."""
        if isinstance(event, RoundOpened):
            self._rounds[event.group_id] = self._opened(event)
        elif isinstance(event, GenerationFormed):
            self._formed_us[event.group_id] = self.now_us
            found = self._rounds.get(event.group_id)
            if event.cause.kind is CauseKind.REBALANCE_TIMEOUT and found is not None:
                # A static member stays in the group: it has learnt of the round, and did not poll in time.
                for name in found.learnt_us.keys() - found.has_joined:
                    found.joined(name, self.now_us)
        elif isinstance(event, GroupDeleted):
            self._rounds.pop(event.group_id, None)  # by a conversion to the consumer protocol too, which has no rounds
        elif isinstance(event, GroupLoaded) and event.group_id in self._ended_us:
            # The sessions of all members begin anew, also of those that ended before.
            self._ended_us[event.group_id] = self.now_us
        elif isinstance(event, PendingMemberDropped):
            # A member that was closed while its id was issued: the round has waited for it (KIP-394).
            self._ended_us[event.group_id] = self.now_us
        elif isinstance(event, MemberRemoved):
            if event.instance_id in self._away.get(event.group_id, ()):
                self._ended_us[event.group_id] = self.now_us
            # Its program did not poll in time: as slow as a member may be that has learnt of the round.
            found = self._rounds.get(event.group_id)
            is_late = event.cause.kind is CauseKind.REBALANCE_TIMEOUT
            if is_late and found is not None and event.member_id in found.names:
                found.joined(found.names[event.member_id], self.now_us)
        elif isinstance(event, GroupStored) and event.is_synced:
            found = self._rounds.pop(event.group_id, None)
            if found is not None and not found.is_initial and self._is_calm(event, found):
                self._judge(event.group_id, found, shard)

    def _opened(self, event: RoundOpened) -> _Round:
        """Return a round that begins, with when each member's next heartbeat would come if none were parked."""
        now_us, due_us = self.now_us, {}
        latest_us = max(now_us, self._formed_us.get(event.group_id, now_us) + self._assigning_us)
        intervals_us = self._intervals_us.get(event.group_id, {})
        for name in sorted(self._members.get(event.group_id, set()) - self._waiting):
            interval_us = intervals_us.get(name, 0)
            if interval_us and (sent_us := self._sent_us.get(name)) is not None:
                due_us[name] = sent_us + max(1, -(-(now_us - sent_us) // interval_us)) * interval_us
            latest_us = max(latest_us, due_us.get(name, now_us + interval_us))
        return _Round(now_us, event.is_initial, due_us, latest_us)

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Note when a member learns of the round."""
        if request in _ANSWERS:
            self._waiting.discard(member.name)
        if request == "SyncGroup" and error is ErrorCode.NONE:
            self._sent_us[member.name] = self.now_us
        if request == "Heartbeat":
            repeated_us = self._repeated_us.pop(member.name, None)
            if error in REPEAT_ERRORS:
                self._repeated_us[member.name] = None
            elif repeated_us is not None and self.now_us - repeated_us < AT_ONCE_US:
                self._sent_us[member.name] = repeated_us
        if error and error not in REPEAT_ERRORS:
            self._learn(member)

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Note its last heartbeat, and how long it took to join, or to leave."""
        if request == "Heartbeat":
            if member.name in self._repeated_us:
                self._repeated_us[member.name] = self.now_us
            else:
                self._sent_us[member.name] = self.now_us
        if request not in _ANSWERS:
            return
        self._waiting.add(member.name)
        if request == "LeaveGroup":
            self._left.add(member.name)
        if self._faults.has_vanished_connection(member.name):
            # If the request leaves on that connection, its time-out is the first sign; so the round may wait for it.
            self._ended_us[member.group_id] = self.now_us
        found = self._rounds.get(member.group_id)
        if found is not None:
            found.joined(member.name, self.now_us)

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """A member that prepares or closes has learnt of the round, or needs one, by itself."""
        if state not in _WITH_HEARTBEATS:
            self._sent_us.pop(member.name, None)
        if state in ("preparing", "leaving"):
            self._learn(member)

    def poll_missed(self, member: SeenMember, is_leaving: bool) -> None:
        """A member that does not leave is waited for until its session ends."""
        if not is_leaving:
            self._ended_us[member.group_id] = self.now_us

    def _learn(self, member: SeenMember) -> None:
        found = self._rounds.get(member.group_id)
        if found is not None:
            found.learnt(member, self.now_us)

    def _is_calm(self, event: GroupStored, found: _Round) -> bool:
        faults, since_us = self._faults, found.opened_us - QUIET_US
        return not (
            faults.is_slow
            or faults.is_cluster_disturbed(since_us)
            or faults.is_any_member_disturbed(since_us)
            or self._ended_us.get(event.group_id, since_us) > since_us
            or not self._away.get(event.group_id, set()).isdisjoint(each.instance_id for each in event.members)
        )

    def _judge(self, group_id: str, found: _Round, shard: Shard) -> None:
        self.count(LEARNS_NO_LATER, len(found.due_us.keys() & found.learnt_us.keys()))
        if found.late:
            self.broken(LEARNS_NO_LATER, f"{group_id}: {found.late[0]}")
        if not self._intervals_us.get(group_id):
            return  # a program of a user's world, whose pace is not known
        heartbeat_us = found.latest_us - found.opened_us
        longest_us = heartbeat_us + found.slowest_us + SLACK_US + self._assigning_us
        slowest = f"the slowest join {found.slowest_us / 1e6:.3f} s"
        bounds = f"the last heartbeat was due after {heartbeat_us / 1e6:.3f} s, {slowest}"
        for partition, since_us in self._gaps.get(group_id, {}).items():
            topic = shard.settings.image.topic(partition.topic)
            if topic is None or partition.partition >= topic.partitions:
                continue  # it was deleted
            unowned_us = self.now_us - max(since_us, found.opened_us)
            text = f"{group_id}: {partition} was without an owner for {unowned_us / 1e6:.3f} s of a round; {bounds}"
            self.compare(unowned_us <= longest_us, STANDSTILL_BOUNDED, text)
        lasted_us = self.now_us - found.opened_us
        text = f"{group_id}: a round took {lasted_us / 1e6:.3f} s; {bounds}"
        self.compare(lasted_us <= longest_us, STANDSTILL_BOUNDED, text)
