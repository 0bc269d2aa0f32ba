"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

import pytest
from tests.unit.node.desk import Desk, Peer, batch, only, produce

from kohort.model.errors import ErrorCode
from kohort.node.configuration.broker_settings import BROKER, TOPIC
from kohort.wire.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

TOPIC_TYPE, BROKER_TYPE = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    peer: Peer, kind: int, name: str, *keys: str, version: int = 4, **fields: bool
) -> DescribeConfigsResponse.Result:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    (result,) = peer.call(DescribeConfigsRequest(resources=[resource], **fields), version).results
    return result


def alter(
    peer: Peer, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsResponse.Response:
    configs = [
        IncrementalAlterConfigsRequest.Resource.Config(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=configs)
    message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = peer.call(message, 1).responses
    return result


def value_of(peer: Peer, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (config,) = describe(peer, kind, name, key).configs
    return config.value, config.config_source


def test_every_setting_is_described_with_type_text_and_source() -> None:
    desk = Desk(num_partitions=5)
    desk.create("orders")
    peer = desk.connect()
    broker = describe(peer, BROKER_TYPE, "1", include_documentation=True)
    assert [config.name for config in broker.configs] == list(BROKER)
    partitions = next(config for config in broker.configs if config.name == "num.partitions")
    assert (partitions.value, partitions.config_source, partitions.config_type) == ("5", 4, 3)
    assert partitions.documentation
    topic = describe(peer, TOPIC_TYPE, "orders")
    assert [config.name for config in topic.configs] == list(TOPIC)
    assert all(config.value is not None for config in topic.configs)
    for version in (1, 2, 3):
        assert describe(peer, TOPIC_TYPE, "orders", "retention.ms", version=version).configs[0].value == "604800000"


def test_a_password_is_never_shown() -> None:
    peer = Desk(kohort_sasl_plain_users="alice:secret").connect()
    peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    peer.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
    (config,) = describe(peer, BROKER_TYPE, "1", "kohort.sasl.plain.users", include_synonyms=True).configs
    assert (config.value, config.is_sensitive, config.synonyms) == (None, True, [])


def test_synonyms_show_what_would_be_in_force_otherwise() -> None:
    desk = Desk(log_retention_hours=1)
    desk.create("orders", retention_ms=5)
    (config,) = describe(desk.connect(), TOPIC_TYPE, "orders", "retention.ms", include_synonyms=True).configs
    assert [(row.name, row.value, row.source) for row in config.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.hours", "1", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_resources_that_do_not_exist_are_refused() -> None:
    peer = Desk().connect()
    assert describe(peer, TOPIC_TYPE, "nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(peer, BROKER_TYPE, "9").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, 77, "x").error_code == ErrorCode.INVALID_REQUEST


def test_topic_settings_change_at_once_and_survive_a_restart() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert alter(peer, TOPIC_TYPE, "orders", ("max.message.bytes", SET, "200")).error_code == 0
    assert only(peer.call(produce("orders", batch(b"x" * 300)), 9)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    desk = desk.restart(clean=False)
    peer = desk.connect()
    assert value_of(peer, TOPIC_TYPE, "orders", "max.message.bytes") == ("200", 1)
    assert alter(peer, TOPIC_TYPE, "orders", ("max.message.bytes", DELETE, None)).error_code == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "max.message.bytes") == ("1048588", 5)
    assert only(peer.call(produce("orders", batch(b"x" * 300)), 9)).error_code == 0


def test_lists_are_appended_to_and_taken_from() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert alter(peer, TOPIC_TYPE, "orders", ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "cleanup.policy")[0] == "delete,compact"
    assert alter(peer, TOPIC_TYPE, "orders", ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "cleanup.policy")[0] == "compact"
    refused = alter(peer, TOPIC_TYPE, "orders", ("retention.ms", APPEND, "1"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.msec", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_change_takes_the_others_of_its_resource_with_it(
    change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    result = alter(peer, TOPIC_TYPE, "orders", ("segment.bytes", SET, "9999"), change)
    assert result.error_code == code
    assert result.error_message
    assert value_of(peer, TOPIC_TYPE, "orders", "segment.bytes")[1] == 5


def test_validate_only_changes_nothing() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert alter(peer, TOPIC_TYPE, "orders", ("retention.ms", SET, "1"), validate_only=True).error_code == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "retention.ms")[1] == 5


def test_dynamic_broker_settings_are_the_default_of_topics_and_survive_a_restart() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert alter(peer, BROKER_TYPE, "1", ("log.retention.ms", SET, "1234")).error_code == 0
    desk = desk.restart()
    peer = desk.connect()
    assert value_of(peer, TOPIC_TYPE, "orders", "retention.ms") == ("1234", 2)
    assert alter(peer, BROKER_TYPE, "", ("log.retention.ms", DELETE, None)).error_code == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "retention.ms") == ("604800000", 5)
    refused = alter(peer, BROKER_TYPE, "1", ("node.id", SET, "2"))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_CONFIG,
        "node.id cannot be changed while the broker runs",
    )


def test_list_config_resources_names_topics_and_the_broker() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert peer.call(ListConfigResourcesRequest(), 0).config_resources == []
    found = peer.call(ListConfigResourcesRequest(resource_types=[TOPIC_TYPE, BROKER_TYPE]), 1).config_resources
    assert [(row.resource_name, row.resource_type) for row in found] == [("orders", 2), ("1", 4)]
    wrong = peer.call(ListConfigResourcesRequest(resource_types=[99]), 1)
    assert wrong.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_alter_configs_names_the_whole_set_and_what_it_omits_is_removed() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()

    def replace(kind: int, name: str, **configs: str) -> int:
        resource = AlterConfigsRequest.Resource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterConfigsRequest.Resource.Config(name=key.replace("_", "."), value=text)
                for key, text in configs.items()
            ],
        )
        (result,) = peer.call(AlterConfigsRequest(resources=[resource]), 2).responses
        return result.error_code

    assert replace(TOPIC_TYPE, "orders", retention_ms="5000", segment_bytes="1048576") == 0
    assert replace(TOPIC_TYPE, "orders", retention_ms="6000") == 0
    assert value_of(peer, TOPIC_TYPE, "orders", "retention.ms") == ("6000", 1)
    assert value_of(peer, TOPIC_TYPE, "orders", "segment.bytes") == ("1073741824", 5)
    assert replace(TOPIC_TYPE, "orders", retention_ms="soon") == ErrorCode.INVALID_CONFIG
    assert replace(TOPIC_TYPE, "nothing", retention_ms="5000") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert value_of(peer, TOPIC_TYPE, "orders", "retention.ms") == ("6000", 1)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retention.ms", "1", "cannot be set"),
        ("retention.bytes", "1", "cannot be set"),
        ("cleanup.policy", "delete", "is compact"),
        ("cleanup.policy", "compact,delete", "is compact"),
        ("max.message.bytes", "100", "needs"),
        ("segment.bytes", "1024", "needs"),
        ("message.timestamp.type", "LogAppendTime", "cannot be set"),
    ],
)
def test_a_coordinators_topic_is_not_altered_so_that_its_state_is_lost(
    topic: str, name: str, value: str, reason: str
) -> None:
    desk = Desk()
    desk.node.coordinator.ensure_topic()
    desk.node.context.transactions.ensure_topic()
    peer = desk.connect()
    result = alter(peer, TOPIC_TYPE, topic, (name, SET, value))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert topic in (result.error_message or "")
    assert reason in (result.error_message or "")
    assert alter(peer, TOPIC_TYPE, topic, ("segment.bytes", SET, "10485760")).error_code == 0
    assert alter(peer, TOPIC_TYPE, topic, ("min.cleanable.dirty.ratio", SET, "0.1")).error_code == 0
    assert alter(peer, TOPIC_TYPE, topic, ("cleanup.policy", DELETE, None)).error_code == ErrorCode.INVALID_CONFIG
