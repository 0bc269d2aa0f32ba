"""Errors of a server: a job ends with a sentence that names the table."""

from __future__ import annotations

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.tables.postgres import PostgresTable
from kohort.spark.tables.table import TableBroken


def test_a_server_that_cannot_be_reached_is_a_sentence_about_the_table() -> None:
    pytest.importorskip("psycopg")
    table = PostgresTable("host=127.0.0.1 port=1", "arrivals")
    with pytest.raises(
        TableBroken, match=r"PostgresTable\('arrivals'\) cannot be read for group g: .*see to the server"
    ):
        table.offsets("g", [TopicPartition("flights", 0)])
