"""Targets that read bytes from a connection: frames, messages, record batches, what groups embed in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from random import Random
from struct import pack_into
from typing import Any

from tests.properties.random_messages import message_versions, random_message

from kohort.gateway.peers.instance_messages import decode_message, encode_message
from kohort.gateway.relay.proxy_header import BINARY, client_address, missing_bytes
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.principal_mapping import subject
from kohort.node.step_scheduler import result_of
from kohort.wire.codec import decode, encode, stepwise_decoder
from kohort.wire.compression import Compression, CorruptCompression, compress, decompress
from kohort.wire.consumer_protocol import (
    assigned_by_topic,
    claimed_by_topic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    owned_partitions,
    subscribed_topics,
    version_of,
)
from kohort.wire.crc32c import crc32c
from kohort.wire.embedded_protocols import (
    decode_connect_assignment,
    decode_connect_worker,
    decode_streams_assignment,
    decode_streams_subscription,
)
from kohort.wire.frames import FrameSplitter, decode_request_header
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import (
    HEADER_SIZE,
    CorruptBatch,
    Record,
    check_batch,
    control_type,
    decode_batch,
    encode_batch,
    iter_batches,
    read_header,
    read_marker,
)
from kohort.wire.record_walk import check_records

LIMIT = 1 << 20
"""Of what a batch may unpack to."""

_MESSAGES = message_versions()
_stepwise = cache(stepwise_decoder)


def frames(content: bytes) -> None:
    """Cut a stream that comes in pieces into frames, and read each as a request's header."""
    splitter, piece = FrameSplitter(4096), 1 + content[0] % 64 if content else 1
    with suppress(MalformedMessage):
        for at in range(1, len(content), piece):
            for frame in splitter.feed(content[at : at + piece]):
                decode_request_header(frame)


def some_frames() -> Iterator[bytes]:
    for size in (0, 8, 40):
        yield bytes([size]) + size.to_bytes(4, "big") + b"\0\3\0\1\0\0\0\2\0\2me" + bytes(size)


def messages(content: bytes) -> None:
    """Decode a message of any API and version, at once and in steps; what was decoded can be encoded."""
    if len(content) < 2:
        return
    cls, version = _MESSAGES[int.from_bytes(content[:2], "big") % len(_MESSAGES)]
    body = content[2:]
    try:
        message, end = decode(cls, version, body)
    except MalformedMessage:
        assert _is_refused_in_steps(cls, version, body), "what is malformed at once is malformed in steps"
        return
    assert end <= len(body), "a message ends within its bytes"
    encode(message, version)


def _is_refused_in_steps(cls: Any, version: int, body: bytes) -> bool:
    try:
        result_of(_stepwise(cls, version)(body, 0, 1000))
    except MalformedMessage:
        return True
    return False


def some_messages() -> Iterator[bytes]:
    random = Random(7)
    newest = {cls: number for number, (cls, _) in enumerate(_MESSAGES)}
    for number in newest.values():
        cls, version = _MESSAGES[number]
        yield number.to_bytes(2, "big") + encode(random_message(cls, version, random), version)


def record_batches(content: bytes) -> None:
    """Read bytes as record batches; the first byte decides whether length and CRC are made right before."""
    if not content:
        return
    batch = bytearray(content[1:])
    if content[0] & 1 and len(batch) >= HEADER_SIZE:
        pack_into(">i", batch, 8, len(batch) - 12)
        batch[16] = 2
        pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    for read in (check_batch, read_marker, _every_batch, _records):
        with suppress(CorruptBatch):
            read(batch)


def _every_batch(content: bytearray) -> None:
    for _, one in iter_batches(content):
        _records(one)


def _records(batch: Any) -> None:
    header = read_header(batch)
    try:
        result_of(check_records(header, batch, LIMIT))
    except CorruptBatch:
        for record in decode_batch(batch, limit=LIMIT):
            control_type(record)
    else:
        check_batch(batch)
        try:
            decode_batch(batch, limit=LIMIT)
        except CorruptBatch as error:
            raise AssertionError("the walk that checks records passed a batch that cannot be decoded") from error


