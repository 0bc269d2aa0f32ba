"""Settings of single groups: what the config APIs say of them, what they are worth, and that they are kept."""

from __future__ import annotations

import logging

import pytest
from tests.unit.node.desk import Desk
from tests.unit.node.test_configs_apis import DELETE, SET, alter, describe, value_of

from kohort.group.coordinator_settings import GroupConfig
from kohort.model.errors import ErrorCode
from kohort.model.setting import SettingsError
from kohort.node.configuration.broker_settings import GROUP
from kohort.node.configuration.config import Config
from kohort.wire.messages import AlterConfigsRequest, ListConfigResourcesRequest

GROUP_TYPE = 32
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
DYNAMIC_GROUP, STATIC_BROKER, DEFAULT = 8, 4, 5


def test_group_without_settings_is_described_with_the_brokers() -> None:
    desk = Desk(group_consumer_session_timeout_ms=50_000)
    result = describe(desk.connect(), GROUP_TYPE, "g", include_documentation=True, include_synonyms=True)
    assert [config.name for config in result.configs] == list(GROUP)
    session = next(config for config in result.configs if config.name == SESSION)
    assert (session.value, session.config_source, session.read_only) == ("50000", STATIC_BROKER, False)
    assert [each.name for each in session.synonyms] == [f"group.{SESSION}"] * 2
    assert value_of(desk.connect(), GROUP_TYPE, "g", INTERVAL) == ("5000", DEFAULT)
    assert desk.node.state.group_configs.effective("g") == GroupConfig(50_000, 5_000, 1_000)


def test_setting_of_a_group_works_for_that_group_and_survives_a_restart() -> None:
    desk = Desk()
    assert alter(desk.connect(), GROUP_TYPE, "g", (SESSION, SET, "55000")).error_code == 0
    for _ in range(2):
        assert value_of(desk.connect(), GROUP_TYPE, "g", SESSION) == ("55000", DYNAMIC_GROUP)
        assert value_of(desk.connect(), GROUP_TYPE, "h", SESSION) == ("45000", DEFAULT)
        assert desk.node.state.group_configs.effective("g").session_timeout_ms == 55_000
        desk = desk.restart()


def test_removed_setting_gives_the_group_back_to_the_broker() -> None:
    desk = Desk()
    alter(desk.connect(), GROUP_TYPE, "g", (SESSION, SET, "55000"))
    assert alter(desk.connect(), GROUP_TYPE, "g", (SESSION, DELETE, None)).error_code == 0
    assert value_of(desk.connect(), GROUP_TYPE, "g", SESSION) == ("45000", DEFAULT)
    assert list(desk.node.state.group_configs) == []


def test_setting_outside_the_brokers_bounds_works_as_the_bound_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    with caplog.at_level(logging.WARNING, "kohort.node"):
        assert alter(desk.connect(), GROUP_TYPE, "g", (INTERVAL, SET, "100")).error_code == 0
    assert "consumer.heartbeat.interval.ms=100 of group g is outside the broker's bounds, 5000 to 15000" in caplog.text
    assert value_of(desk.connect(), GROUP_TYPE, "g", INTERVAL) == ("5000", DYNAMIC_GROUP)
    desk = desk.restart(group_consumer_min_heartbeat_interval_ms=50)
    assert desk.node.state.group_configs.effective("g").heartbeat_interval_ms == 100


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (SESSION, "soon", ErrorCode.INVALID_CONFIG),
        (SESSION, "0", ErrorCode.INVALID_CONFIG),
        (SESSION, str(1 << 40), ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout", "50000", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_setting_that_a_group_cannot_have_is_refused(name: str, value: str, error: ErrorCode) -> None:
    desk = Desk()
    assert alter(desk.connect(), GROUP_TYPE, "g", (name, SET, value)).error_code == error
    assert list(desk.node.state.group_configs) == []


def test_session_that_ends_before_the_next_heartbeat_is_refused() -> None:
    desk = Desk(group_consumer_max_heartbeat_interval_ms=60_000)
    refused = alter(desk.connect(), GROUP_TYPE, "g", (INTERVAL, SET, "45000"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "consumer.session.timeout.ms (45000) is not above" in (refused.error_message or "")
    both = ((INTERVAL, SET, "45000"), (SESSION, SET, "60000"))
    assert alter(desk.connect(), GROUP_TYPE, "g", *both).error_code == 0


def test_group_without_a_name_has_no_settings() -> None:
    peer = Desk().connect()
    assert describe(peer, GROUP_TYPE, "").error_code == ErrorCode.INVALID_REQUEST
    assert alter(peer, GROUP_TYPE, "", (SESSION, SET, "50000")).error_code == ErrorCode.INVALID_REQUEST


def test_groups_with_settings_are_listed_and_alter_configs_replaces_them() -> None:
    desk = Desk()
    for group_id in ("b", "a"):
        alter(desk.connect(), GROUP_TYPE, group_id, (SESSION, SET, "50000"))
    listed = desk.connect().call(ListConfigResourcesRequest(resource_types=[GROUP_TYPE]), 1)
    assert [each.resource_name for each in listed.config_resources] == ["a", "b"]
    config = AlterConfigsRequest.Resource.Config(name=INTERVAL, value="6000")
    resource = AlterConfigsRequest.Resource(resource_type=GROUP_TYPE, resource_name="a", configs=[config])
    (result,) = desk.connect().call(AlterConfigsRequest(resources=[resource]), 2).responses
    assert result.error_code == 0
    assert desk.node.state.group_configs.effective("a") == GroupConfig(45_000, 6_000, 1_000)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"group.consumer.heartbeat.interval.ms": "200"},
            "group.consumer.heartbeat.interval.ms (200) is not between group.consumer.min.heartbeat.interval.ms (5000)",
        ),
        (
            {"group.consumer.session.timeout.ms": "5000", "group.consumer.min.session.timeout.ms": "1"},
            "group.consumer.session.timeout.ms (5000) is not above group.consumer.heartbeat.interval.ms (5000)",
        ),
    ],
)
def test_broker_whose_settings_of_groups_contradict_each_other_does_not_start(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        Config(settings)
    assert sentence in str(refused.value)


def test_migration_policy_is_read_in_any_letter_case() -> None:
    assert Config({"group.consumer.migration.policy": "UPGRADE"}).group_consumer_migration_policy == "upgrade"
