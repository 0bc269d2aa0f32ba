"""Record batches that kafka-python and aiokafka wrote, read by us; and ours, read by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kohort.wire.compression import Compression
from kohort.wire.record_batches import Record, check_batch, decode_batch, encode_batch

pytestmark = pytest.mark.interop

ROWS = [
    Record(0, 1700000000000, b"key", b"value" * 50, (("h", b"\x01"), ("none", None))),
    Record(1, 1700000000007, None, b"x" * 4000),
    Record(2, 1699999999000, b"", None),
    *(Record(3 + n, 1700000000000 + n, b"%d" % n, b"%d" % (n * n)) for n in range(200)),
]
CODECS = list(Compression)
LIBRARIES = {"kafka-python": "kafka.record.default_records", "aiokafka": "aiokafka.record.default_records"}


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(LIBRARIES[request.param])


@pytest.fixture(params=CODECS, ids=lambda codec: codec.name.lower())
def codec(request: pytest.FixtureRequest) -> Compression:
    return request.param  # type: ignore[no-any-return]


def theirs(library: Any, codec: Compression) -> bytes:
    """Return a batch as the library's producer builds it."""
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=11,
        producer_epoch=2,
        base_sequence=30,
        batch_size=1 << 20,
    )
    for row in ROWS:
        assert builder.append(row.offset, row.timestamp_ms, row.key, row.value, list(row.headers)) is not None
    return bytes(builder.build())


def read_by(library: Any, batch: bytes) -> Iterator[Record]:
    parsed = library.DefaultRecordBatch(batch)
    assert parsed.validate_crc()
    for row in parsed:
        yield Record(row.offset, row.timestamp, row.key, row.value, tuple(row.headers))


def test_their_batches_are_read(library: Any, codec: Compression) -> None:
    batch = theirs(library, codec)
    header = check_batch(batch)
    assert header.compression is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 2, 30)
    assert header.max_timestamp == max(row.timestamp_ms for row in ROWS)
    assert decode_batch(batch) == ROWS


def test_our_batches_are_read_by_them(library: Any, codec: Compression) -> None:
    assert list(read_by(library, encode_batch(ROWS, compression=codec))) == ROWS


def test_an_uncompressed_batch_is_byte_for_byte_theirs(library: Any) -> None:
    batch = theirs(library, Compression.NONE)
    epoch = check_batch(batch).partition_leader_epoch  # theirs differ: the broker writes it anyway
    ours = encode_batch(ROWS, producer_id=11, producer_epoch=2, base_sequence=30, leader_epoch=epoch)
    assert ours == batch
