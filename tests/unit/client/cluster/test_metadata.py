"""What metadata answers make of the client's view of the cluster."""

from __future__ import annotations

from kohort.assign import TopicSpec
from kohort.client.cluster.metadata import Broker, ClusterView, read_names, read_view, read_whole
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.wire.messages import MetadataResponse

T0 = TopicPartition("t", 0)


def answer(
    leader: int,
    epoch: int,
    *,
    topic_id: bytes = bytes([1]) * 16,
    error: int = 0,
    racks: tuple[str | None, ...] = (None, None),
) -> MetadataResponse:
    partition = MetadataResponse.Topic.Partition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1]
    )
    topic = MetadataResponse.Topic(
        name="t", topic_id=topic_id, error_code=error, partitions=[] if error else [partition]
    )
    brokers = [
        MetadataResponse.Broker(node_id=at + 1, host=f"h{at + 1}", port=9, rack=rack) for at, rack in enumerate(racks)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=2, topics=[topic])


def test_a_leader_is_a_broker_with_an_address() -> None:
    view = ClusterView.read(answer(leader=2, epoch=5))
    assert view.leader(T0) == Broker(2, "h2", 9)
    assert view.leader(T0).address == "h2:9"  # type: ignore[union-attr]


def test_a_partition_or_topic_that_is_not_known_has_no_leader() -> None:
    view = ClusterView.read(answer(leader=-1, epoch=5))
    assert view.leader(T0) is None
    assert view.leader(TopicPartition("t", 7)) is None
    assert view.leader(TopicPartition("u", 0)) is None


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    view = ClusterView.read(answer(leader=2, epoch=5))
    assert read_view(answer(leader=1, epoch=4), view).leader(T0) == Broker(2, "h2", 9)


def test_a_topic_created_again_begins_its_epochs_anew() -> None:
    view = ClusterView.read(answer(leader=2, epoch=5))
    again = read_view(answer(leader=1, epoch=0, topic_id=bytes([2]) * 16), view)
    assert again.leader(T0) == Broker(1, "h1", 9)


def test_a_topic_that_an_answer_leaves_out_stays_known() -> None:
    view = ClusterView.read(answer(leader=2, epoch=5))
    empty = MetadataResponse(brokers=[MetadataResponse.Broker(node_id=2, host="h2", port=9)], topics=[])
    assert read_view(empty, view).leader(T0) == Broker(2, "h2", 9)


def test_a_topic_that_does_not_exist_has_an_error_and_no_partitions() -> None:
    view = ClusterView.read(answer(leader=1, epoch=0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert view.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert view.spec("t") is None


def test_assignors_see_racks_where_brokers_have_them() -> None:
    assert ClusterView.read(answer(leader=1, epoch=0)).spec("t") == TopicSpec(1)
    racked = ClusterView.read(answer(leader=1, epoch=0, racks=("r1", "r2")))
    assert racked.spec("t") == TopicSpec(1, (frozenset({"r1", "r2"}),))


def test_a_topic_that_an_answer_about_all_topics_leaves_out_is_gone() -> None:
    view = ClusterView.read(answer(leader=2, epoch=5))
    empty = MetadataResponse(topics=[])
    assert not read_view(empty, view).is_gone("t")
    whole = read_whole(empty, view)
    assert whole.is_gone("t")
    assert read_names(empty, whole).is_gone("t")
    assert not read_view(empty, whole).is_gone("t"), "an answer about some topics says nothing of the others"


def test_a_topic_can_be_taken_out_of_a_view() -> None:
    assert ClusterView.read(answer(leader=1, epoch=0)).without("t").topics == {}
