"""Real disks that are full, fail, are read-only or do not answer lose nothing acknowledged, and need no restart."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.faulty_disk import FaultyDisk, faulty_disk
from interop.unavailable import Unavailable
from tests.integration.test_broker import Wire
from tests.integration.test_broker_command import running
from tests.unit.node.desk import batch, create, fetch, only, produce

from kohort.model.errors import ErrorCode
from kohort.wire.messages import ConsumerGroupHeartbeatRequest
from kohort.wire.record_batches import decode_batch, iter_batches

SETTINGS = ("--set", "kohort.group.consumer.heartbeat.park.ms=0", "--set", "log.retention.check.interval.ms=3600000")
FSYNC = ("--set", "log.flush.interval.messages=1")


class Writer:
    """Produces numbered records to one topic, and knows which of them were acknowledged."""

    def __init__(self, wire: Wire, topic: str = "orders", size: int = 200) -> None:
        self.wire = wire
        self.topic = topic
        self.acknowledged: list[bytes] = []
        self._count = 0
        self._size = size

    def write(self) -> ErrorCode:
        self._count += 1
        value = str(self._count).encode().ljust(self._size)
        request = produce(self.topic, batch(value))
        request.timeout_ms = 30_000
        error = ErrorCode(only(self.wire.call(request, 9)).error_code)
        if error is ErrorCode.NONE:
            self.acknowledged.append(value)
        return error

    def write_until(self, *errors: ErrorCode) -> ErrorCode:
        """Write until the answer is one of these."""
        while (error := self.write()) not in errors:
            pass
        return error

    def lost(self, wire: Wire) -> list[bytes]:
        """Return what was acknowledged and is not in the topic, in its order."""
        found, offset = [], 0
        while records := only(wire.call(fetch(self.topic, offset, max_wait_ms=0), 11)).records:
            for header, view in iter_batches(records):
                found += [bytes(record.value or b"") for record in decode_batch(view)]
                offset = header.last_offset + 1
        assert sorted(found, key=int) == found, "in the order in which they were sent"
        return sorted(set(self.acknowledged) - set(found), key=int)


class Member:
    """A member of a consumer group that sends heartbeats."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self._wire = wire
        self._epoch = 0
        self.beat(subscribed_topic_names=[topic], topic_partitions=[], rebalance_timeout_ms=60_000)

    def beat(self, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="elsewhere", member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=self._epoch, **fields
        )
        answer = self._wire.call(request, 0)
        assert answer.error_code == ErrorCode.NONE
        self._epoch = answer.member_epoch


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    with faulty_disk(tmp_path) as disk:
        yield disk


