"""A worker that is a query knows its batches from the query's own log of offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from demo.query import logged_end

from kohort.model.ids import TopicPartition
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.rows.rounds import OffsetRange


def test_a_batch_is_what_sparks_log_of_offsets_says(tmp_path: Path) -> None:
    read, idle = (TopicPartition("flights", number) for number in (3, 4))
    end = StreamOffset("delays", 7, 2, (OffsetRange(read, 10, 25), OffsetRange(idle, 4, 4)))
    entry = tmp_path / "7"
    entry.write_text("\n".join(["v1", '{"batchWatermarkMs": 0}', json.dumps(end.to_json())]))
    assert logged_end(entry) == end
    assert logged_end(entry).ranges == (OffsetRange(read, 10, 25),)
