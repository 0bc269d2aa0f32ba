"""Names of the cluster's topics by their ids, as events of consumer groups need them (KIP-848 sends ids)."""

from __future__ import annotations

import asyncio
import logging

from kohort.client import Admin
from kohort.model.errors import KafkaError

log = logging.getLogger("kohort.gateway")

AGAIN_SECONDS = 1.0
"""How long to wait at least between two look-ups."""


class TopicNames:
    """Returns a topic's name, or None for one that is not known; then all are looked up soon. `run` is its task."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._names: dict[bytes, str] = {}
        self._missing = asyncio.Event()

    def __call__(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""
        name = self._names.get(topic_id)
        if name is None:
            self._missing.set()
        return name

    async def refresh(self) -> None:
        """Look up all topics. Raises `KafkaError`."""
        self._names = {topic.topic_id: topic.name for topic in await self._admin.list_topics()}

    async def run(self) -> None:
        """Look up the topics when one is missing, until it is cancelled."""
        while True:
            await self._missing.wait()
            self._missing.clear()
            try:
                await self.refresh()
            except (KafkaError, OSError, TimeoutError) as error:
                log.info("topics cannot be looked up: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)
