"""Any rounds, repetitions and interleavings of two writers give the table of one pass; on Delta, by delta-rs."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.depth import examples

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from tests.spark.lake import rows_in
from tests.spark.merging import merge_by_two, require_replay

from kohort.spark.tables import DeltaLakeTable
from kohort.spark.tables.changes.row_change import Change

# One order is one change: of two with the same the one that is stored last counts, and two writers have no order.
records = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 40), st.sampled_from("abc"), st.booleans()),
    min_size=1,
    max_size=14,
    unique_by=lambda each: each[:2],
)


@pytest.mark.parametrize("is_history", [False, True])
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=records, seed=st.integers())
def test_any_rounds_of_two_writers_give_the_table_of_one_pass(is_history, changes, seed):
    with tempfile.TemporaryDirectory() as folder:
        writers = [DeltaLakeTable(f"{folder}/t") for _ in range(2)]
        merge_by_two(writers, changes, seed, Change(("id",), ("at",), is_history=is_history))
        require_replay(rows_in(writers[0]), changes, is_history=is_history)
