from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.broker import Broker, parse_address
from kohort.node.configuration.config import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PLAINTEXT://127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("SASL_PLAINTEXT://broker.example:9093", ("broker.example", 9093)),
        ("PLAINTEXT://:9092", ("", 9092)),
        ("broker:0", ("broker", 0)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_a_listener_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address("listeners", text) == address


@pytest.mark.parametrize(
    "text", ["SSL://h:1", "h", "h:port", "h:65536", "", "PLAINTEXT://h:1,PLAINTEXT://h:2", "::1:9092"]
)
def test_a_listener_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected PLAINTEXT://HOST:PORT"):
        parse_address("listeners", text)


def test_the_arguments_of_a_broker_go_before_its_settings(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://192.0.2.7:7000"}
    assert Broker(tmp_path, settings=settings).address == ("192.0.2.7", 7000)
    assert Broker(tmp_path, "127.0.0.1", 0, settings).address == ("127.0.0.1", 0)
