"""Bootstrap addresses as people write them: `host:port`, comma-separated or in a list, IPv6 in brackets."""

from __future__ import annotations

from collections.abc import Sequence


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """Return (host, port) pairs. Raises ValueError that names the part that is not an address."""
    texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    addresses = [_parse(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise ValueError("bootstrap_servers is empty: name at least one broker as host:port")
    return addresses


def _parse(text: str) -> tuple[str, int]:
    # Java's clients take PLAINTEXT://host:port too.
    host, separator, port = text.rpartition("://")[2].rpartition(":")
    if not separator or not port.isdecimal() or not 0 < int(port) < 65536 or not host.strip("[]"):
        raise ValueError(f"bootstrap server {text!r} is not host:port")
    return host.strip("[]"), int(port)
