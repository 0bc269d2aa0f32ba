"""How members join a consumer group, also under an instance id, and what their heartbeats change of their records.

Everything that a heartbeat sends of its sender goes through `subscribe`, whichever member sends it. What it leaves out
has not changed. A new member, another subscription, another assignor of the group, or standby copies that have caught
up take the group's epoch on, once for a heartbeat; a rack, a timeout or a host do not.

An instance that announced its return (-2) is replaced (KIP-345 in the terms of KIP-848): the new member takes over what
the old one subscribed to, owns and is to own, so nothing moves and the epoch stays. One that is alive stays in place,
and any other member that claims it is refused; but a member that only repeats its own join, since its answer was lost,
is admitted again (kafka#23542), and a native member takes the place of the classic member it was before an upgrade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace

from kohort.group.commands import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    AssignTarget,
    ConsumerHeartbeat,
    Reconcile,
    ResolveExpressions,
)
from kohort.group.consumer.classic_members import release
from kohort.group.consumer.exit import delete_member, transfer_target
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, metadata_hash, regex_topics
from kohort.group.consumer.reconcile import is_within
from kohort.group.consumer.target import assignor_of
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Effect, Effects, Reply, Then
from kohort.group.events import (
    ConsumerGroupStored,
    ConsumerMemberStored,
    MemberAssignmentStored,
    MemberState,
    RegexDeleted,
    RegexStored,
)
from kohort.group.group_timers import session_timer
from kohort.group.results import ConsumerHeartbeatResult, refused
from kohort.model.cause import Cause, CauseKind, HeartbeatReason
from kohort.model.errors import ErrorCode
from kohort.model.subscription import topic_difference

RESOLUTION_INTERVAL_MS = 10_000
"""The time between resolutions of a group's expressions, unless each is resolved at once, is longer (as in Kafka)."""


