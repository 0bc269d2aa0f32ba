"""Endpoints of metrics that a page reads: whatever they answer, the page has a sentence or figures."""

from __future__ import annotations

import asyncio

import pytest

from kohort.console.metrics_sources import MetricsOf, read_metrics


def read_from(answer: bytes) -> MetricsOf:
    async def scenario() -> MetricsOf:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            (found,) = await read_metrics((f"http://127.0.0.1:{port}/metrics",))
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize("answer", [b"no HTTP at all\r\n", b""])
def test_what_is_no_answer_of_http_is_a_sentence(answer: bytes) -> None:
    assert read_from(answer).failure.startswith("cannot be read: ")


def test_a_bound_that_is_no_number_is_passed_over() -> None:
    lines = (
        'kohort_broker_loop_lag_seconds_bucket{le="soon"} 1',
        'kohort_broker_loop_lag_seconds_bucket{le="0.5"} 2',
        "kohort_broker_groups many",
        "kohort_broker_connections 3",
    )
    found = read_from(b"HTTP/1.1 200 OK\r\n\r\n" + "\n".join(lines).encode())
    figures = {name: value for name, _, value in found.figures}
    assert (found.kind, figures["connections"], figures["groups"]) == ("broker", 3, None)
    assert figures["event loop late, 99 of 100 below"] == 0.5
