"""Validation of arguments: a wrong value is refused with the argument's name, before anything is sent.

Raises TypeError for another type and ValueError for another value, where the inside would raise KeyError,
AttributeError or a codec's error, or take a text for a list of its letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from kohort.model.ids import TopicPartition
from kohort.model.setting import INT, INT_MAX, Setting, address, check_length, of_type

_LONGEST_TOPIC = 249


def whole_number(name: str, value: object, least: int, most: int = INT_MAX) -> int:
    """Return an argument that is a whole number of `least` to `most`. Raises TypeError, ValueError."""
    number: int = _number(name, least, most).check(value)
    return number


@lru_cache(maxsize=64)  # a partition's number is checked with every record
def _number(name: str, least: int, most: int) -> Setting[int]:
    return Setting(INT, 0, "", least, most, name=name)


def check_text(name: str, value: object) -> None:
    """Refuse an argument that is no text that Kafka can carry. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise of_type(name, value, "a str")
    check_length(name, value)


def check_topic(name: object) -> None:
    """Refuse an argument that is no topic's name. Raises TypeError, ValueError."""
    check_text("topic", name)
    if not name:
        raise ValueError("topic is empty: name one")
    if isinstance(name, str) and len(name) > _LONGEST_TOPIC:
        raise ValueError(f"topic is longer than {_LONGEST_TOPIC} characters: {name[:40]!r}…")


def texts(name: str, values: Iterable[str]) -> list[str]:
    """Return a collection of texts, each once."""
    found = list(dict.fromkeys(_several(name, values)))
    for each in found:
        check_text(f"one of {name}", each)
    return found


def topic_partition(name: str, value: object) -> TopicPartition:
    """Return a partition; a tuple of a topic and a number, as other clients have it, is one."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise of_type(name, value, "a TopicPartition")
    topic, number = value
    check_topic(topic)
    return TopicPartition(topic, whole_number("partition", number, 0))


def topic_partitions(values: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the argument `partitions`, each of them once."""
    return list(dict.fromkeys(topic_partition("one of partitions", each) for each in _several("partitions", values)))


def by_partition(name: str, values: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Any]:
    """Return a mapping by partition, its values as they are."""
    if not isinstance(values, Mapping):
        raise of_type(name, values, "a dict by TopicPartition")
    return {topic_partition(f"a key of {name}", partition): value for partition, value in values.items()}


def _several(name: str, values: Iterable[Any]) -> list[Any]:
    is_one = isinstance(values, str | bytes | TopicPartition)
    if is_one or not isinstance(values, Iterable):
        raise of_type(name, values, "a list")
    return list(values)


def bootstrap_addresses(
    bootstrap_servers: str | Sequence[str], name: str = "bootstrap_servers"
) -> list[tuple[str, int]]:
    """Return (host, port) pairs of `host:port`, comma-separated or in a list, IPv6 in brackets.

    Raises TypeError, ValueError that names the part that is not an address.
    """
    if not isinstance(bootstrap_servers, Sequence | Set) or isinstance(bootstrap_servers, bytes | bytearray):
        raise of_type(name, bootstrap_servers, "'host:port' or a list")
    parts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    for text in parts:
        if not isinstance(text, str):
            raise of_type(f"one of {name}", text, "'host:port'")
    addresses = [_address(name, text.strip()) for text in parts if text.strip()]
    if not addresses:
        raise ValueError(f"{name} is empty: name at least one broker as host:port")
    return addresses


def _address(name: str, text: str) -> tuple[str, int]:
    # Java's clients take PLAINTEXT://host:port too; another protocol in this place would be passed over.
    scheme, _, place = text.rpartition("://")
    if scheme.upper() not in ("", "PLAINTEXT"):
        raise ValueError(f"{name}={text!r}: expected host:port; security_protocol={scheme.upper()!r} is a setting")
    return address(name, place)
