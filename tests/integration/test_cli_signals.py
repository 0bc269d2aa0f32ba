"""Signals end a command while the broker does not answer, or the reader of its output does not read."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.integration.test_broker_command import running

END_S = 15
"""Far above the two seconds that a command may take, far below the time limits of requests and sessions."""


CUT_SHORT = b"ended without waiting any longer"


def start(address: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kohort", *words],
        env={**os.environ, "KOHORT_BOOTSTRAP": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_lines(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def write(process: subprocess.Popen[bytes], lines: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.flush()


def until_taken(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has read all that was written to its stdin."""
    assert process.stdin is not None
    deadline_s = time.monotonic() + END_S
    while any(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))):
        assert time.monotonic() < deadline_s, "stdin is not read"


def test_one_signal_ends_a_member_and_a_producer_of_a_frozen_broker(tmp_path: Path) -> None:
    with running("--data", str(tmp_path)) as (broker, address):
        assert start(address, "topics", "create", "t").wait(END_S) == 0
        producer = start(address, "produce", "t")
        member = start(address, "consume", "t", "--group", "g", "--from-beginning")
        write(producer, b"a\n")
        assert read_lines(member, 1) == [b"a\n"]
        broker.send_signal(signal.SIGSTOP)
        try:
            write(producer, b"b\nc\n")
            until_taken(producer)
            for process in (member, producer):
                process.send_signal(signal.SIGINT)
            _, member_stderr = member.communicate(timeout=END_S)
            _, producer_stderr = producer.communicate(timeout=END_S)
        finally:
            broker.send_signal(signal.SIGCONT)
    assert member.returncode == 128 + signal.SIGINT
    assert b"ended" in member_stderr
    assert producer.returncode != 0
    if CUT_SHORT in producer_stderr:
        return  # a busy machine had no time for the summary
    assert b"1 record sent to t" in producer_stderr
    counted = re.findall(rb"(\d) (?:not acknowledged|not written|read from stdin and not sent)", producer_stderr)
    assert sum(map(int, counted)) == 2, producer_stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with running("--data", str(tmp_path)) as (_, address):
        assert start(address, "topics", "create", "t").wait(END_S) == 0
        producer = start(address, "produce", "t")
        producer.communicate(b"x" * 1000 + b"\n" * 1000 + b"x\n" * 60_000, timeout=END_S)
        consumer = start(address, "consume", "t", "--from-beginning")
        read_lines(consumer, 1)  # and no more: it fills the pipe, and waits
        consumer.send_signal(number)
        consumer.send_signal(number)
        assert consumer.wait(END_S) in (-number, 0, 128 + number)
