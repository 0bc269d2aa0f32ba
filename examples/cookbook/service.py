"""A service with health checks: /ready while it owns partitions, /live while it polls, a clean end at SIGTERM."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from kohort import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker

STUCK_AFTER_S = 30.0


class Service:
    """Reads a topic, and answers the probes of Kubernetes, a load balancer or systemd."""

    def __init__(self, address: str, work: Callable[[bytes], Awaitable[None]]) -> None:
        self.work = work
        self.is_ending = asyncio.Event()
        self.polled_s = time.monotonic()
        self.port = 0
        self.consumer = Consumer(
            "orders", bootstrap_servers=address, group_id="shop", auto_offset_reset="earliest", client_id="shop-1"
        )

    async def run(self, port: int = 8080) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.is_ending.set)
        async with await asyncio.start_server(self.answer, "127.0.0.1", port) as server, self.consumer:
            self.port = server.sockets[0].getsockname()[1]
            while not self.is_ending.is_set():
                self.polled_s = time.monotonic()
                for batch in await self.consumer.poll(timeout_ms=200, max_records=50):
                    for record in batch:
                        await self.work(record.value or b"")
        # Here the offsets are committed and the group knows that this member left: its partitions are assigned at once.

    def health(self, path: str) -> tuple[bool, str]:
        if path == "/live":
            idle_s = time.monotonic() - self.polled_s
            return idle_s < STUCK_AFTER_S, f"polled {idle_s:.0f} s ago"
        lag = sum(each.records or 0 for each in self.consumer.lag().values())
        return bool(self.consumer.assignment()), f"{len(self.consumer.assignment())} partitions, {lag} records behind"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).decode().split(" ")[1]
        is_healthy, text = self.health(path)
        status = "200 OK" if is_healthy else "503 Service Unavailable"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()


async def get(port: int, path: str) -> str:
    """Return the status and the text of a response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, text = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return f"{head.split()[1]} {text}"


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=3)
        for number in range(100):
            await producer.send("orders", b"order %d" % number)
    done: list[bytes] = []
    is_done = asyncio.Event()

    async def work(value: bytes) -> None:
        done.append(value)
        if len(done) == 100:
            is_done.set()

    service = Service(address, work)
    print("/ready before it has started:", service.health("/ready")[0])
    running = asyncio.create_task(service.run(port=0))
    await is_done.wait()
    print("/ready:", await get(service.port, "/ready"))
    print("/live:", (await get(service.port, "/live"))[:3])
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    async with Admin(address) as admin:
        group = (await admin.describe_groups(["shop"]))["shop"]
        committed = await admin.group_offsets("shop")
        print(f"ended: {len(group.members)} members, {sum(at.offset for at in committed.values())} offsets committed")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
