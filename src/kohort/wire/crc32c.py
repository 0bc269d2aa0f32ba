"""CRC-32C (Castagnoli), the checksum of record batches.

The package `crc32c` computes it at memory speed; without it a table does, with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

_REVERSED_POLYNOMIAL = 0x82F63B78


def _table() -> tuple[int, ...]:
    entries = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ _REVERSED_POLYNOMIAL if crc & 1 else crc >> 1
        entries.append(crc)
    return tuple(entries)


_TABLE = _table()


def plain_crc32c(buffer: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return the CRC-32C of `buffer`, continuing from `value`, without any package."""
    table = _TABLE
    crc = value ^ 0xFFFFFFFF
    for byte in bytes(buffer):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


try:
    from crc32c import crc32c as _fastest
except ImportError:
    _fastest = plain_crc32c

crc32c: Callable[..., int] = _fastest
"""crc32c(buffer, value=0) -> int: the CRC-32C of a buffer, continuing from `value`."""
