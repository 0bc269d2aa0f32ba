"""Which settings of a consumer go together, and the errors where they do not."""

from __future__ import annotations

import re

import pytest

from kohort import Consumer, CooperativeStickyAssignor, SubscriptionPattern
from kohort.client.consumer.consumer_settings import ConsumerConfig

AT = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"group_protocol": "newest"}, "='newest': expected classic, consumer or auto"),
        ({"group_remote_assignor": "uniform"}, "group_protocol='consumer' or 'auto'"),
        ({"group_protocol": "consumer", "session_timeout_ms": 10_000}, "no session_timeout_ms"),
        ({"group_protocol": "consumer", "heartbeat_interval_ms": 100}, "group.consumer.heartbeat.interval.ms"),
        ({"group_protocol": "consumer", "assignors": [CooperativeStickyAssignor()]}, "group_remote_assignor='uniform'"),
    ],
)
def test_a_setting_of_the_protocol_that_is_not_spoken_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        Consumer("t", **AT, **settings)  # type: ignore[arg-type]


def test_auto_takes_the_settings_of_both() -> None:
    assignors = [CooperativeStickyAssignor()]
    config = ConsumerConfig(
        **AT,
        group_protocol="auto",
        group_remote_assignor="range",
        session_timeout_ms=10_000,
        assignors=assignors,
    )
    assert (config.group_remote_assignor, config.session_timeout_ms, config.assignors) == ("range", 10_000, assignors)


@pytest.mark.parametrize("settings", [{"group_protocol": "classic"}, {"group_protocol": "consumer", "group_id": None}])
def test_an_expression_for_the_broker_needs_one_that_resolves_it(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="resolved by the broker"):
        Consumer(SubscriptionPattern("t.*"), **{**AT, **settings})  # type: ignore[arg-type]


def test_an_expression_that_python_cannot_read_is_no_good_where_the_client_may_have_to() -> None:
    pattern = SubscriptionPattern(r"\pLogs")
    Consumer(pattern, **AT, group_protocol="consumer")
    with pytest.raises(ValueError, match="Python cannot read"):
        Consumer(pattern, **AT, group_protocol="auto")


def test_lags_belong_to_a_group() -> None:
    with pytest.raises(RuntimeError, match="no group"):
        Consumer("t", bootstrap_servers="127.0.0.1:1").report_standby_lag({})
