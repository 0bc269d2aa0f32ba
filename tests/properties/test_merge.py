"""Any rounds, repetitions and interleavings of two writers give the table of one pass; on Delta, by delta-rs."""

from __future__ import annotations

import random
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from tests.spark.lake import ArrowFrame, rows_in
from tests.unit.spark.tables.changes.test_row_change import rows
from tests.unit.spark.tables.changes.test_versions import replay

from kohort.model.ids import TopicPartition
from kohort.spark.tables import DeltaLakeTable, Fenced, Position, Step
from kohort.spark.tables.changes.row_change import Change

# One order is one change: of two with the same the one that is stored last counts, and two writers have no order.
records = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 40), st.sampled_from("abc"), st.booleans()),
    min_size=1,
    max_size=14,
    unique_by=lambda each: each[:2],
)


@pytest.mark.parametrize("is_history", [False, True])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=records, seed=st.integers())
def test_any_rounds_of_two_writers_give_the_table_of_one_pass(is_history, changes, seed):
    chance = random.Random(seed)
    change = Change(("id",), ("at",), is_history=is_history)
    with tempfile.TemporaryDirectory() as folder:
        writers = [DeltaLakeTable(f"{folder}/t") for _ in range(2)]
        parts = [changes[::2], changes[1::2]]
        at: list[int | None] = [None, None]
        while any((at[number] or 0) < len(parts[number]) for number in range(2)):
            number = chance.randrange(2)
            start = at[number] or 0
            if chance.random() < 0.2:  # a writer that was away
                start, at[number] = 0, None
            stop = min(start + chance.randrange(1, 6), len(parts[number]))
            if stop == start:
                continue
            place = TopicPartition("t", number)
            expected = at[number]
            step = {place: Step(None if expected is None else Position(expected), Position(stop))}
            writer = chance.choice(writers)
            try:
                writer.merge(ArrowFrame(rows(*parts[number][start:stop])), "g", step, change)
                at[number] = stop
            except Fenced:
                at[number] = writer.offsets("g", [place])[place].offset
        versions = replay(changes)
        if is_history:
            found = {
                (each["id"], each["value"], each["valid_from"], each["valid_to"], each["is_current"])
                for each in rows_in(writers[0])
            }
            assert found == versions
        else:
            expected = {(key, at, value) for key, value, at, _, is_current in versions if is_current}
            assert {(each["id"], each["at"], each["value"]) for each in rows_in(writers[0])} == expected
