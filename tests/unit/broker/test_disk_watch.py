"""A disk that does not answer is reported once, with the file, and so is that it answers again."""

from __future__ import annotations

import pytest

from kohort.broker.disk_watch import STALLED_SECONDS, OperationTimer

PATH = "orders-0/00000000000000000000.log"


def test_an_operation_that_takes_long_is_reported_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    timer, operation = OperationTimer("no client is served until it does"), ("append to", PATH)
    for second in range(20):
        timer.look(operation, "/data", float(second))
    timer.look(None, "/data", 20.0)
    timer.look(None, "/data", 40.0)
    assert caplog.messages == [
        f"the disk does not answer: the append to /data/{PATH} has taken {STALLED_SECONDS:.0f}"
        " s; no client is served until it does: look for the device in the system's log",
        "the disk answers again: the append to /data/orders-0/00000000000000000000.log took 20 s",
    ]


def test_many_short_operations_are_no_long_one(caplog: pytest.LogCaptureFixture) -> None:
    timer = OperationTimer("no client is served until it does")
    for second in range(40):
        timer.look(("append to", f"orders-{second % 2}"), "/data", float(second))
    assert not caplog.messages
