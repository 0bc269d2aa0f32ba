"""The four compressions of record batches, byte-compatible with what Java writes and reads.

gzip is in the standard library; snappy needs `cramjam`, lz4 the package `lz4`, zstd `zstandard`. They are imported
on first use, here and nowhere else. Every decompression has a limit, so that a small batch cannot fill the memory.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.extras import install_command

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionUnavailable(KafkaError):
    """The package that implements a compression is not installed (UNSUPPORTED_COMPRESSION_TYPE)."""

    def __init__(self, codec: Compression, package: str) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{codec.name.lower()} needs the package {package}: {install_command('fast')}",
        )


class CorruptCompression(ValueError):
    """Bytes that are malformed for their compression, or that unpack to more than the limit."""


def compress(codec: Compression, content: Buffer) -> bytes:
    """Return `content` compressed as Java's producer would. Raises CompressionUnavailable."""
    match codec:
        case Compression.NONE:
            return bytes(content)
        case Compression.GZIP:
            gzip = zlib.compressobj(wbits=31)
            return gzip.compress(content) + gzip.flush()
        case Compression.SNAPPY:
            return _compress_snappy(content)
        case Compression.LZ4:
            # Java refuses frames whose blocks depend on each other, and writes neither sizes nor content checksums.
            lz4 = _package(codec)
            packed: bytes = lz4.compress(
                bytes(content), block_size=lz4.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
            )
            return packed
        case Compression.ZSTD:
            compressed: bytes = _package(codec).ZstdCompressor(level=3).compress(content)
            return compressed


PIECE_BYTES = 1 << 18
"""How much a decompression yields at a time, a bare snappy block excepted: less than a millisecond's work."""

_EXPANSION = {
    Compression.NONE: 1,
    Compression.GZIP: 1032,
    Compression.SNAPPY: 64,
    Compression.LZ4: 255,
    Compression.ZSTD: 1 << 15,
}
"""How many bytes each compressed byte may stand for at most; a zstd block of four bytes unpacks to 128 KiB."""


def most_unpacked(codec: Compression, size: int, limit: int) -> int:
    """Return how many bytes `size` compressed ones can stand for at most, and no more than `limit`."""
    return min(limit, size * _EXPANSION[codec])


def decompress(codec: Compression, content: Buffer, limit: int) -> bytes:
    """Return the unpacked bytes of `content`, `limit` at most; raises as `decompress_in_pieces`."""
    return b"".join(decompress_in_pieces(codec, content, limit))


def decompress_in_pieces(codec: Compression, content: Buffer, limit: int) -> Iterator[bytes]:
    """Yield the unpacked bytes of `content`, `limit` in all; an empty piece after much work that gave no bytes.

    Raises CorruptCompression when the bytes are malformed, truncated or exceed the limit, and CompressionUnavailable.
    """
    size = 0
    for part in _unpack_snappy(content, limit) if codec is Compression.SNAPPY else _PIECES[codec](content):
        size += len(part)
        if size > limit:
            raise CorruptCompression(f"{codec.name.lower()}: more than {limit} bytes when unpacked")
        yield part


_MODULES = {
    Compression.SNAPPY: ("cramjam", "cramjam"),
    Compression.LZ4: ("lz4.frame", "lz4"),
    Compression.ZSTD: ("zstandard", "zstandard"),
}


@cache
def _package(codec: Compression) -> Any:
    module, package = _MODULES[codec]
    try:
        return import_module(module)
    except ImportError:
        raise CompressionUnavailable(codec, package) from None


def _plain(content: Buffer) -> Iterator[bytes]:
    yield bytes(content)


def _unpack_gzip(content: Buffer) -> Iterator[bytes]:
    view, position = memoryview(content), 0
    rest: Buffer = b""
    try:
        while True:
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                if not rest:  # in pieces: what a call leaves is copied
                    rest, position = view[position : position + _INPUT_BYTES], position + _INPUT_BYTES
                part = stream.decompress(rest, PIECE_BYTES)
                rest = stream.unconsumed_tail
                if part:
                    yield part
                elif not rest and not stream.eof and position >= len(view):
                    raise CorruptCompression("gzip: truncated")
            # Java reads several members as one; anything else after a member is padding, which it ignores.
            yield b""  # a member may be empty
            rest = stream.unused_data + bytes(view[position : position + 2])
            if rest[:2] != b"\x1f\x8b":
                return
            position += 2
    except zlib.error as error:
        raise CorruptCompression(f"gzip: {error}") from None


