"""Consumer groups (KIP-848): the coordinator's half of ConsumerGroupHeartbeat.

THE MACHINE. There is no round. A group has an epoch, which rises whenever something happens that its assignment
depends on: who is in, what they subscribe to, what those topics are, who assigns. A target belongs to an epoch: what
each member should own. Every member walks to its target by itself, one step per heartbeat, at its own epoch:

    group epoch ──computed at once, if that is cheap──▶ target epoch ──step by step, when it heartbeats──▶ member epoch

    Empty: no members.  Assigning: the target is behind the group.  Reconciling: some member is behind the target.
    Stable: neither.  Dead: this coordinator has dropped the group.

A member's steps are in `reconcile`. What stays true: a partition is owned by one member at most, granted or not yet
given back, and a member reaches its target's epoch only after it has given back what the target takes from it.

THE RULES.
 1. Every record is a fact about one thing, and every prefix of a group's log is a group that works. So a heartbeat
    that changes much is decided in parts, each with records of its own: what the sender sends of itself and the group's
    epoch; the target (`AssignTarget`); the sender's step (`Reconcile`), which carries the answer. A crash between two
    leaves a member that has not received its answer and asks again.
 2. A heartbeat may be lost, its answer may, and both may come twice. To join twice is to join once. Who shows the
    epoch before its own, and does not own more than it was granted, has missed an answer: it is sent again what it
    missed and nothing changes, so it may do so as often as it likes. To leave twice is to leave once. What a member
    can never do is show an epoch that it has not been given: it is fenced, loses everything and joins again.
 3. An assignment is sent when it has changed, and whenever the sender shows that it may not know: it joins, it sends
    everything (clients do that after any error), or it shows an old epoch.
 4. A member that must act is woken: its parked heartbeat is answered at once, instead of the next one being waited for.
    Those are the members whose target a computation changed, and the one whose target a freed partition is in.
 5. A member's session is counted from its heartbeats. One that must give something back has its rebalance timeout for
    that, counted from the step that asks for it, and is evicted if it does not. One that waits for others has no bound.
 6. A static member (KIP-345) that will come back (-2) retains everything: its place in the target, and partitions
    that no member reads meanwhile. Its session runs on. Who comes back first under its instance id takes its place.
 7. Decisions cost what they change, whatever the size of the group; only a target walks all members.

THE TARGET is spaced out only if it is expensive: an assignor that takes a tenth of a second is asked every two seconds
at most, and never waits longer than the assignment interval (KIP-1263). Kafka spaces all targets one second apart and
answers with the old one meanwhile, which costs a second member its first five seconds. An assignor that fails leaves
the target standing; all members get the reason with each answer, and it is asked again at the next epoch or soon.

TOPICS are known from the image the runtime has. `TopicChanged` comes for each topic that the group subscribes to or
that one of its expressions may match: the expressions are resolved again, and the hash of what the topics are decides
whether the epoch rises. Kafka waits for the next heartbeat, and for expressions up to ten seconds more.

AFTER A FAILOVER nothing is lost: every member has a full session to send a request, one that owes partitions its full
rebalance timeout, a target that was due is computed, and topics that changed meanwhile are noticed.

DOUBTS.
 - A heartbeat that is delayed for so long that its sender has sent another one on another connection may be decided
   last. Its epoch identifies it unless the epoch has not changed; then what it owned when it was sent counts for what
   it owns. The protocol has no number for heartbeats, so neither Kafka nor kohort can know. Nothing that clients do
   leads there: they close the connection before they repeat a request, and a closed connection's requests are not read.
 - Kafka fences a lost answer's sender if it does not send what it owns. We do not: it would not have the newer epoch
   if it had not given back what it had to.
 - A member that left for a while makes its group Reconciling until it is back, as in Kafka.

The decisions are beside this module: `join` (requests that no group takes, joins, restarts of static members, what
members subscribe to), `answer`, `target`, `exit`, `classic_members` (the classic protocol inside); conversions are in
`group/migration`. This one checks who sends a heartbeat, routes timers, follows topics, takes groups up and drops
them.
"""

from __future__ import annotations

from kohort.group.classic.group import instance_error
from kohort.group.commands import (
    AssignTarget,
    ConsumerHeartbeat,
    DowngradeIfDue,
    Loaded,
    PrepareClassic,
    Reconcile,
    ResolveExpressions,
    TargetMeasured,
    TimerFired,
    TopicChanged,
    Unload,
)
from kohort.group.consumer import classic_members
from kohort.group.consumer.answer import decide_reconcile
from kohort.group.consumer.exit import (
    decide_leave,
    delete_member,
    disarm,
    expire_classic_member,
    expire_revocation,
    expire_session,
    session_timeout_ms,
)
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, metadata_hash, regex_topics
from kohort.group.consumer.join import (
    decide_join,
    decide_static_join,
    epoch_refusal,
    is_full,
    is_leaving,
    late_resolution,
    regex_refusal,
    request_refusal,
    subscribe,
)
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Reply, Then
from kohort.group.events import (
    ConsumerGroupStored,
    GroupLoaded,
    GroupUnloaded,
    MemberState,
    PartitionMetadataDeleted,
    RegexStored,
    TargetTimed,
)
from kohort.group.group_timers import TimerKind, revocation_timer, target_timer
from kohort.group.results import ConsumerHeartbeatResult, refused
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

