"""Follows the topic of orders on the cluster, and passes to the edge what operators order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kohort.client import Admin, Producer
from kohort.gateway.assigning.edge import Edge
from kohort.gateway.assigning.orders import ORDER_MS
from kohort.gateway.server.order_topic import (
    MOST_GROUPS,
    ORDERS,
    POLL_MS,
    KnownOrders,
    Order,
    OrderKind,
    UnreadableOrder,
    has_orders,
    order_consumer,
    read_order,
)
from kohort.group.events import Event, MemberRemoved, RoundOpened, StaticMemberReplaced
from kohort.model.bounded_dict import BoundedDict
from kohort.model.errors import KafkaError
from kohort.model.printable import printable

log = logging.getLogger("kohort.gateway")

AGAIN_SECONDS = 2.0
"""How long to wait for a topic that is not there, and after an error."""


@dataclass(slots=True)
class OrderFollower:
    """Reads orders from the first one on; `run` is its task. `changed` is called after each one that begins a round."""

    admin: Admin
    edge: Edge
    bootstrap_servers: str
    security: Mapping[str, Any]
    now_ms: Callable[[], int]
    changed: Callable[[], None]
    _known: KnownOrders = field(default_factory=KnownOrders)
    _taken: int | None = None
    """The offset after the last order that was carried out; None before it is known."""
    _awaited: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(MOST_GROUPS))
    """By group, the offset of the last order for which a round is to begin."""
    _reports: asyncio.Queue[Order] = field(default_factory=asyncio.Queue)
    _failure: str = ""

    def noted(self, event: Event) -> None:
        """Take an event of a group: a round begins, or a member that is drained by its id ends, and its drain with it.

        A static member that comes back gets the assignment that it had, which is empty: it needs a round.
        """
        group_id, now_ms = event.group_id, self.now_ms()
        match event:
            case RoundOpened():
                if (offset := self._awaited.pop(group_id, None)) is not None:
                    self._reports.put_nowait(Order(OrderKind.DONE, group_id, at_ms=now_ms, carried_out=offset))
                return
            case MemberRemoved(member_id=ended) | StaticMemberReplaced(old_member_id=ended):
                if ended not in self._known.names(group_id):
                    return
            case _:
                return
        self._reports.put_nowait(Order(OrderKind.DRAINED, group_id, ended, is_over=True, is_tombstone=True))
        if isinstance(event, StaticMemberReplaced):
            reason = f"the drained member {ended} has come back"
            self._reports.put_nowait(Order(OrderKind.REBALANCE, group_id, "", reason, now_ms, principal="the gateway"))

    async def run(self) -> None:
        """Follow the topic, as soon as there is one, until it is cancelled."""
        reporting = asyncio.create_task(self._report())
        try:
            while True:
                try:
                    if await has_orders(self.admin):
                        await self._follow()
                    elif self._taken is None:
                        self._taken = 0  # what is ordered from now on is new
                    self._failure = ""
                except (KafkaError, OSError, TimeoutError) as error:
                    self._log_once(f"orders of operators cannot be read: {error}")
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            reporting.cancel()
            with suppress(asyncio.CancelledError):
                await reporting

    async def _follow(self) -> None:
        self._known = KnownOrders()
        async with order_consumer(self.bootstrap_servers, self.security) as consumer:
            end = (await consumer.end_offsets([ORDERS]))[ORDERS]
            if self._taken is None or self._taken > end:
                self._taken = end
            consumer.assign([ORDERS])
            consumer.seek_to_beginning([ORDERS])
            while True:
                for batch in await consumer.poll(timeout_ms=POLL_MS):
                    for record in batch:
                        try:
                            self._carry_out(record.offset, read_order(record.key, record.value))
                        except UnreadableOrder as error:
                            self._log_once(f"the record at offset {record.offset} of {ORDERS} is no order: {error}")

    def _carry_out(self, offset: int, order: Order) -> None:
        """Carry out an order; one of before is only remembered."""
        assert self._taken is not None, "the topic's end is known"
        self._known.fold(order)
        now_ms = self.now_ms()
        is_new = offset >= self._taken
        self._taken = max(self._taken, offset + 1)
        begins_round = order.kind is OrderKind.REBALANCE and now_ms - order.at_ms < ORDER_MS
        reason = order.reason
        if order.kind is OrderKind.DRAINED:
            self.edge.drain(order.group_id, self._known.names(order.group_id))
            begins_round = not order.is_tombstone
            what = f"{'undrain' if order.is_over else 'drain'} {order.name}"
            reason = f"{what}: {order.reason}" if order.reason else what
        if begins_round and is_new:
            self._awaited[order.group_id] = offset
            by = order.principal or "an operator"
            log.info("group %s rebalances by order of %s: %s", *map(printable, (order.group_id, by, reason)))
            self.edge.rebalance(order.group_id, f"ordered by {by}: {reason}", now_ms)
            self.changed()

    async def _report(self) -> None:
        """Write which orders are carried out, for the commands that wait for them, and which drains have ended."""
        producer: Producer | None = None
        try:
            while True:
                order = await self._reports.get()
                try:
                    if producer is None:
                        producer = Producer(self.bootstrap_servers, **self.security)
                        await producer.start()
                    key, value = order.record()
                    await (await producer.send(ORDERS.topic, value, key=key, partition=0))
                except (KafkaError, OSError, TimeoutError) as error:
                    self._log_once(f"that an order is carried out cannot be reported: {error}")
        finally:
            if producer is not None:
                await producer.stop()

    def _log_once(self, text: str) -> None:
        if text != self._failure:
            self._failure = text
            log.warning("%s", printable(text))
