"""The names of staging tables: a vacuum drops by them."""

from __future__ import annotations

import pytest

from kohort.spark.tables.postgres import made_ms


def test_a_staging_table_says_when_it_was_made() -> None:
    assert made_ms("kohort_staging_1700000000000_0123456789ab") == 1_700_000_000_000


@pytest.mark.parametrize("name", ["kohort_staging_area", "kohort_staging_12", "kohortXstaging_5_0123456789ab"])
def test_a_table_that_only_begins_like_one_is_none(name: str) -> None:
    assert made_ms(name) is None
