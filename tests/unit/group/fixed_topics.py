"""A cluster whose topics do not change."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.group.coordinator_settings import ImageTopic, NoTopics


class FixedTopics(NoTopics):
    """A cluster of these topics, which do not change."""

    def __init__(self, topics: Iterable[ImageTopic]) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def topic(self, name: str) -> ImageTopic | None:
        """Return the topic of that name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        """Return the topic with that id, or None."""
        return self._by_id.get(topic_id)
