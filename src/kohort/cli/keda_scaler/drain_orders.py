"""Drains before a scale-in: which members leave with the pods of the highest ordinals, and the orders to the gateway.

Of a StatefulSet the pods with the highest ordinals end. Of a Deployment no scaler knows which pods will, so that it
drains none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from kohort.client import Producer
from kohort.gateway.server.order_topic import ORDER_TOPIC, Order, OrderKind, has_orders, make_order_topic, read_orders

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import MemberDescription

REASON = "kohort keda-scaler: its pod leaves in a scale-in"
"""By which drains of an earlier process are recognized."""

ORDINAL = re.compile(r"-(\d{1,6})$")


def leaving(members: Iterable[MemberDescription], replicas: int, members_per_pod: int) -> dict[str, str] | None:
    """Return the members of the pods whose ordinals are `replicas` or higher: names for orders by member id.

    None where the members' names (`group.instance.id`, else `client.id`) do not end with the ordinals of their pods.
    """
    by_ordinal: dict[int, dict[str, str]] = {}
    for member in members:
        found = ORDINAL.search(member.instance_id or member.client_id)
        if found is None:
            return None
        name = member.instance_id or member.member_id
        by_ordinal.setdefault(int(found[1]), {})[member.member_id] = name
    if (
        set(by_ordinal) != set(range(len(by_ordinal)))
        or max(map(len, by_ordinal.values()), default=0) > members_per_pod
    ):
        return None  # such as the numbers of Java's consumers, which begin with 1 in each process
    return {key: name for number, each in by_ordinal.items() if number >= replicas for key, name in each.items()}


class DrainOrders:
    """The orders of this process, written to the topic that every gateway follows."""

    def __init__(self, admin: Admin, bootstrap_servers: str, security: Mapping[str, Any]) -> None:
        self._admin, self._bootstrap_servers, self._security = admin, bootstrap_servers, security
        self._producer: Producer | None = None
        self._stack = AsyncExitStack()

    async def order(self, group_id: str, names: Iterable[str], *, is_over: bool = False) -> None:
        """Drain members, or end their drains. Raises KafkaError."""
        if self._producer is None:
            await make_order_topic(self._admin)
            self._producer = await self._stack.enter_async_context(Producer(self._bootstrap_servers, **self._security))
        for name in sorted(names):
            order = Order(OrderKind.DRAINED, group_id, name, REASON, round(time.time() * 1000), is_over)
            key, value = order.record()
            await (await self._producer.send(ORDER_TOPIC, value, key=key, partition=0))

    async def left_behind(self, group_id: str) -> list[str]:
        """Return what an earlier process has drained in a group. Raises KafkaError."""
        if not await has_orders(self._admin):
            return []
        known = await read_orders(self._bootstrap_servers, self._security)
        return [name for name, order in known.names(group_id).items() if order.reason == REASON]

    async def stop(self) -> None:
        """Close the producer."""
        await self._stack.aclose()
