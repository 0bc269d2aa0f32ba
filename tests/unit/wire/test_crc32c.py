"""CRC-32C: the numbers of RFC 3720, and the same ones with and without the package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.wire.crc32c import crc32c, plain_crc32c


@pytest.mark.parametrize("checksum", [crc32c, plain_crc32c])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_known_sums(checksum: Callable[..., int], content: bytes, expected: int) -> None:
    assert checksum(content) == expected
    assert checksum(memoryview(content)) == expected


@pytest.mark.parametrize("checksum", [crc32c, plain_crc32c])
def test_a_sum_can_be_continued(checksum: Callable[..., int]) -> None:
    assert checksum(b"6789", checksum(b"12345")) == checksum(b"123456789")


def test_the_package_and_the_table_agree() -> None:
    content = bytes(at * 37 & 0xFF for at in range(10_000))
    for size in (0, 1, 7, 8, 9, 4096, 10_000):
        assert crc32c(content[:size]) == plain_crc32c(content[:size])


def test_extension_is_used_where_the_package_is_installed() -> None:
    package = pytest.importorskip("crc32c")
    assert crc32c is not plain_crc32c
    assert crc32c(b"123456789", 7) == package.crc32c(b"123456789", 7)
