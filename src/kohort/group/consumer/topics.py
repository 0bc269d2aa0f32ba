"""What a consumer group subscribes to, by name and by expression, and what the cluster has of it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct

from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.image import ImageTopic, TopicImage
from kohort.model.xxh3 import xxh3_64


def topic_ids_of(group: ConsumerGroup, member: ConsumerMember, image: TopicImage) -> frozenset[bytes]:
    """Return the ids of the topics that a member subscribes to and that exist."""
    names = set(member.subscribed_topic_names) | set(regex_topics(group, member.subscribed_topic_regex))
    return frozenset(topic.topic_id for name in names if (topic := image.topic(name)) is not None)


def regex_topics(group: ConsumerGroup, regex: str) -> tuple[str, ...]:
    """Return the topics that an expression matches, as the group has resolved it; none before that."""
    resolved = group.regexes.get(regex) if regex else None
    return () if resolved is None else resolved.topics


def metadata_hash(names: Iterable[str], image: TopicImage) -> int:
    """Return a number that tells apart what the cluster has of these topics: their ids, sizes and racks (KIP-1101).

    It is 0 when none of them exists. The numbers are Kafka's, so that a group moves from broker to broker with its log
    and none of its members has to do anything for it.
    """
    found = [topic for name in sorted(names) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    number = xxh3_64(b"".join(map(_topic_hash, found)))
    return number - (1 << 64) if number >> 63 else number


@lru_cache(maxsize=16_384)
def _topic_hash(topic: ImageTopic) -> bytes:
    high, low = topic.topic_id[7::-1], topic.topic_id[:7:-1]
    parts = [b"\0", high, low, _text(topic.name), _int(topic.partitions)]
    for index in range(topic.partitions):
        parts.append(_int(index))
        for rack in sorted(topic.racks[index]) if index < len(topic.racks) else ():
            parts += (_int(len(rack)), _text(rack))
    return xxh3_64(b"".join(parts)).to_bytes(8, "little")


_int = Struct("<i").pack


def _text(text: str) -> bytes:
    content = text.encode("utf-16-le", "surrogatepass")
    return content + _int(len(content) // 2)
