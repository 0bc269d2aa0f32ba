"""Which of the pipeline's files count: the chain from offset 0, the newest file at each step."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from demo.flights import Group, Totals  # noqa: E402
from demo.result import Chain, Part, list_parts, read_result, resolve, write_part  # noqa: E402


def table(flights):
    rows = [{"origin": "JFK", "carrier": "B6", "month": 1} | Totals(flights, 0, flights, 7, flights, -3)._asdict()]
    return pa.Table.from_pylist(rows)


def test_a_file_read_again_in_a_later_generation_replaces_the_one_at_its_offset():
    lost, kept, following = Part(0, 4, 9, 1, 3), Part(0, 4, 7, 2, 0), Part(0, 7, 9, 2, 1)
    first = Part(0, 0, 4, 1, 2)
    assert resolve([lost, first, following, kept], [9]) == [Chain((first, kept, following), (lost,), ())]


def test_the_later_round_of_one_generation_counts():
    failed, again = Part(0, 0, 5, 1, 0), Part(0, 0, 8, 1, 1)
    assert resolve([again, failed], [8]) == [Chain((again,), (failed,), ())]


def test_offsets_without_a_file_are_gaps():
    parts = [Part(1, 3, 5, 1, 0)]
    assert resolve(parts, [2, 9]) == [Chain((), (), ((0, 2),)), Chain((parts[0],), (), ((0, 3), (5, 9)))]


def test_an_empty_partition_needs_no_file():
    assert resolve([], [0]) == [Chain((), (), ())]


def test_files_are_found_by_their_names_and_nothing_else_is(tmp_path):
    parts = [Part(11, 0, 120_000, 3, 7), Part(2, 5, 9, 1, 0)]
    for part in parts:
        write_part(tmp_path, part, table(1))
    (tmp_path / ".02-unfinished.parquet").write_bytes(b"")
    assert list_parts(tmp_path) == sorted(parts)


def test_totals_are_added_over_the_files_of_the_chain_alone(tmp_path):
    counted, beside = Part(0, 0, 3, 2, 0), Part(0, 0, 9, 1, 0)
    write_part(tmp_path, counted, table(3))
    write_part(tmp_path, beside, table(9))
    result = read_result(tmp_path, resolve(list_parts(tmp_path), [3]))
    assert result.totals == {Group("JFK", "B6", 1): Totals(3, 0, 3, 7, 3, -3)}
    assert (result.rows, result.misfits) == (3, [])


def test_a_file_whose_rows_are_not_its_offsets_is_reported(tmp_path):
    part = Part(0, 0, 3, 1, 0)
    write_part(tmp_path, part, table(2))
    assert read_result(tmp_path, resolve([part], [3])).misfits == [(part, 2)]


def test_writing_a_file_again_leaves_one_file(tmp_path):
    part = Part(0, 0, 3, 1, 0)
    write_part(tmp_path, part, table(2))
    write_part(tmp_path, part, table(3))
    assert [each.name for each in tmp_path.iterdir()] == [part.name]
    assert read_result(tmp_path, resolve([part], [3])).rows == 3
