"""The cluster's topics as inputs of a member, made from a view of them. Pure: the rules of both group protocols."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.assign.spec import TopicSpec
from kohort.client.cluster.metadata import ClusterView
from kohort.member.inputs import MetadataChanged, TopicsSeen
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID


def specs(view: ClusterView, topics: Iterable[str]) -> dict[str, TopicSpec]:
    """Return those of the topics that have partitions, as assignors see them."""
    return {topic: spec for topic in topics if (spec := view.spec(topic)) is not None}


def metadata_seen(view: ClusterView, followed: Iterable[str]) -> MetadataChanged:
    """Return the input of a classic member that follows these topics."""
    topics = sorted(followed)
    return MetadataChanged(specs(view, topics), frozenset(topic for topic in topics if view.is_gone(topic)))


def topics_seen(view: ClusterView, known: dict[bytes, str]) -> TopicsSeen:
    """Return the input of a member of the consumer protocol. `known` has all names it ever received, and is added to.

    A topic is gone where the cluster says so of its name, and where its name is another topic's by now.
    """
    names = {
        topic.topic_id: topic.name
        for topic in view.topics.values()
        if topic.topic_id != NO_TOPIC_ID and topic.error is ErrorCode.NONE
    }
    known |= names
    live = set(names.values())
    gone = frozenset(
        topic_id for topic_id, name in known.items() if topic_id not in names and (view.is_gone(name) or name in live)
    )
    return TopicsSeen(names, gone)
