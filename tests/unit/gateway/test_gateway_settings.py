"""Settings of a gateway: what they take, and the sentence for what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.gateway.gateway_settings import AssignorRow, GatewaySettings, ListenerTls, Mode, read_settings_file
from kohort.gateway.policies.policies import Treatment
from kohort.model.setting import SettingsError

LEAST: dict[str, Any] = {
    "bootstrap_servers": "kafka-1:9092",
    "mode": Mode.LISTENER,
    "advertised": ("gateway.example",),
}


def test_defaults_observe_and_change_nothing() -> None:
    settings = GatewaySettings(**LEAST)
    assert not settings.policies.parks
    assert settings.events == "none"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mode": "proxy"}, "mode='proxy': expected listener, coordinators or rewrite"),
        ({"bootstrap_servers": "kafka-1"}, "bootstrap_servers='kafka-1': expected HOST:PORT"),
        ({"bootstrap_servers": "kafka-1:9092,:1"}, "bootstrap_servers=':1': expected HOST:PORT"),
        ({"advertised": ()}, "advertised is empty: give the host name"),
        ({"advertised": ("GW://gateway:9192",)}, "expected a host name without the listener's"),
        ({"advertised": ("gate way",)}, "advertised='gate way': expected a host name"),
        ({"advertised": ("gateway:x",)}, "advertised='gateway:x': expected HOST:PORT"),
        ({"drain_ms": -1}, "drain_ms=-1: expected a whole number of milliseconds from 0 to"),
        ({"refresh_ms": 10}, "refresh_ms=10: expected a whole number of milliseconds from 1000"),
        ({"max_connections": 0}, "max_connections=0: expected"),
        ({"proxy_protocol_from": "192.0.2.4"}, "proxy_protocol_from='192.0.2.4' is a str: expected a list"),
        ({"proxy_protocol_from": ("lb.example",)}, "proxy_protocol_from='lb.example': expected an address, or a net"),
        ({"proxy_protocol_from": ("192.0.2.4/28",)}, "proxy_protocol_from='192.0.2.4/28': expected an address, or a n"),
        ({"share_ports": 4}, "share_ports=4 is an int: expected true or false"),
        ({"share_ports": True}, "share_ports is for instances that are linked"),
        ({"events": ""}, "events='': expected a str that is not empty"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        GatewaySettings(**{**LEAST, **changes})


REWRITE = {"mode": Mode.REWRITE, "advertised": ("gateway.example:9192",)}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"advertised": ("gateway.example",)}, "advertised = gateway.example: mode rewrite needs one HOST:PORT"),
        ({"advertised": ("a:1", "b:1")}, "advertised = a:1, b:1: mode rewrite needs one HOST:PORT"),
        ({"node_ports": {1: 70_000}}, "node_ports: 70000 cannot be the port of node 1"),
        ({"node_ports": {1: 9192}}, "node_ports: 9192 cannot be the port of node 1"),
        ({"node_ports": {1: 9300, 2: 9300}}, "two nodes cannot have one port"),
        ({"node_names": "broker-$(nodeId).example"}, "node_names needs listener_tls"),
        ({"node_names": "broker.example", "listener_tls": ListenerTls(certificate="x")}, "has to stand in it once"),
        ({"node_names": "b-$(nodeId)", "node_ports": {1: 9300}}, "node_names and node_ports exclude each other"),
        ({"mode": Mode.LISTENER, "node_ports": {1: 9300}}, "node_ports is of use in mode rewrite only"),
    ],
)
def test_settings_of_mode_rewrite_fit_each_other(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        GatewaySettings(**{**LEAST, **REWRITE, **changes})


def test_clients_of_mode_rewrite_begin_at_the_advertised_address() -> None:
    settings = GatewaySettings(**{**LEAST, **REWRITE, "advertised": ("[::1]:9192",)})
    assert settings.bootstrap_address == ("::1", 9192)


def test_ports_of_nodes_stand_in_a_table_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[node_ports]\n1 = 9201\n2 = 9202\n")
    assert read_settings_file(file) == {"node_ports": {1: 9201, 2: 9202}}
    file.write_text('node_ports = "9201"')
    with pytest.raises(SettingsError, match="node_ports is no table of ports by node id"):
        read_settings_file(file)


def test_a_file_has_the_same_names(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        """
        bootstrap_servers = ["kafka-1:9092", "kafka-2:9092"]
        mode = "coordinators"
        advertised = "gateway.example"
        metrics = "0.0.0.0:9404"
        drain_ms = 5000

        [listener_tls]
        certificate = "gateway.pem"

        [[policies]]
        groups = "billing-*"
        treatment = "park"

        [[assignors]]
        groups = "billing-*"
        assignor = "billing.assignors:audit_first"
        """
    )
    settings = GatewaySettings(**read_settings_file(file))
    assert settings.bootstrap_servers == "kafka-1:9092,kafka-2:9092"
    assert settings.mode is Mode.COORDINATORS
    assert settings.metrics == ("0.0.0.0", 9404)
    assert settings.listener_tls == ListenerTls(certificate="gateway.pem")
    assert [(row.groups, row.treatment) for row in settings.policies.rows] == [("billing-*", Treatment.PARK)]
    assert settings.assignors == (AssignorRow("billing-*", "billing.assignors:audit_first"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mode = ", "gateway.toml: Invalid value"),
        ("made = 1", "has no setting 'made'; did you mean 'mode'"),
        ("colour = 1", "has no setting 'colour': there are advertised, "),
        ("security = {}", "its place is the file of --command-config"),
        ("mode = 'proxy'", "mode='proxy': expected listener"),
        ("metrics = 9404", "metrics=9404 is an int: expected HOST:PORT"),
        ("listener_tls = 'x'", r"listener_tls is no table: write \[listener_tls\]"),
        ("listener_tls = {key = 'x'}", "listener_tls lacks certificate"),
        ("listener_tls = {cert = 'x'}", "listener_tls has no setting 'cert': there are certificate"),
        ("events = 5", "events=5 is an int: expected a str"),
        ("[[policies]]\ntreatment = 'hold'", "policies: row 1: treatment='hold': expected off, observe or park"),
        ("assignors = 'uniform'", r"write \[\[assignors\]\] above each"),
        ("[[assignors]]\ngroups = 'billing-*'", "assignors: row 1: it lacks assignor"),
        ("[[assignors]]\ngroups = 'billing-*'\nassignor = ''", "row 1: assignor='': expected a str that is not empty"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=sentence):
        read_settings_file(file)


def test_the_file_in_the_guide_is_understood(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "gateway.md").read_text(encoding="utf-8")
    file = tmp_path / "gateway.toml"
    file.write_text(guide.partition("```toml\n")[2].partition("```")[0])
    settings = GatewaySettings(**read_settings_file(file))
    assert [row.treatment for row in settings.policies.rows] == [Treatment.PARK, Treatment.OFF]


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*gateway\.toml: No such file"):
        read_settings_file(tmp_path / "gateway.toml")
