"""Names, ids and partitions of the cluster's topics: classic members send names, consumer groups ids (KIP-848)."""

from __future__ import annotations

import asyncio
import logging

from kohort.client import Admin
from kohort.group.coordinator_settings import ImageTopic, NoTopics
from kohort.model.errors import KafkaError

log = logging.getLogger("kohort.gateway")

AGAIN_SECONDS = 1.0
"""How long to wait at least between two look-ups."""


class ClusterTopics(NoTopics):
    """The topics of the cluster (`TopicImage`, without expressions): for one that is not known all are looked up soon.

    `run` is its task. A topic that was made or grown is seen some time later.
    """

    is_followed = False

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._by_name: dict[str, ImageTopic] = {}
        self._by_id: dict[bytes, ImageTopic] = {}
        self._missing = asyncio.Event()

    def topic(self, name: str) -> ImageTopic | None:
        """Return the topic of that name, or None."""
        return self._found(self._by_name.get(name))

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        """Return the topic with that id, or None."""
        return self._found(self._by_id.get(topic_id))

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, or None."""
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _found(self, topic: ImageTopic | None) -> ImageTopic | None:
        if topic is None:
            self.look_again()
        return topic

    def look_again(self) -> None:
        """Have the topics looked up soon."""
        self._missing.set()

    async def refresh(self) -> None:
        """Look up all topics. Raises `KafkaError`."""
        found = [
            ImageTopic(topic.name, topic.topic_id, len(topic.partitions)) for topic in await self._admin.list_topics()
        ]
        self._by_name = {topic.name: topic for topic in found}
        self._by_id = {topic.topic_id: topic for topic in found}

    async def run(self) -> None:
        """Look up the topics when they are to be looked up, until it is cancelled."""
        while True:
            await self._missing.wait()
            self._missing.clear()
            try:
                await self.refresh()
            except (KafkaError, OSError, TimeoutError) as error:
                log.info("topics cannot be looked up: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)
