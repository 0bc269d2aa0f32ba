"""The table of clients: which versions have a habit, and what shows a client that does not name itself."""

from __future__ import annotations

import pytest

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import (
    JAVA,
    KGO,
    KOHORT,
    UNNAMED,
    ClientHabits,
    ClientPace,
    software_named,
    software_that_beats,
    software_that_joins,
)

GARBAGE = ["", "unknown", "v", "-1.2", "four", "9" * 400, "\u0663.1"]


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("apache-kafka-java", "2.4.0", ErrorCode.REQUEST_TIMED_OUT),
        ("apache-kafka-java", "4.3.1", ErrorCode.REQUEST_TIMED_OUT),
        ("apache-kafka-java", "12.0.0-SNAPSHOT", ErrorCode.REQUEST_TIMED_OUT),
        ("apache-kafka-java", "2.3.1", ErrorCode.NONE),
        ("kgo", "v1.22.2", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("kgo", "v0.11.1", ErrorCode.NONE),
        ("KGO", "v1.22.2", ErrorCode.NONE),
    ],
)
def test_a_habit_counts_from_the_version_that_was_read_on(name: str, version: str, error: ErrorCode) -> None:
    assert software_named(name, version).habits.repeat_error is error


@pytest.mark.parametrize(
    "name", ["apache-kafka-java", "kgo", "librdkafka", "confluent-kafka-go", "kafka-python", "x*y"]
)
@pytest.mark.parametrize("version", GARBAGE)
def test_of_a_version_that_is_none_nothing_is_expected(name: str, version: str) -> None:
    habits = software_named(name, version).habits
    assert (habits.repeat_error, habits.matches_by_id, habits.delays_commits) == (ErrorCode.NONE, False, False)


def test_bindings_of_librdkafka_append_its_version_to_theirs() -> None:
    assert software_named("confluent-kafka-python", "2.16.1-rdkafka-2.16.1").habits.matches_by_id
    assert software_named("rdkafka-ruby", "0.20.0-librdkafka-2.8.0").habits.matches_by_id


def test_a_client_of_which_nothing_was_read_is_expected_to_need_its_answers() -> None:
    assert software_named("another", "3.0").habits == ClientHabits(ClientPace.NEEDS_ANSWER)
    assert software_named("", "3.0") is software_named("unknown", "") is UNNAMED


@pytest.mark.parametrize(
    ("join", "beat", "assignor", "name"),
    [
        (5, 1, "range", "aiokafka"),
        (5, 3, "RoundRobinAssigner", "kafkajs"),
        (5, 3, "range", "unknown"),  # a kafkajs with another assignor, Java's 2.3
        (2, 1, "range", "unknown"),  # kafka-python 2.0.2, an old kafkajs
        (1, 0, "range", "unknown"),  # kafka-go
    ],
)
def test_what_an_unnamed_client_is_shows_in_its_requests(join: int, beat: int, assignor: str, name: str) -> None:
    software = software_that_beats(software_that_joins(UNNAMED, join, [assignor]), beat)
    assert software.name == name
    assert software_that_beats(software_that_joins(software, join, [assignor]), beat).name == name


def test_a_client_that_names_itself_is_believed() -> None:
    named = software_named("sarama", "1.45.0")
    assert software_that_beats(software_that_joins(named, 5, ["RoundRobinAssigner"]), 1) is named


@pytest.mark.parametrize("name", [JAVA, KGO, KOHORT, "librdkafka", "confluent-kafka-python"])
def test_a_client_that_names_itself_on_each_connection_is_never_taken_for_one_without_a_name(name: str) -> None:
    """Restarted with another library under its client id, a program got a commit's answer before its heartbeat's."""
    assert software_named(name, "9.9").habits.names_itself_always


def test_only_the_group_connection_of_platformatic_has_no_name() -> None:
    assert not software_named("platformatic-kafka", "1.35.0").habits.names_itself_always
