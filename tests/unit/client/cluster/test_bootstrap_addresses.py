"""Bootstrap addresses as people write them."""

from __future__ import annotations

import pytest

from kohort.client.cluster.bootstrap_addresses import parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:9092", [("h", 9092)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://h:9092", [("h", 9092)]),
    ],
)
def test_addresses_are_host_and_port(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize("text", ["h", "h:", ":9092", "h:port", "h:0", "h:70000"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not host:port"):
        parse_addresses(text)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        parse_addresses("")
