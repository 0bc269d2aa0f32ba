"""`kohort top` in a terminal of 80 × 24, while real clients join, die and leave: on our broker and on Apache Kafka."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from interop.brokers import BROKERS, Broker
from interop.group import Group
from interop.kohort_broker import KohortBroker
from interop.unavailable import Unavailable
from tests.interop.terminal import KOHORT, Terminal

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOP = (*KOHORT, "top", "--bootstrap-server")
SHORT = {"session_ms": "6000", "heartbeat_ms": "2500"}
"""On Apache Kafka the other member learns of the round by its heartbeat: looks in between see the group stand still."""
COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")
COLOURS = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-7]|38|4[0-7]|48|9[0-7]|10[0-7])[;m]")


@pytest.mark.parametrize("broker", list(BROKERS), indirect=True)
def test_by_keys_to_the_group_that_stood_still_its_cause_its_cost_and_the_command(broker: Broker, group: Group) -> None:
    group.start("kohort", **SHORT)
    second = group.start("kohort", **SHORT)
    group.calm()
    is_ours = broker.name == "kohort"
    with Terminal(*TOP, broker.bootstrap, "--interval", "300ms") as screen:
        screen.until("LAST REBALANCES OF ALL GROUPS")
        screen.press("/", *group.name, "enter")
        screen.until("Stable 2")
        group.kill(second)
        group.settle()
        screen.until("evicted, no heartbeat for" if is_ours else "is gone: it left or was evicted", "Stable 1")
        screen.press("enter")
        screen.until("OWNERSHIP", "! no owner", "6 of 6 partitions" if is_ours else "inferred: ")
        strips = [line for line in screen.text.splitlines() if re.search(r"-[0-5] +[a-z!:]+$", line)]
        assert len(strips) == 6, screen.text
        assert all({"!", ":"} & set(strip) for strip in strips), screen.text
        screen.press("tab", "tab", "j", "enter")
        screen.until("cost: ", "STEP BY STEP", "partition-seconds")
        screen.press("G")
        screen.until("WHAT AVOIDS IT", "kohort migrate plan", "--to consumer", "--compare")
        copied = ""
        while "--compare" not in copied:
            screen.press("c", "k")
            found = COPIED.findall(screen.written)
            copied = base64.b64decode(found[-1]).decode() if found else ""
        screen.press("q")
        assert screen.ended() == 0
    program, *words = shlex.split(copied)
    assert (program, words[:2]) == ("kohort", ["what-if", group.name])
    command = [*KOHORT, *words, "--json"]
    forecasts = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)["forecasts"]
    now, best = (choose(each["unowned_partition_s"] for each in forecasts) for choose in (max, min))
    assert best < now, "a protocol that avoids the standstill is among them"


def test_a_cluster_that_is_gone_is_a_sentence_and_top_continues_without_colours() -> None:
    with (
        KohortBroker() as broker,
        Terminal(*TOP, broker.bootstrap, columns=40, lines=12, NO_COLOR="1") as screen,
    ):
        screen.until("There are no groups yet")
        broker.stop()
        screen.until("no broker answers at")
        broker.start()
        for words in ("topics create t", "consume t --group again --timeout-ms 1"):
            subprocess.run([*KOHORT, *words.split(), "--bootstrap-server", broker.bootstrap], check=True)
        screen.until("again")
        assert "no broker answers" not in screen.words
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ended() == 128 + signal.SIGTERM
        assert COLOURS.search(screen.written) is None
        assert "ended by SIGTERM" in screen.words


def test_top_in_tmux(tmp_path: Path) -> None:
    if (tmux := shutil.which("tmux")) is None:
        raise Unavailable("tmux is not installed: apt-get install tmux")
    with KohortBroker() as broker:
        tmux_of_its_own = (tmux, "-f", "/dev/null", "-S", str(tmp_path / "tmux"))
        try:
            with Terminal(*tmux_of_its_own, "new-session", shlex.join([*TOP, broker.bootstrap])) as screen:
                screen.until("There are no groups yet", "? help q quit")
                screen.press("?")
                screen.until("open what is under the cursor")
                screen.press("q")
                assert screen.ended() == 0
        finally:  # its server outlives the terminal
            subprocess.run([*tmux_of_its_own, "kill-server"], capture_output=True, check=False)
