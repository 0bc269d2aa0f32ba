"""Metadata of a cluster at one moment: brokers, topics, leaders. Frozen; a refresh makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.assign.spec import TopicSpec
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition, topic_id_text
from kohort.wire.messages import MetadataResponse


class Broker(NamedTuple):
    """A broker as others reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Return `host:port`."""
        return f"{self.host}:{self.port}"


class PartitionView(NamedTuple):
    """One partition: its leader (-1 where it has none at the moment), replicas and in-sync replicas by node id."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. `partitions` are by number; `error` is NONE, or why there are none."""

    name: str
    topic_id: bytes = NO_TOPIC_ID
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as the last metadata response showed it; topics are those that were requested since the start."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    is_whole: bool = False
    """Whether all topics of the cluster were requested, so that one that is missing does not exist."""

    @staticmethod
    def read(response: MetadataResponse) -> ClusterView:
        """Return what one metadata response shows."""
        return read_view(response, ClusterView())

    def leader(self, partition: TopicPartition) -> Broker | None:
        """Return the partition's leader, or None where there is none or it is not known."""
        topic = self.topics.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic else None
        return self.brokers.get(found.leader) if found else None

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id, `NO_TOPIC_ID` where it has none or is not known."""
        found = self.topics.get(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    @property
    def topic_id_texts(self) -> dict[str, str]:
        """The ids of topics by name, as Kafka's tools show them, without topics that have none."""
        return {
            name: topic_id_text(each.topic_id) for name, each in self.topics.items() if each.topic_id != NO_TOPIC_ID
        }

    def without(self, topic: str) -> ClusterView:
        """Return the view without a topic."""
        return replace(self, topics={name: found for name, found in self.topics.items() if name != topic})

    def is_gone(self, topic: str) -> bool:
        """Return whether the metadata shows that there is no such topic."""
        found = self.topics.get(topic)
        if found is None:
            return self.is_whole
        return found.error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

    def spec(self, topic: str) -> TopicSpec | None:
        """Return the topic as assignors see it, or None where it has no known partitions."""
        found = self.topics.get(topic)
        if found is None or not found.partitions:
            return None
        count = len(found.partitions)
        if all(broker.rack is None for broker in self.brokers.values()):
            return TopicSpec(count)
        racks = {node_id: broker.rack for node_id, broker in self.brokers.items()}
        return TopicSpec(
            count,
            tuple(
                frozenset(rack for node in view.replicas if (rack := racks.get(node)) is not None)
                for _, view in sorted(found.partitions.items())
            ),
        )


def read_view(response: MetadataResponse, before: ClusterView) -> ClusterView:
    """Return the view after a metadata response. A topic it does not mention stays; an older leader epoch is ignored.

    A broker that lags behind answers with leaders from the past (KIP-320), so what is newer wins.
    """
    topics = dict(before.topics)
    for topic in response.topics:
        if topic.name is None:
            continue
        known = before.topics.get(topic.name)
        older = known.partitions if known is not None and known.topic_id == topic.topic_id else {}
        partitions = {}
        for found in topic.partitions:
            view = PartitionView(
                found.partition_index,
                found.leader_id,
                found.leader_epoch,
                tuple(found.replica_nodes),
                tuple(found.isr_nodes),
            )
            before_it = older.get(view.partition, view)
            is_stale = 0 <= view.leader_epoch < before_it.leader_epoch
            partitions[view.partition] = before_it if is_stale else view
        topics[topic.name] = TopicView(
            topic.name, topic.topic_id, topic.is_internal, error_for(topic.error_code), partitions
        )
    return ClusterView(
        response.cluster_id,
        response.controller_id,
        {broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers},
        topics,
    )


def read_whole(response: MetadataResponse, before: ClusterView) -> ClusterView:
    """Return the view after a response about all topics: what it does not mention is gone."""
    named = {topic.name for topic in response.topics}
    known = ClusterView(topics={name: topic for name, topic in before.topics.items() if name in named})
    return replace(read_view(response, known), is_whole=True)


def read_names(response: MetadataResponse, before: ClusterView) -> ClusterView:
    """Return the view after a response about a few topics by id; the others stay as they are."""
    return replace(read_view(response, before), is_whole=before.is_whole)
