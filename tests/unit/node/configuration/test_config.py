from __future__ import annotations

import pytest

from kohort.model.setting import SettingsError
from kohort.node.configuration.broker_settings import BROKER, COMPATIBLE, TOPIC
from kohort.node.configuration.config import Config, Source, TopicConfig


def test_every_setting_has_a_text_and_a_default_that_its_own_bounds_accept() -> None:
    config = Config()
    for name, setting in BROKER.items():
        assert setting.doc, name
        assert name in dir(config) or hasattr(config, name.replace(".", "_"))
    topic = TopicConfig(config)
    for name in TOPIC:
        topic.get(name)


def test_kafkas_defaults_are_ours() -> None:
    config = Config()
    assert config.num_partitions == 1
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.offsets_topic_num_partitions == 50
    assert config.auto_create_topics_enable is True
    topic = TopicConfig(config)
    assert topic.get("retention.ms") == 604_800_000
    assert topic.get("segment.ms") == 604_800_000
    assert topic.get("cleanup.policy") == ("delete",)


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"no setting 'num\.partition'; did you mean 'num\.partitions'\?"):
        Config({"num.partition": "3"})
    with pytest.raises(SettingsError, match=r"the broker has no setting 'zzzzzzzzzz': its names are Kafka's$"):
        Config({"zzzzzzzzzz": "3"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("num.partitions", "three", "a whole number from 1 to 100000"),
        ("num.partitions", "0", "a whole number from 1 to 100000"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.message.timestamp.type", "Now", "CreateTime or LogAppendTime"),
        ("log.cleanup.policy", "delete,shred", "a list of delete, compact"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number from 0 to 1"),
        ("group.coordinator.rebalance.protocols", "classic,shares", "a list of classic, consumer, streams"),
        ("group.coordinator.rebalance.protocols", "consumer,share", "a list of classic, consumer, streams"),
        ("kohort.compatible", "kafka-3.9", "kafka-4.3"),
    ],
)
def test_an_ill_typed_value_is_refused_in_one_sentence(name: str, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Config({name: text})
    assert str(refused.value) == f"{name}={text!r}: expected {expected}"


def test_the_classic_protocol_cannot_be_left_out() -> None:
    with pytest.raises(SettingsError, match="must name classic"):
        Config({"group.coordinator.rebalance.protocols": "consumer"})


def test_compatible_with_a_version_every_improvement_is_off_but_what_is_set_itself() -> None:
    plain = Config({"kohort.compatible": "kafka-4.3"})
    assert {name: plain.get(name) for name in COMPATIBLE} == COMPATIBLE
    assert all(Config().get(name) != value for name, value in COMPATIBLE.items())
    parking = Config({"kohort.group.heartbeat.park": "true", "kohort.compatible": "kafka-4.3"})
    assert parking.kohort_group_heartbeat_park
    assert not parking.kohort_group_events


def test_a_session_timeout_range_that_is_empty_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"group\.min\.session\.timeout\.ms \(9000\) is above"):
        Config({"group.min.session.timeout.ms": "9000", "group.max.session.timeout.ms": "8000"})


def test_a_topic_takes_the_broker_setting_that_is_set_in_the_finest_unit() -> None:
    config = Config({"log.retention.minutes": "5"})
    topic = TopicConfig(config)
    assert topic.get("retention.ms") == 300_000
    assert topic.source("retention.ms") is Source.STATIC_BROKER
    config.alter("log.retention.ms", "1234")
    assert topic.get("retention.ms") == 1234
    assert topic.source("retention.ms") is Source.DYNAMIC_BROKER
    topic.alter("retention.ms", "-1")
    assert topic.get("retention.ms") == -1
    assert topic.source("retention.ms") is Source.TOPIC
    topic.alter("retention.ms", None)
    assert topic.get("retention.ms") == 1234


def test_retention_for_ever_in_hours_stays_for_ever() -> None:
    assert TopicConfig(Config({"log.retention.hours": "-1"})).get("retention.ms") == -1


def test_a_read_only_setting_cannot_change_while_the_broker_runs() -> None:
    with pytest.raises(SettingsError, match=r"node\.id cannot be changed"):
        Config().alter("node.id", "2")


def test_sasl_users_are_read_from_one_setting() -> None:
    assert Config({"kohort.sasl.plain.users": "alice:s:x,bob:t"}).plain_users == {"alice": "s:x", "bob": "t"}
    assert Config().plain_users == {}
    with pytest.raises(SettingsError, match="NAME:PASSWORD"):
        Config({"kohort.sasl.plain.users": "alice"})
