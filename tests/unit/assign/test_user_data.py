"""User data as Kafka's clients write it, and our mark and error in it. The bytes of Java's are written by hand here."""

from __future__ import annotations

import pytest

from kohort.assign.user_data import (
    NO_MEMORY,
    Memory,
    assignment_error,
    decode_generation,
    decode_sticky,
    decode_weight,
    encode_assignment_error,
    encode_generation,
    encode_sticky,
    encode_weight,
    is_marked,
    marked,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

T0, T2, U1 = TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)
V0 = bytes.fromhex("00000002 0001 74 00000002 00000000 00000002 0001 75 00000001 00000001")
V1 = V0 + bytes.fromhex("00000007")


def test_sticky_writes_version_1_as_java_does() -> None:
    assert encode_sticky([U1, T2, T0], 7) == V1


def test_sticky_reads_version_1() -> None:
    assert decode_sticky(V1) == Memory((T0, T2, U1), 7)


def test_sticky_reads_version_0_which_has_no_generation() -> None:
    assert decode_sticky(V0) == Memory((T0, T2, U1), -1)


def test_sticky_reads_what_kafka_python_3_writes_behind_a_version_number() -> None:
    assert decode_sticky(b"\x00\x01" + V1) == Memory((T0, T2, U1), 7)


def test_a_topic_of_more_than_ascii_is_utf_8() -> None:
    partition = TopicPartition("größe", 1)
    assert decode_sticky(encode_sticky([partition], 1)) == Memory((partition,), 1)


@pytest.mark.parametrize("user_data", [None, b"", b"\x00", b"\xff" * 8, b"\x00\x00\x00\x01\x7f\xff", V1[:9]])
def test_sticky_takes_what_it_cannot_read_for_nothing(user_data: bytes | None) -> None:
    assert decode_sticky(user_data) == NO_MEMORY


def test_cooperative_sticky_writes_the_generation_and_nothing_else() -> None:
    assert encode_generation(5) == bytes.fromhex("00000005")
    assert encode_generation(-1) == bytes.fromhex("ffffffff")


@pytest.mark.parametrize("user_data", [None, b"", b"\x00\x00"])
def test_cooperative_sticky_without_a_generation_is_minus_1(user_data: bytes | None) -> None:
    assert decode_generation(user_data) == -1


def test_our_mark_stands_behind_what_others_read() -> None:
    user_data = marked(encode_generation(5))
    assert user_data[:4] == encode_generation(5)
    assert decode_generation(user_data) == 5
    assert is_marked(user_data)


@pytest.mark.parametrize("user_data", [None, b"", encode_generation(5), V1])
def test_others_have_no_mark(user_data: bytes | None) -> None:
    assert not is_marked(user_data)


def test_a_weight_comes_back() -> None:
    assert decode_weight(encode_weight(2.5)) == 2.5
    assert decode_weight(marked(encode_weight(16))) == 16


@pytest.mark.parametrize("user_data", [None, b"", b"\x00\x00\x01", encode_weight(-1), encode_weight(float("nan"))])
def test_a_member_without_a_usable_weight_counts_as_1(user_data: bytes | None) -> None:
    assert decode_weight(user_data) == 1


def test_an_assignment_s_error_comes_back() -> None:
    user_data = encode_assignment_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert assignment_error(user_data) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("user_data", [None, b"", V1, b"kohort\x01", encode_assignment_error(ErrorCode.NONE)])
def test_other_user_data_carries_no_error(user_data: bytes | None) -> None:
    assert assignment_error(user_data) is None


def test_an_unknown_code_is_unknown_server_error() -> None:
    assert assignment_error(b"kohort\x01\x7f\x00") is ErrorCode.UNKNOWN_SERVER_ERROR
