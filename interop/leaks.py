"""Whether groups that lived and died, and connections that came and went, leave anything behind in a broker.

    python -m interop.leaks [--groups 10000] [--connections 100000] [--json]

The broker is a process of its own that counts, when it is asked to, its resident memory, descriptors, tasks of asyncio,
and objects of Python. It is counted after a tenth of the work, and when what it has written has filled the cache of the
ends of its logs; and again after all of the work. The exit code is 1 if anything has grown by more than 5 %.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from interop.process import Child
from interop.wire import Wire
from kohort.broker.broker import Broker
from kohort.net.event_loop import run
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from kohort.wire.record_batches import Record, encode_batch

MOST_GROWTH = 0.05
TOPIC = "orders"
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 12)]
"""Where connections come from: one address has too few ports for those that were just closed."""
_RESET = struct.pack("ii", 1, 0)
CACHE_BYTES = 64 << 20
"""More than the 32 MiB that a broker keeps in memory of the ends of its logs."""
METADATA = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}

Counts = dict[str, int]


# -- the broker


async def _serve(directory: str) -> None:
    broker = Broker(directory, "127.0.0.1", 0, SETTINGS)
    await broker.start()
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def count() -> None:
        assert broker.server is not None, "the broker runs"
        if broker.server.clients:
            loop.call_later(0.05, count)
        else:
            _print({"counts": _counts()})

    loop.add_signal_handler(signal.SIGUSR1, count)
    loop.add_signal_handler(signal.SIGTERM, is_over.set)
    _print({"address": f"{broker.address[0]}:{broker.address[1]}"})
    await is_over.wait()
    await broker.stop()


def _print(fields: dict[str, object]) -> None:
    print(json.dumps(fields), flush=True)


def _counts() -> Counts:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory, KiB": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "tasks": len(asyncio.all_tasks()),
        "objects": len(gc.get_objects()),
    }


class CountedBroker:
    """The broker's process, and what it counts."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "interop.leaks", "--serve", str(folder / "data")]
        self.child = Child(command, folder / "broker.jsonl", separate=True)
        self.child.wait_for(lambda text: '"address"' in text, "the broker", 60)
        self.address = json.loads(self.child.text().splitlines()[0])["address"]

    def counts(self) -> Counts:
        """Return what it has when the connections of all clients are closed."""
        lines = self.child.text().count("\n")
        self.child.signal(signal.SIGUSR1)
        self.child.wait_for(lambda text: text.count("\n") > lines, "the counts", 3600)
        counts: Counts = json.loads(self.child.text().splitlines()[-1])["counts"]
        return counts


# -- its clients


class Caller(Protocol):
    """A connection of a client."""

    def call(self, message: Any, version: int) -> Any:
        """Send a request and return its answer."""
        ...


def live_and_die(wire: Caller, name: str) -> None:
    """Let a group of each protocol have a member that commits and leaves, and delete the group."""
    classic, native = f"{name}-classic", f"{name}-consumer"
    protocol = JoinGroupRequest.Protocol(name="range", metadata=METADATA)
    join = JoinGroupRequest(
        group_id=classic,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    join.member_id = wire.call(join, 5).member_id
    generation = wire.call(join, 5).generation_id
    assert not wire.call(
        SyncGroupRequest(group_id=classic, generation_id=generation, member_id=join.member_id), 3
    ).error_code
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    committed = OffsetCommitRequest.Topic(name=TOPIC, partitions=[partition])
    commit = OffsetCommitRequest(
        group_id=classic, generation_id_or_member_epoch=generation, member_id=join.member_id, topics=[committed]
    )
    assert not wire.call(commit, 7).topics[0].partitions[0].error_code
    wire.call(LeaveGroupRequest(group_id=classic, member_id=join.member_id), 1)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=native,
        member_id=f"{name}-member",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    assert not wire.call(heartbeat, 1).error_code
    wire.call(ConsumerGroupHeartbeatRequest(group_id=native, member_id=f"{name}-member", member_epoch=-1), 1)
    deleted = wire.call(DeleteGroupsRequest(groups_names=[classic, native]), 2)
    assert not any(each.error_code for each in deleted.results), deleted


def come_and_go(address: str, number: int) -> None:
    """Connect, be answered, and close: every third time by a reset, every other with half a frame."""
    wire = Wire(address, source=ADDRESSES[number % len(ADDRESSES)])
    wire.call(ApiVersionsRequest(), 0)
    if number % 2:
        wire.socket.sendall(b"\0\0\1\0half a frame")
    if number % 3 == 0:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    wire.close()


def fill_cache(wire: Wire) -> None:
    """Write more than the broker keeps in memory of the ends of all logs."""
    records = encode_batch([Record(0, 0, None, bytes(100_000))])
    parts = [ProduceRequest.TopicData.PartitionData(index=0, records=records)]
    produce = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[ProduceRequest.TopicData(name=TOPIC, partition_data=parts)]
    )
    for _ in range(CACHE_BYTES // len(records)):
        assert not wire.call(produce, 9).responses[0].partition_responses[0].error_code


def grown(before: Counts, after: Counts) -> list[str]:
    """Return what has grown by more than is allowed; one more of few is no growth of them."""
    return [name for name in before if after[name] > max(before[name] * (1 + MOST_GROWTH), before[name] + 1)]


def measure(groups: int, connections: int, say: Callable[[str], None]) -> tuple[Counts, Counts]:
    """Return the counts after a tenth of the work, and after all of it."""
    with ExitStack() as stack:
        broker = CountedBroker(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-leaks."))))
        stack.callback(broker.child.stop)
        with Wire(broker.address) as wire:
            made = wire.call(
                CreateTopicsRequest(
                    topics=[CreateTopicsRequest.Topic(name=TOPIC, num_partitions=2, replication_factor=1)]
                ),
                5,
            )
            assert not made.topics[0].error_code
        found = []
        for part, start in ((0.1, 0.0), (1.0, 0.1)):
            began_s = time.monotonic()
            with Wire(broker.address) as wire:
                for number in range(int(groups * start), int(groups * part)):
                    live_and_die(wire, f"group-{number}")
                if not start:
                    fill_cache(wire)
            for number in range(int(connections * start), int(connections * part)):
                come_and_go(broker.address, number)
            found.append(broker.counts())
            say(f"{part:4.0%} of {groups:,} groups and {connections:,} connections: {found[-1]}, "
                f"{time.monotonic() - began_s:.0f} s")  # fmt: skip
        return found[0], found[1]


def main(arguments: list[str]) -> int:
    """Count, or serve to be counted."""
    parser = argparse.ArgumentParser(
        prog="python -m interop.leaks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=10_000, help="half of them of each protocol (default: 10000)")
    parser.add_argument("--connections", type=int, default=100_000, help="default: 100000")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--serve", metavar="DIRECTORY", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        run(_serve(given.serve))
        return 0
    before, after = measure(
        -(-given.groups // 2),
        given.connections,
        lambda line: print(line, file=sys.stderr if given.json else sys.stdout, flush=True),
    )
    more = grown(before, after)
    if given.json:
        print(json.dumps({"before": before, "after": after, "grown": more}, indent=2))
    else:
        print(f"grown by more than {MOST_GROWTH:.0%}: {', '.join(more) or 'nothing'}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
