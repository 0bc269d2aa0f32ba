"""What deploy/ gives to kohort exists: each option in the command line, each setting in the gateway."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from kohort.cli.main import parser_for
from kohort.gateway.gateway_settings import GatewaySettings, read_settings
from kohort.gateway.policies.policies import Policy

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
OURS = [name for name, service in COMPOSE["services"].items() if "kohort" in service["image"]]
SET_BY_THE_CHART = {
    "assignors", "broker_tls", "instances", "instances_listen", "instances_secret_file", "listener_tls", "metrics",
    "node_ports", "policies", "security", "share_ports",
}  # fmt: skip


def parsed(words: list[str]) -> Any:
    return parser_for(words).parse_args(words)  # exits, naming what is wrong, where it cannot


@pytest.mark.parametrize("service", OURS)
def test_a_service_of_the_compose_file_is_a_command(service: str) -> None:
    assert parsed(COMPOSE["services"][service]["command"]).run


def test_files_and_ports_of_the_compose_file_are_those_that_its_services_use() -> None:
    mounted = [
        volume.split(":")[0] for service in COMPOSE["services"].values() for volume in service.get("volumes", [])
    ]
    assert [name for name in mounted if name[0] == "." and not (DEPLOY / "compose" / name).is_file()] == []
    gateway = GatewaySettings(**read_settings(tomllib.loads((DEPLOY / "compose" / "gateway.toml").read_text())))
    host, port = gateway.bootstrap_address
    published = {each.removeprefix("127.0.0.1:") for each in COMPOSE["services"]["gateway"]["ports"]}
    node = int(COMPOSE["services"]["kafka"]["environment"]["KAFKA_NODE_ID"])
    assert (host, published) == ("localhost", {f"{each}:{each}" for each in (port, port + 1 + node)})
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for config in job["static_configs"] for target in config["targets"]}
    assert gateway.metrics is not None
    assert targets == {f"gateway:{gateway.metrics[1]}", f"exporter:{parsed(['exporter']).listen[1]}"}


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda path: path.stem)
def test_a_unit_of_systemd_starts_a_command(unit: Path) -> None:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(unit)
    program, *words = shlex.split(read["Service"]["ExecStart"])
    assert (Path(program).name, f"kohort-{words[0]}") == ("kohort", unit.stem.removesuffix("@"))
    assert parsed(words).run


def test_the_image_starts_a_command_with_the_port_that_its_health_check_asks() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    start = parsed(json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[0]))
    [health] = set(re.findall(r"http://127\.0\.0\.1:(\d+)/live", text))
    assert start.metrics[1] == int(health)
    assert f'"http://127.0.0.1:{health}/live"' in (DEPLOY / "image" / "health.py").read_text(encoding="utf-8")


def test_the_image_of_a_service_starts_it_with_the_port_that_its_health_check_asks() -> None:
    text = (DEPLOY / "service" / "Containerfile").read_text(encoding="utf-8")
    start = parsed(json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[0]))
    assert re.findall(r"KOHORT_HEALTH=http://127\.0\.0\.1:(\d+)/live", text) == [str(start.listen[1])]
    version = re.findall(r"^FROM kohort:(.*)$", text, re.MULTILINE)
    assert version == re.findall(r"KOHORT_IMAGE:-kohort:(.*)\}", COMPOSE["x-kohort"]["image"])


def schema(chart: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "helm" / chart / "values.schema.json").read_text(encoding="utf-8"))
    return found["properties"]


def test_settings_that_the_gateways_chart_takes_are_settings_of_a_gateway() -> None:
    properties = schema("kohort-gateway")
    assert properties["settings"]["properties"].keys() == {f.name for f in fields(GatewaySettings)} - SET_BY_THE_CHART
    assert properties["policies"]["items"]["properties"].keys() == {field.name for field in fields(Policy)}
    values = yaml.safe_load((DEPLOY / "helm" / "kohort-gateway" / "values.yaml").read_text(encoding="utf-8"))
    assert GatewaySettings(**read_settings({**values["settings"], "policies": values["policies"]}))


@pytest.mark.parametrize("chart", ["kohort-gateway", "kohort-exporter", "kohort-run"])
def test_a_chart_gives_options_that_exist_and_documents_every_value(chart: str) -> None:
    templates = "\n".join(
        path.read_text(encoding="utf-8") for path in (DEPLOY / "helm" / chart).glob("templates/*.yaml")
    )
    verb = chart.removeprefix("kohort-")
    assert f"            - {verb}\n" in templates
    options = re.findall(r"- (?:\{\{ printf \")?(--[a-z-]+)=", templates)
    assert options
    known = parser_for([verb])._subparsers._group_actions[0].choices[verb]._option_string_actions  # type: ignore[union-attr,index,call-overload]
    assert set(options) <= known.keys()
    values = yaml.safe_load((DEPLOY / "helm" / chart / "values.yaml").read_text(encoding="utf-8"))
    assert values.keys() == schema(chart).keys() - {"global"}
    used = set(re.findall(r"\.Values\.(\w+)", templates))
    assert used == values.keys()
    of_chart = yaml.safe_load((DEPLOY / "helm" / chart / "Chart.yaml").read_text(encoding="utf-8"))
    from kohort import __version__

    assert of_chart["appVersion"] == of_chart["version"] == __version__


@pytest.mark.parametrize(
    "workflow", sorted((DEPLOY.parent / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_workflow_can_be_parsed_has_few_rights_no_secret_and_pinned_actions(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    assert read["permissions"] in ({}, {"contents": "read"})
    assert "secrets." not in text
    for job in read["jobs"].values():
        for step in job["steps"]:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", f"a@{'0' * 40}")), step
