"""Connection of a member to its group's coordinator, wherever that has gone.

It is the member's own: a JoinGroup or heartbeat that the coordinator holds back holds back no other request.
"""

from __future__ import annotations

import asyncio

from kohort.client.cluster.cluster import Cluster
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.connection import Connection

FEATURE = "kohort.group"
"""What our brokers offer beside Kafka: 1, leaders' failures passed on; 2, lags and reasons in heartbeats."""


class CoordinatorLink:
    """A member's own connection, opened when first needed, and again wherever the coordinator has gone.

    `complaint` is the last error that says more than its code.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.complaint: KafkaError | None = None
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> Connection:
        """Return the open connection, connecting where need be. Raises `KafkaError`."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                coordinator = await self.cluster.coordinator(self.group_id, timeout_ms=self.cluster.request_timeout_ms)
                self._connection = await self.cluster.pool.open_apart(coordinator)
            return self._connection

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the coordinator is one of ours, as far as is known, with this version of the feature."""
        connection = self._connection
        return connection is not None and not connection.is_closed and connection.versions.has_feature(FEATURE, version)

    def rediscover(self) -> None:
        """Forget the coordinator; the next request looks it up."""
        self.cluster.forget_coordinator(self.group_id)
        self.drop()

    def drop(self) -> None:
        """Close the connection; what waits on it gets NETWORK_EXCEPTION."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def code(self, error: KafkaError) -> ErrorCode:
        """Return the code of an error, as an input of the member."""
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            return ErrorCode.NETWORK_EXCEPTION
        if not error.code.is_retriable:
            self.complaint = error
        return error.code
