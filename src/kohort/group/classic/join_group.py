"""JoinGroup of new members, of members with a fresh id, of members in the group, and of static members that restart.

A join is parked until its generation forms, unless the sender learns something at once: its new id, an error, or the
current generation because nothing has changed since it got it. An instance that has lost its member id (KIP-345) gets a
new id and inherits the old one's place: leadership, assignment, protocols' weight. The old id is fenced. In a Stable
group that costs no round, unless what it offers now would change the outcome.

A subscription carries the generation (KIP-792) and the owned partitions (KIP-429) of its sender, and sticky assignors
put them into the user data too, so its bytes differ after every round. The bytes decide whether a round starts, as in
Kafka; `rejoin_cause` names the cause by what the member wants.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.classic.exit import follow_departure, remove
from kohort.group.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    Member,
    Phase,
    identity_error,
    joined,
    stored,
    stored_member,
    vote,
)
from kohort.group.commands import CheckJoin, Join, OpenRound, Protocols
from kohort.group.coordinator_settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_join, parked_sync
from kohort.group.events import (
    GroupStored,
    MemberAdded,
    MemberIdIssued,
    MemberRecognized,
    MemberRejoined,
    PendingMemberDropped,
    RebalanceAvoided,
    StaticMemberReplaced,
)
from kohort.group.group_timers import session_timer
from kohort.group.results import JoinedMember, JoinResult, SyncResult
from kohort.model.cause import Cause, CauseKind, JoinReason, join_reason
from kohort.model.errors import ErrorCode
from kohort.model.subscription import topic_difference


def decide_first_join(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Let the first member into a group that does not exist yet; `group` is how it will be, empty.

    That the group exists is stored at once, even when its first member only got an id (KIP-394).
    """
    if command.member_id:
        yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id))
        return
    effects = tuple(decide_join(group, command, now_ms, settings))
    if any(isinstance(effect, Note) for effect in effects):
        cause = Cause(CauseKind.GROUP_CREATED, now_ms, command.new_member_id)
        yield Append(GroupStored(group.group_id, None, 0, None, None, now_ms, (), cause))
    yield from effects


