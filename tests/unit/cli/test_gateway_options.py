"""The options of `kohort gateway` and the settings of its file are the same, by the same names."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from kohort.cli.gateway.gateway_run import settings_from
from kohort.cli.main import parser_for
from kohort.cli.terminal.options import resolve_cluster
from kohort.gateway.gateway_settings import BrokerTls, GatewaySettings, ListenerTls
from kohort.model.setting import SettingsError

OF_THE_COMMAND = {"help", "bootstrap_server", "command_config", "context", "config", "json", "quiet"}
POLICIES = {"park", "observe", "off"}


def parsed(*options: str) -> argparse.Namespace:
    args = parser_for(["gateway"]).parse_args(["gateway", "--bootstrap-servers", "k:9092", *options])
    resolve_cluster(args)
    return args


def test_every_option_has_the_name_of_a_setting_of_the_file() -> None:
    (verbs,) = parser_for(["gateway"])._subparsers._group_actions  # type: ignore[union-attr]
    actions = verbs.choices["gateway"]._option_string_actions  # type: ignore[index, call-overload]
    names = {each[2:].replace("-", "_") for each in actions if each.startswith("--")}
    settings = {each.name for each in fields(GatewaySettings)}
    settings |= {f"listener_tls_{each.name}" for each in fields(ListenerTls)}
    settings |= {f"broker_tls_{each.name}" for each in fields(BrokerTls)}
    assert names - settings == OF_THE_COMMAND | POLICIES


def test_options_and_a_file_make_the_same_settings(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        """
mode = "rewrite"
advertised = "gateway.example:9192"
listen_host = "127.0.0.1"
events = "topic"
metrics = "127.0.0.1:9404"
instances = ["other.example:9300"]
instances_listen = "0.0.0.0:9300"
instances_secret_file = "secret"
max_connections = 10
drain_ms = 0
node_ports = { 1 = 9201, 2 = 9202 }
listener_tls = { certificate = "a.pem", key = "a.key", client_authority = "clients.pem" }
broker_tls = { authority = "brokers.pem" }
assignors = [{ groups = "b-*", assignor = "by-lag" }]
"""
    )
    options = (
        "--mode rewrite --advertised gateway.example:9192 --listen-host 127.0.0.1 --events topic"
        " --metrics 127.0.0.1:9404 --instances other.example:9300 --instances-listen 0.0.0.0:9300"
        " --instances-secret-file secret --max-connections 10 --drain-ms 0 --node-ports 1=9201 --node-ports 2=9202"
        " --listener-tls-certificate a.pem --listener-tls-key a.key --listener-tls-client-authority clients.pem"
        " --broker-tls-authority brokers.pem --assignors b-*=by-lag"
    )
    assert settings_from(parsed(*options.split())) == settings_from(parsed("--config", str(file)))


def test_a_key_without_a_certificate_is_an_error() -> None:
    with pytest.raises(SettingsError, match="listener_tls lacks certificate"):
        settings_from(parsed("--mode", "listener", "--advertised", "g", "--listener-tls-key", "a.key"))
