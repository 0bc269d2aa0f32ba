"""`auto_offset_reset` as a timestamp of ListOffsets."""

from __future__ import annotations

import pytest

from kohort.client.cluster.offset_specs import EARLIEST, LATEST, reset_timestamp
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.model.setting import SettingsError

NOW_MS = 1_000_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("reset", "timestamp"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", None),
        ("by_duration:PT1H", NOW_MS - 3_600_000),
        ("by_duration:P2DT3M4.005S", NOW_MS - 2 * DAY_MS - 184_005),
        ("by_duration:pt0,5s", NOW_MS - 500),
        ("by_duration:PT0S", NOW_MS),
        ("by_duration:PT1H-30M", NOW_MS - 1_800_000),
        ("by_duration:-PT-1M", NOW_MS - 60_000),
        ("by_duration:P99999D", 0),
    ],
)
def test_a_policy_is_a_timestamp(reset: str, timestamp: int | None) -> None:
    """Durations are those of `java.time.Duration.parse`; one from before 1970 is the first record."""
    assert reset_timestamp(reset, NOW_MS) == timestamp


@pytest.mark.parametrize(
    "reset",
    [
        *("Earliest", "by_duration", "BY_DURATION:PT1H", "by_duration:", "by_duration:P", "by_duration:PT"),
        *("by_duration:P1DT", "by_duration:1h", "by_duration:P1M", "by_duration:PT1S1M"),
        *("by_duration:PT1H-61M", "by_duration:-PT1H", "by_duration:PT-0.5S"),
    ],
)
def test_another_text_is_refused(reset: str) -> None:
    with pytest.raises(SettingsError, match=r"auto_offset_reset=.*: expected earliest, .* by_duration:PT1H"):
        ConsumerConfig(bootstrap_servers="127.0.0.1:1", auto_offset_reset=reset)
