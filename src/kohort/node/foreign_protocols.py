"""Other protocols that clients send to a Kafka port by mistake, recognized by their first bytes for the log line."""

from __future__ import annotations

_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


def describe_foreign_protocol(first_bytes: bytes | bytearray | memoryview) -> str | None:
    """Return a sentence about bytes that begin a foreign protocol, or None when they are not known."""
    head = bytes(first_bytes[:8])
    if head[:4] in _HTTP:
        return "this is an HTTP request; kohort speaks Kafka's protocol only"
    if head[:2] == b"\x16\x03":
        return "this is a TLS handshake, but the listener is PLAINTEXT (set security.protocol=PLAINTEXT in the client)"
    if head[:4] == b"SSH-":
        return "this is an SSH client; kohort speaks Kafka's protocol only"
    return None
