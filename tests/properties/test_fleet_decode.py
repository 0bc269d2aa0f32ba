"""What the compiled decoder says of a commit is what the coordinator reads from the same record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.fleet.written_log import batch_of, commit_key, read, value_of

from kohort.fleet.decode.value_json import topic_id
from kohort.group.events import OffsetCommitted, OffsetDeleted
from kohort.log.group_records import read_offset
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.messages import OffsetCommitValue
from kohort.wire.primitives import MalformedMessage

pytest.importorskip("numba")

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=12)
VALUES = st.builds(
    OffsetCommitValue,
    offset=LONG,
    leader_epoch=st.integers(-(1 << 31), (1 << 31) - 1),
    metadata=TEXT,
    commit_timestamp=LONG,
    expire_timestamp=LONG,
    topic_id=st.binary(min_size=16, max_size=16) | st.just(NO_TOPIC_ID),
)


def rows(key: bytes, value: bytes | None) -> list[dict]:
    return [row for row in read(batch_of([(key, value)])) if row["reason"] is None and row["next_offset"] is None]


@given(TEXT, TEXT, st.integers(-1, (1 << 31) - 1), VALUES, st.integers(0, 4))
@settings(max_examples=examples(200), deadline=None)
def test_a_commit_is_read_as_the_coordinator_reads_it(group, topic, partition, value, version):
    key, written = commit_key(group, topic, partition), value_of(value, version)
    event = read_offset(key, written)
    assert isinstance(event, OffsetCommitted)
    (row,) = rows(key, written)
    assert (row["group"], row["topic"], row["topic_partition"]) == (event.group_id, event.topic, event.partition)
    assert (row["committed_offset"], row["commit_at_ms"]) == (event.offset, event.commit_ms)
    assert row["commit_metadata"] == event.metadata
    assert row["leader_epoch"] == (event.leader_epoch if event.leader_epoch >= 0 else None)
    assert row["expire_at_ms"] == (event.expire_ms if event.expire_ms >= 0 else None)
    assert row["topic_id"] == (None if event.topic_id == NO_TOPIC_ID else topic_id(event.topic_id))


@given(st.binary(max_size=30), st.none() | st.binary(max_size=50))
@settings(max_examples=examples(300), deadline=None)
def test_bytes_that_the_coordinator_refuses_are_refused_and_no_others(key, value):
    key = b"\x00\x01" + key
    try:
        event = read_offset(key, value)
    except MalformedMessage:
        event = None
    found = rows(key, value)
    if event is None:
        # Metadata may be anything here: the coordinator would have to know it as a text.
        assert not found or found[0]["commit_metadata"].startswith("0x")
    else:
        assert found[0]["tombstone"] == isinstance(event, OffsetDeleted)
