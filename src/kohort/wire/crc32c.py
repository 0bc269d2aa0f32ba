"""CRC-32C (Castagnoli), the checksum of record batches.

The package `crc32c` computes it at memory speed; without it a table does, with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_REVERSED_POLYNOMIAL = 0x82F63B78


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ _REVERSED_POLYNOMIAL if crc & 1 else crc >> 1
        entries.append(crc)
    return tuple(entries)


def plain_crc32c(buffer: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return the CRC-32C of `buffer`, continuing from `value`, without any package."""
    table = _table()
    crc = value ^ 0xFFFFFFFF
    for byte in bytes(buffer):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _fastest() -> Callable[..., int]:
    """Return the package's C function, else our own.

    The package itself imports `importlib.metadata` to learn its own version, a tenth of a broker's start; the
    extension inside it needs nothing.
    """
    try:
        package = PathFinder.find_spec("crc32c")
        inside = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if inside is None or inside.loader is None:
            return plain_crc32c
        extension = module_from_spec(inside)
        inside.loader.exec_module(extension)
        found: Callable[..., int] = extension.crc32c
        return found
    except (ImportError, AttributeError):
        return plain_crc32c


crc32c: Callable[..., int] = _fastest()
"""crc32c(buffer, value=0) -> int: the CRC-32C of a buffer, continuing from `value`."""
