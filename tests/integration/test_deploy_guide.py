"""The manifests of the guide on deploys can be parsed, and their stop hooks run as they are written."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import strictyaml
from tests.integration.pods import Pod, settle
from tests.integration.running_gateway import RunningGateway

from kohort import RangeAssignor, sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.gateway_settings import read_settings
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "deploys.md").read_text(encoding="utf-8")
HOST = "billing-7d9f4-x2x8k"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def manifests() -> dict[str, Any]:
    """Return the manifests by their kind."""
    parsed = [strictyaml.load(block).data for block in blocks("yaml")]
    return {each["kind"]: each for each in parsed}


def unit() -> configparser.RawConfigParser:
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    [block] = blocks("ini")
    parsed.read_string(block)
    return parsed


def container(kind: str) -> dict[str, Any]:
    [found] = manifests()[kind]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_manifests_select_their_own_pods_and_give_each_its_client_id() -> None:
    assert manifests().keys() == {"Deployment", "StatefulSet"}
    for kind, manifest in manifests().items():
        spec = manifest["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        environment = {each["name"]: each for each in container(kind)["env"]}
        assert environment["KAFKA_CLIENT_ID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        assert int(spec["template"]["spec"]["terminationGracePeriodSeconds"]) > 20, "longer than the hook"


def test_the_row_of_the_guide_is_one_of_a_policy() -> None:
    import tomllib

    [row] = blocks("toml")
    assert read_settings(tomllib.loads(row))["policies"].rows[0].makes_static


def hooks() -> list[list[str]]:
    """Return the commands of the stop hooks on this host, as their systems run them."""
    of_pod = container("Deployment")["lifecycle"]["preStop"]["exec"]["command"]
    command = unit()["Service"]["ExecStop"].removeprefix("-").replace("billing-%H", HOST)
    program, *arguments = shlex.split(command)
    return [list(of_pod), [Path(program).name, *arguments]]


@pytest.mark.parametrize("system", [0, 1])
def test_a_stop_hook_empties_the_member_of_its_host(system: int) -> None:
    policies = PolicyTable((Policy(treatment=Treatment.PARK),))
    with EmbeddedBroker(kohort_group_heartbeat_park=False, group_initial_rebalance_delay_ms=0) as broker:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 4)
        with (
            RunningGateway(broker.bootstrap_servers, policies=policies) as gateway,
            Pod(gateway.bootstrap_servers, f"{HOST}-reader", RangeAssignor(), "billing"),
            Pod(gateway.bootstrap_servers, "billing-7d9f4-q8s7m-reader", RangeAssignor(), "billing"),
        ):
            settle(broker, [(None, 2), (None, 2)], "billing")
            environment = {
                **os.environ,
                "HOSTNAME": HOST,
                "KOHORT_BOOTSTRAP": broker.bootstrap_servers,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            done = subprocess.run(
                hooks()[system], env=environment, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            assert f"{HOST}: 1 member of 2 with 2 of 4 partitions of billing" in done.stderr
            assert done.stdout == f"drained {HOST} in group billing: 1 member without partitions\n"
            with sync.Admin(broker.bootstrap_servers) as admin:
                owned = {
                    each.client_id: len(each.assignment)
                    for each in admin.describe_groups(["billing"])["billing"].members
                }
            assert owned == {f"{HOST}-reader": 0, "billing-7d9f4-q8s7m-reader": 4}
