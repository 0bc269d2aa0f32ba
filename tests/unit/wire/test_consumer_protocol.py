"""The embedded `consumer` protocol: what each client writes, and how newer versions are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    owned_partitions,
    subscribed_topics,
)
from kohort.wire.primitives import MalformedMessage

OWNED = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
FULL = Subscription(("a", "b"), b"u", OWNED, 4, "rack-1")
V3 = bytes.fromhex(
    "0003 00000002 0001 61 0001 62 00000001 75"
    "00000002 0001 61 00000002 00000000 00000002 0001 62 00000001 00000001"
    "00000004 0006 7261636b2d31"
)


def test_a_subscription_of_version_3_byte_for_byte() -> None:
    assert encode_subscription(FULL) == V3
    assert decode_subscription(V3) == FULL


def test_each_version_carries_what_it_has() -> None:
    read = [decode_subscription(encode_subscription(replace(FULL, version=version))) for version in range(4)]
    assert read[0] == Subscription(("a", "b"), b"u", version=0)
    assert read[1] == Subscription(("a", "b"), b"u", OWNED, version=1)
    assert read[2] == Subscription(("a", "b"), b"u", OWNED, 4, version=2)
    assert read[3] == FULL


def test_topics_and_owned_partitions_are_written_sorted_as_java_does() -> None:
    jumbled = Subscription(("b", "a"), b"u", OWNED[::-1], 4, "rack-1")
    assert encode_subscription(jumbled) == V3


def test_topics_are_read_in_the_member_s_order() -> None:
    assert decode_subscription(bytes.fromhex("0000 00000002 0001 62 0001 61 ffffffff")).topics == ("b", "a")


@pytest.mark.parametrize("rack", [None, ""])
def test_an_empty_rack_is_no_rack(rack: str | None) -> None:
    blob = encode_subscription(Subscription(("a",), rack=rack))
    assert blob.endswith(b"\xff\xff")
    assert decode_subscription(blob).rack is None
    assert decode_subscription(blob[:-2] + b"\0\0").rack is None


def test_a_newer_version_is_read_as_version_3_and_what_follows_is_ignored() -> None:
    assert decode_subscription(b"\0\x09" + V3[2:] + b"newer fields") == FULL
    assignment = Assignment(frozenset(OWNED), b"u")
    assert decode_assignment(b"\x7f\xff" + encode_assignment(assignment)[2:] + b"newer fields") == assignment


def test_a_negative_version_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="-1"):
        decode_subscription(b"\xff\xff" + V3[2:])
    with pytest.raises(MalformedMessage, match="-1"):
        decode_assignment(b"\xff\xff" + bytes(8))


def test_what_aiokafka_writes() -> None:
    assert decode_subscription(bytes.fromhex("0000 00000001 0001 61 00000000")) == Subscription(("a",), b"", version=0)


def test_what_kafka_python_writes_when_cooperative() -> None:
    blob = bytes.fromhex("0001 00000001 0001 61 00000000 00000001 0001 61 00000001 00000003")
    assert decode_subscription(blob) == Subscription(("a",), b"", (TopicPartition("a", 3),), version=1)


def test_what_librdkafka_writes() -> None:
    blob = bytes.fromhex("0003 00000001 0001 61 00000000 00000000 ffffffff ffff")
    assert decode_subscription(blob) == Subscription(("a",), b"")


def test_the_broker_reads_topics_by_the_oldest_layout_alone() -> None:
    assert subscribed_topics(V3) == {"a", "b"}
    assert subscribed_topics(V3[:17]) == {"a", "b"}, "owned partitions are never looked at"
    with pytest.raises(MalformedMessage):
        subscribed_topics(V3[:9])


@pytest.mark.parametrize("owned", [OWNED, ()])
@pytest.mark.parametrize("user_data", [None, b"", b"u"])
@pytest.mark.parametrize("version", range(4))
def test_owned_partitions_are_found_alone(
    version: int, user_data: bytes | None, owned: tuple[TopicPartition, ...]
) -> None:
    blob = encode_subscription(replace(FULL, version=version, user_data=user_data, owned=owned))
    assert owned_partitions(blob) == frozenset(decode_subscription(blob).owned)


@pytest.mark.parametrize("size", [0, 1, 5, 9, 13, 17, 20])
def test_owned_partitions_of_a_subscription_cut_short_are_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage):
        owned_partitions(V3[:size])


def test_lengths_that_lead_backwards_end_the_search_for_owned_partitions() -> None:
    with pytest.raises(MalformedMessage):
        owned_partitions(bytes.fromhex("0003 7fffffff fffe fffe fffe"))


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_same_bytes_in_every_version(version: int) -> None:
    blob = encode_assignment(Assignment(frozenset(OWNED)), version)
    assert blob[:2] == version.to_bytes(2, "big")
    assert blob[2:] == bytes.fromhex("00000002 0001 61 00000002 00000000 00000002 0001 62 00000001 00000001 ffffffff")
    assert decode_assignment(blob) == Assignment(frozenset(OWNED))


def test_no_bytes_are_no_assignment() -> None:
    assert decode_assignment(b"") == Assignment()
    assert decode_assignment(memoryview(b"")) == Assignment()


@pytest.mark.parametrize("size", [0, 1, 5, 20, 40, len(V3) - 1])
def test_a_subscription_cut_short_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_subscription(V3[:size])


def test_a_single_byte_is_no_assignment_either() -> None:
    with pytest.raises(MalformedMessage):
        decode_assignment(b"\0")
