"""The log of a group that is as a live one is: the records that a coordinator would have to replay to get there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256

from kohort.assign.server.spec import StandbyLags
from kohort.group.events import (
    ClassicMemberMetadata,
    ConsumerGroupStored,
    ConsumerMemberStored,
    GroupStored,
    HardEvent,
    Held,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    StoredMember,
    TargetStored,
)
from kohort.group.member_kinds import Kind
from kohort.model.assignment import Assignment, Partitions, by_topic
from kohort.model.cause import Cause, CauseKind
from kohort.model.id_partitions import IdPartitions, id_partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.what_if.group_facts import Cast, Role, Times
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

GENERATION = 10
"""The generation, or the epoch, in which a copied group begins."""

HOST = "/what-if"


def classic_events(group_id: str, cast: Cast, times: Times, now_ms: int) -> list[HardEvent]:
    """Return the record of a classic group that is Stable."""
    members = tuple(
        StoredMember(
            member_id,
            role.instance_id,
            role.name,
            HOST,
            times.rebalance_timeout_ms,
            times.session_timeout_ms,
            _metadata(role),
            encode_assignment(Assignment(cast.owned[member_id])),
        )
        for member_id, role in sorted(cast.roles.items())
    )
    leader = members[0].member_id if members else None
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    return [GroupStored(group_id, "consumer", GENERATION, cast.assignor, leader, now_ms, members, cause)]


def consumer_events(
    group_id: str, cast: Cast, times: Times, ids: Mapping[str, bytes], metadata_hash: int, now_ms: int
) -> Iterator[HardEvent]:
    """Yield the records of a consumer group whose members have all of their targets; `ids` are those of its topics."""
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    for member_id, role in sorted(cast.roles.items()):
        classic = None
        if role.kind is not Kind.CONSUMER:
            offers = tuple((name, _metadata(role)) for name in role.offers)
            classic = ClassicMemberMetadata(times.session_timeout_ms, offers)
        yield ConsumerMemberStored(
            group_id,
            member_id,
            role.instance_id,
            role.rack,
            role.name,
            HOST,
            tuple(sorted(role.topics)),
            "",
            times.rebalance_timeout_ms,
            role.server_assignor,
            classic,
            cause,
            lags_with_ids(role.lags, ids),
            role.acceptable_recovery_lag,
        )
    yield ConsumerGroupStored(group_id, GENERATION, metadata_hash, cause)
    for member_id in sorted(cast.roles):
        yield MemberTargetStored(group_id, member_id, with_ids(cast.owned[member_id], ids), cause)
    yield TargetStored(group_id, GENERATION, now_ms, cause)
    for member_id in sorted(cast.roles):
        held = tuple(
            Held(topic_id, numbers, (GENERATION,) * len(numbers))
            for topic_id, numbers in with_ids(cast.owned[member_id], ids)
        )
        yield MemberAssignmentStored(
            group_id, member_id, GENERATION, GENERATION - 1, MemberState.STABLE, held, (), cause
        )


def with_ids(partitions: Partitions, ids: Mapping[str, bytes]) -> IdPartitions:
    """Return partitions by topic id."""
    return id_partitions((ids[topic], numbers) for topic, numbers in by_topic(partitions).items() if topic in ids)


def lags_with_ids(lags: Mapping[TopicPartition, int], ids: Mapping[str, bytes]) -> StandbyLags:
    """Return the lags of standby copies by topic id."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for (topic, number), lag in sorted(lags.items()):
        if topic in ids:
            found.setdefault(ids[topic], []).append((number, lag))
    return tuple((topic_id, tuple(found[topic_id])) for topic_id in sorted(found))


def _metadata(role: Role) -> bytes:
    return encode_subscription(Subscription(tuple(sorted(role.topics)), rack=role.rack))


def numbered_ids() -> Callable[[int], bytes]:
    """Return a source of ids that are never the same twice, and the same in every run."""
    count = 0

    def next_id(size: int) -> bytes:
        nonlocal count
        count += 1
        return sha256(f"what-if {count}".encode()).digest()[:size]

    return next_id