def some_record_batches() -> Iterator[bytes]:
    rows = [Record(0, 1000, b"k", b"v" * 30, (("h", b"x"), ("n", None))), Record(1, 1001, None, None)]
    for codec in Compression:
        yield b"\1" + encode_batch(rows, compression=codec)
    yield b"\0" + encode_batch(rows, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)


def compressed_records(content: bytes) -> None:
    """Unpack bytes by each codec, and read what they are as records once they are packed."""
    if not content:
        return
    codec = Compression(content[0] % len(Compression))
    with suppress(CorruptCompression):
        assert len(decompress(codec, content[1:], LIMIT)) <= LIMIT, "no more is unpacked than the limit"
    head = bytearray(encode_batch([Record(0, 0, None, b"")], compression=codec)[:HEADER_SIZE])
    record_batches(b"\1" + bytes(head) + compress(codec, content[1:]))


def some_compressed_records() -> Iterator[bytes]:
    for codec in Compression:
        yield bytes([codec]) + compress(codec, b"some content, some content" * 4)


_EMBEDDED: tuple[Callable[[bytes], object], ...] = (
    decode_subscription,
    decode_assignment,
    subscribed_topics,
    owned_partitions,
    claimed_by_topic,
    assigned_by_topic,
    version_of,
    decode_connect_worker,
    decode_connect_assignment,
    decode_streams_subscription,
    decode_streams_assignment,
)


def embedded_protocols(content: bytes) -> None:
    """Read what members of consumer groups, Kafka Connect and Kafka Streams embed in their messages."""
    for read in _EMBEDDED:
        with suppress(MalformedMessage):
            read(content)


def some_embedded_protocols() -> Iterator[bytes]:
    owned = (TopicPartition("orders", 0), TopicPartition("orders", 3))
    yield encode_subscription(Subscription(("orders", "bills"), b"data", owned, 7, "rack"))
    yield encode_assignment(Assignment(frozenset(owned), b"data"))
    yield b"\0\1" + b"\0\4http" + bytes(8) + b"\0\0\0\0"
    yield b"\0\0\0\x0b" * 2 + bytes(16) + b"\0\0\0\1" + bytes(8) + b"\0\0\0\0" * 3
    yield bytes(40)


def instance_messages(content: bytes) -> None:
    """Read what instances of the gateway send each other; what was read can be sent."""
    with suppress(MalformedMessage):
        message = decode_message(content)
        assert decode_message(encode_message(message)) == message, "it comes back from the wire as it was"


def some_instance_messages() -> Iterator[bytes]:
    for kind in range(10):
        yield bytes([kind]) + bytes(40)


def proxy_headers(content: bytes) -> None:
    """Read a load balancer's header as a socket is read: only as much as is missing, and all of that."""
    with suppress(MalformedMessage):
        header = b""
        while count := missing_bytes(header):
            chunk = content[len(header) : len(header) + count]
            if not chunk:
                return
            header += chunk
        if (address := client_address(header)) is not None:
            assert ip_address(address[0])
            assert 0 <= address[1] < 1 << 16


def some_proxy_headers() -> Iterator[bytes]:
    yield b"PROXY TCP4 203.0.113.9 192.0.2.4 40000 9191\r\n\0\0\0\x10"
    yield b"PROXY TCP6 2001:db8::9 ::ffff:192.0.2.4 40000 9191\r\n"
    yield b"PROXY UNKNOWN and more\r\n"
    for head in (b"\x20\0\0\0", b"\x21\x11\0\x0c", b"\x21\x21\0\x27", b"\x21\x31\0\xd8", b"\x21\x41\0\0"):
        yield BINARY + head + bytes(range(head[-1]))


def certificates(content: bytes) -> None:
    """Read the subject of a client's certificate."""
    with suppress(ValueError):
        subject(content)


def some_certificates() -> Iterator[bytes]:
    name = b"\x30\x0f\x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x0c\x04name"
    fields = b"\xa0\x03\x02\x01\x02\x02\x01\x01\x30\x00" + name + b"\x30\x00" + name
    inner = b"\x30" + bytes([len(fields)]) + fields
    yield b"\x30" + bytes([len(inner)]) + inner
