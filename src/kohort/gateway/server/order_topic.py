"""Orders of operators as records of a topic on their own cluster: members that are drained, rounds that are to begin.

The topic is compacted. Its keys are JSON lists: `["drained", GROUP, NAME]`, whose value may end the drain (`is_over`)
and whose tombstone ends it without a round; `["rebalance", GROUP]`; and `["done", GROUP]`, by which a gateway reports
the order that it has carried out. Commands write it and every gateway follows it, so what is drained is known to all
instances and survives a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kohort.client import Admin, Consumer
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

ORDER_TOPIC = "__kohort_group_orders"
ORDERS = TopicPartition(ORDER_TOPIC, 0)

MOST_NAMES = 1_000
"""How many names one group may have drained."""

MOST_GROUPS = 10_000
"""Of how many groups orders are remembered."""

POLL_MS = 500


class OrderKind(StrEnum):
    """What a record is about."""

    DRAINED = "drained"
    REBALANCE = "rebalance"
    DONE = "done"


_FIELDS = ("reason", "at_ms", "is_over", "carried_out", "principal")
"""What a record's value may have."""


class UnreadableOrder(ValueError):
    """A record of the topic is no order; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Order:
    """One record. `name` is one of a member's (`assigning.orders.names_of`), empty where the order is about a group.

    `at_ms` is when it was given, `principal` who gave it: the login of the command that wrote it, as it states.
    `is_over` for a drain that ends, `is_tombstone` if that begins no round. `carried_out` is the offset of an order
    that a gateway has carried out, else -1.
    """

    kind: OrderKind
    group_id: str
    name: str = ""
    reason: str = ""
    at_ms: int = 0
    is_over: bool = False
    carried_out: int = -1
    principal: str = ""
    is_tombstone: bool = False

    def record(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value of its record."""
        parts = [self.kind, self.group_id, *([self.name] if self.kind is OrderKind.DRAINED else [])]
        value: dict[str, Any] = {"at_ms": self.at_ms}
        if self.kind is OrderKind.DONE:
            value["carried_out"] = self.carried_out
        else:
            value |= {"reason": self.reason, "principal": self.principal}
        if self.is_over:
            value["is_over"] = True
        return json.dumps(parts).encode(), None if self.is_tombstone else json.dumps(value).encode()


def read_order(key: bytes | None, value: bytes | None) -> Order:
    """Return the order of a record. Raises UnreadableOrder."""
    try:
        parts = json.loads(key or b"")
        fields = {} if value is None else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableOrder(f"it is no JSON: {error}") from error
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise UnreadableOrder("its key is no list of texts")
    if not parts or parts[0] not in tuple(OrderKind):
        raise UnreadableOrder(f"{parts[:1]} is not one of {', '.join(OrderKind)}")
    kind = OrderKind(parts[0])
    if len(parts) != (3 if kind is OrderKind.DRAINED else 2):
        raise UnreadableOrder(f"a key of {kind} has another length")
    if not isinstance(fields, dict):
        raise UnreadableOrder("its value is no JSON object")
    name = parts[2] if kind is OrderKind.DRAINED else ""
    ends = value is None and kind is OrderKind.DRAINED
    order = Order(kind, parts[1], name, is_over=ends, is_tombstone=value is None)
    known = {each: fields[each] for each in _FIELDS if each in fields}
    if any(type(given) is not type(getattr(order, each)) for each, given in known.items()):
        raise UnreadableOrder("its value has a field of another type")
    return replace(order, **known)


@dataclass(slots=True)
class KnownOrders:
    """The orders of a topic, up to where it was read."""

    drained: dict[str, dict[str, Order]] = field(default_factory=dict)
    """By group and name."""
    carried_out: dict[str, int] = field(default_factory=dict)
    """By group, the offset of the last order that a gateway reported as carried out."""

    def fold(self, order: Order) -> None:
        """Fold the next order. Raises UnreadableOrder beyond what is remembered."""
        match order.kind:
            case OrderKind.DRAINED:
                self._drain(order)
            case OrderKind.DONE if order.group_id in self.carried_out or len(self.carried_out) < MOST_GROUPS:
                self.carried_out[order.group_id] = order.carried_out
            case _:
                pass

    def _drain(self, order: Order) -> None:
        names = self.drained.get(order.group_id, {})
        if order.is_over:
            names.pop(order.name, None)
            if not names:
                self.drained.pop(order.group_id, None)
            return
        if len(names) >= MOST_NAMES and order.name not in names:
            raise UnreadableOrder(f"{MOST_NAMES} names are drained in group {order.group_id} already")
        if not names and len(self.drained) >= MOST_GROUPS:
            raise UnreadableOrder(f"{MOST_GROUPS} groups have drained members already")
        self.drained.setdefault(order.group_id, names)[order.name] = order

    def names(self, group_id: str) -> Mapping[str, Order]:
        """Return what is drained in a group, by name."""
        return self.drained.get(group_id, {})


def order_consumer(bootstrap_servers: str, security: Mapping[str, Any]) -> Consumer:
    """Return a consumer without a group, not started, for the topic of orders."""
    return Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **security)


async def has_orders(admin: Admin) -> bool:
    """Whether the cluster has the topic. Raises KafkaError."""
    return any(topic.name == ORDER_TOPIC for topic in await admin.list_topics())


async def make_order_topic(admin: Admin) -> None:
    """Make the topic where there is none. Raises KafkaError, as where the right to do so lacks."""
    try:
        await admin.create_topic(ORDER_TOPIC, 1, configs={"cleanup.policy": "compact"})
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_orders(bootstrap_servers: str, security: Mapping[str, Any]) -> KnownOrders:
    """Return the orders of the topic now; it must exist. Raises KafkaError."""
    known = KnownOrders()
    async with order_consumer(bootstrap_servers, security) as consumer:
        end = (await consumer.end_offsets([ORDERS]))[ORDERS]
        position = (await consumer.beginning_offsets([ORDERS]))[ORDERS]
        consumer.assign([ORDERS])
        while position < end:
            for batch in await consumer.poll(timeout_ms=POLL_MS):
                for _, order in orders_in(batch):
                    with suppress(UnreadableOrder):
                        known.fold(order)
                position = batch.next_offset
    return known


def orders_in(batch: Any) -> Iterator[tuple[int, Order]]:
    """Yield the orders of a batch with their offsets; what is no order is left out."""
    for record in batch:
        with suppress(UnreadableOrder):
            yield record.offset, read_order(record.key, record.value)
