"""PROXY headers: each address comes back from both versions, and of a stream nothing behind the header is read."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from kohort.gateway.relay.proxy_header import BINARY, BINARY_BYTES, TEXT_BYTES, client_address, missing_bytes
from kohort.wire.primitives import MalformedMessage

Addresses = tuple[IPv4Address, IPv4Address] | tuple[IPv6Address, IPv6Address]
ADDRESSES = st.tuples(*2 * [st.ip_addresses(v=4)]) | st.tuples(*2 * [st.ip_addresses(v=6)])
PORTS = st.integers(0, 65_535)


def header_of(addresses: Addresses, ports: tuple[int, int], records: bytes | None) -> bytes:
    """Return a header of version 1, or of version 2 with these bytes behind the addresses."""
    is_four = addresses[0].version == 4
    if records is None:
        return "PROXY {} {} {} {} {}\r\n".format("TCP4" if is_four else "TCP6", *addresses, *ports).encode()
    block = b"".join(each.packed for each in addresses) + b"".join(port.to_bytes(2, "big") for port in ports) + records
    return BINARY + (b"\x21\x11" if is_four else b"\x21\x21") + len(block).to_bytes(2, "big") + block


def read(stream: bytes, sizes: list[int]) -> tuple[bytes, int]:
    """Read a stream in pieces of at most these sizes, as sockets have it; return the header and what is missing."""
    header = b""
    while count := missing_bytes(header):
        chunk = stream[len(header) : len(header) + min(count, sizes[len(header) % len(sizes)])]
        if not chunk:
            return header, count
        header += chunk
    return header, 0


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(ADDRESSES, st.tuples(PORTS, PORTS), st.none() | st.binary(max_size=300), st.binary(max_size=20), SIZES)
@settings(max_examples=examples(300))
def test_an_address_comes_back_and_what_follows_is_not_read(
    addresses: Addresses, ports: tuple[int, int], records: bytes | None, rest: bytes, sizes: list[int]
) -> None:
    whole = header_of(addresses, ports, records)
    header, missing = read(whole + rest, sizes)
    assert (header, missing) == (whole, 0)
    client = addresses[0]
    known = client.ipv4_mapped or client if isinstance(client, IPv6Address) else client
    assert client_address(header) == (str(known), ports[0])


BEGINNINGS = st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ::1 ", b"PROXY UNKNOWN", BINARY, BINARY + b"\x21\x11\0"])


@given(BEGINNINGS, st.binary(max_size=300), SIZES)
@settings(max_examples=examples(500))
def test_any_bytes_are_a_header_or_malformed_within_its_bounds(beginning: bytes, more: bytes, sizes: list[int]) -> None:
    with suppress(MalformedMessage):
        header, missing = read(beginning + more, sizes)
        assert len(header) + missing <= (TEXT_BYTES if header.startswith(b"P") else BINARY_BYTES)
        if not missing:
            client_address(header)
