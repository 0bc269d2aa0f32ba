"""Orders as records: what is written is read, and whatever else lies in the topic does no harm."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.gateway.server import order_topic
from kohort.gateway.server.order_topic import KnownOrders, Order, OrderKind, UnreadableOrder, read_order


@pytest.mark.parametrize(
    "order",
    [
        Order(OrderKind.DRAINED, "g", "192.0.2.1", "deploy", 5, principal="User:CN=ann,O=\u00e4"),
        Order(OrderKind.DRAINED, "g", "m", "deploy", 6, is_over=True, principal="User:ann"),
        Order(OrderKind.DRAINED, "g", "m", is_over=True, is_tombstone=True),
        Order(OrderKind.REBALANCE, 'g"\n', reason="why", at_ms=7, principal="User:ANONYMOUS"),
        Order(OrderKind.DONE, "g", at_ms=7, carried_out=3),
    ],
)
def test_what_is_written_is_read(order: Order) -> None:
    assert read_order(*order.record()) == order


@given(st.none() | st.binary(max_size=30) | st.text(max_size=30).map(str.encode), st.none() | st.binary(max_size=30))
def test_any_record_is_an_order_or_refused(key: bytes | None, value: bytes | None) -> None:
    for each in (key, b'["drained", "g", "m"]', b'["rebalance", "g"]'):
        with suppress(UnreadableOrder):
            KnownOrders().fold(read_order(each, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ([], {}),
        (["drained", "g"], {}),
        (["drained", "g", 1], {}),
        (["explode", "g"], {}),
        ("drained", {}),
        (["rebalance", "g"], []),
        (["rebalance", "g"], {"reason": 1}),
        (["drained", "g", "m"], {"principal": None}),
        (["drained", "g", "m"], {"is_over": 1}),
        (["drained", "g", "m"], {"at_ms": True}),
        (["done", "g"], {"carried_out": "all"}),
    ],
)
def test_what_is_no_order_is_refused(key: object, value: object) -> None:
    with pytest.raises(UnreadableOrder):
        read_order(json.dumps(key).encode(), json.dumps(value).encode())


def test_a_name_is_drained_until_an_order_ends_it() -> None:
    known = KnownOrders()
    drained = Order(OrderKind.DRAINED, "g", "m")
    known.fold(drained)
    known.fold(Order(OrderKind.DRAINED, "g", "n"))
    assert set(known.names("g")) == {"m", "n"}
    for name in ("m", "n", "never"):
        known.fold(Order(OrderKind.DRAINED, "g", name, is_over=True))
    assert known.drained == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_topic, "MOST_NAMES", 2)
    monkeypatch.setattr(order_topic, "MOST_GROUPS", 2)
    known = KnownOrders()
    for name in ("a", "b"):
        known.fold(Order(OrderKind.DRAINED, "g", name))
    with pytest.raises(UnreadableOrder, match="2 names"):
        known.fold(Order(OrderKind.DRAINED, "g", "c"))
    known.fold(Order(OrderKind.DRAINED, "h", "a"))
    with pytest.raises(UnreadableOrder, match="2 groups"):
        known.fold(Order(OrderKind.DRAINED, "i", "a"))
