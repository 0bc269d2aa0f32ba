"""Messages of KEDA's external scaler and of gRPC's health checks, in the wire format of protocol buffers.

| message | fields |
|---|---|
| ScaledObjectRef | 1 name, 2 namespace, 3 scalerMetadata (a map: entries with 1 key, 2 value) |
| IsActiveResponse, HealthCheckResponse | 1 result (bool), 1 status (enum) |
| GetMetricSpecResponse | 1 metricSpecs: 1 metricName, 2 targetSize (int64), 3 targetSizeFloat (double) |
| GetMetricsRequest | 1 scaledObjectRef, 2 metricName |
| GetMetricsResponse | 1 metricValues: 1 metricName, 2 metricValue (int64), 3 metricValueFloat (double) |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SIZES = {1: 8, 5: 4}
"""Of the values of a fixed size, by wire type."""


class ScaledObjectRef(NamedTuple):
    """A ScaledObject, and the metadata of its trigger."""

    name: str
    namespace: str
    metadata: Mapping[str, str]

    @classmethod
    def read(cls, data: bytes) -> ScaledObjectRef:
        """Read it. Raises ValueError."""
        texts, metadata = {1: "", 2: ""}, {}
        for number, value in _fields(data):
            if number == 3:
                entry = {each: part.decode() for each, part in _fields(value)}
                metadata[entry.get(1, "")] = entry.get(2, "")
            else:
                texts[number] = value.decode()
        return cls(texts[1], texts[2], metadata)


def read_metrics_request(data: bytes) -> ScaledObjectRef:
    """Return the object that a GetMetricsRequest is about: it has one metric. Raises ValueError."""
    return ScaledObjectRef.read(dict(_fields(data)).get(1, b""))


def metric(name: str, value: int) -> bytes:
    """Return a GetMetricSpecResponse or a GetMetricsResponse with one metric, which have one form."""
    return _bytes(1, _bytes(1, name.encode()) + b"\x10" + _varint(value) + b"\x19" + struct.pack("<d", value))


def enumeration(value: int) -> bytes:
    """Return a message whose only field is a bool or an enum."""
    return b"\x08" + _varint(value)


def _bytes(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields whose values are bytes, and leave out all others. Raises ValueError."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        size = _SIZES.get(kind, 0)
        if kind in (0, 2):
            value, at = _read_varint(data, at)
            size = value if kind == 2 else 0
        elif not size:
            raise ValueError(f"a field has the wire type {kind}")
        at += size
        if at > len(data):
            raise ValueError("a field is longer than its message")
        if kind == 2:
            yield tag >> 3, data[at - size : at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number has no end")
