"""XXH3 in all its length classes, against what xxHash itself gives."""

from __future__ import annotations

import pytest

from kohort.model.xxh3 import xxh3_64

CONTENT = bytes(range(256)) * 5
KNOWN = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    3: 0x5F4299FC161C9CBB,
    4: 0x60DAB036A58211F2,
    8: 0x3A1C2D7C85AF88F8,
    9: 0xE9612598145BB9DC,
    16: 0x8355E3A6F61770DB,
    17: 0x9EF341A99DE37328,
    32: 0x3523581FE96E4C05,
    33: 0xE68C56BA88991E58,
    64: 0x6187EB9089B0ED55,
    65: 0x6928C76CE90422D0,
    96: 0x278A3E12EA046DFB,
    97: 0xE7220282DC4E14F4,
    128: 0x85C6174C7FF4C46B,
    129: 0xEC7642B431BA3E5A,
    240: 0x375A384D957FE865,
    241: 0x2E8CD95421C6D02,
    1024: 0xA870F92984398D22,
    1025: 0x78C86E91EE939852,
    1280: 0x4844B009E164352E,
}


@pytest.mark.parametrize(("size", "expected"), KNOWN.items())
def test_hash_of_every_class_of_lengths_is_xxhashs(size: int, expected: int) -> None:
    assert xxh3_64(CONTENT[:size]) == expected


def test_every_byte_counts() -> None:
    for size in (3, 8, 16, 100, 200, 700):
        whole = xxh3_64(bytes(size))
        changed = {xxh3_64(bytes(at) + b"\1" + bytes(size - at - 1)) for at in range(size)}
        assert len(changed | {whole}) == size + 1
