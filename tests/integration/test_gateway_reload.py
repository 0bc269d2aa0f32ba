"""A gateway that reads its file again under members: no group rebalances, and what the file has counts from then on."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.gateway_cluster import gateway_cluster
from tests.integration.pods import Pod
from tests.integration.running_gateway import RunningGateway

from kohort import RangeAssignor, sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.policies.policies import GroupProtocol

TABLES = (
    "[[policies]]\ngroups = '*'\ntreatment = 'park'\n",
    "[[policies]]\ngroups = '*'\nprotocol = 'consumer'\ntreatment = 'off'\n[[policies]]\ntreatment = 'park'\n",
    "[[policies]]\ntreatment = 'park'\nstatic_members = 'client_id'\n"
    "[[assignors]]\ngroups = '*'\nassignor = 'uniform'\n",
    "",
    "[[policies]]\ngroups = '*'\ntreatment = 'park'\n",
)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        kohort_group_heartbeat_park=False,
        kohort_group_consumer_heartbeat_park_ms=0,
        group_initial_rebalance_delay_ms=0,
        group_consumer_min_heartbeat_interval_ms=500,
        group_consumer_heartbeat_interval_ms=500,
    ) as broker:
        yield broker


def until(gateway: RunningGateway, holds: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s, what
        gateway.call(asyncio.sleep(0))


def replace(file: Path, text: str) -> None:
    """Replace a file's text at once: a gateway that looks meanwhile would read an empty one."""
    whole = file.with_suffix(".new")
    whole.write_text(text)
    whole.replace(file)


def test_members_notice_nothing_of_a_reload(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file, events = tmp_path / "gateway.toml", tmp_path / "events.jsonl"
    file.write_text("")
    with sync.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 6)
        with RunningGateway(broker.bootstrap_servers, file, events=str(events)) as gateway:
            begins = gateway.bootstrap_servers
            classic = [Pod(begins, f"classic-{n}", RangeAssignor()) for n in range(2)]
            consumers = [Pod(begins, f"consumer-{n}", None, "k") for n in range(2)]
            with classic[0], classic[1], consumers[0], consumers[1]:
                pods = classic + consumers
                until(gateway, lambda: all(pod.owned == 3 for pod in pods), "each member has its part")
                moved = [pod.moved for pod in pods]
                reload, held = gateway.server.reload, gateway.server.gateway.policies.counters.heartbeats
                assert reload is not None

                async def order(text: str) -> None:
                    # In one step: a gateway that notices the file in between would read it twice.
                    replace(file, text)
                    reload.order()

                for number, table in enumerate(TABLES, 1):
                    if number == 1:  # it is noticed
                        replace(file, table)
                    else:
                        gateway.call(order(table))
                    until(gateway, lambda number=number: reload.counters.results["applied"] == number, "it is read")
                    if number == 1:
                        for protocol in (GroupProtocol.CLASSIC, GroupProtocol.CONSUMER):
                            until(gateway, lambda each=protocol: held[each] > 1, "its heartbeats are parked")
                gateway.call(order("[[policies]]\ntreatment = 'hold'\n"))
                until(gateway, lambda: reload.counters.results["refused"] == 1, "it is refused")
                assert [pod.moved for pod in pods] == moved
                described = admin.describe_groups(["g", "k"])
                assert {name: len(group.members) for name, group in described.items()} == {"g": 2, "k": 2}
        written = [json.loads(line) for line in events.read_text().splitlines()]
    of_gateway = [event for event in written if "group" not in event]
    assert [event["event"] for event in of_gateway] == ["gateway_settings_changed"] * 5 + ["gateway_settings_refused"]
    assert of_gateway[0]["changed"] == ["policies"]
    first, last = written.index(of_gateway[0]), written.index(of_gateway[-1])
    assert written[first : last + 1] == of_gateway, "nothing happens to a group meanwhile"


def test_sighup_has_the_command_read_its_file(tmp_path: Path) -> None:
    with gateway_cluster() as cluster:
        file = tmp_path / "gateway.toml"
        text = f'bootstrap_servers = "{cluster.bootstrap_servers}"\nmode = "listener"\nlisten_host = "127.0.0.1"\n'
        file.write_text(f'{text}advertised = "{cluster.advertised}"\n')
        command = [sys.executable, "-m", "kohort", "gateway", "--config", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith("kohort gateway ready: ")
            process.send_signal(signal.SIGHUP)
            while "gateway.toml is read again: nothing has changed" not in (line := process.stderr.readline()):
                assert line, "the gateway runs"
            file.write_text(f'{text}advertised = "{cluster.advertised}"\n[[policies]]\ntreatment = "prak"\n')
            while "the settings stay as they are: " not in (line := process.stderr.readline()):
                assert line, "the gateway runs"
            assert f"{file}, line 6: policies: row 1: treatment='prak': expected off, observe or park" in line
            process.terminate()
            assert process.wait(timeout=20) == 0