def decide_join(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide one JoinGroup: capacity first, then protocols, then who the sender is."""
    member_id = command.member_id
    if not group.is_accepting(member_id, settings.max_size):
        yield Reply(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        yield from _shed(group, member_id, now_ms, settings)
    elif group.phase is Phase.DEAD:
        yield Reply(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
    elif not group.is_supporting(command.protocol_type, command.protocols, _sender(group, command)):
        yield from _refuse_protocols(group, command, now_ms)
    elif not member_id:
        yield from _join_unknown(group, command, now_ms, settings)
    elif member_id in group.pending:
        yield from _join_pending(group, command, now_ms)
    elif error := identity_error(group, member_id, command.instance_id):
        yield Reply(JoinResult(error, member_id))
    else:
        yield from _rejoin(group, command, now_ms, settings)


def _shed(group: ClassicGroup, member_id: str, now_ms: int, settings: GroupSettings) -> Effects:
    """Forget a sender that finds the group full: it comes back, if at all, as a new member."""
    cause = Cause(CauseKind.GROUP_TOO_LARGE, now_ms, member_id, f"{settings.max_size} members are in already")
    if member_id in group.members:
        yield from remove(group, member_id, cause)
        yield from follow_departure(group, cause)
    elif member_id in group.pending:
        yield Disarm(session_timer(group.group_id, member_id))
        yield Note(PendingMemberDropped(group.group_id, member_id, cause))
        yield Then(CheckJoin(group.group_id))


def _sender(group: ClassicGroup, command: Join) -> Member | None:
    """Return the member that sends a JoinGroup or that it replaces, or None for a newcomer."""
    return group.members.get(command.member_id or group.static_members.get(command.instance_id or "", ""))


def _refuse_protocols(group: ClassicGroup, command: Join, now_ms: int) -> Effects:
    """Refuse what not every member offers, unless that cannot be known yet.

    Of a restored member the log has the chosen protocol alone. A client ends for good on a refusal, so in an upgrade
    that meets a failover it is answered with a retriable error, and a round asks every member what it offers. A static
    member that did not come to a round is not asked again: it is evicted if it sends no SyncGroup either.
    """
    unknown = group.unknown_offers(_sender(group, command))
    if not group.is_perhaps_supporting(command.protocol_type, command.protocols, unknown):
        yield Reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id))
        return
    yield Reply(JoinResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, command.member_id))
    if not group.is_gathering and not unknown <= group.pending_sync:
        detail = "what the members offer besides the chosen protocol is not known since the coordinator loaded"
        cause = Cause(CauseKind.PROTOCOL_CHANGED, now_ms, command.member_id or None, detail)
        yield Then(OpenRound(group.group_id, cause))


def _join_unknown(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    new_member_id = command.new_member_id
    if command.instance_id is not None and command.instance_id in group.static_members:
        yield from replace_static_member(group, command, now_ms, settings)
    elif command.instance_id is None and command.is_two_step:
        # KIP-394: a client that times out and retries must not leave a member behind each time.
        cause = Cause(CauseKind.MEMBER_ID_ISSUED, now_ms, new_member_id, command.reason)
        yield Note(MemberIdIssued(group.group_id, new_member_id, cause))
        yield Reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_member_id))
        yield Arm(session_timer(group.group_id, new_member_id), now_ms + command.session_timeout_ms)
    else:
        yield from _admit(group, command, new_member_id, now_ms)


def _join_pending(group: ClassicGroup, command: Join, now_ms: int) -> Effects:
    if command.instance_id is not None:
        # A static member is never given an id to come back with, so this one is unknown.
        yield Reply(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, command.member_id))
    else:
        yield from _admit(group, command, command.member_id, now_ms)


def _admit(group: ClassicGroup, command: Join, member_id: str, now_ms: int) -> Effects:
    cause = Cause(CauseKind.MEMBER_JOINED, now_ms, member_id, command.reason)
    yield Note(MemberAdded(group.group_id, member_id, command, cause))
    yield Park(parked_join(group.group_id, member_id))
    yield Arm(session_timer(group.group_id, member_id), now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    yield _gather(group, cause)


def _gather(group: ClassicGroup, cause: Cause) -> Then:
    if group.is_gathering:
        return Then(CheckJoin(group.group_id))
    return Then(OpenRound(group.group_id, cause))


def _rejoin(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    member = group.members[command.member_id]
    reason = _acting_reason(command, settings)
    is_leader = group.leader == member.member_id
    match group.phase:
        case Phase.PREPARING_REBALANCE:
            yield from _park_rejoin(group, command, rejoin_cause(group, member, command, now_ms, settings))
        case Phase.COMPLETING_REBALANCE | Phase.STABLE if not _is_same_offer(group, member, command, settings):
            # A change outranks whatever reason is given.
            yield from _park_rejoin(group, command, rejoin_cause(group, member, command, now_ms, settings))
        case Phase.STABLE if is_leader and reason is not JoinReason.BLIND:
            # Shipped leaders show in no other way that topics have changed.
            yield from _park_rejoin(group, command, rejoin_cause(group, member, command, now_ms, settings))
        case Phase.COMPLETING_REBALANCE | Phase.STABLE:
            yield from _answer_current_generation(group, member, command, now_ms)
        case _:
            yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))


def _acting_reason(command: Join, settings: GroupSettings) -> JoinReason:
    return join_reason(command.reason) if settings.has_join_reasons else JoinReason.UNKNOWN


def _answer_current_generation(group: ClassicGroup, member: Member, command: Join, now_ms: int) -> Effects:
    """Answer with the current generation: the sender missed the answer to its last join, or asks without need.

    The leader of a Stable group need not assign again, and is answered so if its version allows (KIP-814); if not, what
    it assigns is ignored.
    """
    is_leader = group.leader == member.member_id
    is_stable = group.phase is Phase.STABLE
    if member.is_restored:
        cause = Cause(CauseKind.MEMBER_REJOINED, now_ms, member.member_id, command.reason)
        protocols = _completed(group, member, command.protocols)
        yield Note(MemberRecognized(group.group_id, member.member_id, protocols, cause))
    if is_leader and is_stable:
        cause = Cause(CauseKind.LEADER_REJOINED, now_ms, member.member_id, command.reason)
        yield Note(RebalanceAvoided(group.group_id, member.member_id, cause))
    result = joined(group, member.member_id, group.generation, group.protocol_name, group.leader)
    if is_leader:
        result.members = group.members_for_leader(group.protocol_name)
        result.skip_assignment = is_stable and command.can_skip_assignment
    yield Reply(result)
    yield Arm(member.session, now_ms + member.session_timeout_ms)


def _is_same_offer(group: ClassicGroup, member: Member, command: Join, settings: GroupSettings) -> bool:
    """Whether a known member offers what it offered before.

    A `consumer` subscription carries the generation that its writer last knew (KIP-792). That alone is no change
    where the sender has not come to its assignment yet, reports that nothing changed, or is known from the log alone;
    of the last only the chosen protocol is known. Otherwise bytes decide, as in Kafka.
    """
    known, offered = member.protocols, command.protocols
    if known == offered:
        return True
    is_blind = _acting_reason(command, settings) is JoinReason.BLIND
    if not (member.is_restored or is_blind or group.phase is Phase.COMPLETING_REBALANCE):
        return False
    if member.is_restored:
        offered = tuple(entry for entry in offered if entry[0] == group.protocol_name)
    return [name for name, _ in known] == [name for name, _ in offered] and all(
        ours == theirs or _is_same_subscription(group, ours, theirs, settings)
        for (_, ours), (_, theirs) in zip(known, offered, strict=True)
    )


def _is_same_subscription(group: ClassicGroup, ours: bytes, theirs: bytes, settings: GroupSettings) -> bool:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    offer = settings.offer_of(ours)
    return offer is not None and offer == settings.offer_of(theirs)


def _completed(group: ClassicGroup, member: Member, offered: Protocols) -> Protocols:
    """Return all that a restored member offers; of the chosen protocol it is what the log has of it."""
    chosen = group.protocol_name
    return tuple((name, member.metadata(name) if name == chosen else metadata) for name, metadata in offered)


def _park_rejoin(group: ClassicGroup, command: Join, cause: Cause) -> Effects:
    place = parked_join(group.group_id, command.member_id)
    if command.member_id in group.awaiting_join:
        yield Reply(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, command.member_id), place)
    yield Note(MemberRejoined(group.group_id, command.member_id, command, cause))
    yield Park(place)
    yield _gather(group, cause)


def replace_static_member(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Give the instance its new member id, fence the old one, and start a round only if one is needed."""
    assert command.instance_id is not None, "only an instance can be replaced"
    old = group.members[group.static_members[command.instance_id]]
    member_id = command.new_member_id
    yield from _fence(group, old)
    is_parked = old.member_id in group.awaiting_join | group.awaiting_sync
    change = _round_cause(group, command, old, now_ms, settings)
    is_quiet = group.phase is Phase.STABLE and change is None
    cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, command.reason)
    silent_ms = -1 if is_parked else old.session_timeout_ms
    yield Note(StaticMemberReplaced(group.group_id, member_id, command, cause, old.member_id, not is_quiet, silent_ms))
    yield Disarm(old.session)
    yield Arm(session_timer(group.group_id, member_id), now_ms + command.session_timeout_ms)
    if is_quiet:
        yield Append(_stored_with(group, command, old, now_ms))
        yield Reply(_current_generation_of(group, command, old))
        return
    yield Park(parked_join(group.group_id, member_id))
    if change is not None:
        yield Then(OpenRound(group.group_id, change))
    else:
        yield Then(CheckJoin(group.group_id))


