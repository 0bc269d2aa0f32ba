"""What starts a round of a classic member: other topics, changed metadata, what heartbeats and commits are told.

A trigger that keeps generation and id only says that the member wants to join again; one that takes them away makes
the member forget who it was, and what follows from that is preparation's business (classic_round).
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign.spec import TopicSpec
from kohort.member import effects, inputs
from kohort.member.classic_state import Standing
from kohort.member.effects import Callback
from kohort.member.member_state import ENDING, MOVED, State
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.reason import JoinReason

# KIP-800's words are those of Java's client where it has some.
SUBSCRIPTION_CHANGED = "subscription has changed"
ALREADY_REBALANCING = "group is already rebalancing"


def take_subscription(member: Standing, event: inputs.Subscribed) -> None:
    """The user wants these topics."""
    member.topics = tuple(dict.fromkeys(event.topics))
    member.matches = event.matches
    if member.is_subscription_new:
        is_first = not member.joined_topics
        member.want(JoinReason.BLIND if is_first else SUBSCRIPTION_CHANGED)


def take_request(member: Standing, reason: str) -> None:
    """The user wants a rebalance. What it has changed may not have been said by a JoinGroup that is under way."""
    if member.state in (State.JOINING, State.ASSIGNING, State.SYNCING):
        member.request = reason
    else:
        member.want(reason, is_forced=True)


def take_heartbeat(member: Standing, error: ErrorCode, now_ms: int) -> None:
    """A heartbeat was answered, as who the member still is."""
    if member.is_leave_sent:
        return
    if error in MOVED:
        member.do(effects.Rediscover(error))
        member.session.retry_heartbeat(now_ms)
    elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        member.session.retry_heartbeat(now_ms)
    else:
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            member.session.mark_heard(now_ms)
        take_verdict(member, error, "HEARTBEAT")


def take_verdict(member: Standing, error: ErrorCode, request: str) -> None:
    """A heartbeat or commit says what the group thinks of this identity."""
    if member.is_leave_sent or member.state is State.FATAL:
        return
    match error:
        case ErrorCode.REBALANCE_IN_PROGRESS:
            if member.state in (State.STABLE, State.COMPLETING):
                is_commit = request == "OFFSET_COMMIT"
                member.want(f"offset commit failed since {ALREADY_REBALANCING}" if is_commit else ALREADY_REBALANCING)
        case ErrorCode.ILLEGAL_GENERATION if member.state is State.JOINING:
            pass  # the generation that this member waits for has formed: the answer to its JoinGroup says which
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            member.forget(error)
            member.want(f"encountered {error.name} from {request} response")
            if member.running is None and member.state not in ENDING:
                member.state = State.UNJOINED
        case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member.fail(error)
        case _:
            pass  # what concerns the one request is its caller's business


def take_metadata(member: Standing, event: inputs.MetadataChanged) -> None:
    """The cluster looks like this now."""
    # A broker that has not heard of a topic yet says that it does not exist: only what was there can be gone.
    member.seen_topics |= member.metadata.keys()
    member.gone_topics = event.gone & member.seen_topics
    member.absent_topics = event.gone
    member.metadata = event.topics
    watch_metadata(member)


def watch_metadata(member: Standing) -> None:
    """See whether the metadata asks for something from a stable member."""
    if member.state is not State.STABLE or member.running is not None or member.closing is not None:
        return
    # Only the leader rejoins (KIP-429): one member that notices is enough, all of them would be a stampede.
    if member.is_leader and member.snapshot is not None and _has_changed(member, member.snapshot):
        member.want(JoinReason.TOPIC_METADATA_CHANGE, is_forced=True)
    if lost := lost_to_deletion(member):
        member.missing |= lost
        member.run(Callback.LOST, lost, "they no longer exist")
    elif any(_exists(member, topic, partition) for topic, partition in member.missing):
        # Whoever leads may never have seen them go.
        member.want("partitions that were deleted are back")


def _has_changed(member: Standing, assigned: Mapping[str, TopicSpec]) -> bool:
    """Return whether the group's topics are not what the leader has assigned, as far as the assignment may care."""
    seen = {topic: spec for topic, spec in member.metadata.items() if topic in member.group_topics}
    if seen.keys() != assigned.keys():
        return True
    return any(
        spec.partitions != assigned[topic].partitions
        or (member.is_group_rack_aware and _has_come_near(spec, assigned[topic]))
        for topic, spec in seen.items()
    )


def _has_come_near(spec: TopicSpec, assigned: TopicSpec) -> bool:
    """Return whether some partition has a replica in a rack where it had none.

    A rack that is gone may be a broker that restarts: it would cost a rebalance now and one more when it is back
    (KAFKA-20778).
    """
    known = assigned.racks or (frozenset[str](),) * assigned.partitions
    return any(now - before for now, before in zip(spec.racks, known, strict=False))


def lost_to_deletion(member: Standing, *, is_joining: bool = False) -> Partitions:
    """Return what the member owns and the cluster has no longer, where its protocol tells that apart (KIP-429).

    A process that began after a topic was deleted has never seen it, and may have got it with a static member's
    assignment of before: what does not exist as far as the member knows is not claimed when it joins again.
    """
    if not member.strategy.is_loss_told_apart:
        return frozenset()
    gone = member.gone_topics | member.absent_topics if is_joining else member.gone_topics
    return frozenset(held for held in member.owned if held.topic in gone or not _exists(member, *held, if_unknown=True))


def _exists(member: Standing, topic: str, partition: int, *, if_unknown: bool = False) -> bool:
    spec = member.metadata.get(topic)
    return if_unknown if spec is None else partition < spec.partitions
