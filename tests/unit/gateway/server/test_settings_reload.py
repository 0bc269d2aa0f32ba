"""The file of a gateway's settings while the gateway runs: what applies, what waits for a restart, what is refused."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.gateway.test_gateway_settings import LEAST, REWRITE

from kohort.gateway.gateway_settings import GatewaySettings, ListenerTls, Mode, read_settings_file
from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.gateway.server.settings_reload import SettingsReload, SettingsSource, changeable
from kohort.model.setting import SettingsError

BEGINNING = 'bootstrap_servers = "kafka-1:9092"\nmode = "listener"\nadvertised = "gateway.example"\n'
PARKING = '[[policies]]\ngroups = "billing-*"\ntreatment = "park"\n'


class Followed:
    """A gateway's file, and what a gateway got of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text(BEGINNING)
        self.settings = self.read()
        self.events: list[dict[str, Any]] = []
        self.reload = SettingsReload(SettingsSource(path, self.read), self.take, self.note)

    def read(self) -> GatewaySettings:
        return GatewaySettings(**read_settings_file(self.path))

    def take(self, wanted: GatewaySettings) -> tuple[list[str], list[str]]:
        self.settings, changed, restarted = changeable(self.settings, wanted)
        return changed, restarted

    def note(self, fields: Mapping[str, Any]) -> None:
        self.events.append({name: value for name, value in fields.items() if name != "file"})

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.reload.look()


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    async def made() -> Followed:
        return Followed(tmp_path / "gateway.toml")

    return asyncio.run(made())


def test_a_file_that_has_changed_applies(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kohort.gateway"):
        followed.write(BEGINNING + "drain_ms = 7\n" + PARKING)
    assert followed.settings.drain_ms == 7
    assert followed.settings.policies.parks
    assert caplog.messages == [f"{followed.path} is read again: changed policies, drain_ms"]
    assert followed.events == [
        {"event": "gateway_settings_changed", "changed": ["policies", "drain_ms"], "needs_restart": []}
    ]
    assert followed.reload.counters.results == {"applied": 1}


def test_a_file_that_is_only_touched_or_away_for_a_moment_changes_nothing(followed: Followed) -> None:
    os.utime(followed.path, ns=(1, 1))
    followed.reload.look()
    assert followed.events == []
    followed.reload.look(is_ordered=True)
    assert followed.events == [{"event": "gateway_settings_changed", "changed": [], "needs_restart": []}]


def test_a_file_that_another_one_replaces_is_read(followed: Followed) -> None:
    whole = followed.path.with_name("whole")
    whole.write_text(BEGINNING + PARKING)
    whole.replace(followed.path)
    followed.reload.look()
    assert followed.settings.policies.parks


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BEGINNING + "[[policies]]\ngroup = 'a'\n", ", line 5: policies: row 1: it has no setting 'group'"),
        (
            BEGINNING + PARKING + PARKING.replace("park", "hold"),
            ", line 9: policies: row 2: treatment='hold': expected ",
        ),
        (BEGINNING + "drain_ms = -1\n", ", line 4: drain_ms=-1: expected a whole number"),
        (BEGINNING + "drain = 1\n", ", line 4: the gateway has no setting 'drain'; did you mean 'drain_ms'?"),
        (BEGINNING + "[[policies]\n", ": Expected ']]' at the end of an array declaration (at line 4"),
    ],
)
def test_a_wrong_file_leaves_the_settings_as_they_are_and_names_the_line(
    followed: Followed, caplog: pytest.LogCaptureFixture, text: str, sentence: str
) -> None:
    before = followed.settings
    followed.write(text)
    assert followed.settings is before
    (line,) = caplog.messages
    assert line.startswith(f"the settings stay as they are: {followed.path}{sentence}")
    assert [event["event"] for event in followed.events] == ["gateway_settings_refused"]
    assert followed.reload.counters.results == {"refused": 1}
    followed.write(BEGINNING + PARKING)
    assert followed.settings.policies.parks


def test_a_file_that_is_gone_leaves_the_settings_as_they_are(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    followed.path.unlink()
    followed.reload.look()
    followed.reload.look()
    assert caplog.messages == [f"the settings stay as they are: cannot read {followed.path}: No such file or directory"]


def test_what_needs_a_restart_is_named_and_the_rest_applies(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    followed.write(BEGINNING.replace("kafka-1", "kafka-2") + 'metrics = "127.0.0.1:9404"\n' + PARKING)
    assert followed.settings.policies.parks
    assert followed.settings.metrics is None
    assert caplog.messages == [
        "bootstrap_servers, metrics needs a restart of the gateway: it has the old value until then"
    ]
    assert followed.reload.counters.waiting == 2
    followed.write(BEGINNING)
    assert followed.reload.counters.waiting == 0


@pytest.mark.parametrize(
    ("before", "after", "restarted"),
    [
        ({}, {"advertised": ("other.example",)}, []),
        (REWRITE, {"advertised": ("other.example:9192",)}, ["advertised"]),
        ({}, {"listener_tls": ListenerTls(certificate="a")}, ["listener_tls"]),
        ({"listener_tls": ListenerTls(certificate="a")}, {"listener_tls": ListenerTls(certificate="b")}, []),
        ({}, {"policies": EVERYTHING_PARKED, "fallback_ms": 5_000, "max_connections": 7}, []),
        ({}, {"mode": Mode.COORDINATORS}, ["mode"]),
        ({}, {"instances": ("a:1",), "instances_secret_file": "s"}, ["instances", "instances_secret_file"]),
        (
            {"instances": ("a:1",), "instances_secret_file": "s"},
            {"instances": ("a:1", "b:1"), "instances_secret_file": "s"},
            [],
        ),
    ],
)
def test_a_setting_applies_or_needs_a_restart(
    before: dict[str, Any], after: dict[str, Any], restarted: list[str]
) -> None:
    now = GatewaySettings(**{**LEAST, **before})
    settings, changed, found = changeable(now, replace(now, **after))
    assert sorted(changed + found) == sorted(name for name in after if getattr(now, name) != after[name])
    assert sorted(found) == sorted(restarted)
    assert all(getattr(settings, name) == getattr(now, name) for name in restarted)


def test_settings_that_fit_only_after_a_restart_are_refused() -> None:
    now = GatewaySettings(**{**LEAST, **REWRITE})
    wanted = GatewaySettings(**LEAST, node_ports={}, policies=EVERYTHING_PARKED)
    assert changeable(now, wanted)[2] == ["mode", "advertised"]
    alone = GatewaySettings(**LEAST)
    shared = {"instances": ("a:1",), "instances_secret_file": "s", "share_ports": True}
    with pytest.raises(SettingsError, match="restart the gateway to change share_ports"):
        changeable(
            GatewaySettings(**LEAST, **shared), replace(alone, instances_secret_file="s", instances_listen=("h", 1))
        )