def _fence(group: ClassicGroup, old: Member) -> Effects:
    if old.member_id in group.awaiting_join:
        fenced = JoinResult(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        yield Reply(fenced, parked_join(group.group_id, old.member_id))
    if old.member_id in group.awaiting_sync:
        yield Reply(SyncResult(ErrorCode.FENCED_INSTANCE_ID), parked_sync(group.group_id, old.member_id))


def _round_cause(group: ClassicGroup, command: Join, old: Member, now_ms: int, settings: GroupSettings) -> Cause | None:
    """Return why the replacement needs a round, or None. One that gathers already continues in any case."""
    member_id = command.new_member_id
    if group.phase is Phase.COMPLETING_REBALANCE:
        # The leader may have received the old id, so the new one would get no assignment.
        return Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, "its old member id is in the round")
    if group.phase is not Phase.STABLE:
        return None
    if old.member_id in group.revoking:
        # What it had to revoke is free now, and no other member will ask for the round that gives it away.
        return Cause(CauseKind.PARTITIONS_TO_REVOKE, now_ms, member_id, "came back instead of revoking")
    choice = vote(group, {old.member_id: command.protocols})
    if choice != group.protocol_name:
        detail = f"protocol {group.protocol_name} would become {choice}"
        return Cause(CauseKind.PROTOCOL_CHANGED, now_ms, member_id, detail)
    if change := _other_topics(group, command, old, settings):
        return Cause(CauseKind.SUBSCRIPTION_CHANGED, now_ms, member_id, f"came back with other topics: {change}")
    return None


