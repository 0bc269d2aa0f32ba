from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from kohort.cli.terminal.options import bootstrap, moment_ms, number, setting, topic_or_partitions


@pytest.mark.parametrize("text", ["localhost:9092", "[::1]:9092", "a:1,b:2"])
def test_an_address_is_host_and_port(text: str) -> None:
    assert bootstrap(text) == text


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (bootstrap, "localhost"),
        (bootstrap, ":9092"),
        (bootstrap, "a:0"),
        (bootstrap, "a:65536"),
        (bootstrap, "a:1,"),
        (number(1, "a number of partitions"), "0"),
        (number(1, "a number of partitions"), "many"),
        (setting, "retention.ms"),
        (setting, "=1"),
        (topic_or_partitions, ":1"),
        (topic_or_partitions, "t:"),
        (topic_or_partitions, "t:x"),
        (topic_or_partitions, "t:-1"),
        (moment_ms, "yesterday"),
    ],
)
def test_an_ill_typed_value_is_refused_in_a_sentence_that_quotes_it(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ArgumentTypeError) as refusal:
        read(text)
    assert text.split(":")[-1].split(",")[-1] in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_topic_may_name_some_of_its_partitions() -> None:
    assert topic_or_partitions("t") == ("t", None)
    assert topic_or_partitions("t:2,0") == ("t", frozenset({0, 2}))


def test_a_time_without_a_zone_is_utc_as_in_kafka() -> None:
    assert moment_ms("1970-01-02") == 86_400_000
    assert moment_ms("1970-01-01T01:00:00.5+01:00") == 500
