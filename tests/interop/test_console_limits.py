"""What the console may cost: memory and CPU time with many groups, and the size of its pages.

Limits are of size and of CPU time, not of time on the clock.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from interop.kohort_broker import KohortBroker
from interop.process import cpu_s
from tests.integration.running_console import RunningConsole

from kohort.client import Admin, Cluster, Producer
from kohort.wire.messages import OffsetCommitRequest

pytestmark = pytest.mark.timeout(300)

MANY, SOME = 10_000, 1_000
MOST_MIB = 150
MOST_SHARE_AT_REST = 0.02
"""Of a core, with a thousand groups that do nothing, and no page open."""
MOST_SHARE_OPEN = 0.04
"""The same with the page of groups open."""
MOST_SHARE_OF_MANY = 0.15
"""Of a core, with ten thousand groups that do nothing, and the page of groups open."""
WATCHED_S = 20.0
MOST_PAGE_CPU_S = 0.15
MOST_PAGE_BYTES = 300_000
RECORDS = 1_000
TABS, DEAF_TABS = 200, 20
"""Open at a time, and how many of them take nothing of what is sent."""
ROUNDS = 3
UPDATES = 10
"""Of each tab that reads, at least, in the 20 s after which those that do not are reset."""
MOST_GROWTH_MIB = 8
"""From the first round of tabs to the last."""
RESET_MS = 120_000

Commit = OffsetCommitRequest.Topic.Partition


async def commit(bootstrap: str, group_ids: list[str], offset: int = 0) -> None:
    """Have groups without members, of one committed offset each."""
    async with Cluster(bootstrap) as cluster:
        [broker] = cluster.view.brokers.values()
        for start in range(0, len(group_ids), 100):
            requests = [
                OffsetCommitRequest(
                    group_id=group_id,
                    generation_id_or_member_epoch=-1,
                    topics=[
                        OffsetCommitRequest.Topic(
                            name="orders", partitions=[Commit(partition_index=0, committed_offset=offset)]
                        )
                    ],
                )
                for group_id in group_ids[start : start + 100]
            ]
            await asyncio.gather(*[cluster.call(broker, each, highest=9) for each in requests])


async def made(bootstrap: str, count: int) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic("orders", partitions=1)
        for _ in range(RECORDS):
            await producer.send("orders", b"x")
    await commit(bootstrap, [f"team-{number:05}" for number in range(count)])


@contextmanager
def console_of(count: int) -> Iterator[tuple[str, RunningConsole]]:
    """A console on a broker with many groups, all of which it has looked at."""
    with KohortBroker() as broker:
        asyncio.run(made(broker.bootstrap, count))
        with RunningConsole(broker.bootstrap) as console:
            last = f"/live/groups?q=team-{count - 1:05}"
            console.until(last, "list", "team-", "Empty")
            console.until_match(last, "list", f'data-label="Lag">{RECORDS:,}<')
            yield broker.bootstrap, console


def rss_mib(pid: int) -> float:
    [line] = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def share(pid: int, seconds: float) -> float:
    """Return which share of a core a process uses for some time."""
    before, began_s = cpu_s(pid), time.monotonic()
    threading.Event().wait(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - began_s)


def test_a_thousand_groups_at_rest_cost_no_cpu() -> None:
    with console_of(SOME) as (_, console):
        pid = console.process.pid
        at_rest = share(pid, WATCHED_S)
        with read(tab_of(console, "/live/groups")):
            is_open = share(pid, WATCHED_S)
        print(f"at rest {at_rest:.2%}, with a page open {is_open:.2%}, {rss_mib(pid):.0f} MiB", file=sys.stderr)
        assert at_rest <= MOST_SHARE_AT_REST
        assert is_open <= MOST_SHARE_OPEN


def test_ten_thousand_groups_are_found_sorted_and_bounded() -> None:
    with console_of(MANY) as (bootstrap, console):
        asyncio.run(commit(bootstrap, ["team-07777"], offset=0))
        for path, words in (
            ("/", "10,000"),
            ("/?order=name&page=199", "team-09999"),
            ("/?q=team-0777&order=lag", "team-07777"),
            ("/?state=rebalancing", "No group is selected"),
            ("/cluster", "10,000 groups"),
            ("/topics", "team-00000"),
        ):
            console.get(path)
            before = cpu_s(console.process.pid)
            page = console.get(path)
            used_s = cpu_s(console.process.pid) - before
            print(f"{path}: {used_s * 1000:.0f} ms of CPU, {len(page.text):,} characters", file=sys.stderr)
            assert words in page.text, path
            assert len(page.text) < MOST_PAGE_BYTES, path
            assert used_s <= MOST_PAGE_CPU_S, path
        with read(tab_of(console, "/live/groups")):
            is_open = share(console.process.pid, WATCHED_S)
        print(f"with a page open {is_open:.2%}, {rss_mib(console.process.pid):.0f} MiB", file=sys.stderr)
        assert is_open <= MOST_SHARE_OF_MANY
        assert rss_mib(console.process.pid) <= MOST_MIB


def test_two_hundred_tabs_leave_nothing_behind_also_those_that_read_nothing() -> None:
    """All groups commit; tabs that read get that, the others are reset, and their memory and sockets come back."""
    with console_of(SOME) as (bootstrap, console):
        pid = console.process.pid
        files_before, rss = files_of(pid), list[float]()
        for number in range(ROUNDS):
            with ExitStack() as open_tabs:
                deaf = [open_tabs.enter_context(tab_of(console, "/live/groups")) for _ in range(DEAF_TABS)]
                paths = [f"/live/groups?page={place % 20}" for place in range(DEAF_TABS, TABS, 2)]
                paths += [f"/live/group?id=team-{place:05}" for place in range(DEAF_TABS, TABS, 2)]
                readers = [open_tabs.enter_context(read(tab_of(console, path))) for path in paths]
                resets = threading.Thread(target=await_resets, args=(deaf,))
                resets.start()
                before_s, began_s = cpu_s(pid), time.monotonic()
                offset = number * RECORDS // ROUNDS
                while resets.is_alive():
                    offset += 1
                    asyncio.run(commit(bootstrap, [f"team-{place:05}" for place in range(SOME)], offset))
                    resets.join(1.0)
                used = (cpu_s(pid) - before_s) / (time.monotonic() - began_s)
                assert min(reader.updates for reader in readers) >= UPDATES
            tries = next((each for each in range(500) if console.get("/") and files_of(pid) <= files_before), None)
            assert tries is not None, f"{files_of(pid)} files are open, {files_before} before"
            rss.append(rss_mib(pid))
            print(f"round {number}: {used:.0%} of a core, {rss[-1]:.0f} MiB", file=sys.stderr)
        assert rss[-1] <= min(MOST_MIB, rss[0] + MOST_GROWTH_MIB)


def files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def await_resets(tabs: list[socket.socket]) -> None:
    """Wait until the console has reset all tabs, reading nothing of them."""
    poll = select.poll()
    left = {tab.fileno() for tab in tabs}
    for each in left:
        poll.register(each, 0)
    while left:
        found = poll.poll(RESET_MS)
        assert found, f"{len(left)} tabs that read nothing are still open"
        for number, _ in found:
            poll.unregister(number)
            left.discard(number)


def tab_of(console: RunningConsole, path: str) -> socket.socket:
    """Return an open page."""
    tab = socket.socket()
    tab.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # what the kernel takes for a tab that does not read
    tab.connect(("127.0.0.1", console.port))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{console.port}\r\nCookie: {console.cookie}\r\n\r\n"
    tab.sendall(head.encode())
    return tab


class Reader(threading.Thread):
    """Reads a tab to its end, and counts updates."""

    def __init__(self, tab: socket.socket) -> None:
        super().__init__()
        self.tab = tab
        self.updates = 0

    def run(self) -> None:
        with suppress(OSError), self.tab:
            while part := self.tab.recv(1 << 16):
                self.updates += part.count(b"data: ")


@contextmanager
def read(tab: socket.socket) -> Iterator[Reader]:
    """Read a tab within the block."""
    reader = Reader(tab)
    reader.start()
    try:
        yield reader
    finally:
        tab.shutdown(socket.SHUT_RDWR)
        reader.join()
