"""What a consumer group subscribes to, by name and by expression, and what the cluster has of it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from kohort.group.consumer_group import ConsumerGroup, ConsumerMember
from kohort.group.image import ImageTopic, TopicImage


def topic_ids_of(group: ConsumerGroup, member: ConsumerMember, image: TopicImage) -> frozenset[bytes]:
    """Return the ids of the topics that a member subscribes to and that exist."""
    names = set(member.subscribed_topic_names) | set(regex_topics(group, member.subscribed_topic_regex))
    return frozenset(topic.topic_id for name in names if (topic := image.topic(name)) is not None)


def regex_topics(group: ConsumerGroup, regex: str) -> tuple[str, ...]:
    """Return the topics that an expression matches, as the group has resolved it; none before that."""
    resolved = group.regexes.get(regex) if regex else None
    return () if resolved is None else resolved.topics


def topic_names(group: ConsumerGroup) -> set[str]:
    """Return the names of all topics that some member subscribes to. Its cost follows their number."""
    return set(group.subscribers).union(*(regex_topics(group, regex) for regex in group.regex_subscribers))


def metadata_hash(names: Iterable[str], image: TopicImage) -> int:
    """Return a number that tells apart what the cluster has of these topics: their ids, sizes and racks (KIP-1101).

    It is 0 when none of them exists.
    """
    digest = blake2b(digest_size=8)
    count = 0
    for name in sorted(names):
        topic = image.topic(name)
        if topic is not None:
            count += 1
            digest.update(_bytes_of(topic))
    return int.from_bytes(digest.digest(), "big", signed=True) if count else 0


def _bytes_of(topic: ImageTopic) -> bytes:
    name = topic.name.encode("utf-8", "surrogatepass")
    racks = repr([sorted(racks) for racks in topic.racks]) if any(topic.racks) else ""
    return b"%d:%b%b%d:%b;" % (len(name), name, topic.topic_id, topic.partitions, racks.encode())
