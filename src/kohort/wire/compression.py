"""The four compressions of record batches, byte-compatible with what Java writes and reads.

gzip is in the standard library; snappy needs `cramjam`, lz4 the package `lz4`, zstd `zstandard`. They are imported
on first use, here and nowhere else. Every decompression has a limit, so that a small batch cannot fill the memory.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any

from kohort.extras import install_command
from kohort.model.errors import ErrorCode, KafkaError

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


def decompress(codec: Compression, content: Buffer, limit: int) -> bytes:
    """Return the bytes that `content` holds, `limit` at most.

    Raises CorruptCompression when the bytes are malformed, truncated or exceed the limit, and CompressionUnavailable.
    """
    match codec:
        case Compression.NONE:
            if len(content) > limit:
                raise CorruptCompression(f"more than {limit} bytes when unpacked")
            return bytes(content)
        case Compression.GZIP:
            return _decompress_gzip(content, limit)
        case Compression.SNAPPY:
            return _decompress_snappy(content, limit)
        case Compression.LZ4:
            return _decompress_lz4(content, limit)
        case Compression.ZSTD:
            return _decompress_zstd(content, limit)


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


class _Unpacked:
    """What a streaming decompressor has given, up to a limit."""

    def __init__(self, name: str, packed_bytes: int, limit: int) -> None:
        self._name = name
        self._packed_bytes = packed_bytes
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def next_bytes(self) -> int:
        """Return how many bytes to ask for next: allocations grow with what has really come out."""
        return min(max(4 * self._packed_bytes, 1 << 16, self._size), self._limit + 1 - self._size)

    def add(self, part: bytes) -> None:
        """Take the next bytes. Raises CorruptCompression beyond the limit."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            raise CorruptCompression(f"{self._name}: more than {self._limit} bytes when unpacked")

    def joined(self) -> bytes:
        """Return all bytes."""
        return b"".join(self._parts)


def _decompress_gzip(content: Buffer, limit: int) -> bytes:
    unpacked = _Unpacked("gzip", len(content), limit)
    rest: Buffer = content
    try:
        while True:
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                part = stream.decompress(rest, unpacked.next_bytes())
                rest = stream.unconsumed_tail
                if not part and not rest and not stream.eof:
                    raise CorruptCompression("gzip: truncated")
                unpacked.add(part)
            # Java reads several members as one; anything else after a member is padding, which it ignores.
            rest = stream.unused_data
            if rest[:2] != b"\x1f\x8b":
                return unpacked.joined()
    except zlib.error as error:
        raise CorruptCompression(f"gzip: {error}") from None


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
_SNAPPY_EXPANSION = 64
"""A snappy copy of up to 64 bytes takes two bytes or more, so no valid block unpacks to 64 times its size."""


def _compress_snappy(content: Buffer) -> bytes:
    snappy = _package(Compression.SNAPPY).snappy
    parts = [_XERIAL_HEADER]
    view = memoryview(content)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK])))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(content: Buffer, limit: int) -> bytes:
    view = memoryview(content)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _snappy_block(view, limit)  # librdkafka writes one bare block
    parts: list[bytes] = []
    produced, position = 0, len(_XERIAL_HEADER)
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
        parts.append(_snappy_block(view[position : position + size], limit - produced))
        produced += len(parts[-1])
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CorruptCompression("snappy: malformed length")
    if size > limit or size > _SNAPPY_EXPANSION * len(block):
        raise CorruptCompression(f"snappy: claims {size} bytes in a block of {len(block)}, limit {limit}")
    cramjam = _package(Compression.SNAPPY)
    try:
        return bytes(cramjam.snappy.decompress_raw(bytes(block)))
    except cramjam.DecompressionError as error:
        raise CorruptCompression(f"snappy: {error}") from None


def _decompress_lz4(content: Buffer, limit: int) -> bytes:
    stream = _package(Compression.LZ4).LZ4FrameDecompressor()
    unpacked = _Unpacked("lz4", len(content), limit)
    rest = bytes(content)
    try:
        while not stream.eof:
            part = stream.decompress(rest, unpacked.next_bytes())
            if not part and not stream.eof and (stream.needs_input or not rest):
                raise CorruptCompression("lz4: truncated")
            rest = b""
            unpacked.add(part)
    except (RuntimeError, EOFError, ValueError) as error:
        raise CorruptCompression(f"lz4: {error}") from None
    return unpacked.joined()


def _decompress_zstd(content: Buffer, limit: int) -> bytes:
    zstandard = _package(Compression.ZSTD)
    unpacked = _Unpacked("zstd", len(content), limit)
    try:
        _check_zstd_frames(zstandard, memoryview(content))
        with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as stream:
            while part := stream.read(unpacked.next_bytes()):
                unpacked.add(part)
    except zstandard.ZstdError as error:
        raise CorruptCompression(f"zstd: {error}") from None
    return unpacked.joined()


def _check_zstd_frames(zstandard: Any, view: memoryview) -> None:
    """Walk the blocks of every frame (RFC 8878): the streaming reader takes a truncated frame for a finished one."""
    position = 0
    while position < len(view):
        frame = view[position : position + 18]
        if len(frame) >= 8 and 0x184D2A50 <= int.from_bytes(frame[:4], "little") <= 0x184D2A5F:  # a skippable frame
            position += 8 + int.from_bytes(frame[4:8], "little")
            continue
        parameters = zstandard.get_frame_parameters(bytes(frame))
        position += zstandard.frame_header_size(bytes(frame))
        last = 0
        while not last:
            header = int.from_bytes(view[position : position + 3], "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            position += 3 + (1 if kind == 1 else size)  # a run-length block holds one byte
            if position > len(view):
                raise CorruptCompression("zstd: truncated")
        position += 4 if parameters.has_checksum else 0
    if position > len(view):
        raise CorruptCompression("zstd: truncated")
