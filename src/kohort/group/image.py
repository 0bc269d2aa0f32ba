"""The cluster's topics as a coordinator sees them: an argument of decisions, kept by the runtime.

It is not the group's state: what a group decided upon it is in the group's records.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ImageTopic(NamedTuple):
    """One topic that exists. `racks` are those of each partition's replicas, empty where none is known."""

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class TopicImage(Protocol):
    """Questions about topics. Each costs the same whatever the number of topics, but for `names`."""

    def topic(self, name: str) -> ImageTopic | None:
        """Return the topic of that name, or None."""
        ...

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        """Return the topic with that id, or None."""
        ...

    def matching(self, regex: str) -> frozenset[str]:
        """Return the names of topics that a regular expression matches as a whole (RE2). It must be a valid one."""
        ...

    def regex_error(self, regex: str) -> str | None:
        """Return why an expression cannot be used, or None."""
        ...


class NoTopics:
    """A cluster without topics, and without regular expressions."""

    def topic(self, _name: str) -> ImageTopic | None:
        """Return None."""
        return None

    def topic_by_id(self, _topic_id: bytes) -> ImageTopic | None:
        """Return None."""
        return None

    def matching(self, _regex: str) -> frozenset[str]:
        """Return no names."""
        return frozenset()

    def regex_error(self, _regex: str) -> str | None:
        """Refuse every expression."""
        return "no regular expressions here"
