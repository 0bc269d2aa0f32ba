"""Requests and responses of members: pure rules that the asyncio client and the simulator's peers share."""

from __future__ import annotations

import pytest

from kohort.assign import CooperativeStickyAssignor, GroupSpec, MemberSpec, RangeAssignor, TopicSpec
from kohort.assign.cooperative import assign_group
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, commit_errors, commit_request, fetched
from kohort.client.cluster.metadata import ClusterView, PartitionView, TopicView
from kohort.client.membership.member_messages import (
    ConsumerProtocol,
    consumer_heartbeat_request,
    heartbeat_ms,
    join_answered,
    join_request,
    metadata_seen,
    rebalance_answer_timeout_ms,
    topics_seen,
)
from kohort.member import Identity, MemberConfig, effects
from kohort.member.effects import ConsumerHeartbeat
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import decode_subscription
from kohort.wire.messages import JoinGroupResponse, OffsetCommitResponse, OffsetFetchResponse
from kohort.wire.primitives import MalformedMessage

T, U = b"t" * 16, b"u" * 16
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = MemberConfig(session_timeout_ms=10_000, rebalance_timeout_ms=60_000, instance_id="i1")


def topic(name: str, topic_id: bytes, partitions: int = 2, error: ErrorCode = ErrorCode.NONE) -> TopicView:
    return TopicView(
        name, topic_id, False, error, {index: PartitionView(index, 1, 0, (1,), (1,)) for index in range(partitions)}
    )


def view(*topics: TopicView) -> ClusterView:
    return ClusterView(topics={each.name: each for each in topics})


# Requests of groups


@pytest.mark.parametrize(("embedded", "owned"), [(3, (T0,)), (1, (T0,)), (0, ())])
def test_an_old_member_writes_what_its_version_can_say(embedded: int, owned: tuple[TopicPartition, ...]) -> None:
    offer = Subscription(("t",), owned=(T0,), generation=4)
    request = join_request(
        "g", CONFIG, effects.Join(Identity(4, "m"), (("range", offer),), "x" * 300), ConsumerProtocol(embedded)
    )
    written = decode_subscription(request.protocols[0].metadata)
    assert (written.version, written.owned) == (embedded, owned)
    assert request.reason is not None
    assert len(request.reason) == 255


def test_a_response_with_an_unreadable_blob_is_malformed() -> None:
    answer = JoinGroupResponse(members=[JoinGroupResponse.Member(member_id="m", metadata=b"\0")])
    with pytest.raises(MalformedMessage):
        join_answered(effects.Join(Identity(), (), ""), answer)


def test_what_may_be_held_back_is_waited_for_as_long_as_a_rebalance_takes() -> None:
    assert rebalance_answer_timeout_ms(30_000, CONFIG) == 65_000
    assert rebalance_answer_timeout_ms(90_000, CONFIG) == 90_000
    assert heartbeat_ms(30_000, CONFIG) == 10_000


@pytest.mark.parametrize(("supports_lags", "lags"), [(True, [(T, 0, 7)]), (False, None)])
def test_lags_go_by_id_and_only_to_brokers_that_understand_them(
    supports_lags: bool, lags: list[tuple[bytes, int, int]] | None
) -> None:
    effect = ConsumerHeartbeat(1, "m", 3, lags=((T0, 7), (TopicPartition("unseen", 0), 9)))
    view = ClusterView(topics={"t": TopicView("t", T)})
    request = consumer_heartbeat_request("g", CONFIG, effect, view, supports_lags=supports_lags)
    sent = request.standby_lags and [
        (each.topic_id, entry.partition_index, entry.lag) for each in request.standby_lags for entry in each.partitions
    ]
    assert sent == lags


# Offsets


def test_a_commit_by_id_is_answered_by_id() -> None:
    request = commit_request("g", {T1: OffsetAndMetadata(5), T0: OffsetAndMetadata(3)}, topic_ids={"t": T})
    [asked] = request.topics
    assert (asked.topic_id, [each.committed_offset for each in asked.partitions]) == (T, [3, 5])
    found = OffsetCommitResponse.Topic
    answer = OffsetCommitResponse(
        topics=[
            found(
                topic_id=T,
                partitions=[found.Partition(partition_index=0), found.Partition(partition_index=1, error_code=22)],
            )
        ]
    )
    assert commit_errors(answer, {"t": T}) == {T1: ErrorCode.ILLEGAL_GENERATION}


def test_what_was_never_committed_is_left_out() -> None:
    group = OffsetFetchResponse.Group
    partition = group.Topic.Partition
    answer = OffsetFetchResponse(
        groups=[
            group(
                group_id="g",
                topics=[
                    group.Topic(
                        name="t",
                        partitions=[
                            partition(partition_index=0, committed_offset=-1),
                            partition(partition_index=1, committed_offset=7),
                            partition(partition_index=2, committed_offset=-1, error_code=3),
                        ],
                    )
                ],
            )
        ]
    )
    result = fetched(answer, {})
    assert result.error is ErrorCode.NONE
    assert result.found == {T1: OffsetAndMetadata(7)}
    assert result.failed == {TopicPartition("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# Topics


def test_a_topic_that_was_made_anew_is_gone_under_its_old_id() -> None:
    known: dict[bytes, str] = {}
    assert topics_seen(view(topic("t", T)), known).gone == frozenset()
    seen = topics_seen(view(topic("t", U)), known)
    assert seen.gone == {T}
    assert seen.names == {U: "t"}


def test_a_topic_is_gone_when_the_metadata_shows_it_and_not_when_it_is_left_out() -> None:
    known: dict[bytes, str] = {}
    topics_seen(view(topic("t", T), topic("u", U)), known)
    missing = topic("t", bytes(16), 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert topics_seen(view(missing), known).gone == {T}
    assert metadata_seen(view(missing), ["t", "u"]).gone == {"t"}
    assert metadata_seen(view(missing, topic("u", U)), ["t", "u"]).topics == {"u": TopicSpec(2)}


# Leading


def test_a_member_that_cannot_report_what_it_owns_is_assigned_nothing_with_a_warning() -> None:
    assignor = CooperativeStickyAssignor()
    members = {
        "new": MemberSpec(Subscription(("t",))),
        "old": MemberSpec(Subscription(("t",), version=0)),
    }
    warned: list[tuple[str, ...]] = []
    made = assign_group(
        {assignor.name: assignor}, assignor.name, GroupSpec(members, {"t": TopicSpec(2)}), warned.append
    )
    assert warned == [("old",)]
    assert made["old"].partitions == frozenset()
    assert made["new"].partitions == {T0, T1}


def test_a_leader_without_the_assignor_that_its_group_chose_cannot_assign() -> None:
    assignor = RangeAssignor()
    with pytest.raises(LookupError, match="sticky"):
        assign_group({assignor.name: assignor}, "sticky", GroupSpec({}, {}), lambda _: None)