_INPUT_BYTES = 1 << 16

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")


def _compress_snappy(content: Buffer) -> bytes:
    snappy = _package(Compression.SNAPPY).snappy
    parts = [_XERIAL_HEADER]
    view = memoryview(content)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK])))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unpack_snappy(content: Buffer, limit: int) -> Iterator[bytes]:
    view = memoryview(content)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        yield _snappy_block(view, limit)  # librdkafka writes one bare block
        return
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise CorruptCompression("snappy: truncated header")
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptCompression("snappy: truncated block length")
        (size,) = _INT32.unpack_from(view, position)
        if view[position : position + 8] == _XERIAL_MAGIC:  # Java reads concatenated streams
            position += len(_XERIAL_HEADER)
            continue
        position += 4
        if size < 0 or position + size > len(view):
            raise CorruptCompression("snappy: block length beyond the end")
        yield _snappy_block(view[position : position + size], limit)
        position += size


def _snappy_block(block: memoryview, limit: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CorruptCompression("snappy: malformed length")
    if size > most_unpacked(Compression.SNAPPY, len(block), limit):
        raise CorruptCompression(f"snappy: claims {size} bytes in a block of {len(block)}, limit {limit}")
    cramjam = _package(Compression.SNAPPY)
    try:
        return bytes(cramjam.snappy.decompress_raw(bytes(block)))
    except cramjam.DecompressionError as error:
        raise CorruptCompression(f"snappy: {error}") from None


def _unpack_lz4(content: Buffer) -> Iterator[bytes]:
    stream = _package(Compression.LZ4).LZ4FrameDecompressor()
    rest = bytes(content)
    try:
        while not stream.eof:
            part = stream.decompress(rest, PIECE_BYTES)
            if not part and not stream.eof and (stream.needs_input or not rest):
                raise CorruptCompression("lz4: truncated")
            rest = b""
            if part:
                yield part
    except (RuntimeError, EOFError, ValueError) as error:
        raise CorruptCompression(f"lz4: {error}") from None


def _unpack_zstd(content: Buffer) -> Iterator[bytes]:
    zstandard = _package(Compression.ZSTD)
    try:
        yield from _check_zstd_frames(zstandard, memoryview(content))
        with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as stream:
            while part := stream.read(PIECE_BYTES):
                yield part
    except zstandard.ZstdError as error:
        raise CorruptCompression(f"zstd: {error}") from None


def _check_zstd_frames(zstandard: Any, view: memoryview) -> Iterator[bytes]:
    """Walk the blocks of every frame (RFC 8878): the streaming reader takes a truncated frame for a finished one."""
    position = count = 0
    while position < len(view):
        frame = view[position : position + 18]
        count += 1
        if count % _BLOCKS == 0:
            yield b""
        if len(frame) >= 8 and 0x184D2A50 <= int.from_bytes(frame[:4], "little") <= 0x184D2A5F:  # a skippable frame
            position += 8 + int.from_bytes(frame[4:8], "little")
            continue
        parameters = zstandard.get_frame_parameters(bytes(frame))
        position += zstandard.frame_header_size(bytes(frame))
        last = 0
        while not last:
            header = int.from_bytes(view[position : position + 3], "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            position += 3 + (1 if kind == 1 else size)  # a run-length block has one byte
            if position > len(view):
                raise CorruptCompression("zstd: truncated")
            count += 1
            if count % _BLOCKS == 0:
                yield b""
        position += 4 if parameters.has_checksum else 0
    if position > len(view):
        raise CorruptCompression("zstd: truncated")


_BLOCKS = 1000
"""After so many of them, which may be empty, a walk pauses."""

_PIECES: dict[Compression, Callable[[Buffer], Iterator[bytes]]] = {
    Compression.NONE: _plain,
    Compression.GZIP: _unpack_gzip,
    Compression.LZ4: _unpack_lz4,
    Compression.ZSTD: _unpack_zstd,
}
