"""Settings of a Spark job as a member: a wrong value or name is refused in one sentence before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.spark.group_stream import GroupStream
from kohort.spark.membership.member_settings import MemberSettings

CLUSTER: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"rebalance_timeout_ms": "5s"}, "rebalance_timeout_ms='5s' is a str: expected a whole number of milliseconds"),
        ({"metadata_max_age_ms": 0}, "metadata_max_age_ms=0: expected a whole number of milliseconds from 1"),
        ({"client_rack": 1}, "client_rack=1 is an int: expected a str"),
        ({"fail_on_data_loss": "false"}, "fail_on_data_loss='false' is a str: expected true or false"),
        ({"topics": "flights"}, "topics='flights' is a str: expected a list"),
        ({"assignor": "uniform"}, "^assignor='uniform' names an assignor of the broker.*pass protocol='consumer' or"),
        ({"protocol": "consumer", "session_timeout_ms": 9_000}, "^protocol='consumer' has no session_timeout_ms"),
        ({"properties": "ssl"}, "properties='ssl' is a str: expected a dict of texts"),
    ],
)
def test_a_value_of_another_kind_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        MemberSettings(**CLUSTER | settings)


def test_a_misspelt_setting_of_a_group_stream_is_refused_with_the_nearest_one() -> None:
    spark: Any = None
    with pytest.raises(TypeError, match=r"GroupStream has no setting 'sesion_timeout_ms'; did you mean 'session_timeo"):
        GroupStream(spark, "flights", **CLUSTER, sesion_timeout_ms=6_000)


def test_brokers_may_be_a_list_as_those_of_a_consumer() -> None:
    assert MemberSettings(["127.0.0.1:1", "127.0.0.1:2"], "g").cluster() is not None  # type: ignore[arg-type]
