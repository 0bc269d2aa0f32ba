"""The PROXY header of a load balancer: whose address it names, and what is none."""

from __future__ import annotations

import pytest

from kohort.gateway.relay.proxy_header import BINARY, client_address, missing_bytes
from kohort.wire.primitives import MalformedMessage

FOUR = bytes([203, 0, 113, 9, 10, 0, 3, 4]) + (40_000).to_bytes(2, "big") + (9191).to_bytes(2, "big")
SIX = bytes.fromhex("20010db8" + 22 * "0" + "09" + 30 * "0" + "01") + b"\x9c\x40\x23\xe7"
MAPPED = bytes(10) + b"\xff\xff" + FOUR[:4] + bytes(16) + b"\x9c\x40\x23\xe7"


def binary(command: int, family: int, block: bytes) -> bytes:
    return BINARY + bytes([command, family]) + len(block).to_bytes(2, "big") + block


def read(stream: bytes) -> tuple[tuple[str, int] | None, bytes]:
    """Read as much of a stream as is asked for; return the client's address, and the bytes that are left."""
    header = b""
    while count := missing_bytes(header):
        chunk = stream[len(header) : len(header) + count]
        assert chunk, "more is asked for than was sent"
        header += chunk
    return client_address(header), stream[len(header) :]


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 40000 9191\r\n", ("203.0.113.9", 40_000)),
        (b"PROXY TCP6 2001:DB8::9 ::1 40000 9191\r\n", ("2001:db8::9", 40_000)),
        (b"PROXY TCP6 ::ffff:203.0.113.9 ::1 0 65535\r\n", ("203.0.113.9", 0)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (
            b"PROXY TCP6 " + b" ".join([b"ffff:" * 7 + b"ffff"] * 2) + b" 65535 65535\r\n",
            ("ffff" + 7 * ":ffff", 65_535),
        ),
        (binary(0x21, 0x11, FOUR), ("203.0.113.9", 40_000)),
        (binary(0x21, 0x11, FOUR + b"\x04\x00\x02\r\n"), ("203.0.113.9", 40_000)),
        (binary(0x21, 0x21, SIX), ("2001:db8::9", 40_000)),
        (binary(0x21, 0x21, MAPPED), ("203.0.113.9", 40_000)),
        (binary(0x20, 0x11, FOUR), None),
        (binary(0x20, 0x00, b""), None),
        (binary(0x20, 0xEE, b"\r\n"), None),
        (binary(0x21, 0x00, b""), None),
        (binary(0x21, 0x12, FOUR), None),
        (binary(0x21, 0x31, bytes(216)), None),
    ],
)
def test_a_header_names_the_client_and_ends_where_the_client_s_bytes_begin(
    header: bytes, client: tuple[str, int] | None
) -> None:
    assert read(header + b"\r\n\r\nPROXY") == (client, b"\r\n\r\nPROXY")


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"\0\0\0\x23\0\x12\0\4" + bytes(40), "which is no PROXY header"),
        (b"\x16\x03\x01\2\0" + bytes(40), "which is no PROXY header"),
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 40000 9191\n" + bytes(200), "no end of line within 107 bytes"),
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 40000\r\n", "expected TCP4 or TCP6 with two addresses"),
        (b"PROXY TCP4  203.0.113.9 192.0.2.4 40000 9191\r\n", "expected TCP4 or TCP6"),
        (b"PROXY TCP5 203.0.113.9 192.0.2.4 40000 9191\r\n", "expected TCP4 or TCP6"),
        (b"PROXY UNKNOWNS \r\n", "expected TCP4 or TCP6"),
        (b"PROXY TCP4 2001:db8::9 192.0.2.4 40000 9191\r\n", "has no address"),
        (b"PROXY TCP4 203.0.113.009 192.0.2.4 40000 9191\r\n", "has no address"),
        (b"PROXY TCP6 fe80::9%eth0 ::1 40000 9191\r\n", "expected TCP4 or TCP6"),
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 65536 9191\r\n", "b'65536' is no port"),
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 040000 9191\r\n", "b'040000' is no port"),
        (b"PROXY TCP4 203.0.113.9 192.0.2.4 +1 9191\r\n", "b'\\+1' is no port"),
        (b"PROXY TCP4 203.0.113.\xb9 192.0.2.4 1 9191\r\n", "has no address"),
        (binary(0x11, 0x11, FOUR), "version and command 0x11"),
        (binary(0x22, 0x11, FOUR), "version and command 0x22"),
        (binary(0x21, 0x13, FOUR), "kind 0x13"),
        (binary(0x21, 0x41, FOUR), "kind 0x41"),
        (binary(0x21, 0x11, FOUR[:-1]), "11 bytes after the length: expected 12"),
        (binary(0x21, 0x21, FOUR), "12 bytes after the length: expected 36"),
        (binary(0x21, 0x11, bytes(4081)), "of 4097 bytes is longer than 4096"),
    ],
)
def test_what_is_no_header_is_refused_with_its_bytes(stream: bytes, text: str) -> None:
    with pytest.raises(MalformedMessage, match=text):
        read(stream)


def test_the_first_byte_that_begins_no_header_is_refused() -> None:
    assert missing_bytes(b"PRO") == 12
    with pytest.raises(MalformedMessage, match="it begins with b'PRA'"):
        missing_bytes(b"PRA")
