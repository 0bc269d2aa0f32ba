"""The group coordinator's runtime: it carries out what `kohort.group` decides, in the order that `Decision` states.

Commits that come together share a batch of records: no commit's decision depends on another's. It knows no protocol
rule and no API version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import (
    AppendFailed,
    AssignTarget,
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    Heartbeat,
    TargetMeasured,
    TimerFired,
    Unload,
)
from kohort.group.decisions import append_error, decide
from kohort.group.effects import (
    Announce,
    Append,
    Arm,
    Decision,
    Disarm,
    Note,
    Park,
    Parked,
    ParkedKind,
    Reply,
    Then,
    WakeMembers,
)
from kohort.group.events import (
    Event,
    HardEvent,
    JoinRefused,
    OffsetCommitted,
    OffsetPending,
    RoundAnnounced,
    TargetStored,
)
from kohort.group.group_timers import Timer, TimerKind, hold_timer
from kohort.group.results import ConsumerHeartbeatResult, HeartbeatResult, Result, SyncResult
from kohort.group.shard import Shard, apply
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from kohort.log.disk import StorageError
from kohort.log.offsets_topic import encode_events
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.broker_state import Services
from kohort.node.groups.event_topic import EventTopic, EventWriter
from kohort.node.groups.offsets_partition import (
    GroupPartitions,
    OffsetsPartition,
    Progress,
    Status,
    Ticket,
    failure,
    refusal,
)
from kohort.node.timers import NodeClock, Timers
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.client_software import ClientSoftware
from kohort.parking.consumer_heartbeats import ConsumerParking
from kohort.parking.parked_heartbeat import ParkedHeartbeat

log = logging.getLogger("kohort.node")

RELOAD_MS, LONGEST_RELOAD_MS = 2_000, 60_000
"""When a partition is loaded again after its disk has failed, and how seldom at the end."""

GATHERED = 256
"""How many commits are appended together at most."""

ParkedClassic = ParkedHeartbeat[Heartbeat, HeartbeatResult]
EpochHeartbeat = ConsumerHeartbeat | StreamsHeartbeat
EpochResult = ConsumerHeartbeatResult | StreamsHeartbeatResult
ParkedEpoch = ParkedHeartbeat[EpochHeartbeat, Result]
_ALIVE = HeartbeatResult(ErrorCode.NONE)


class GroupObserver(Protocol):
    """Hooks for checkers of the coordinator, such as the simulator's; without an observer they cost nothing."""

    def partition_loaded(self, hosted: OffsetsPartition, /) -> None:
        """An offsets partition was replayed; its groups are taken up next."""

    def event_applied(self, shard: Shard, event: Event, now_ms: int, /) -> None:
        """An event of a decision has changed a group."""


