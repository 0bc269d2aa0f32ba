"""Parser of `bootstrap_servers`: `host:port`, comma-separated or in a list, IPv6 in brackets."""

from __future__ import annotations

from collections.abc import Sequence, Set


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """Return (host, port) pairs. Raises TypeError, ValueError that names the part that is not an address."""
    if not isinstance(bootstrap_servers, Sequence | Set) or isinstance(bootstrap_servers, bytes | bytearray):
        kind = type(bootstrap_servers).__name__
        raise TypeError(f"bootstrap_servers={bootstrap_servers!r} is of type {kind}: expected 'host:port' or a list")
    texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"bootstrap_servers holds {text!r}: expected 'host:port'")
    addresses = [_parse(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise ValueError("bootstrap_servers is empty: name at least one broker as host:port")
    return addresses


def _parse(text: str) -> tuple[str, int]:
    # Java's clients take PLAINTEXT://host:port too; another protocol in this place would be passed over.
    scheme, _, address = text.rpartition("://")
    if scheme.upper() not in ("", "PLAINTEXT"):
        raise ValueError(
            f"bootstrap server {text!r} is not host:port: security_protocol={scheme.upper()!r} is a setting"
        )
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or not 0 < int(port) < 65536 or not host.strip("[]"):
        raise ValueError(f"bootstrap server {text!r} is not host:port")
    return host.strip("[]"), int(port)
