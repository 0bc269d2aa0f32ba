"""Who comes to a consumer group, and what members say of themselves: their records, and what the group makes of them.

Everything that a heartbeat says of its sender goes through `subscribe`, whoever sends it. What it leaves out has not
changed. A new member, another subscription, another assignor of the group, or standby copies that have caught up take
the group's epoch on, once for a heartbeat; a rack, a timeout or a host do not.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.consumer.classic_members import release
from kohort.group.consumer.commands import AssignTarget, ConsumerHeartbeat, Reconcile
from kohort.group.consumer.events import ConsumerGroupStored, ConsumerMemberStored, RegexDeleted, RegexStored
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.request import is_full, refused
from kohort.group.consumer.target import assignor_of
from kohort.group.consumer.topics import metadata_hash, regex_topics
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Effects, Reply, Then
from kohort.group.group_timers import session_timer
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.reason import HeartbeatReason
from kohort.model.subscription import topic_difference


def decide_join(group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a dynamic member in, or in again: to join twice does no harm (KAFKA-19233)."""
    member_id = command.member_id or command.new_member_id
    member = group.members.get(member_id)
    if member is None and len(group.members) >= settings.consumer_max_size:
        yield Reply(too_large(settings))
        return
    kind = CauseKind.MEMBER_JOINED if member is None else CauseKind.MEMBER_REJOINED
    cause = Cause(kind, now_ms, member_id, command.reason)
    yield from subscribe(group, member or ConsumerMember(group.group_id, member_id), command, cause, settings)


def too_large(settings: GroupSettings) -> ConsumerHeartbeatResult:
    """Return the answer to a joiner for whom there is no room."""
    return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{settings.consumer_max_size} members are in already")


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
    """Store what the sender says of itself, take the epoch on if that matters to the group, and reconcile it.

    `member` is the sender as the group knows it; a new one is not in the group yet. `replaces` is the member whose
    instance it has taken over, and all that it was with it; that one's records are gone already.
    """
    group_id, member_id = group.group_id, member.member_id
    before = replaces or member
    if member.classic is not None:
        yield from release(group, member_id, ErrorCode.FENCED_INSTANCE_ID)
    said = _said(group, before, member_id, command, cause)
    is_new = not before.is_stored
    change = change_of(group, before, said, settings, cause)
    if is_new or replaces is not None or not _is_known(member, said):
        yield Append(replace(said, cause=change or cause))
    if said.subscribed_topic_regex != before.subscribed_topic_regex:
        yield from regex_effects(group, before, said, cause, settings)
    if change is not None:
        stored_hash = hash_after(group, before, said, settings)
        yield Append(ConsumerGroupStored(group_id, group.epoch + 1, stored_hash, change))
    if not command.is_counted:
        timeout_ms = settings.config_of(group_id).session_timeout_ms
        yield Arm(session_timer(group_id, member_id), cause.at_ms + timeout_ms)
    if change is not None:
        yield Then(AssignTarget(group_id, change))
    has_changed = change is not None and change.kind is CauseKind.SUBSCRIPTION_CHANGED
    yield Then(Reconcile(group_id, member_id, command, is_full(command), has_changed))


def _said(
    group: ConsumerGroup, before: ConsumerMember, member_id: str, command: ConsumerHeartbeat, cause: Cause
) -> ConsumerMemberStored:
    """Return the member's record after a heartbeat: what it leaves out is as it was, or is not there if it joins.

    A joiner says everything. Where an instance comes back, Kafka keeps the expression and the assignor of the process
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


def _is_known(member: ConsumerMember, said: ConsumerMemberStored) -> bool:
    return (
        member.instance_id == said.instance_id
        and member.rack_id == said.rack_id
        and member.client_id == said.client_id
        and member.client_host == said.client_host
        and member.subscribed_topic_names == said.subscribed_topic_names
        and member.subscribed_topic_regex == said.subscribed_topic_regex
        and member.rebalance_timeout_ms == said.rebalance_timeout_ms
        and member.server_assignor == said.server_assignor
        and member.classic is None
        and member.lags == said.lags
        and member.acceptable_recovery_lag == said.acceptable_recovery_lag
    )


def change_of(
    group: ConsumerGroup, before: ConsumerMember, said: ConsumerMemberStored, settings: GroupSettings, cause: Cause
) -> Cause | None:
    """Return why the group's epoch must go on, or None. The detail of `cause` is what the sender gave as its reason."""
    if not before.is_stored:
        return cause
    if said.subscribed_topic_names != before.subscribed_topic_names:
        detail = topic_difference(before.subscribed_topic_names, said.subscribed_topic_names)
        return replace(cause, kind=CauseKind.SUBSCRIPTION_CHANGED, detail=detail)
    if said.subscribed_topic_regex != before.subscribed_topic_regex:
        return replace(cause, kind=CauseKind.SUBSCRIPTION_CHANGED, detail=said.subscribed_topic_regex)
    if said.server_assignor != before.server_assignor:
        votes = group.assignors.copy()
        for name, vote in ((before.server_assignor, -1), (said.server_assignor, +1)):
            if name is not None:
                votes[name] += vote
        name = assignor_of(group, settings, votes)
        if name != assignor_of(group, settings):
            return replace(cause, kind=CauseKind.ASSIGNOR_CHANGED, detail=name)
    if said.lags != before.lags and cause.detail in tuple(HeartbeatReason):
        return replace(cause, kind=CauseKind.STANDBY_LAG)
    return None


def regex_effects(
    group: ConsumerGroup, before: ConsumerMember, said: ConsumerMemberStored, cause: Cause, settings: GroupSettings
) -> Effects:
    """Resolve an expression that is new to the group, and forget one that nobody uses any more."""
    regex = said.subscribed_topic_regex
    if regex and regex not in group.regexes:
        topics = tuple(sorted(settings.image.matching(regex)))
        resolved = replace(cause, kind=CauseKind.REGEX_RESOLVED)
        yield Append(RegexStored(group.group_id, regex, topics, 0, cause.at_ms, resolved))
    old = before.subscribed_topic_regex
    if old in group.regexes and group.regex_subscribers[old] == 1:
        yield Append(RegexDeleted(group.group_id, old, cause))


def hash_after(
    group: ConsumerGroup, before: ConsumerMember, said: ConsumerMemberStored, settings: GroupSettings
) -> int:
    """Return the metadata hash that the group has then. It is computed anew only if other topics are subscribed to."""
    names = {name for name in said.subscribed_topic_names if name not in group.subscribers}
    gone = set(before.subscribed_topic_names) - set(said.subscribed_topic_names)
    gone = {name for name in gone if group.subscribers[name] == 1}
    is_same_regex = said.subscribed_topic_regex == before.subscribed_topic_regex
    if not names and not gone and is_same_regex:
        return group.metadata_hash
    old, new = before.subscribed_topic_regex, said.subscribed_topic_regex
    regexes = set(group.regex_subscribers)
    if not is_same_regex and group.regex_subscribers[old] == 1:
        regexes.discard(old)
    found = (set(group.subscribers) - gone) | names
    for regex in regexes:
        found.update(regex_topics(group, regex))
    if new:
        found.update(regex_topics(group, new) if new in group.regexes else settings.image.matching(new))
    return metadata_hash(found, settings.image)