class Runtime:
    """Carries out decisions about the groups of one node; `partitions` are those of `__consumer_offsets`."""

    def __init__(
        self, services: Services, partitions: Sequence[OffsetsPartition], observer: GroupObserver | None
    ) -> None:
        config, timers = services.config, services.timers
        self._clock = services.clock
        self._timers = timers
        self._durability = services.durability
        self._partitions = partitions
        self.partition_by_group = GroupPartitions(partitions)
        """In which partition each group is."""
        self._observer = observer
        self.parked: dict[Parked, Ticket] = {}
        """The requests that wait."""
        self.classic_parking: ClassicParking[Heartbeat, HeartbeatResult] = ClassicParking(
            timers, self._answer_of, HeartbeatResult, self._note_announced
        )
        self._is_parking = config.kohort_group_heartbeat_park
        self._commit_delay_ms = config.kohort_group_commit_delay_ms
        self.epoch_parking: ConsumerParking[EpochHeartbeat, Result] = ConsumerParking(
            timers,
            self._answer_parked,
            config.kohort_group_consumer_heartbeat_park_ms,
            config.kohort_group_consumer_heartbeat_park_stable_ms,
            config.kohort_group_consumer_heartbeat_settling_ms,
        )
        self._woken: dict[ParkedEpoch, None] = {}
        """Parked heartbeats of members that may get another answer."""
        self._is_waking = False
        self._has_changed = False
        """Whether something happened to a group that its parked heartbeats have not been asked about."""
        self._events = None
        if config.kohort_group_events:
            store = EventTopic(services.topics, config.kohort_group_events_retention_bytes)
            self._events = EventWriter(timers, store)

    def stop(self) -> None:
        """Write the last events; parked requests die with their connections."""
        if self._events is not None:
            self._events.flush(self._clock.now_ms)

    def hosted(self, group_id: str) -> OffsetsPartition | None:
        """Return a group's partition, with all commits decided; None while there is no offsets topic."""
        if not self._partitions:
            return None
        hosted = self.partition_by_group[group_id]
        if hosted.gathered:
            self.commit_gathered(hosted)
        return hosted

    def load(self, hosted: OffsetsPartition, progress: Progress, again_ms: int = RELOAD_MS) -> None:
        """Replay a partition and take its groups up; where the disk fails, again after `again_ms` and ever later."""
        commands = list(hosted.load(progress))
        if hosted.is_failed_for_now:
            self._reload_later(hosted, again_ms)
        if self._observer is not None:
            self._observer.partition_loaded(hosted)
        for command in commands:
            self.run(hosted, command, None)

    # -- heartbeats, which are many

    def heartbeat(
        self, hosted: OffsetsPartition, command: Heartbeat, ticket: Ticket, client: ClientSoftware
    ) -> ParkedClassic | None:
        """Decide a heartbeat of a classic member, and park it if there is no rebalance yet and its sender can wait."""
        result, arm, now_ms = None, None, self._clock.now_ms
        decision = decide(hosted.shard, command, now_ms)
        for effect in decision:
            if type(effect) is Reply:
                result = effect.result
            elif type(effect) is Arm and arm is None:
                arm = effect
            else:
                self.run(hosted, command, ticket, decision)
                return None
        assert type(result) is HeartbeatResult, "a heartbeat is answered by a heartbeat's result"
        if arm is not None:
            if not self._timers.move(arm.timer, arm.deadline_ms):
                self._arm(arm)
            if self._is_parking and not client.habits.is_stopped:
                parked = self.classic_parking.park(
                    command,
                    result,
                    ticket,
                    arm.deadline_ms - now_ms,
                    now_ms,
                    client=client,
                    can_wait=command.instance_id is None or client.habits.parks_static,
                    commit_delay_ms=self._commit_delay_ms,
                )
                if parked is not None:
                    command.is_counted = True
                    return parked
        ticket(result)
        return None

    def epoch_heartbeat(self, hosted: OffsetsPartition, command: EpochHeartbeat, ticket: Ticket) -> ParkedEpoch | None:
        """Decide a heartbeat with a member epoch, and park it if its answer has nothing new."""
        result, arm, now_ms = None, None, self._clock.now_ms
        decision = decide(hosted.shard, command, now_ms)
        if command.owned is not None:
            self.epoch_parking.passed_on(command, now_ms)
        for effect in decision:
            if type(effect) is Reply:
                result = effect.result
            elif type(effect) is Arm and arm is None:
                arm = effect
            else:
                self.run(hosted, command, self._noting_answer(command, ticket), decision)
                return None
        session_ms = 0
        if arm is not None:
            session_ms = arm.deadline_ms - now_ms
            if not self._timers.move(arm.timer, arm.deadline_ms):
                self._arm(arm)
        assert isinstance(result, EpochResult), "a heartbeat is answered by a heartbeat's result"
        if result.is_quiet and result.can_wait:
            parked = self.epoch_parking.park(command, ticket, session_ms, now_ms)
            if parked is not None:
                command.is_counted = True
                return parked
        self.epoch_parking.answering(command.group_id, result, command.margin_ms, now_ms)
        ticket(result)
        return None

    def _noting_answer(self, command: EpochHeartbeat, ticket: Ticket) -> Ticket:
        """Return a ticket that also notes the answer for parking."""

        def answer(result: Result) -> None:
            if isinstance(result, EpochResult):
                self.epoch_parking.answering(command.group_id, result, command.margin_ms, self._clock.now_ms)
            ticket(result)

        return answer

    def _answer_of(self, command: Heartbeat, now_ms: int) -> HeartbeatResult:
        """Return the answer to a parked heartbeat of a classic member as of now."""
        hosted = self.hosted(command.group_id)
        assert hosted is not None, "what is parked was decided once"
        if hosted.status is Status.ACTIVE:
            for effect in decide(hosted.shard, command, now_ms):
                if type(effect) is Reply and type(effect.result) is HeartbeatResult:
                    return effect.result
        return HeartbeatResult(hosted.error)

    def _answer_parked(self, parked: ParkedEpoch, now_ms: int) -> None:
        """Decide a heartbeat that was parked once more, and answer it."""
        command, ticket = parked.heartbeat, parked.answer
        hosted = self.hosted(command.group_id)
        assert hosted is not None, "what is parked was decided once"
        if hosted.status is not Status.ACTIVE:
            ticket(refusal(command, hosted.error))
            return
        decision = decide(hosted.shard, command, now_ms)
        quiet = _quiet_result(decision)
        if quiet is not None:  # as nearly always: there is nothing to carry out
            self.epoch_parking.answering(command.group_id, quiet, command.margin_ms, now_ms)
            ticket(quiet)
        else:
            self.run(hosted, command, self._noting_answer(command, ticket), decision)

    def _answer_woken(self) -> None:
        """Answer the parked heartbeats of woken members, and of members that these answers wake."""
        if self._is_waking:
            return
        self._is_waking = True
        try:
            while self._woken:
                parked = next(iter(self._woken))
                del self._woken[parked]
                command = parked.heartbeat
                hosted = self.hosted(command.group_id)
                if parked.parking is None or hosted is None:
                    continue
                decision = decide(hosted.shard, command, self._clock.now_ms)
                if _quiet_result(decision) is None:
                    parked.drop()
                    self.run(hosted, command, self._noting_answer(command, parked.answer), decision)
        finally:
            self._is_waking = False

    def _wake_members(self, parked: ParkedEpoch | None) -> None:
        if parked is not None:
            self._woken[parked] = None

    # -- commits, which are many

    def note_commit(self, hosted: OffsetsPartition, command: CommitOffsets) -> None:
        """Note when a member commits; in a round it may do so since it revokes partitions.

        Where a program waits for that, and its member for those that would revoke later, they revoke now.
        """
        group = hosted.shard.groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            now_ms = self._clock.now_ms
            is_behind = group.is_revoking_later and command.member_id in group.awaiting_sync
            if is_behind and self.classic_parking.is_awaited(command.member_id, now_ms):
                self.run(hosted, TimerFired(hold_timer(group.group_id, group.generation)), None)
            is_in_round = group.is_gathering or group.is_withholding
            self.classic_parking.committed(command.member_id, now_ms, is_in_round=is_in_round)

    def gather(self, hosted: OffsetsPartition, command: CommitOffsets, ticket: Ticket) -> None:
        """Gather a commit until this batch of input ends, or something else is asked of its partition."""
        if not hosted.gathered:
            self._durability.postpone(partial(self.commit_gathered, hosted))
        hosted.gathered.append((command, ticket))
        if len(hosted.gathered) >= GATHERED:
            self.commit_gathered(hosted)

    def commit_gathered(self, hosted: OffsetsPartition) -> None:
        """Carry out the commits that were gathered: as if each had been alone, with one append for all."""
        gathered, hosted.gathered = hosted.gathered, []
        if hosted.status is not Status.ACTIVE:
            for command, ticket in gathered:
                ticket(refusal(command, hosted.error))
            return
        shard, now_ms = hosted.shard, self._clock.now_ms
        # A first commit may make its group, on which the next one's decision then depends.
        if len(gathered) > 1 and all(command.group_id in shard.groups for command, _ in gathered):
            decisions = [decide(shard, command, now_ms) for command, _ in gathered]
            records = [event for decision in decisions for event in decision.records]
            if not records or not self._append(hosted, records):
                for (command, ticket), decision in zip(gathered, decisions, strict=True):
                    self._complete(hosted, command, decision, ticket)
                return
            # What one of them cannot store must not cost the others.
        for command, ticket in gathered:
            self.run(hosted, command, ticket)

    # -- running

    def run(
        self, hosted: OffsetsPartition, command: Command, ticket: Ticket | None, decision: Decision | None = None
    ) -> None:
        """Carry out a command and everything that follows from it; `decision` is its decision if it is made already."""
        if hosted.gathered:
            self.commit_gathered(hosted)
        group_id, now_ms = command.group_id, self._clock.now_ms
        followers = self._carry_out(hosted, command, decision or decide(hosted.shard, command, now_ms), ticket)
        while followers:
            command = followers.pop(0)
            if type(command) is AssignTarget and self._clock.elapsed_us is not None:
                followers += self._assign_target(hosted, command, self._clock.elapsed_us)
            else:
                followers += self._carry_out(hosted, command, decide(hosted.shard, command, now_ms), ticket)
        if self._has_changed:
            self._has_changed = False
            group = hosted.shard.groups.get(group_id)
            is_gathering = type(group) is ClassicGroup and group.is_gathering
            self.classic_parking.group_changed(group_id, now_ms, is_gathering=is_gathering)
        if self._woken:
            self._answer_woken()

    def _assign_target(
        self, hosted: OffsetsPartition, command: AssignTarget, elapsed_us: Callable[[], int]
    ) -> list[Command]:
        """Compute a target, and have the group know what that took."""
        began_us = elapsed_us()
        decision = decide(hosted.shard, command, self._clock.now_ms)
        cost_us = elapsed_us() - began_us
        followers = self._carry_out(hosted, command, decision, None)
        if any(type(event) is TargetStored for event in decision.records):
            followers.append(TargetMeasured(command.group_id, cost_us))
        return followers

    def _carry_out(
        self, hosted: OffsetsPartition, command: Command, decision: Decision, ticket: Ticket | None
    ) -> list[Command]:
        """Carry out one decision in the order that `Decision` states; return what is to be decided next."""
        records = decision.records
        if records and (error := self._append(hosted, records)):
            failed = AppendFailed(command, error)
            return self._carry_out(hosted, failed, decide(hosted.shard, failed, self._clock.now_ms), ticket)
        return self._complete(hosted, command, decision, ticket)

    def _complete(
        self, hosted: OffsetsPartition, command: Command, decision: Decision, ticket: Ticket | None
    ) -> list[Command]:
        """Let a decision happen whose records are in the log, and return what is to be decided next."""
        shard, observer, now_ms = hosted.shard, self._observer, self._clock.now_ms
        ready: list[tuple[Ticket, Result]] = []
        followers: list[Command] = []
        for effect in decision:
            match effect:
                case Append() | Note():  # the many are matched without their fields, which would cost more
                    event = effect.event
                    apply(shard, event)
                    if observer is not None:
                        observer.event_applied(shard, event, now_ms)
                    if type(event) is not OffsetCommitted and type(event) is not OffsetPending:
                        self._note(shard, event, now_ms)
                case Reply():
                    result, to = effect.result, effect.to
                    waiting = ticket if to is None else self.parked.pop(to, None)
                    if waiting is not None:
                        ready.append((waiting, result))
                    if type(result) is SyncResult and not result.error:
                        member_id = to.member_id if to else getattr(command, "member_id", "")
                        self.classic_parking.begin(member_id, now_ms)
                case Arm():
                    self._arm(effect)
                case Disarm(timer):
                    self._timers.disarm(timer)
                    if timer.kind is TimerKind.SESSION:
                        self._forget(timer)
                case WakeMembers(group_id, member_ids):
                    for member_id in member_ids:
                        self._wake_members(self.epoch_parking.parked_of(group_id, member_id))
                case Then(following):
                    followers.append(following)
                case Park(at) if ticket is not None:
                    self.parked[at] = ticket
                    if at.kind is ParkedKind.JOIN:
                        self.classic_parking.joined(at.group_id, at.member_id)
                case Announce(group_id, awaited, stopping, latest_ms) if self._is_parking:
                    self.classic_parking.announce(group_id, awaited, stopping, latest_ms, now_ms)
        if ready:
            self._answer(hosted, ready)
        return followers

    def _note(self, shard: Shard, event: Event, now_ms: int) -> None:
        """Note an event that was applied, for parked heartbeats and for the topic of events."""
        self._has_changed |= type(event) is not JoinRefused  # it changes nothing, and a client can cause any number
        if self._events is not None:
            self._events.note(shard, event, now_ms)

    def _append(self, hosted: OffsetsPartition, events: list[HardEvent]) -> ErrorCode:
        """Append the records of one decision; return why they are not in the log, or NONE."""
        now_ms = self._clock.now_ms
        try:
            hosted.partition.append([encode_events(events, now_ms)], now_ms)
        except StorageError:  # logged by the partition, once
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:
            log.error("append to %s: %s", hosted.partition.directory, error)
            return error.code
        return ErrorCode.NONE

    def _answer(self, hosted: OffsetsPartition, ready: list[tuple[Ticket, Result]]) -> None:
        """Let replies go, once the records before them are as durable as the log promises."""
        if hosted.partition.flushes and self._durability.when_durable(hosted.partition, partial(_release, ready)):
            return
        for ticket, result in ready:
            ticket(result)

    def unload(self, hosted: OffsetsPartition) -> None:
        """Forget a partition's groups until its log takes appends again, since a flush of it has failed.

        What is known of them need not be on the disk: a generation that members received from there would come again
        after a loss of power.
        """
        if hosted.status is Status.ACTIVE:
            for group_id in sorted(hosted.shard.groups):
                self.run(hosted, Unload(group_id), None)
            hosted.fail("a flush failed", is_for_now=True)
            self._reload_later(hosted, RELOAD_MS)

    def _reload_later(self, hosted: OffsetsPartition, wait_ms: int) -> None:
        def reload(again_ms: int) -> None:
            self.load(hosted, Progress(self._clock.elapsed_us), again_ms)

        load_later(self._timers, self._clock, hosted.partition.directory, wait_ms, reload)

    def _note_announced(self, group_id: str, waited_ms: int, now_ms: int) -> None:
        """Write that the members of a round learn of it now, and not when it began."""
        hosted = self.hosted(group_id)
        group = None if hosted is None else hosted.shard.groups.get(group_id)
        if hosted is not None and isinstance(group, ClassicGroup) and self._events is not None:
            cause = Cause(CauseKind.MEMBERS_REACHED, now_ms)
            self._events.note(hosted.shard, RoundAnnounced(group_id, group.generation, waited_ms, cause), now_ms)

    def _arm(self, effect: Arm) -> None:
        self._timers.arm(effect.timer, effect.deadline_ms, partial(self._fire, effect.timer))

    def _fire(self, timer: Timer, _now_ms: int) -> None:
        if timer.kind is TimerKind.SESSION:
            self._forget(timer)
        hosted = self.hosted(timer.group_id)
        if hosted is not None and hosted.status is Status.ACTIVE:
            self.run(hosted, TimerFired(timer), None)

    def _forget(self, session: Timer) -> None:
        """A member is out, or another id has taken its place."""
        self.classic_parking.forget(session.group_id, session.member_id)
        self._wake_members(self.epoch_parking.forget(session.group_id, session.member_id))


def load_later(timers: Timers, clock: NodeClock, directory: str, wait_ms: int, load: Callable[[int], None]) -> None:
    """Load a partition after a while, since its disk fails; `load` gets how long to wait where it fails again."""
    again_ms = min(2 * wait_ms, LONGEST_RELOAD_MS)
    timers.arm(("load", directory), clock.now_ms + wait_ms, lambda _: load(again_ms))


def _release(ready: list[tuple[Ticket, Result]], error: ErrorCode) -> None:
    """Send the replies that waited for a flush; after a failed one they are errors."""
    for ticket, result in ready:
        ticket(failure(result, append_error(error)) if error else result)


def _quiet_result(decision: Decision) -> EpochResult | None:
    """Return the answer of a decision that is only an answer, and an empty one, else None."""
    if len(decision) != 1 or type(decision[0]) is not Reply:
        return None
    result = decision[0].result
    if isinstance(result, EpochResult) and result.is_quiet and result.can_wait:
        return result
    return None