TARGET_RETRY_MS = 1_000
"""How long after a failed append a target, or a look at the topics, is tried again."""


def decide_heartbeat(group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Renew the sender's session, and answer with what has changed for it. Most change nothing, and cost little."""
    member = group.members.get(command.member_id)
    if (
        member is not None
        and command.member_epoch == member.epoch
        and member.epoch > 0
        and command.subscribed_topic_names is None
        and command.subscribed_topic_regex is None
        and command.rebalance_timeout_ms == -1
        and command.server_assignor is None
        and command.rack_id is None
        and command.lags is None
        and (command.instance_id is None or command.instance_id == member.instance_id)
        and member.classic is None
        and command.member_id not in group.unsettled
        and not group.is_dead
        and (settings.resolves_at_once or not group.regex_subscribers)
    ):
        config = settings.config_of(group.group_id)
        result = ConsumerHeartbeatResult(
            ErrorCode.NONE,
            group.target_failure,
            member.member_id,
            member.epoch,
            config.heartbeat_interval_ms,
            True,  # is_quiet
        )
        if command.is_counted:  # the session runs from when it came, however late it is answered
            return (Reply(result),)
        return (Reply(result), Arm(member.session, now_ms + config.session_timeout_ms))
    return _decide_heartbeat(group, member, command, now_ms, settings)


def _decide_heartbeat(
    group: ConsumerGroup,
    member: ConsumerMember | None,
    command: ConsumerHeartbeat,
    now_ms: int,
    settings: GroupSettings,
) -> Effects:
    refusal = request_refusal(command, settings)
    if refusal is not None:
        yield Reply(refusal)
    elif group.is_dead:
        yield Reply(refused(ErrorCode.NOT_COORDINATOR, "the coordinator of the group is another one now"))
    elif is_leaving(command):
        yield from decide_leave(group, command, now_ms, settings)
    elif (refusal := regex_refusal(group, command, settings)) is not None:
        yield Reply(refusal)
    elif command.member_epoch == 0:
        decide = decide_join if command.instance_id is None else decide_static_join
        yield from decide(group, command, now_ms, settings)
    elif error := instance_error(group.static_members, command.member_id, command.instance_id):
        text = f"instance {command.instance_id} is not {command.member_id}'s: it must join again, or close"
        yield Reply(refused(error, text))
    elif member is None:
        text = f"member {command.member_id} is not in the group: it must revoke its partitions and join again"
        yield Reply(refused(ErrorCode.UNKNOWN_MEMBER_ID, text))
    elif (refusal := epoch_refusal(member, command)) is not None:
        yield Reply(refusal)
    else:
        yield from _go_on(group, member, command, now_ms, settings)


def _go_on(
    group: ConsumerGroup, member: ConsumerMember, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Store what a member sends, if it sends something of itself, and reconcile it."""
    has_changes = (
        command.subscribed_topic_names is not None
        or command.subscribed_topic_regex is not None
        or command.rebalance_timeout_ms != -1
        or command.server_assignor is not None
        or command.rack_id is not None
        or command.lags is not None
        or member.classic is not None
    )
    if has_changes:
        cause = Cause(CauseKind.MEMBER_CHANGED, now_ms, member.member_id, command.reason)
        yield from subscribe(group, member, command, cause, settings)
        return
    if not command.is_counted:
        yield Arm(member.session, now_ms + session_timeout_ms(member, settings, group.group_id))
    step = Reconcile(group.group_id, member.member_id, command, is_full(command))
    yield from decide_reconcile(group, step, now_ms, settings)
    yield from late_resolution(group, member, member.subscribed_topic_regex, now_ms, settings)


def decide_timer(group: ConsumerGroup, command: TimerFired, now_ms: int, settings: GroupSettings) -> Effects:
    """Do what a timer of the group was armed for, unless the group has moved on."""
    timer = command.timer
    match timer.kind:
        case TimerKind.SESSION:
            yield from expire_session(group, timer.member_id, now_ms, settings)
        case TimerKind.REBALANCE:
            yield from expire_revocation(group, timer.member_id, timer.generation, now_ms, settings)
        case TimerKind.TARGET:
            yield from _catch_up(group, now_ms, settings)
        case TimerKind.JOIN | TimerKind.SYNC if timer.member_id:
            yield from expire_classic_member(group, timer, now_ms, settings)


def decide_measured(group: ConsumerGroup, command: TargetMeasured, now_ms: int, _settings: GroupSettings) -> Effects:
    """Note what the last target took: the next one waits the longer, the more that is."""
    yield Note(TargetTimed(group.group_id, command.cost_us, Cause(CauseKind.TARGET_MEASURED, now_ms)))


def decide_topic_changed(group: ConsumerGroup, command: TopicChanged, now_ms: int, settings: GroupSettings) -> Effects:
    """See what a change of a topic means to the group."""
    if group.members and not group.is_dead:
        if command.topic is None:
            cause = Cause(CauseKind.ACLS_CHANGED, now_ms)
        else:
            cause = Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms, detail=command.topic)
        yield from _refresh(group, cause, settings)


def decide_resolve(group: ConsumerGroup, command: ResolveExpressions, _: int, settings: GroupSettings) -> Effects:
    """Resolve the expressions that a heartbeat has left unresolved, and all others with them."""
    if not group.is_dead:
        yield from _refresh(group, command.cause, settings, is_late=True)


def _catch_up(group: ConsumerGroup, now_ms: int, settings: GroupSettings) -> Effects:
    """Do what was put off, or could not be stored: tidy up, look at the topics, compute the target."""
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    if group.has_partition_metadata:
        yield Append(PartitionMetadataDeleted(group.group_id, cause))
    for _, member in sorted(group.members.items()):
        if not member.is_stored:
            # Only a log that others wrote knows what a member owns who is not there.
            yield from delete_member(group, member, cause, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.members:
        if group.natives < len(group.members):
            yield Then(DowngradeIfDue(group.group_id, cause))
            yield Then(PrepareClassic(group.group_id, None, cause))
        effects = tuple(_refresh(group, Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms), settings))
        yield from effects
        if not effects:
            yield Then(AssignTarget(group.group_id, group.epoch_cause or cause))


def _refresh(group: ConsumerGroup, cause: Cause, settings: GroupSettings, *, is_late: bool = False) -> Effects:
    """Resolve the expressions again, and take the epoch on if what the group subscribes to is not what it was.

    Unless they are resolved at once, a new one is resolved when it `is_late`, and those before it are stored again.
    """
    has_changed = False
    names = set(group.subscribers)
    for regex in sorted(group.regex_subscribers):
        stored = group.regexes.get(regex)
        if stored is None and not settings.resolves_at_once and not is_late:
            continue
        found = settings.image.matching(regex, group.group_id) if settings.image.regex_error(regex) is None else ()
        topics = frozenset(regex_topics(group, regex) if found is None else found)
        names |= topics
        is_other = topics != set(stored.topics) if stored is not None else bool(topics) or not is_late
        has_changed |= is_other
        if is_other or is_late:
            resolved = Cause(CauseKind.REGEX_RESOLVED, cause.at_ms, detail=cause.detail)
            version = 0 if stored is None else stored.version + 1
            yield Append(RegexStored(group.group_id, regex, tuple(sorted(topics)), version, cause.at_ms, resolved))
    hash_now = metadata_hash(names, settings.image)
    if has_changed or hash_now != group.metadata_hash:
        yield Append(ConsumerGroupStored(group.group_id, group.epoch + 1, hash_now, cause))
        yield Then(AssignTarget(group.group_id, cause))


def decide_loaded(group: ConsumerGroup, _command: Loaded, now_ms: int, settings: GroupSettings) -> Effects:
    """Take up a replayed group: every member has all the time it had, and what was due is done.

    It stores nothing itself, so that a log which cannot be written yet leaves no member without a bound.
    """
    group_id = group.group_id
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    for member_id, member in sorted(group.members.items()):
        yield Arm(member.session, now_ms + session_timeout_ms(member, settings, group_id))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            timer = revocation_timer(group_id, member_id, member.epoch)
            yield Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))
    if group.members:
        yield Note(GroupLoaded(group_id, cause))
        yield from classic_members.decide_loaded(group, now_ms)
        if not group.is_native:
            yield Then(DowngradeIfDue(group_id, cause))
    yield Then(TimerFired(target_timer(group_id)))


def decide_unload(group: ConsumerGroup, _command: Unload, now_ms: int, _settings: GroupSettings) -> Effects:
    """Give the group up: every waiting member must look for the coordinator again, and no timer of it may fire."""
    yield from classic_members.decide_unload(group)
    for _, member in sorted(group.members.items()):
        yield from disarm(group, member)
    yield Disarm(target_timer(group.group_id))
    yield Note(GroupUnloaded(group.group_id, Cause(CauseKind.COORDINATOR_UNLOADED, now_ms)))


def retry_later(group_id: str, now_ms: int) -> Effects:
    """Come back to what could not be stored."""
    yield Arm(target_timer(group_id), now_ms + TARGET_RETRY_MS)
