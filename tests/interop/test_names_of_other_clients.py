"""The guide for users of other clients calls things as those clients do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
from tests.integration.test_coming_from import lines, names

from kohort import Admin, Consumer, Producer

pytestmark = pytest.mark.interop
kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")


def settings_of(client: type) -> set[str]:
    """Return the settings of one of kafka-python's or aiokafka's clients."""
    config: set[str] = set(getattr(client, "DEFAULT_CONFIG", ()))
    return config | set(inspect.signature(client).parameters)


def refusal(make: Callable[..., object], *given: object) -> str:
    """Return what a constructor says against its arguments, nothing where it takes them."""
    try:
        make(*given)
    except (TypeError, ValueError, confluent_kafka.KafkaException) as refused:
        return str(refused)
    return ""


PYTHON = {
    "Settings of a consumer": (kafka.KafkaConsumer, aiokafka.AIOKafkaConsumer),
    "Settings of a producer": (kafka.KafkaProducer, aiokafka.AIOKafkaProducer),
    "Security, for all three": (kafka.KafkaConsumer, aiokafka.AIOKafkaConsumer),
}


@pytest.mark.parametrize("section", PYTHON)
def test_settings_of_python_clients_are_theirs(section: str) -> None:
    theirs = set().union(*map(settings_of, PYTHON[section]))
    for line in lines(section):
        assert set(names(line._replace(theirs=line.theirs[:1]))) <= theirs, line


@pytest.mark.parametrize("section", PYTHON)
def test_settings_of_confluent_kafka_are_known_to_librdkafka(section: str) -> None:
    for line in lines(section):
        for name in names(line._replace(theirs=line.theirs[1:2])):
            if "_" in name or "serializer" in name:
                continue  # of the Python package, not of librdkafka
            make = confluent_kafka.Producer if "producer" in section else confluent_kafka.Consumer
            given = {"group.id": "g"} if make is confluent_kafka.Consumer else {}
            assert "No such configuration property" not in refusal(make, given | {name: "?"}), name


CLIENTS = {
    "A consumer": ((kafka.KafkaConsumer, aiokafka.AIOKafkaConsumer), confluent_kafka.Consumer),
    "A producer": ((kafka.KafkaProducer, aiokafka.AIOKafkaProducer), confluent_kafka.Producer),
}


@pytest.mark.parametrize("section", CLIENTS)
def test_methods_are_theirs(section: str) -> None:
    python, confluent = CLIENTS[section]
    for line in lines(section):
        for cell, clients in ((line.theirs[0], python), (line.theirs[1], (confluent,))):
            for method in re.findall(r"`(\w+)\(", cell):
                assert any(hasattr(client, method) for client in clients), (method, line)


def test_methods_of_their_admins_are_theirs() -> None:
    from aiokafka.admin import AIOKafkaAdminClient
    from confluent_kafka.admin import AdminClient
    from kafka.admin import KafkaAdminClient

    for line in lines("An operator"):
        for cell, clients in (
            (line.theirs[0], (KafkaAdminClient, AIOKafkaAdminClient)),
            (line.theirs[1], (AdminClient,)),
        ):
            for method in re.findall(r"`(\w+)\(", cell):
                assert any(hasattr(client, method) for client in clients), (method, line)


def test_errors_are_theirs() -> None:
    import kafka.errors

    for line in lines("Errors"):
        for name in re.findall(r"`(\w+)`", line.theirs[0]):
            assert hasattr(kafka.errors, name)
        for name in re.findall(r"`KafkaError\.(\w+)`", line.theirs[1]):
            assert hasattr(confluent_kafka.KafkaError, name)


@pytest.mark.parametrize(
    ("client", "theirs"),
    [
        (Consumer, (kafka.KafkaConsumer, aiokafka.AIOKafkaConsumer)),
        (Producer, (kafka.KafkaProducer, aiokafka.AIOKafkaProducer)),
        (Admin, (kafka.KafkaConsumer,)),
    ],
)
def test_no_setting_of_a_python_client_is_taken_for_a_misspelled_one(client: type, theirs: tuple[type, ...]) -> None:
    for name in sorted(set().union(*map(settings_of, theirs)) - {"topics", "configs", "bootstrap_servers"}):
        text = refusal(lambda name=name: client(bootstrap_servers="127.0.0.1:1", **{name: object()}))
        assert "did you mean" not in text, name
