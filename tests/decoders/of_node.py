"""Target: a whole node, which is sent bytes on connections of its own; it may refuse them, and must serve others."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tests.properties.test_garbage import SOUND, Failures
from tests.unit.node.desk import Desk, batch, only, produce


def node(content: bytes) -> None:
    """Send bytes to a fresh node, on several connections separated by 0xfffefdfc, and let time pass."""
    failures = Failures()
    logger = logging.getLogger("kohort")
    logger.addHandler(failures)
    try:
        desk = Desk(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
        desk.create("orders", 1)
        for stream in content.split(b"\xff\xfe\xfd\xfc"):
            peer = desk.connect()
            peer.connection.send = lambda _: None
            peer.feed(stream)
            desk.advance(100)
        desk.advance(60_000)
        assert only(desk.connect().call(produce("orders", batch(b"x")), 9)).error_code == 0, "others are served"
    finally:
        logger.removeHandler(failures)
    assert not failures.found, failures.found[0]


def some_streams() -> Iterator[bytes]:
    yield from SOUND
    yield b"".join(SOUND)
