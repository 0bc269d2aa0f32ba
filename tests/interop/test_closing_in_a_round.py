"""A member of librdkafka that is closed while its JoinGroup waits for a round: its last commit is behind that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from interop.group import Group
from interop.kohort_broker import KohortBroker
from interop.producers import Load
from tests.interop.libraries import need

from kohort.sync import Admin

pytestmark = pytest.mark.timeout(120)
FAST, SLOW = ({"assignor": "cooperative-sticky", "heartbeat_ms": each} for each in ("300", "9000"))
"""One that learns of a round at once, and one for which the round then waits."""


def test_last_commit_of_a_member_that_is_closed_in_a_cooperative_round_is_taken(tmp_path: Path) -> None:
    need("librdkafka")
    with KohortBroker({"kohort.group.heartbeat.park": "false"}) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topic("orders", partitions=6)
        group = Group(broker.bootstrap, "closing", "orders", 6, tmp_path)
        with group, Load(broker.bootstrap, "orders", pause_s=0.05):
            group.start("librdkafka", **SLOW)
            closing = group.start("librdkafka", **FAST)
            group.calm(4)
            group.start("librdkafka", **FAST)
            begun_s = time.monotonic()
            group.await_(lambda: time.monotonic() - begun_s > 1.3, "its JoinGroup waits", 5)
            group.leave(closing)
            assert closing.refusals == []
            group.settle()
