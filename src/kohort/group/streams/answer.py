"""The answer of a heartbeat: one step of its sender towards the target, and what it must be sent."""

from __future__ import annotations

from kohort.group.coordinator_settings import GroupSettings, StreamsConfig
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Reply
from kohort.group.group_timers import revocation_timer
from kohort.group.streams.endpoints import endpoints_of
from kohort.group.streams.events import EndpointsChanged, StreamsMemberState, TopologyDescribed
from kohort.group.streams.exit import wake_waiting
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult, StreamsReconcile, refused
from kohort.group.streams.reconcile import TaskStep, is_unknown, reconcile
from kohort.group.streams.target import configured_of
from kohort.group.streams.topology import ConfiguredTopology, StatusCode, StreamsStatus
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import TasksByRole


def decide_reconcile(group: StreamsGroup, command: StreamsReconcile, now_ms: int, settings: GroupSettings) -> Effects:
    """Move the sender of a heartbeat one step, if it can go one, and answer it."""
    member, heartbeat = group.members[command.member_id], command.heartbeat
    if is_unknown(member, heartbeat.owned):
        text = f"member {member.member_id} is in a state of a later version: it must revoke everything and join again"
        yield Reply(refused(ErrorCode.FENCED_MEMBER_EPOCH, text))
        return
    # A member that shows the epoch before its own has missed an answer: it is sent that before anything changes.
    is_behind = 0 < heartbeat.member_epoch < member.epoch
    step = None
    if not is_behind and member.member_id in group.unsettled:
        step = reconcile(group, member, heartbeat.owned)
    if step is not None:
        yield Append(step.stored(group, member, Cause(CauseKind.MEMBER_RECONCILED, now_ms, member.member_id)))
        yield from _revocation_effects(group, member, step, now_ms)
        yield from wake_waiting(group, member, step)
    epoch, assigned = (member.epoch, member.assigned) if step is None else (step.epoch, step.assigned)
    has_others = step is not None and assigned.tasks != member.assigned.tasks
    is_sent = is_behind or heartbeat.is_full or has_others
    result = _answer(group, member, now_ms, settings, epoch, assigned.tasks if is_sent else None)
    if is_sent and member.endpoint is not None:
        yield Note(EndpointsChanged(group.group_id, Cause(CauseKind.MEMBER_RECONCILED, now_ms, member.member_id)))
        result.endpoint_epoch += 1
    if result.endpoint_epoch != heartbeat.endpoint_epoch:
        result.endpoints = endpoints_of(group, settings.image, {member.member_id: assigned})
    result.is_to_describe = asks_for_description(group, member, heartbeat, now_ms, settings)
    if result.is_to_describe:
        cause = Cause(CauseKind.TOPOLOGY_DESCRIBED, now_ms, member.member_id)
        yield Note(TopologyDescribed(group.group_id, group.description.asked(now_ms), cause))
    is_quiet = step is None and not is_sent and result.endpoints is None and not result.is_to_describe
    result.is_quiet = is_quiet and group.shutdown_by is None
    state = member.state if step is None else step.state
    result.is_settling = state is not StreamsMemberState.STABLE or epoch != group.assignment_epoch
    # One that waits for others can do nothing itself; on behalf of one that lacks topics they are made at once.
    is_waiting = state is StreamsMemberState.UNRELEASED_TASKS
    result.is_warming = member.reports_lags and bool(assigned.warmup)
    may_wait = not result.missing_topics and not result.is_warming
    result.can_wait = may_wait and (is_waiting or not result.is_settling)
    yield Reply(result)


def settled_answer(
    group: StreamsGroup, member: StreamsMember, heartbeat: StreamsHeartbeat, now_ms: int, settings: GroupSettings
) -> StreamsHeartbeatResult:
    """Return what `decide_reconcile` answers a member that has its target and shows its epoch, in a shorter way."""
    result = _answer(group, member, now_ms, settings, member.epoch, None)
    if result.endpoint_epoch != heartbeat.endpoint_epoch:
        result.endpoints = endpoints_of(group, settings.image, {member.member_id: member.assigned})
    result.is_quiet = result.endpoints is None and group.shutdown_by is None
    result.is_warming = member.reports_lags and bool(member.assigned.warmup)
    result.can_wait = not result.missing_topics and not result.is_warming
    return result


def asks_for_description(
    group: StreamsGroup, member: StreamsMember, heartbeat: StreamsHeartbeat, now_ms: int, settings: GroupSettings
) -> bool:
    """Whether the answer is to ask for the description of the topology."""
    is_due = heartbeat.reports_lags and settings.describes_topologies and group.description.is_due(now_ms)
    return is_due and group.topology is not None and member.topology_epoch == group.topology.epoch


def _revocation_effects(group: StreamsGroup, member: StreamsMember, step: TaskStep, now_ms: int) -> Effects:
    """Bound the time that a member has to give tasks back, from the step that asks for them."""
    unrevoked = StreamsMemberState.UNREVOKED_TASKS
    if member.state is unrevoked and (step.state is not unrevoked or step.epoch != member.epoch):
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))
    if step.state is unrevoked:
        timer = revocation_timer(group.group_id, member.member_id, step.epoch)
        yield Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))


def _answer(
    group: StreamsGroup,
    member: StreamsMember,
    now_ms: int,
    settings: GroupSettings,
    epoch: int,
    tasks: TasksByRole | None,
) -> StreamsHeartbeatResult:
    """Return the answer to a heartbeat, without endpoints and what parking needs."""
    config = settings.streams_config_of(group.group_id)
    configured = configured_of(group, settings.image)
    return StreamsHeartbeatResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        target_due_ms=group.delayed_until_ms,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
        task_offset_interval_ms=config.task_offset_interval_ms,
        statuses=_statuses_of(group, member, configured, config, now_ms),
        tasks=tasks,
        endpoint_epoch=group.endpoint_epoch,
        missing_topics=() if configured is None else configured.missing,
    )


def _statuses_of(
    group: StreamsGroup,
    member: StreamsMember,
    configured: ConfiguredTopology | None,
    config: StreamsConfig,
    now_ms: int,
) -> tuple[StreamsStatus, ...]:
    """Return why a member may run less than it should, in Kafka's words."""
    found: list[StreamsStatus] = []
    topology = group.topology
    if topology is not None and member.topology_epoch < topology.epoch:
        text = f"epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
        found.append(StreamsStatus(StatusCode.STALE_TOPOLOGY, f"The member's topology {text}"))
    if group.epoch > group.assignment_epoch:
        why = "initial rebalance delay" if now_ms < group.delayed_until_ms else "assignment interval"
        text = f"Assignment delayed due to the configured {why}."
        found.append(StreamsStatus(StatusCode.ASSIGNMENT_DELAYED, text))
    if configured is not None and configured.status is not None:
        found.append(configured.status)
    if group.shutdown_by is not None:
        text = "encountered a fatal error and requested a shutdown for the entire application."
        found.append(StreamsStatus(StatusCode.SHUTDOWN_APPLICATION, f"Streams group member {group.shutdown_by} {text}"))
    known = dict(member.client_tags) if config.rack_aware_tags else {}
    lacking = [key for key in config.rack_aware_tags if key not in known]
    if lacking and member.reports_lags:  # a client of v0 does not know this status
        text = f"Missing required client tags for rack-aware standby assignment: [{', '.join(lacking)}]."
        text += " Configure them via 'client.tag.<tagKey>' in your Streams config."
        found.append(StreamsStatus(StatusCode.MISSING_CLIENT_TAGS, text))
    return tuple(found)