def decide_join(group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a member in, or in again: to join twice does no harm (KAFKA-19233)."""
    member_id = command.member_id or command.new_member_id
    member = group.members.get(member_id)
    if member is None and len(group.members) >= settings.consumer_max_size:
        text = f"{settings.consumer_max_size} members are in already"
        yield Reply(refused(ErrorCode.GROUP_MAX_SIZE_REACHED, text))
        return
    kind = CauseKind.MEMBER_JOINED if member is None else CauseKind.MEMBER_REJOINED
    cause = Cause(kind, now_ms, member_id, command.reason)
    yield from subscribe(group, member or ConsumerMember(group.group_id, member_id), command, cause, settings)


def regex_refusal(
    group: ConsumerGroup | None, command: ConsumerHeartbeat, settings: GroupSettings
) -> ConsumerHeartbeatResult | None:
    """Return the answer to an expression that cannot be used, or None. One that the group uses already is good."""
    regex = command.subscribed_topic_regex
    if not regex or (group is not None and regex in group.regexes):
        return None
    error = settings.image.regex_error(regex)
    return None if error is None else refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex}: {error}")


def subscribe(
    group: ConsumerGroup,
    member: ConsumerMember,
    command: ConsumerHeartbeat,
    cause: Cause,
    settings: GroupSettings,
    *,
    replaces: ConsumerMember | None = None,
) -> Effects:
    """Store what the sender sends of itself, raise the epoch if that matters to the group, and reconcile it.

    `member` is the sender as the group knows it; a new one is not in the group yet. `replaces` is the member whose
    instance it has taken over, and all that it was with it; that one's records are gone already.
    """
    group_id, member_id = group.group_id, member.member_id
    before = replaces or member
    if member.classic is not None:
        yield from release(group, member_id, ErrorCode.FENCED_INSTANCE_ID)
    record = member_record(group, before, member_id, command, cause)
    change = yield from store_member(group, before, record, cause, settings)
    if not command.is_counted:
        timeout_ms = settings.config_of(group_id).session_timeout_ms
        yield Arm(session_timer(group_id, member_id), cause.at_ms + timeout_ms)
    if change is not None or not settings.resolves_at_once:  # a target may be due that no epoch of this one calls for
        yield Then(AssignTarget(group_id, change or cause))
    has_changed = record.subscribed_topic_names != before.subscribed_topic_names or (
        record.subscribed_topic_regex != before.subscribed_topic_regex
    )
    yield Then(Reconcile(group_id, member_id, command, is_full(command), has_changed))
    yield from late_resolution(group, before, record.subscribed_topic_regex, cause.at_ms, settings)


def store_member(
    group: ConsumerGroup, before: ConsumerMember, record: ConsumerMemberStored, cause: Cause, settings: GroupSettings
) -> Generator[Effect, None, Cause | None]:
    """Store a member's record if it differs, and take the epoch on if that matters to the group; return why it does.

    `before` is the member as the group knows it, or the one whose place it takes.
    """
    change = change_of(group, before, record, settings, cause)
    if before.member_id != record.member_id or not before.is_stored or not before.has_stored(record):
        yield Append(replace(record, cause=change or cause))
    if record.subscribed_topic_regex != before.subscribed_topic_regex:
        yield from regex_effects(group, before, record, cause, settings)
    if change is not None:
        stored_hash = hash_after(group, before, record, settings)
        yield Append(ConsumerGroupStored(group.group_id, group.epoch + 1, stored_hash, change))
    return change


def member_record(
    group: ConsumerGroup, before: ConsumerMember, member_id: str, command: ConsumerHeartbeat, cause: Cause
) -> ConsumerMemberStored:
    """Return the member's record after a heartbeat: what it leaves out is as it was, or is not there if it joins.

    A joiner sends everything. Where an instance comes back, Kafka uses the expression and the assignor of the process
    before, of which the new one knows nothing.
    """
    names, regex = command.subscribed_topic_names, command.subscribed_topic_regex
    rack_id, assignor = command.rack_id, command.server_assignor
    if command.member_epoch == 0:
        names, regex = names or (), regex or ""
    else:
        rack_id = before.rack_id if rack_id is None else rack_id
        assignor = before.server_assignor if assignor is None else assignor
    return ConsumerMemberStored(
        group_id=group.group_id,
        member_id=member_id,
        instance_id=before.instance_id if command.instance_id is None else command.instance_id,
        rack_id=rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=before.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms
        ),
        server_assignor=assignor,
        classic=None,
        cause=cause,
        lags=before.lags if command.lags is None else command.lags,
        acceptable_recovery_lag=(
            before.acceptable_recovery_lag if command.lags is None else command.acceptable_recovery_lag
        ),
    )


def change_of(
    group: ConsumerGroup, before: ConsumerMember, record: ConsumerMemberStored, settings: GroupSettings, cause: Cause
) -> Cause | None:
    """Return why the group's epoch must rise, or None. The detail of `cause` is what the sender gave as its reason."""
    is_late = is_resolved_late(group, record.subscribed_topic_regex, settings)
    if not before.is_stored and (record.subscribed_topic_names or not is_late):
        return cause
    if record.subscribed_topic_names != before.subscribed_topic_names:
        detail = topic_difference(before.subscribed_topic_names, record.subscribed_topic_names)
        return replace(cause, kind=CauseKind.SUBSCRIPTION_CHANGED, detail=detail)
    if record.subscribed_topic_regex != before.subscribed_topic_regex and not is_late:
        return replace(cause, kind=CauseKind.SUBSCRIPTION_CHANGED, detail=record.subscribed_topic_regex)
    if record.server_assignor != before.server_assignor:
        votes = group.assignors.copy()
        for name, vote in ((before.server_assignor, -1), (record.server_assignor, +1)):
            if name is not None:
                votes[name] += vote
        name = assignor_of(group, settings, votes)
        if name != assignor_of(group, settings):
            return replace(cause, kind=CauseKind.ASSIGNOR_CHANGED, detail=name)
    if record.lags != before.lags and cause.detail in tuple(HeartbeatReason):
        return replace(cause, kind=CauseKind.STANDBY_LAG)
    return None


def is_resolved_late(group: ConsumerGroup, regex: str, settings: GroupSettings) -> bool:
    """Whether an expression is new to the group and is left to `late_resolution`."""
    return bool(regex) and regex not in group.regexes and not settings.resolves_at_once


def late_resolution(
    group: ConsumerGroup, before: ConsumerMember, regex: str, now_ms: int, settings: GroupSettings
) -> Effects:
    """Have all expressions resolved after the response if one is not yet, as Kafka does with any member's heartbeat.

    `regex` is the sender's own after the heartbeat. The group is compared with what it had resolved before that.
    """
    if settings.resolves_at_once:
        return
    subscribed = group.regex_subscribers - Counter([before.subscribed_topic_regex]) + Counter([regex])
    del subscribed[""]
    is_open = regex not in ("", *group.regex_subscribers) or len(subscribed) != len(group.regexes)
    last = next(iter(group.regexes.values()), None)
    if subscribed and is_open and (last is None or now_ms > last.timestamp_ms + RESOLUTION_INTERVAL_MS):
        yield Then(ResolveExpressions(group.group_id, Cause(CauseKind.REGEX_RESOLVED, now_ms, detail=regex)))


def regex_effects(
    group: ConsumerGroup, before: ConsumerMember, record: ConsumerMemberStored, cause: Cause, settings: GroupSettings
) -> Effects:
    """Resolve an expression that is new to the group, and forget one that no member uses any more."""
    regex = record.subscribed_topic_regex
    if regex and regex not in group.regexes and settings.resolves_at_once:
        topics = tuple(sorted(settings.image.matching(regex, group.group_id) or ()))
        resolved = replace(cause, kind=CauseKind.REGEX_RESOLVED)
        yield Append(RegexStored(group.group_id, regex, topics, 0, cause.at_ms, resolved))
    old = before.subscribed_topic_regex
    if old in group.regexes and group.regex_subscribers[old] == 1:
        yield Append(RegexDeleted(group.group_id, old, cause))


def hash_after(
    group: ConsumerGroup, before: ConsumerMember, record: ConsumerMemberStored, settings: GroupSettings
) -> int:
    """Return the metadata hash that the group has then. It is computed anew only if other topics are subscribed to."""
    names = {name for name in record.subscribed_topic_names if name not in group.subscribers}
    gone = set(before.subscribed_topic_names) - set(record.subscribed_topic_names)
    gone = {name for name in gone if group.subscribers[name] == 1}
    is_same_regex = record.subscribed_topic_regex == before.subscribed_topic_regex
    if not names and not gone and is_same_regex:
        return group.metadata_hash
    old, new = before.subscribed_topic_regex, record.subscribed_topic_regex
    regexes = set(group.regex_subscribers)
    if not is_same_regex and group.regex_subscribers[old] == 1:
        regexes.discard(old)
    found = (set(group.subscribers) - gone) | names
    for regex in regexes:
        found.update(regex_topics(group, regex))
    if new and not is_resolved_late(group, new, settings):
        is_known = new in group.regexes
        found.update(regex_topics(group, new) if is_known else settings.image.matching(new, group.group_id) or ())
    return metadata_hash(found, settings.image)


def decide_static_join(
    group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Let a member with an instance id in."""
    member_id = command.member_id or command.new_member_id
    instance_id = command.instance_id
    assert instance_id is not None, "a static member has an instance id"
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        yield from decide_join(group, command, now_ms, settings)
        return
    holder = group.members[holder_id]
    if holder_id == member_id:
        yield from _come_back(group, holder, command, now_ms, settings)
    elif holder.epoch != LEAVE_STATIC_EPOCH and holder.classic is None:
        text = f"instance {instance_id} belongs to {holder_id}, which has not left: {member_id} must wait until it has"
        yield Reply(refused(ErrorCode.UNRELEASED_INSTANCE_ID, text))
    elif member_id in group.members:
        text = f"member {member_id} is in the group already, and instance {instance_id} is {holder_id}'s"
        yield Reply(refused(ErrorCode.UNRELEASED_INSTANCE_ID, text))
    else:
        yield from _replace(group, holder, member_id, command, now_ms, settings)


def _come_back(
    group: ConsumerGroup, member: ConsumerMember, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Take a member up again that had left for a while, or that repeats its join."""
    cause = Cause(CauseKind.MEMBER_REJOINED, now_ms, member.member_id, command.reason)
    if member.epoch == LEAVE_STATIC_EPOCH:
        yield Append(
            MemberAssignmentStored(
                group.group_id, member.member_id, 0, 0, MemberState.STABLE, member.assigned, (), cause
            )
        )
    yield from subscribe(group, member, command, cause, settings)


def _replace(
    group: ConsumerGroup,
    old: ConsumerMember,
    member_id: str,
    command: ConsumerHeartbeat,
    now_ms: int,
    settings: GroupSettings,
) -> Effects:
    """Put a new member in the place of an old one: only its name is new."""
    detail = f"instance {old.instance_id} was {old.member_id}"
    cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, detail)
    yield from delete_member(group, old, cause, ErrorCode.FENCED_INSTANCE_ID)
    newcomer = ConsumerMember(group.group_id, member_id)
    yield from subscribe(group, newcomer, command, cause, settings, replaces=old)
    yield from transfer_target(group, old, member_id, cause)


def request_refusal(command: ConsumerHeartbeat, settings: GroupSettings) -> ConsumerHeartbeatResult | None:
    """Return the answer to a heartbeat that no group could take, or None."""
    wrong = _wrong_name(command) or _wrong_epoch(command)
    if wrong is not None:
        return refused(ErrorCode.INVALID_REQUEST, wrong)
    assignor = command.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        known = ", ".join(settings.assignors) or "none"
        return refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"assignor {assignor} is not known here; there are: {known}")
    return None


