"""Validation of arguments: a wrong value is refused with the argument's name, before anything is sent.

Raises TypeError for another type and ValueError for another value, where the inside would raise KeyError,
AttributeError or a codec's error, or take a text for a list of its letters.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, SupportsIndex

from kohort.model.ids import TopicPartition

MOST = 2**31 - 1
"""The largest number of most of Kafka's settings and of a partition."""

_LONGEST_TEXT = 2**15 - 1
_LONGEST_TOPIC = 249
_LONGEST_SHOWN = 80
_SECRETS = frozenset({"sasl_jaas_config", "sasl_password", "ssl_key_password"})


def whole_number(name: str, value: object, least: int, most: int = MOST) -> int:
    """Return an argument that is a whole number of `least` to `most`. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise of_type(name, value, "a whole number" + (" of milliseconds" if name.endswith("_ms") else ""))
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name}={number} is not between {least} and {most}")
    return number


def check_text(name: str, value: object) -> None:
    """Refuse an argument that is no text that Kafka can carry. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise of_type(name, value, "a str")
    if len(value.encode(errors="replace")) > _LONGEST_TEXT:
        raise ValueError(f"{name} is longer than {_LONGEST_TEXT} bytes: {value[:40]!r}…")
    if not value.isascii() and value.encode(errors="ignore").decode() != value:
        raise ValueError(f"{name}={value!r} holds half of a surrogate pair, which UTF-8 cannot carry")


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


def topic_partitions(name: str, values: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return a collection of partitions, each once."""
    return list(dict.fromkeys(topic_partition(f"one of {name}", each) for each in _several(name, values)))


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


def of_type(name: str, value: object, expected: str) -> TypeError:
    """Return the error of an argument of another type; it never shows a secret."""
    if value is None:
        return TypeError(f"{name}=None: expected {expected}")
    shown = "…" if name in _SECRETS else repr(value)
    shown = shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
    return TypeError(f"{name}={shown} is {_article(type(value).__name__)}: expected {expected}")


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeioAEIO" else f"a {noun}"


def bootstrap_addresses(bootstrap_servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """Return (host, port) pairs of `host:port`, comma-separated or in a list, IPv6 in brackets.

    Raises TypeError, ValueError that names the part that is not an address.
    """
    if not isinstance(bootstrap_servers, Sequence | Set) or isinstance(bootstrap_servers, bytes | bytearray):
        kind = type(bootstrap_servers).__name__
        raise TypeError(f"bootstrap_servers={bootstrap_servers!r} is of type {kind}: expected 'host:port' or a list")
    parts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    for text in parts:
        if not isinstance(text, str):
            raise TypeError(f"bootstrap_servers holds {text!r}: expected 'host:port'")
    addresses = [_address(text.strip()) for text in parts if text.strip()]
    if not addresses:
        raise ValueError("bootstrap_servers is empty: name at least one broker as host:port")
    return addresses


def _address(text: str) -> tuple[str, int]:
    # Java's clients take PLAINTEXT://host:port too; another protocol in this place would be passed over.
    scheme, _, address = text.rpartition("://")
    if scheme.upper() not in ("", "PLAINTEXT"):
        raise ValueError(
            f"bootstrap server {text!r} is not host:port: security_protocol={scheme.upper()!r} is a setting"
        )
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or not 0 < int(port) < 65536 or not host.strip("[]"):
        raise ValueError(f"bootstrap server {text!r} is not host:port")
    return host.strip("[]"), int(port)
