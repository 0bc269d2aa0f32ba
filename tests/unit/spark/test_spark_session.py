"""What a session is given before it starts; none is started here."""

from __future__ import annotations

import os

import pytest

from kohort.spark.spark_session import cores, settings


@pytest.mark.parametrize(
    ("master", "threads"),
    [("local", 1), ("local[2]", 2), ("local[3,4]", 3), ("local[*]", os.cpu_count()), ("local[*,2]", os.cpu_count())],
)
def test_a_local_master_says_its_threads(master: str, threads: int) -> None:
    assert cores(master) == threads


def test_a_local_session_listens_on_loopback_and_shuffles_as_wide_as_it_has_threads() -> None:
    chosen = settings("local[4]")
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.sql.shuffle.partitions"] == 4
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.ui.enabled"] is False


def test_a_cluster_keeps_its_own_addresses_and_logging() -> None:
    assert not [name for name in settings("spark://master:7077") if name.startswith("spark.driver.")]


def test_java_options_are_added_to_ours() -> None:
    options = str(settings("local[1]", "WARN", "-Xss2m")["spark.driver.extraJavaOptions"])
    assert options.endswith("-Dkohort.log.level=WARN -Xss2m")
    assert settings("yarn", java_options="-Xss2m")["spark.driver.extraJavaOptions"] == "-Xss2m"