def _wrong_name(command: ConsumerHeartbeat) -> str | None:
    needs_member_id = command.api_version >= 1 or command.member_epoch != 0
    if not command.member_id.strip() and needs_member_id:
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", command.group_id),
        ("InstanceId", command.instance_id),
        ("RackId", command.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    return None


def _wrong_epoch(command: ConsumerHeartbeat) -> str | None:
    epoch = command.member_epoch
    if epoch < LEAVE_STATIC_EPOCH:
        return f"member epoch {epoch} means nothing"
    if epoch == LEAVE_STATIC_EPOCH and command.instance_id is None:
        return "a member that leaves for a while (epoch -2) must send its instance id"
    if epoch == 0:
        if command.rebalance_timeout_ms == -1:
            return "a member that joins (epoch 0) must send its rebalance timeout"
        if command.owned is None or command.owned:
            return "a member that joins (epoch 0) must send that it owns no partitions"
        if command.subscribed_topic_names is None and command.subscribed_topic_regex is None:
            return "a member that joins (epoch 0) must send what it subscribes to"
    return None


def is_leaving(command: ConsumerHeartbeat) -> bool:
    """Whether the sender goes, for good or for a while."""
    return command.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)


def is_full(command: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat sends everything, so that its sender may know nothing: it is sent its whole assignment."""
    if command.member_epoch == 0:
        return True
    has_subscription = command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None
    return command.rebalance_timeout_ms != -1 and has_subscription and command.owned is not None


def epoch_refusal(member: ConsumerMember, command: ConsumerHeartbeat) -> ConsumerHeartbeatResult | None:
    """Return the answer to a member that shows an epoch it cannot have, or None.

    The epoch before the member's own is good unless the sender owns more than it was granted: then the answer that
    carried the newer one was lost. Kafka fences who does not send what it owns; but a member that reached the newer
    epoch had given back what it had to, and is only sent again.
    """
    sent, known = command.member_epoch, member.epoch
    if sent == known:
        return None
    is_possible = command.owned is None or is_within(command.owned, member.assigned)
    if sent < known and sent == member.previous_epoch and is_possible:
        return None
    text = f"member {member.member_id} shows epoch {sent} and has {known}: it must revoke everything and join again"
    return refused(ErrorCode.FENCED_MEMBER_EPOCH, text)
