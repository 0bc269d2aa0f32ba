"""The four compressions: round trips, limits, damage, and the error when a package is missing."""

from __future__ import annotations

import gzip
import sys
import zlib

import pytest

from kohort.model.errors import ErrorCode
from kohort.wire import compression
from kohort.wire.compression import Compression, CompressionUnavailable, CorruptCompression, compress, decompress

PACKED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"offset %d, partition %d; " % (n, n % 12) for n in range(8000))


@pytest.fixture(params=PACKED, ids=lambda codec: codec.name.lower())
def codec(request: pytest.FixtureRequest) -> Compression:
    for package in ("cramjam", "lz4.frame", "zstandard"):
        pytest.importorskip(package)
    return request.param


@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 32 * 1024 + 1, len(TEXT)])
def test_what_was_packed_comes_back(codec: Compression, size: int) -> None:
    packed = compress(codec, TEXT[:size])
    assert decompress(codec, packed, len(TEXT)) == TEXT[:size]
    assert decompress(codec, memoryview(packed), len(TEXT)) == TEXT[:size]


def test_none_is_the_bytes_themselves() -> None:
    assert compress(Compression.NONE, memoryview(b"abc")) == b"abc"
    assert decompress(Compression.NONE, b"abc", 3) == b"abc"
    with pytest.raises(CorruptCompression):
        decompress(Compression.NONE, b"abc", 2)


def test_exactly_the_limit_is_within_it(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptCompression):
        decompress(codec, packed, len(TEXT) - 1)


def test_a_bomb_is_refused_before_it_unpacks(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 << 20))
    assert len(bomb) < 4 << 20
    with pytest.raises(CorruptCompression):
        decompress(codec, bomb, 1 << 20)


def test_a_truncated_stream_is_refused(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for size in (len(packed) - 1, len(packed) - 5, len(packed) // 2, 17, 5, 1):
        with pytest.raises(CorruptCompression):
            decompress(codec, packed[:size], len(TEXT))


def test_bytes_of_another_codec_are_refused(codec: Compression) -> None:
    for other in PACKED:
        if other is not codec:
            with pytest.raises(CorruptCompression):
                decompress(codec, compress(other, TEXT), len(TEXT))


def test_gzip_members_are_read_as_one_stream() -> None:
    packed = gzip.compress(b"first ") + gzip.compress(b"second")
    assert decompress(Compression.GZIP, packed, 100) == b"first second"
    with pytest.raises(CorruptCompression):
        decompress(Compression.GZIP, packed, 11)


def test_gzip_is_read_by_the_standard_library() -> None:
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT
    assert zlib.decompress(compress(Compression.GZIP, TEXT), wbits=31) == TEXT


def test_snappy_is_written_in_javas_framing_and_read_in_both() -> None:
    cramjam = pytest.importorskip("cramjam")
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    bare = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, bare, len(TEXT)) == TEXT


def test_a_snappy_block_may_not_claim_what_it_cannot_have() -> None:
    pytest.importorskip("cramjam")
    with pytest.raises(CorruptCompression, match="claims"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(20), 1 << 40)


def test_lz4_blocks_stand_alone_as_java_demands() -> None:
    pytest.importorskip("lz4.frame")
    flags = compress(Compression.LZ4, TEXT)[4]
    assert flags & 0b0010_0000, "blocks are independent"
    assert not flags & 0b0000_1000, "no content size"
    assert not flags & 0b0000_0100, "no content checksum"


def test_zstd_with_a_checksum_or_a_skippable_frame_is_read() -> None:
    zstandard = pytest.importorskip("zstandard")
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    assert decompress(Compression.ZSTD, checked, len(TEXT)) == TEXT
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert decompress(Compression.ZSTD, skippable + checked, len(TEXT)) == TEXT
    with pytest.raises(CorruptCompression):
        decompress(Compression.ZSTD, checked[:-1], len(TEXT))


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, codec: Compression) -> None:
    module, package = compression._MODULES[codec]
    compression._package.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    try:
        with pytest.raises(CompressionUnavailable, match=rf"{package}.*pip install '\.\[fast\]'") as caught:
            compress(codec, b"")
    finally:
        compression._package.cache_clear()
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
