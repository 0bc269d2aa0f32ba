"""Drains before a scale-in: which members leave with the pods of the highest ordinals, and the orders to the gateway.

Of a StatefulSet the pods with the highest ordinals end. Of a Deployment no scaler knows which pods will, so that it
drains none. Members are drained by their ids: the gateway ends the drain of one that has left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kohort.client import Producer
from kohort.gateway.server.order_topic import ORDER_TOPIC, Order, OrderKind, has_orders, make_order_topic, read_orders

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.group_descriptions import MemberDescription

REASON = "kohort keda-scaler: its pod leaves in a scale-in"
"""By which drains of an earlier process are recognized."""

ORDINAL = re.compile(r"-(\d{1,6})$")


def leaving(members: Iterable[MemberDescription], replicas: int, members_per_pod: int) -> frozenset[str] | None:
    """Return the ids of the members of the pods whose ordinals are `replicas` or higher.

    None where the members' names (`group.instance.id`, else `client.id`) do not end with the ordinals of their pods.
    """
    by_ordinal: dict[int, set[str]] = {}
    for member in members:
        found = ORDINAL.search(member.instance_id or member.client_id)
        if found is None:
            return None
        by_ordinal.setdefault(int(found[1]), set()).add(member.member_id)
    if set(by_ordinal) != set(range(len(by_ordinal))) or any(
        len(each) > members_per_pod for each in by_ordinal.values()
    ):
        return None  # such as the numbers of Java's consumers, which begin with 1 in each process
    return frozenset[str]().union(*(each for number, each in by_ordinal.items() if number >= replicas))


class DrainOrders:
    """The orders of this process, written to the topic that every gateway follows."""

    def __init__(self, admin: Admin, bootstrap_servers: str, security: Mapping[str, Any], principal: str) -> None:
        self._admin, self._bootstrap_servers, self._security = admin, bootstrap_servers, security
        self._principal = principal

    async def order(self, group_id: str, member_ids: Iterable[str], *, is_over: bool = False) -> None:
        """Drain members, or end their drains. Raises KafkaError."""
        await make_order_topic(self._admin)
        async with Producer(self._bootstrap_servers, **self._security) as producer:
            for member_id in sorted(member_ids):
                at_ms = round(time.time() * 1000)
                order = Order(OrderKind.DRAINED, group_id, member_id, REASON, at_ms, is_over, principal=self._principal)
                for each in (order, replace(order, is_tombstone=True)) if is_over else (order,):
                    key, value = each.record()
                    await (await producer.send(ORDER_TOPIC, value, key=key, partition=0))

    async def left_behind(self, group_id: str) -> list[str]:
        """Return which members an earlier process has drained in a group. Raises KafkaError."""
        if not await has_orders(self._admin):
            return []
        known = await read_orders(self._bootstrap_servers, self._security)
        return [name for name, order in known.names(group_id).items() if order.reason == REASON]
