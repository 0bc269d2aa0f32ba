"""PROXY protocol, versions 1 and 2: the header that a load balancer sends ahead of its client's bytes.

The header is read to its last byte and no further: what follows it is the client's, often the beginning of TLS.
`missing_bytes` returns how much may be read next, until `client_address` can read the client's address in it. No header
is signed: each client can send one, so only load balancers may be trusted with it.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from kohort.wire.primitives import MalformedMessage

TEXT, BINARY = b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"
"""How headers of version 1 and of version 2 begin."""

TEXT_BYTES = 107
"""How long the line of version 1 may be, with its end."""

BINARY_BYTES = 4096
"""How long a header of version 2 may be here: HAProxy can add the client's certificate, other balancers add less."""

_SHORTEST = len(b"PROXY UNKNOWN\r\n")
_FIXED = len(BINARY) + 4
"""The part of version 2 that each header has: its last two bytes are the length of the rest."""

_LOCAL, _PROXY = 0x20, 0x21
_ADDRESS_BYTES = {0x00: 0, 0x11: 12, 0x12: 12, 0x21: 36, 0x22: 36, 0x31: 216, 0x32: 216}
"""By family and transport, as version 2 numbers them, how long the two addresses are."""


def missing_bytes(header: bytes) -> int:
    """Return how many bytes may be read after these, none of which is the client's; 0 after the last one.

    Raises MalformedMessage as soon as the bytes begin no header.
    """
    if not (TEXT.startswith(header[: len(TEXT)]) or BINARY.startswith(header[: len(BINARY)])):
        raise MalformedMessage(f"it begins with {header[: len(BINARY)]!r}, which is no PROXY header")
    if len(header) < _SHORTEST:
        return _SHORTEST - len(header)
    if header.startswith(TEXT):
        if header.endswith(b"\r\n"):
            return 0
        if len(header) >= TEXT_BYTES:
            raise MalformedMessage(f"its PROXY header has no end of line within {TEXT_BYTES} bytes: {header!r}")
        return 1 if header.endswith(b"\r") or len(header) == TEXT_BYTES - 1 else 2
    if len(header) < _FIXED:
        return _FIXED - len(header)
    length = _FIXED + int.from_bytes(header[_FIXED - 2 : _FIXED], "big")
    if length > BINARY_BYTES:
        raise MalformedMessage(f"its PROXY header of {length} bytes is longer than {BINARY_BYTES}")
    return length - len(header)


def client_address(header: bytes) -> tuple[str, int] | None:
    """Return host and port of the client in a whole header; None where it names none, as in health checks.

    Then the connection is the balancer's own, or the client has no address of IP. Raises MalformedMessage.
    """
    address = _in_text(header) if header.startswith(TEXT) else _in_binary(header)
    if address is None:
        return None
    host, port = address
    return str(getattr(host, "ipv4_mapped", None) or host), port


def _in_text(header: bytes) -> tuple[IPv4Address | IPv6Address, int] | None:
    match header[:-2].split(b" "):
        case [_, b"UNKNOWN", *_]:
            return None
        case [_, (b"TCP4" | b"TCP6") as family, source, target, source_port, target_port]:
            kind = IPv4Address if family == b"TCP4" else IPv6Address
            try:
                host, _ = kind(source.decode("ascii")), kind(target.decode("ascii"))
                port, _ = _port(source_port), _port(target_port)
            except ValueError as error:
                raise MalformedMessage(f"its PROXY header {header!r} has no address: {error}") from None
            if b"%" not in source + target:  # a zone has no meaning on another machine
                return host, port
    raise MalformedMessage(f"its PROXY header is {header!r}: expected TCP4 or TCP6 with two addresses and two ports")


def _port(text: bytes) -> int:
    if not text.isdigit() or len(text) > 5 or int(text) > 0xFFFF or text != b"%d" % int(text):
        raise ValueError(f"{text!r} is no port")
    return int(text)


def _in_binary(header: bytes) -> tuple[IPv4Address | IPv6Address, int] | None:
    command, family = header[len(BINARY)], header[len(BINARY) + 1]
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise MalformedMessage(f"its PROXY header has version and command {command:#04x}: expected 0x20 or 0x21")
    length = _ADDRESS_BYTES.get(family)
    if length is None:
        raise MalformedMessage(
            f"its PROXY header has addresses of the kind {family:#04x}, which version 2 does not know"
        )
    if len(header) < _FIXED + length:
        rest = len(header) - _FIXED
        raise MalformedMessage(f"its PROXY header has {rest} bytes after the length: expected {length} of addresses")
    if family == 0x11:
        return IPv4Address(header[_FIXED : _FIXED + 4]), int.from_bytes(header[_FIXED + 8 : _FIXED + 10], "big")
    if family == 0x21:
        return IPv6Address(header[_FIXED : _FIXED + 16]), int.from_bytes(header[_FIXED + 32 : _FIXED + 34], "big")
    return None
