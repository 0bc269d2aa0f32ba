"""Names of things: partitions, topic ids, and the partition of a group.

Topic ids are 16 raw bytes everywhere inside; only people see Kafka's base64 text.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

NO_TOPIC_ID = bytes(16)
"""The id of a topic that has none (Kafka's ZERO_UUID)."""

EVENT_TOPIC = "__kohort_group_events"
"""The topic in which our broker and gateway record what happens to groups."""


LONGEST_CACHED_NAME = 255
"""Characters of a name that a cache may store. A client may send names of 32 KiB, of groups that do not exist."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: bytes) -> str:
    """Return a 16-byte topic id in Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> bytes:
    """Return the 16 bytes of a topic id's text form. Raises ValueError when it is not one."""
    topic_id = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is not a topic id: it has {len(topic_id)} bytes, not 16")
    return topic_id


def group_partition(group_id: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` that stores a group: Java's `String.hashCode`, positive, modulo."""
    code = 0
    utf16 = group_id.encode("utf-16-be")
    for at in range(0, len(utf16), 2):
        code = (31 * code + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    if code >= 1 << 31:
        code -= 1 << 32
    # Kafka's Utils.abs: the smallest int has no positive twin and becomes 0.
    return (0 if code == -(1 << 31) else abs(code)) % partitions
