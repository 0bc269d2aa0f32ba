"""Changes of the observed groups: events that answers prove, and predicted decisions of our own coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kohort.gateway.observing.group_signals import GroupSignals
from kohort.gateway.observing.last_requests import LastRequests
from kohort.gateway.observing.look_ups import DescribeRequests, LookUps
from kohort.group.classic.group import ClassicGroup, Phase, stored, stored_member
from kohort.group.commands import CheckJoin, Command, FormGeneration, OpenRound, TimerFired
from kohort.group.coordinator_settings import UNLIMITED, GroupSettings
from kohort.group.decisions import decide
from kohort.group.effects import Announce, Append, Arm, Effect, Note, ParkedKind, Reply, Then
from kohort.group.events import (
    Event,
    GenerationFormed,
    GroupDeleted,
    GroupStored,
    JoinRefused,
    MemberRemoved,
    RevocationsAwaited,
    StaticMemberReplaced,
)
from kohort.group.group_timers import Timer, TimerKind
from kohort.group.shard import Shard, apply
from kohort.model.cause import Cause, CauseKind
from kohort.node.timers import Timers


@dataclass(slots=True)
class EpochSender:
    """What is known of the heartbeats of one member with an epoch."""

    sent_ms: int = 0
    """When it last sent one."""
    read_at: int | None = None
    """How often its group had changed when one without an update was read; the next one without one is the same."""
    is_unshown: bool = False
    """Whether what it was assigned is not known: it was found by a heartbeat that shows nothing of it."""


class GroupChanges:
    """The groups behind one gateway, and what is remembered of their changes."""

    def __init__(
        self, settings: GroupSettings, signals: GroupSignals, timers: Timers, describes: DescribeRequests
    ) -> None:
        # What the cluster's brokers refuse, their answers show.
        self.shard = Shard(replace(settings, min_session_timeout_ms=0, max_session_timeout_ms=UNLIMITED))
        self.last_requests = LastRequests()
        self.look_ups = LookUps(self.shard, self.last_requests, describes)
        self.signals = signals
        self.epoch_senders: dict[tuple[str, str], EpochSender] = {}
        """By group and member."""
        self.revoking: dict[str, frozenset[str]] = {}
        """By group whose members wait for those that must revoke, which ones must, until the next generation forms."""
        self._timers = timers

    def group(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, or None where there is no such group."""
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def apply(self, event: Event, now_ms: int) -> None:
        """Let an event of a classic group happen."""
        apply(self.shard, event)
        if isinstance(event, MemberRemoved | StaticMemberReplaced):
            gone = event.member_id if isinstance(event, MemberRemoved) else event.old_member_id
            self.last_requests.removed(gone)
        elif isinstance(event, RevocationsAwaited) and event.is_holding:
            self.revoking[event.group_id] = frozenset(event.revoking)
        elif isinstance(event, GenerationFormed | GroupDeleted):
            self.revoking.pop(event.group_id, None)
        self.look_ups.event_applied(event)
        self.signals.event_applied(event, now_ms)

    def predict(self, decision: Collection[Effect], now_ms: int, remark: str = "") -> None:
        """Let the events of a decision happen, and the round that it opens; not its answers, refusals and timers.

        `remark` is the detail behind the cause of an assignment that it stores.
        """
        for effect in decision:
            if isinstance(effect, Append) and isinstance(effect.event, GroupStored) and remark:
                self.apply(replace(effect.event, cause=replace(effect.event.cause, detail=remark)), now_ms)
            elif isinstance(effect, Note | Append) and not isinstance(effect.event, JoinRefused):
                self.apply(effect.event, now_ms)
            elif isinstance(effect, Reply) and effect.to is not None and effect.to.kind is ParkedKind.SYNC:
                error = effect.result.error
                self.signals.sync_released(effect.to.group_id, effect.to.member_id, error, now_ms)
            elif isinstance(effect, Arm) and effect.timer.kind is TimerKind.HOLD:
                self._timers.arm(effect.timer, effect.deadline_ms, partial(self.fire, effect.timer))
            elif isinstance(effect, Announce):
                self.signals.round_announced(effect, now_ms)
        for effect in decision:
            if isinstance(effect, Then) and self._happens_everywhere(effect.command):
                self.predict(decide(self.shard, effect.command, now_ms), now_ms)

    def fire(self, timer: Timer, now_ms: int) -> None:
        """Predict what a timer does that ends."""
        self.predict(decide(self.shard, TimerFired(timer), now_ms), now_ms)
        self.signals.group_changed(timer.group_id, now_ms)

    def _happens_everywhere(self, command: Command) -> bool:
        """Whether what a decision asks for next happens at any coordinator, and at once."""
        if isinstance(command, CheckJoin | FormGeneration):
            return not self.shard.classic_group(command.group_id).members  # without members it becomes empty
        return isinstance(command, OpenRound)

    def open_round(self, group: ClassicGroup, cause: Cause, now_ms: int) -> None:
        """Open a round unless one gathers members already."""
        if group.phase is not Phase.PREPARING_REBALANCE:
            self.predict(decide(self.shard, OpenRound(group.group_id, cause), now_ms), now_ms)

    def remove(self, group: ClassicGroup, member_id: str, cause: Cause, now_ms: int) -> None:
        """Remove a member."""
        member = group.members[member_id]
        is_timeout = cause.kind is CauseKind.SESSION_TIMEOUT
        idle_ms = self.last_requests.idle_ms(member_id, now_ms) if is_timeout else -1
        self.apply(
            MemberRemoved(group.group_id, member_id, member.instance_id, cause, idle_ms, member.session_timeout_ms),
            now_ms,
        )

    def evicted(self, group_id: str, member_id: str, now_ms: int) -> None:
        """The coordinator does not know a member any more."""
        group = self.group(group_id)
        if group is None or member_id not in group.members:
            return
        cause = self.last_requests.cause_of_absence(group, member_id, now_ms)
        self.remove(group, member_id, cause, now_ms)
        self.open_round(group, cause, now_ms)

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Store the assignments of the group's generation, by member id."""
        self.apply(synced(group, assignments, now_ms, Cause(CauseKind.LEADER_SYNCED, now_ms, group.leader)), now_ms)


def synced(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, cause: Cause) -> GroupStored:
    """Return the group's generation with these assignments, by member id."""
    members = (
        stored_member(member, group.protocol_name, assignments.get(member_id, b""))
        for member_id, member in group.members.items()
    )
    return stored(group, members, now_ms, cause)


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    """Return a group's assignments, by member id."""
    return {member_id: member.assignment for member_id, member in group.members.items()}