@contextmanager
def small_file_system(root: Path, size: str) -> Iterator[None]:
    """Mount a file system in memory until the block ends. Raises Unavailable."""
    root.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(root)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        raise Unavailable("a full disk needs the right to mount a small tmpfs: run as root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=False, capture_output=True)


def lines(process: subprocess.Popen[str], *parts: str) -> list[str]:
    """Return the lines of a broker that has ended which hold one of these."""
    assert process.stderr is not None
    return [line for line in process.stderr.read().split("\n") if any(part in line for part in parts)]


def ended(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    process.kill()
    process.wait(timeout=30)
    return process


def test_a_full_file_system_that_gets_room_again_needs_no_restart(tmp_path: Path) -> None:
    root = tmp_path / "small"
    with small_file_system(root, "4m"):
        with running("--data", str(root), *SETTINGS) as (process, address), Wire(address) as wire:
            wire.call(create("orders"), 7)
            member, writer = Member(wire, "orders"), Writer(wire, size=100_000)
            writer.write_until(ErrorCode.KAFKA_STORAGE_ERROR)
            for _ in range(20):
                assert writer.write() is ErrorCode.KAFKA_STORAGE_ERROR
                member.beat()
            subprocess.run(["mount", "-o", "remount,size=64m", str(root)], check=True)
            assert writer.write() is ErrorCode.NONE
            member.beat()
            [full, room] = lines(ended(process), "no space left in", "there is space again")
            assert f"no space left in {root}: " in full
            assert "there is space again" in room
        with running("--data", str(root), *SETTINGS) as (_, address), Wire(address) as wire:
            assert writer.lost(wire) == []
            assert len(writer.acknowledged) > 20


@pytest.mark.parametrize("options", [(), FSYNC], ids=["os", "fsync"])
@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("write", errno.EIO),
        ("write", errno.EROFS),
        ("write", errno.ENOSPC),
        ("create", errno.EIO),
        ("open", errno.EIO),
        ("rename", errno.EIO),
        ("fsync", errno.EIO),
    ],
)
def test_a_file_system_that_fails_for_a_while_costs_that_while_only(
    disk: FaultyDisk, operation: str, code: int, options: tuple[str, ...]
) -> None:
    data = "--data", str(disk.root)
    with running(*data, *SETTINGS, *options) as (process, address), Wire(address) as wire:
        wire.call(create("orders", segment_bytes="4096"), 7)
        writer = Writer(wire)
        for _ in range(50):
            assert writer.write() is ErrorCode.NONE
        disk.fail(operation, code)
        answers = {writer.write() for _ in range(60)}
        assert answers <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        if operation in ("write", "create") or (operation == "fsync" and options):
            assert ErrorCode.KAFKA_STORAGE_ERROR in answers
        disk.heal()
        writer.write_until(ErrorCode.NONE)
        for _ in range(50):
            assert writer.write() is ErrorCode.NONE
        assert writer.lost(wire) == []
        problems = lines(ended(process), "the disk fails", "the disk is read-only", "no space left")
        assert len(problems) <= 4
        assert ErrorCode.KAFKA_STORAGE_ERROR not in answers or str(disk.root) in problems[0]
    with running(*data, *SETTINGS, *options) as (_, address), Wire(address) as wire:
        assert writer.lost(wire) == []
        assert Writer(wire).write() is ErrorCode.NONE


def test_a_file_that_cannot_be_read_costs_its_readers_an_error_and_the_broker_goes_on(disk: FaultyDisk) -> None:
    data = "--data", str(disk.root)
    with running(*data, *SETTINGS) as (process, address), Wire(address) as wire:
        wire.call(create("orders", segment_bytes="1048576"), 7)
        wire.call(create("others"), 7)
        writer = Writer(wire, size=100_000)
        for _ in range(20):
            assert writer.write() is ErrorCode.NONE
        ended(process)
    with running(*data, *SETTINGS) as (process, address), Wire(address) as wire:
        others = Writer(wire, "others")
        assert others.write() is ErrorCode.NONE
        assert only(wire.call(fetch("orders", 19), 11)).error_code == ErrorCode.NONE
        disk.fail("read", errno.EIO)
        for _ in range(10):
            assert only(wire.call(fetch("orders"), 11)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert others.write() is ErrorCode.NONE
        disk.heal()
        assert writer.lost(wire) == []
        [line] = lines(ended(process), "cannot be read")
        assert f"{disk.root}/orders-0/" in line


def test_a_flush_that_hangs_holds_only_what_waits_for_it(disk: FaultyDisk) -> None:
    with ExitStack() as stack:
        process, address = stack.enter_context(running("--data", str(disk.root), *SETTINGS))
        waiting, wire = (stack.enter_context(Wire(address)) for _ in range(2))
        wire.call(create("orders", flush_messages="1"), 7)
        wire.call(create("others"), 7)
        assert Writer(waiting).write() is ErrorCode.NONE
        disk.hang("fsync")
        request = produce("orders", batch(b"x"))
        request.timeout_ms = 120_000
        waiting.send(request, 9)
        others, member = Writer(wire, "others"), Member(wire, "others")
        assert process.stderr is not None
        while "the disk does not answer" not in (line := process.stderr.readline()):
            assert others.write() is ErrorCode.NONE
        assert f"the flush of {disk.root}/orders-0/00000000000000000000.log has taken" in line
        assert others.write() is ErrorCode.NONE
        member.beat()
        disk.heal()
        assert only(waiting.receive(request, 9)).error_code == ErrorCode.NONE
