from __future__ import annotations

import pytest

from kohort.cli.keda_scaler.protobuf import ScaledObjectRef, enumeration, metric, read_metrics_request

NAME = b"\x0a\x02so"
NAMESPACE = b"\x12\x02ns"
ENTRY = b"\x1a\x0a\x0a\x05group\x12\x01g"
UNKNOWN = b"\x20\x81\x01" + b"\x29" + bytes(8) + b"\x35" + bytes(4) + b"\x3a\x01x"


def test_object_is_read_with_its_metadata_and_without_unknown_fields() -> None:
    found = ScaledObjectRef.read(UNKNOWN + NAME + NAMESPACE + ENTRY + UNKNOWN)
    assert found == ScaledObjectRef("so", "ns", {"group": "g"})
    assert ScaledObjectRef.read(b"") == ScaledObjectRef("", "", {})


def test_request_for_metrics_has_its_object_inside() -> None:
    inner = NAME + ENTRY
    request = bytes([0x0A, len(inner)]) + inner + b"\x12\x01m"
    assert read_metrics_request(request) == ScaledObjectRef("so", "", {"group": "g"})
    assert read_metrics_request(b"").metadata == {}


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05so", b"\x0b\x01", b"\x0a\x01\xff", b"\xff" * 11, b"\x09\x00", b"\x0a" + b"\x80" * 3]
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        ScaledObjectRef.read(data)


def test_answers_are_encoded() -> None:
    assert enumeration(True) == b"\x08\x01"
    assert metric("m", 300) == b"\x0a\x0f\x0a\x01m\x10\xac\x02\x19\x00\x00\x00\x00\x00\xc0\x72\x40"
