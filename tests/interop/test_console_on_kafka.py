"""The console on Apache Kafka: types of groups that our own broker does not have."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from interop.kafka import ApacheKafka
from tests.integration.running_console import RunningConsole

from interop import jars

pytestmark = pytest.mark.timeout(180)

STREAMS = "streams-pom.xml"


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_share_and_streams_groups_have_a_type_a_state_and_members(apache: ApacheKafka, kind: str) -> None:
    """One member of Java reads the four partitions of a topic."""
    program = jars.compiled("SettleUnowned", pom=STREAMS)
    arguments = (apache.bootstrap, apache.bootstrap, kind, "2", "100000")
    command = jars.command("SettleUnowned", *arguments, classes=program, pom=STREAMS)
    member = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with RunningConsole(apache.bootstrap) as console:
            console.until(f"/live/groups?q=settle-{kind}&state={kind}", "list", f"settle-{kind}", "Stable")
            row = console.until(f"/live/groups?q=settle-{kind}&state={kind}", "list", '"Members">1<')
            assert "Dead" not in row
            [group_id] = set(re.findall(rf"settle-{kind}-[0-9a-f-]{{36}}", row))
            page = f"/live/group?id={group_id}"
            members = console.until(page, "members", 'data-label="Partitions">4<')
            assert f'data-label="Protocol">{kind}' in members
            partitions = console.until(page, "partitions", f"settle-{kind}-")
            assert partitions.count("shared by members") == (4 if kind == "share" else 0)
            assert partitions.count(">no owner<") == 0
            strip = console.get(f"/group?id={group_id}").text
            assert ("none has an owner" in strip) is (kind == "share")
            describe = [sys.executable, "-m", "kohort", "groups", "describe", group_id]
            options = ["--bootstrap-server", apache.bootstrap]
            printed = subprocess.run([*describe, *options], capture_output=True, text=True, timeout=60, check=True)
            assert f"{group_id}: {kind}, Stable, 1 member" in printed.stdout
    finally:
        member.kill()
        member.wait()
