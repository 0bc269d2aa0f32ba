"""Committed offsets of consumer groups (KIP-848): whose epoch may commit and read, what is deleted and forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.group.world import NOW

from kohort.group.commands import CommitOffsets, DeleteGroup, DeleteOffsets, ExpireOffsets, ForgetTopic, OffsetToCommit
from kohort.group.committed_offsets import fetch_error
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.decisions import decide
from kohort.group.effects import Append, Arm, Effect, Reply
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    HardEvent,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    OffsetCommitted,
    OffsetDeleted,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    RegexDeleted,
    RegexStored,
    TargetDeleted,
    TargetStored,
)
from kohort.group.results import CommitResult, DeleteGroupResult, DeleteOffsetsResult
from kohort.group.shard import Shard, apply
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

CAUSE = Cause(CauseKind.COORDINATOR_LOADED, -1)
T, U = b"t" * 16, b"u" * 16
RETENTION_MS = 7 * 24 * 3_600_000

GROUP = ConsumerGroupStored("g", 9, 0, CAUSE)
TARGET = TargetStored("g", 9, NOW, CAUSE)
MEMBER = ConsumerMemberStored("g", "m", None, None, "c", "/h", ("t",), "", 60_000, None, None, CAUSE)
HOLDS = MemberAssignmentStored(
    "g",
    "m",
    9,
    8,
    MemberState.STABLE,
    (Assigned(T, (0, 1), (5, 9)),),
    (Assigned(U, (0,), (3,)),),
    CAUSE,
)
CLASSIC = replace(MEMBER, classic=ClassicMemberMetadata(45_000, (("range", b""),)))


def shard_of(*events: HardEvent, **settings: Any) -> Shard:
    shard = Shard(GroupSettings(**settings))
    for event in events:
        apply(shard, event)
    return shard


def group(*events: HardEvent, **settings: Any) -> Shard:
    """Return a group of one native member, and what else happened."""
    return shard_of(GROUP, MEMBER, TARGET, HOLDS, *events, **settings)


def classic_group_member(*events: HardEvent) -> Shard:
    """Return the same group when its member is a classic one."""
    return shard_of(GROUP, CLASSIC, TARGET, HOLDS, *events)


def empty_group(*events: HardEvent) -> Shard:
    """Return a group whose members are gone."""
    return shard_of(GROUP, TARGET, *events)


def to_commit(topic: str = "t", partition: int = 0, offset: int = 7, metadata: str = "") -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset, -1, metadata, T if topic == "t" else U)


def stored(topic: str = "t", at_ms: int = NOW, expire_ms: int = -1) -> OffsetCommitted:
    return OffsetCommitted("g", topic, 0, 7, -1, "", at_ms, expire_ms, T if topic == "t" else U)


def commit(shard: Shard, member_id: str, epoch: int, *offsets: OffsetToCommit, **changes: Any) -> ErrorCode:
    command = CommitOffsets("g", member_id, None, epoch, list(offsets or [to_commit()]))
    effects = list(decide(shard, replace(command, **changes), NOW))
    (reply,) = [effect.result for effect in effects if isinstance(effect, Reply)]
    assert isinstance(reply, CommitResult)
    appended = [effect for effect in effects if isinstance(effect, Append)]
    assert not (reply.error and appended), "a refused commit stores nothing"
    return reply.error


def records(effects: list[Effect]) -> list[HardEvent]:
    return [effect.event for effect in effects if isinstance(effect, Append)]


# -- who may commit


def test_member_commits_in_its_epoch() -> None:
    effects = list(decide(group(), CommitOffsets("g", "m", None, 9, [to_commit()]), NOW))
    assert effects == [
        Append(OffsetCommitted("g", "t", 0, 7, -1, "", NOW, -1, T, "m")),
        Reply(CommitResult(ErrorCode.NONE)),
    ]


def test_commit_is_no_sign_of_life_in_a_consumer_group() -> None:
    for shard in (group(), classic_group_member()):
        effects = decide(shard, CommitOffsets("g", "m", None, 9, [to_commit()]), NOW)
        assert not [effect for effect in effects if isinstance(effect, Arm)]


@pytest.mark.parametrize(("member_id", "epoch"), [("", -1), ("stranger", 9), ("stranger", -1), ("", 9)])
def test_group_with_members_takes_no_commit_from_others(member_id: str, epoch: int) -> None:
    assert commit(group(), member_id, epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_administrator_may_commit_to_a_group_without_members() -> None:
    assert commit(empty_group(), "", -1) is ErrorCode.NONE
    assert commit(empty_group(), "gone", -1) is ErrorCode.NONE
    assert commit(empty_group(), "gone", 9) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [10, 2**31 - 1])
def test_epoch_that_was_never_given_is_stale(epoch: int) -> None:
    assert commit(group(), "m", epoch) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(classic_group_member(), "m", epoch) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("epoch", "offsets"),
    [
        (5, [to_commit(partition=0)]),
        (8, [to_commit(partition=0)]),
        (3, [to_commit("u")]),
        (7, [to_commit("u"), to_commit(partition=0)]),
    ],
)
def test_older_epoch_may_commit_what_the_member_has_held_since_then(epoch: int, offsets: list[OffsetToCommit]) -> None:
    assert commit(group(), "m", epoch, *offsets) is ErrorCode.NONE
    assert commit(classic_group_member(), "m", epoch, *offsets) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "offsets"),
    [
        (4, [to_commit(partition=0)]),
        (8, [to_commit(partition=1)]),
        (2, [to_commit("u")]),
        (8, [to_commit(partition=2)]),
        (8, [to_commit(partition=0)._replace(topic_id=b"x" * 16)]),
        (8, [to_commit(partition=0), to_commit(partition=1)]),
        (0, [to_commit(partition=0)]),
        (-1, [to_commit(partition=0)]),
        (-2, [to_commit(partition=0)]),
    ],
)
def test_older_epoch_may_not_commit_what_was_anothers_then(epoch: int, offsets: list[OffsetToCommit]) -> None:
    assert commit(group(), "m", epoch, *offsets) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(classic_group_member(), "m", epoch, *offsets) is ErrorCode.ILLEGAL_GENERATION


def test_member_may_not_commit_a_revoked_partition() -> None:
    gave_back = replace(HOLDS, pending=())
    assert commit(group(gave_back), "m", 8, to_commit("u")) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group(gave_back), "m", 9, to_commit("u")) is ErrorCode.NONE


def test_what_is_too_long_to_be_stored_is_not_asked_whose_it_is() -> None:
    shard = group(offset_metadata_max_bytes=2)
    command = CommitOffsets("g", "m", None, 8, [to_commit(partition=1, metadata="long"), to_commit()])
    assert list(decide(shard, command, NOW))[-1] == Reply(CommitResult(ErrorCode.NONE, (("t", 1),)))


def test_static_member_that_is_away_commits_at_no_earlier_epoch() -> None:
    away = replace(HOLDS, epoch=-2, assigned=(Assigned(T, (0,), (0,)),), pending=())
    assert commit(group(away), "m", -2) is ErrorCode.NONE
    assert commit(group(away), "m", 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(group(away), "m", -1) is ErrorCode.STALE_MEMBER_EPOCH


def test_native_member_needs_a_version_with_stale_member_epoch() -> None:
    assert commit(group(), "m", 9, can_report_stale_epoch=False) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(group(), "stranger", 9, can_report_stale_epoch=False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(classic_group_member(), "m", 9, can_report_stale_epoch=False) is ErrorCode.NONE


# -- who may read


def test_offset_fetch_without_a_member_is_an_administrators() -> None:
    assert fetch_error(group().groups["g"], None, -1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("m", 9, ErrorCode.NONE),
        ("m", 8, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("stranger", 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_offset_fetch_of_a_member_must_have_its_epoch(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    assert fetch_error(group().groups["g"], member_id, epoch) is error
    of_classic = ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
    assert fetch_error(classic_group_member().groups["g"], member_id, epoch) is of_classic


def test_members_of_an_empty_group_are_unknown_readers() -> None:
    assert fetch_error(empty_group().groups["g"], "m", 9) is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_group_and_none_at_all_ask_no_reader() -> None:
    assert fetch_error(None, "m", 9) is ErrorCode.NONE
    assert fetch_error(shard_of(stored()).groups["g"], "m", 9) is ErrorCode.NONE


# -- deleting


def test_offsets_of_topics_subscribed_by_name_or_expression_stay() -> None:
    other = replace(MEMBER, member_id="n", subscribed_topic_names=(), subscribed_topic_regex="r.*")
    regex = RegexStored("g", "r.*", ("r1",), 1, NOW, CAUSE)
    shard = group(other, regex, *(stored(topic) for topic in ("t", "r1", "old")))
    effects = list(decide(shard, DeleteOffsets("g", (("t", 0), ("r1", 0), ("old", 0), ("old", 1))), NOW))
    assert effects == [
        Append(OffsetDeleted("g", "old", 0, Cause(CauseKind.ADMIN_REQUEST, NOW))),
        Reply(DeleteOffsetsResult(ErrorCode.NONE, frozenset({"t", "r1"}))),
    ]


def test_regex_without_subscribers_keeps_no_offset() -> None:
    shard = group(RegexStored("g", "r.*", ("r1",), 1, NOW, CAUSE), stored("r1"))
    assert records(list(decide(shard, DeleteOffsets("g", (("r1", 0),)), NOW)))


def test_group_with_members_is_not_deleted() -> None:
    assert list(decide(group(), DeleteGroup("g"), NOW)) == [Reply(DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))]


def test_empty_group_is_deleted_in_the_order_that_kafka_replays() -> None:
    regexes = [RegexStored("g", regex, (), 1, NOW, CAUSE) for regex in ("b", "a")]
    shard = empty_group(*regexes, stored("u"), stored("t"))
    effects = list(decide(shard, DeleteGroup("g"), NOW))
    cause = Cause(CauseKind.ADMIN_REQUEST, NOW)
    assert records(effects) == [
        OffsetDeleted("g", "t", 0, cause),
        OffsetDeleted("g", "u", 0, cause),
        TargetDeleted("g", cause),
        RegexDeleted("g", "a", cause),
        RegexDeleted("g", "b", cause),
        ConsumerGroupDeleted("g", cause),
    ]
    assert effects[-1] == Reply(DeleteGroupResult(ErrorCode.NONE))
    for event in records(effects):
        apply(shard, event)
    assert not shard.groups
    assert not shard.offsets


def test_what_kafka_4_0_stored_about_topics_goes_with_the_group() -> None:
    shard = empty_group(PartitionMetadataStored("g", CAUSE))
    kinds = [type(event) for event in records(list(decide(shard, DeleteGroup("g"), NOW)))]
    assert kinds == [TargetDeleted, PartitionMetadataDeleted, ConsumerGroupDeleted]
    apply(shard, PartitionMetadataDeleted("g", CAUSE))
    kinds = [type(event) for event in records(list(decide(shard, DeleteGroup("g"), NOW)))]
    assert kinds == [TargetDeleted, ConsumerGroupDeleted]


def test_deleted_topic_takes_its_offsets_along() -> None:
    shard = group(stored("t"), stored("u"))
    cause = Cause(CauseKind.TOPIC_DELETED, NOW, detail="u")
    assert list(decide(shard, ForgetTopic("g", "u"), NOW)) == [Append(OffsetDeleted("g", "u", 0, cause))]


# -- expiry


def expired(shard: Shard, at_ms: int) -> list[HardEvent]:
    return records(list(decide(shard, ExpireOffsets("g"), at_ms)))


def test_offsets_of_unsubscribed_topics_expire_by_their_commit_in_any_state() -> None:
    reconciling = replace(HOLDS, state=MemberState.UNREVOKED_PARTITIONS)
    for shard in (group(stored("t"), stored("u")), group(reconciling, stored("t"), stored("u"))):
        assert expired(shard, NOW + RETENTION_MS - 1) == []
        cause = Cause(CauseKind.OFFSETS_EXPIRED, NOW + RETENTION_MS)
        assert expired(shard, NOW + RETENTION_MS) == [OffsetDeleted("g", "u", 0, cause)]


def test_offset_with_its_own_retention_lives_so_long() -> None:
    shard = group(stored("t", expire_ms=NOW + 5), stored("u", expire_ms=NOW + 5))
    assert expired(shard, NOW + 4) == []
    assert [event.topic for event in expired(shard, NOW + 5) if isinstance(event, OffsetDeleted)] == ["u"]


def test_empty_group_goes_with_its_last_offset() -> None:
    shard = empty_group(stored("t"), stored("u", NOW + 1))
    assert len(expired(shard, NOW + RETENTION_MS)) == 1
    kinds = [type(event) for event in expired(shard, NOW + RETENTION_MS + 1)]
    assert kinds == [OffsetDeleted, OffsetDeleted, TargetDeleted, ConsumerGroupDeleted]


def test_empty_group_without_offsets_is_forgotten_and_one_with_members_is_not() -> None:
    assert [type(event) for event in expired(empty_group(), NOW)] == [TargetDeleted, ConsumerGroupDeleted]
    assert expired(group(), NOW + RETENTION_MS) == []


def test_offsets_outlive_their_members() -> None:
    shard = group(stored("t"))
    gone = [
        MemberAssignmentDeleted("g", "m", CAUSE),
        ConsumerMemberDeleted("g", "m", CAUSE),
        ConsumerGroupStored("g", 10, 0, CAUSE),
    ]
    for event in gone:
        apply(shard, event)
    assert expired(shard, NOW + RETENTION_MS - 1) == []
    assert shard.offsets["g"]["t", 0].offset == 7