def _other_topics(group: ClassicGroup, command: Join, old: Member, settings: GroupSettings) -> str:
    """Return how an instance's topics have changed: without a round no member would read the new ones (KAFKA-12759)."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ""
    before = settings.topics_of(old.metadata(group.protocol_name))
    after = settings.topics_of(dict(command.protocols).get(group.protocol_name or "", b""))
    return "" if before is None or after is None else topic_difference(before, after)


def _stored_with(group: ClassicGroup, command: Join, old: Member, now_ms: int) -> GroupStored:
    """Return the stored generation with the new id in the place of the old one."""
    offered = dict(command.protocols)
    members = []
    for member in group.members.values():
        entry = stored_member(member, group.protocol_name, member.assignment)
        if member is old:
            entry = entry._replace(
                member_id=command.new_member_id,
                client_id=command.client_id,
                client_host=command.client_host,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                session_timeout_ms=command.session_timeout_ms,
                subscription=offered.get(group.protocol_name or "", b""),
            )
        members.append(entry)
    cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, command.new_member_id, f"was {old.member_id}")
    generation = stored(group, members, group.state_timestamp_ms, cause)
    return replace(generation, leader=command.new_member_id) if group.leader == old.member_id else generation


def _current_generation_of(group: ClassicGroup, command: Join, old: Member) -> JoinResult:
    """Return the answer without a round: the leader must not compute, but has to watch its topics again.

    A sender that knows SkipAssignment is answered so (KIP-814). Any other is shown the old id as leader, so that it
    takes itself for a follower.
    """
    is_leader = group.leader == old.member_id
    result = joined(group, command.new_member_id, group.generation, group.protocol_name, group.leader)
    if is_leader and command.can_skip_assignment:
        result.leader = command.new_member_id
        result.members = _members_with(group, command, old)
        result.skip_assignment = True
    return result


def _members_with(group: ClassicGroup, command: Join, old: Member) -> tuple[JoinedMember, ...]:
    metadata = dict(command.protocols).get(group.protocol_name or "", b"")
    newcomer = JoinedMember(command.new_member_id, command.instance_id, metadata)
    others = (entry for entry in group.members_for_leader(group.protocol_name) if entry.member_id != old.member_id)
    return tuple(sorted((*others, newcomer)))


METADATA_TEXT = "cached metadata has changed"
"""How Java's client begins its reason when its leader saw topics change (KIP-800)."""


