from __future__ import annotations

from pathlib import Path

from kohort.broker.broker import Broker


def test_the_arguments_of_a_broker_go_before_its_settings(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://192.0.2.7:7000"}
    assert Broker(tmp_path, settings=settings).address == ("192.0.2.7", 7000)
    assert Broker(tmp_path, "127.0.0.1", 0, settings).address == ("127.0.0.1", 0)
