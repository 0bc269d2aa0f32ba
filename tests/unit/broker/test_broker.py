"""What requests need at their first use is loaded before: no first request keeps the others waiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kohort.broker.broker import Broker

PROGRAM = """
import gc, sys
from tests.unit.node.desk import batch, fetch, only, produce
from tests.unit.node.group_desk import group_desk, stable_group
from kohort.broker.broker import prepare

desk = group_desk()
steps = sum(1 for _ in prepare(desk.node))
assert steps > 50, "other clients are served between the steps"
assert gc.get_freeze_count() > 10_000
loaded = {name for name in sys.modules if name.startswith("kohort")}
[member] = stable_group(desk, 1)
assert member.heartbeat() == 0
peer = desk.connect()
assert only(peer.call(produce("orders", batch(b"a")), 9)).error_code == 0
assert only(peer.call(fetch("orders"), 11)).high_watermark == 1
print(sorted({name for name in sys.modules if name.startswith("kohort")} - loaded))
"""


def test_no_part_of_the_broker_is_loaded_by_a_first_request() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_arguments_of_a_broker_go_before_its_settings(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://192.0.2.7:7000"}
    assert Broker(tmp_path, settings=settings).address == ("192.0.2.7", 7000)
    assert Broker(tmp_path, "127.0.0.1", 0, settings).address == ("127.0.0.1", 0)
