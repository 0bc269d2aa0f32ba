"""Assignors by load and drained members behind `kohort gateway`, in front of Apache Kafka, with clients of others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from interop.group import Group
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from kohort import Producer

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(40)]

MEMBERS = ("java", "librdkafka")
PARTITIONS = 4


def kohort(*arguments: str) -> str:
    """Run a command and return what it printed."""
    command = [str(Path(sys.executable).parent / "kohort"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def loads(group: Group) -> list[int]:
    return [len(member.owned) for member in group.members]


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.capability("kohort gateway", "a member drained and undrained, Java and librdkafka, {protocol}")
def test_a_drained_member_keeps_its_place_and_gets_nothing(protocol: str, stage: Stage) -> None:
    need(*MEMBERS)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with (
        KohortGateway(stage.bootstrap, "--park", "*") as gateway,
        Group(gateway.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group,
    ):
        group.are_troubles_expected = True
        for number, library in enumerate(MEMBERS):
            group.start(library, assignor=protocol, instance=f"i-{number}")
        group.await_(lambda: loads(group) == [2, 2], "both own two partitions", 90)
        for number, drained in enumerate(([0, 4], [4, 0])):
            order = (group.name, f"i-{number}", "--bootstrap-server", stage.bootstrap)
            kohort("groups", "drain", "--yes", *order, "--reason", "deploy 118")
            group.await_(lambda drained=drained: loads(group) == drained, f"i-{number} owns nothing", 60)  # type: ignore[misc]
            described = json.loads(
                kohort("groups", "describe", group.name, "--members", "--json", "--bootstrap-server", stage.bootstrap)
            )
            assert {each["instance"]: each["drained"] for each in described["members"]} == {
                f"i-{each}": each == number for each in range(len(MEMBERS))
            }
            kohort("groups", "undrain", *order)
            group.await_(lambda: loads(group) == [2, 2], "both own two partitions again", 60)
        check_single_owner(group.members)


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.capability("kohort gateway", "a stop hook by pod name, Java and librdkafka, {protocol}")
def test_a_stop_hook_empties_the_members_of_its_pod(protocol: str, stage: Stage) -> None:
    need(*MEMBERS)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with (
        KohortGateway(stage.bootstrap, "--park", "*") as gateway,
        Group(gateway.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group,
    ):
        group.are_troubles_expected = True
        for number, library in enumerate(MEMBERS):
            group.start(library, assignor=protocol, client=f"pod-{number}-reader")
        group.settle(90)
        group.calm(4)
        for number, library in enumerate(MEMBERS):
            order = (group.name, f"pod-{number}", "--wait", "--json", "--bootstrap-server", stage.bootstrap)
            done = json.loads(kohort("groups", "drain", "--yes", *order))
            assert (done["outcome"], done["partitions"]) == ("drained", 2)
            member = group.members[0]
            group.await_(lambda member=member: not member.owned, f"pod-{number} owns nothing", 60)  # type: ignore[misc]
            group.leave(member)
            group.start(library, assignor=protocol, client=f"pod-{number}-reader")
            group.settle(60)
            group.calm(4)
        ordered = f"group {group.name} rebalances by order of User:ANONYMOUS: drain pod-"
        assert gateway.child.text().count(ordered) == len(MEMBERS)
        check_single_owner(group.gone + group.members)


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.capability("kohort gateway", "by-lag, Java and librdkafka")
def test_partitions_with_a_lag_go_to_different_members(stage: Stage) -> None:
    need(*MEMBERS)
    # Both join within the first round's delay: members that read see no lag for long.
    with (
        ApacheKafka({"group.initial.rebalance.delay.ms": "5000"}, heap="512m") as kafka,
        KohortGateway(kafka.bootstrap, "--park", "*", "--assignors", "*=by-lag") as gateway,
        Group(gateway.bootstrap, "g", "t", PARTITIONS, stage.folder) as group,
    ):
        create_topic(kafka.bootstrap, "t", PARTITIONS)
        asyncio.run(produce_to(kafka.bootstrap, (0, 1)))
        group.are_troubles_expected = True
        for library in MEMBERS:
            group.start(library, assignor="range")
        group.settle(90)
        group.calm(4)
        assert loads(group) == [2, 2]
        assert all(len(member.owned & {0, 1}) == 1 for member in group.members), "range gives both to one member"
        assert "keeps its leader's own assignment" not in gateway.child.text()
        check_single_owner(group.members)


async def produce_to(bootstrap: str, partitions: tuple[int, ...]) -> None:
    async with Producer(bootstrap) as producer:
        for partition in partitions:
            for number in range(2_000):
                await producer.send("t", f"k:{number}".encode(), key=b"k", partition=partition)