def rejoin_cause(group: ClassicGroup, member: Member, command: Join, now_ms: int, settings: GroupSettings) -> Cause:
    """Return why a known member joins again. Where it asks for a round by itself, this walks all members."""
    member_id, known, offered = member.member_id, member.protocols, command.protocols
    if member.is_restored:
        offered = tuple(entry for entry in offered if entry[0] == group.protocol_name)
    if [name for name, _ in known] != [name for name, _ in offered]:
        detail = f"{','.join(name for name, _ in offered)} in place of {','.join(name for name, _ in known)}"
        return Cause(CauseKind.PROTOCOL_CHANGED, now_ms, member_id, detail)
    if known != offered:
        changed = [
            wish
            for (name, ours), (_, theirs) in zip(known, offered, strict=True)
            if (wish := _changed_request(group, name, ours, theirs, settings)) is not None
        ]
        if changed and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            # What the metadata of another protocol type means, its members know: their words count, if there are any.
            return _own_cause(group, member_id, command.reason or changed[0], now_ms, settings)
        if changed:
            return Cause(CauseKind.SUBSCRIPTION_CHANGED, now_ms, member_id, changed[0])
        if member_id in group.revoking:
            return Cause(CauseKind.PARTITIONS_TO_REVOKE, now_ms, member_id, command.reason)
    if group.is_gathering:
        return Cause(CauseKind.MEMBER_REJOINED, now_ms, member_id, command.reason)
    return _own_cause(group, member_id, command.reason, now_ms, settings)


def _changed_request(group: ClassicGroup, name: str, ours: bytes, theirs: bytes, settings: GroupSettings) -> str | None:
    """Return in words what a member wants otherwise than before, by its metadata for one protocol; None if nothing."""
    if ours == theirs:
        return None
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    before, after = (settings.compared_metadata_of(name, each) if is_consumer else None for each in (ours, theirs))
    if before is None or after is None:
        return f"other metadata for {name}"
    if before.topics != after.topics:
        return topic_difference(before.topics, after.topics)
    if before.rack != after.rack:
        return f"rack {after.rack} in place of {before.rack}"
    return None if before.user_data == after.user_data else f"other user data for {name}"


def _own_cause(group: ClassicGroup, member_id: str, reason: str, now_ms: int, settings: GroupSettings) -> Cause:
    """Return why a member that wants what it wanted asks for a round: its own words first, then what topics show.

    librdkafka and kafka-python send no reason. Partitions that no member was assigned, or that are assigned and do not
    exist, are what made their clients join again.
    """
    is_leader = group.leader == member_id
    is_topic_change = reason.startswith(METADATA_TEXT) or join_reason(reason) is JoinReason.TOPIC_METADATA_CHANGE
    found = changed_topics(group, settings) if is_topic_change or not reason else ""
    if found or (is_topic_change and is_leader):
        return Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms, member_id, found)
    kind = CauseKind.LEADER_REJOINED if is_leader else CauseKind.MEMBER_REJOINED
    return Cause(kind, now_ms, member_id, reason)


def changed_topics(group: ClassicGroup, settings: GroupSettings) -> str:
    """Return how the subscribed topics differ from those that were assigned, or "". Walks all members.

    While members must still revoke, partitions are unassigned for that reason, and nothing is known.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.revoking:
        return ""
    assigned: dict[str, int] = {}
    for member in group.members.values():
        for topic in settings.topics_of(member.metadata(group.protocol_name)) or ():
            assigned.setdefault(topic, 0)
        for topic, number in settings.assigned_of(member.assignment) or ():
            assigned[topic] = max(assigned.get(topic, 0), number + 1)
    found = []
    for topic, count in sorted(assigned.items()):
        known = settings.image.topic(topic)
        if known is None and not settings.image.is_followed:
            continue
        now = 0 if known is None else known.partitions
        if now != count:
            found.append(f"{topic} has {now} partitions, {count} were assigned" if now else f"{topic} was deleted")
    return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more topics" if len(found) > NAMED else "")


NAMED = 3
"""How many topics a cause names before it only counts them."""
