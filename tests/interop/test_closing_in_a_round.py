"""A member of librdkafka that is closed while its JoinGroup waits for a round: its last commit is behind that."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Timer

import pytest
from interop.group import Group
from interop.kohort_broker import KohortBroker
from interop.producers import Load
from tests.interop.libraries import need

from kohort.sync import Admin

pytestmark = pytest.mark.timeout(120)
MEMBER = {"assignor": "cooperative-sticky", "heartbeat_ms": "300", "session_ms": "45000"}
"""It learns of a round at once."""


def test_last_commit_of_a_member_that_is_closed_in_a_cooperative_round_is_taken(tmp_path: Path) -> None:
    need("librdkafka")
    with KohortBroker({"kohort.group.heartbeat.park": "false"}) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topic("orders", partitions=6)
        group = Group(broker.bootstrap, "closing", "orders", 6, tmp_path)
        with group, Load(broker.bootstrap, "orders", pause_s=0.05):
            frozen = group.start("librdkafka", **MEMBER)
            closing = group.start("librdkafka", **MEMBER)
            group.calm(2)
            os.kill(frozen.child.pid, signal.SIGSTOP)  # the round waits for it
            group.start("librdkafka", **MEMBER)
            group.await_(lambda: group_state(broker.bootstrap) == "PreparingRebalance", "a round is open", 20)
            begun_s = time.monotonic()
            group.await_(lambda: time.monotonic() - begun_s > 1, "three heartbeats later its JoinGroup waits", 5)
            before = len(
                closing.refusals
            )  # a commit between JoinGroup's answer and the assignment is refused, as in Kafka
            thaw = Timer(3, os.kill, (frozen.child.pid, signal.SIGCONT))
            thaw.start()  # a member that closes commits at once, and then waits for its round
            group.leave(closing)
            thaw.join()
            assert closing.refusals[before:] == []
            group.settle()


def group_state(bootstrap: str) -> str:
    with Admin(bootstrap) as admin:
        return str(admin.describe_groups(["closing"])["closing"].state)
