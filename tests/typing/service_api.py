"""What type checkers make of `Service`'s decorators; read by `test_public_api`, never run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, assert_type

from kohort import DeadLetter, Record, Retry, Service


class Order:
    def __init__(self, data: bytes) -> None:
        self.data = data


def encoded(total: int) -> bytes:
    return b"%d" % total


@asynccontextmanager
async def pool() -> AsyncIterator[None]:
    yield


app = Service("h:1", lifespan=pool, client_id="billing", security_protocol="SSL")


@app.consume("orders", group_id="g", value_deserializer=Order, concurrency=3, max_poll_records=7)
@app.produce("totals", value_serializer=encoded)
async def total(order: Record[bytes | None, Order]) -> int | None:
    assert_type(order.value, Order | None)
    return 1


@app.consume("orders", "more", group_id="g", on_error=[DeadLetter("d", on=(ValueError,)), Retry(["1s"], then="skip")])
@app.produce("copies")
def copy(order: Record) -> bytes | None:
    assert_type(order.value, bytes | None)
    return order.value


@app.consume("orders", group_id="g", batch=10, key_deserializer=bytes.decode, value_deserializer=json.loads)
async def many(orders: list[Record[str, Any]]) -> None: ...


async def called(order: Record[bytes | None, Order], plain: Record) -> None:
    assert_type(await total(order), int | None)
    assert_type(copy(plain), bytes | None)
    await total(plain)  # type: ignore[arg-type]


@app.consume("orders", group_id="g", value_deserializer=Order)  # type: ignore[arg-type]
async def of_another_type(order: Record[bytes | None, int]) -> None: ...


@app.consume("orders", group_id="g", batch=10)  # type: ignore[arg-type]
async def of_one(order: Record) -> None: ...


@app.produce("totals", value_serializer=encoded)  # type: ignore[arg-type]
async def of_another_result(order: Record) -> str:
    return str(order.value)


app.consume("orders")  # type: ignore[call-overload]
app.consume("orders", group_id="g", ordering="any")  # type: ignore[call-overload]
