"""`exactly_once(table)` with a table in files: each row once, with members killed, late, or in between."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.cluster import Topic

from kohort.model.ids import TopicPartition
from kohort.spark import GroupStream, exactly_once, for_each_batch
from kohort.spark.tables import Claim, Fenced, ManifestTable, SchemaMismatch, Step, TableBroken

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def stream_of(spark, topic: Topic, **settings) -> GroupStream:
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100} | settings
    return GroupStream(
        spark, topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, **settings
    )


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


def run(spark, topic: Topic, table: ManifestTable, **settings) -> None:
    with stream_of(spark, topic, **settings) as stream:
        stream.run(exactly_once(table, only_values), until=is_caught_up, timeout_s=60)


def only_values(frame):
    return frame.select("partition", "offset", "value")


def values_in(spark, table: ManifestTable) -> Counter:
    return Counter(bytes(row.value) for row in table.read(spark).collect())


class Meddled:
    """A frame that is written, and then something happens before its writer goes on."""

    def __init__(self, frame, happens):
        self.schema = frame.schema
        self.write = self
        self._frame = frame
        self._happens = happens

    def parquet(self, path):
        self._frame.write.parquet(path)
        self._happens()


@pytest.fixture
def table(tmp_path: Path) -> ManifestTable:
    return ManifestTable(tmp_path / "flights")


def test_rows_and_offsets_are_in_the_table_and_the_group_follows(spark, topic, table):
    values = topic.fill(100)
    run(spark, topic, table, max_rows_per_round=40)
    assert values_in(spark, table) == Counter(values)
    held = {partition.partition: each.offset for partition, each in table.held(topic.group_id).items()}
    assert held == topic.committed() == {0: 34, 1: 33, 2: 33}


def test_a_stream_goes_on_from_the_table_and_not_from_the_group(spark, topic, table):
    """As after a kill between the table's step and the group's commit: the group is behind, and follows."""
    first = topic.fill(30)
    run(spark, topic, table)
    topic.commit({0: 2, 1: 0, 2: 10})
    run(spark, topic, table)
    assert topic.committed() == {0: 10, 1: 10, 2: 10}
    more = topic.fill(30)
    run(spark, topic, table)
    assert values_in(spark, table) == Counter(first + more)


def test_a_group_that_was_deleted_and_counts_anew_goes_on(spark, topic, table):
    values = topic.fill(30)
    for _ in range(3):
        run(spark, topic, table)
    before = max(each.claim.generation for each in table.held(topic.group_id).values())
    topic.delete_group()
    values += topic.fill(30)
    run(spark, topic, table)
    assert max(each.claim.generation for each in table.held(topic.group_id).values()) < before
    assert values_in(spark, table) == Counter(values)


def test_a_round_whose_partitions_were_claimed_by_a_later_owner_is_lost_and_read_on_from_there(spark, topic, table):
    """The later owner stores a part of what the round holds: the rest of it comes in the next round."""
    values = topic.fill(30)
    outcomes: list[bool] = []
    stolen = TopicPartition(topic.name, 0)

    def rows(frame):
        if not outcomes:
            theirs = Claim(stream.generation, "later")
            table.claim(topic.group_id, theirs, [stolen])
            taken = frame.filter("partition = 0 and offset < 4").select("partition", "offset", "value")
            table.append(taken, topic.group_id, {stolen: Step(0, 4, theirs)})
        return only_values(frame)

    stream = stream_of(spark, topic, finished=lambda _, is_done: outcomes.append(is_done))
    with stream:
        metrics = stream.run(exactly_once(table, rows), until=is_caught_up, timeout_s=60)
    assert outcomes == [False, True]
    assert (metrics.lost_rounds, metrics.rows) == (1, 26)
    assert values_in(spark, table) == Counter(values)


def test_a_round_that_the_table_took_is_done_although_the_group_refuses_its_commit(spark, topic, table):
    values = topic.fill(30)
    outcomes: list[bool] = []

    def removed(frame):
        if not outcomes:
            topic.remove_member(stream.member_id)
        return only_values(frame)

    stream = stream_of(spark, topic, finished=lambda _, is_done: outcomes.append(is_done))
    with stream:
        metrics = stream.run(exactly_once(table, removed), until=is_caught_up, timeout_s=60)
    assert outcomes == [True]
    assert (metrics.rows, metrics.lost_rows) == (30, 0)
    assert values_in(spark, table) == Counter(values)
    assert topic.committed() == {0: 10, 1: 10, 2: 10}


def test_offsets_that_retention_has_overtaken_are_placed_by_the_policy(spark, topic, table):
    topic.fill(30)
    run(spark, topic, table)
    more = topic.fill(30)
    topic.delete_records(15)
    run(spark, topic, table)
    assert values_in(spark, table).total() == 45
    assert {each.offset for each in table.held(topic.group_id).values()} == {20}
    assert set(values_in(spark, table)) & set(more) == {value for n in range(3) for value in more[n::3][5:]}


def test_the_function_of_a_foreach_batch_stores_each_row_once_however_often_a_batch_comes(spark, topic, table):
    rows = [(topic.name, partition, offset, b"%d" % offset) for partition in range(2) for offset in range(10)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")
    store = exactly_once(table, only_values, group="g")
    store(frame.filter("offset < 4"), 0)
    store(frame.filter("offset < 7"), 1)
    store(frame.filter("offset < 7"), 1)
    store(frame, 0)
    assert sorted((row.partition, row.offset) for row in table.read(spark).collect()) == sorted(
        (partition, offset) for _, partition, offset, _ in rows
    )


def test_a_batch_that_is_cached_stays_cached(spark, table):
    frame = spark.range(3).selectExpr("'t' topic", "0 partition", "id offset")
    store = exactly_once(table, group="g")
    store(frame, 0)
    assert not frame.storageLevel.useMemory
    more = spark.range(3, 6).selectExpr("'t' topic", "0 partition", "id offset").persist()
    store(more, 1)
    assert more.storageLevel.useMemory
    more.unpersist()


def test_a_batch_is_cut_to_what_another_query_has_not_stored_meanwhile(spark, table):
    frame = spark.range(10).selectExpr("'t' topic", "0 partition", "id offset")
    asked: list[int] = []

    def late(rows):
        asked.append(rows.count())
        if len(asked) == 1:
            exactly_once(table, group="g")(frame.filter("offset < 6"), 0)
        return rows

    exactly_once(table, late, group="g")(frame, 0)
    assert asked == [10, 4]
    assert sorted(row.offset for row in table.read(spark).collect()) == list(range(10))


def test_a_foreach_batch_without_a_group_or_without_offsets_is_refused_in_a_sentence(spark, table):
    frame = spark.range(1).selectExpr("'t' topic", "0 partition", "id offset")
    with pytest.raises(ValueError, match='give it group="…"'):
        exactly_once(table)(frame, 0)
    with pytest.raises(ValueError, match="offset is missing"):
        exactly_once(table, group="g")(frame.drop("offset"), 0)


def test_a_function_written_for_foreach_batch_gets_ids_that_never_come_again(spark, topic):
    topic.fill(60)
    seen: list[tuple[int, int]] = []
    for most in (20, 40):
        with stream_of(spark, topic, max_rows_per_round=most) as stream:
            function = for_each_batch(lambda frame, batch_id: seen.append((batch_id, frame.count())))
            stream.run(function, until=is_caught_up, timeout_s=60)
        topic.fill(30)
    ids = [batch_id for batch_id, _ in seen]
    assert [rows for _, rows in seen] == [20, 20, 20, 30]
    assert ids == sorted(set(ids))


def test_rows_of_other_columns_are_refused_and_change_nothing(spark, table):
    frame = spark.range(3).selectExpr("id offset", "'a' name")
    place = TopicPartition("t", 0)
    table.append(frame, "g", {place: Step(None, 3)})
    for wrong, message in (
        (frame.selectExpr("*", "offset x"), "it has no column x bigint"),
        (frame.drop("name"), "the rows have no column name string"),
        (frame.selectExpr("offset", "offset name"), "its column name is string, the rows' is bigint"),
        (frame.select("name", "offset"), "in the order offset, name, the rows' in the order name, offset"),
    ):
        with pytest.raises(SchemaMismatch, match=message):
            table.append(wrong, "g", {place: Step(3, 6)})
    assert table.read(spark).count() == 3
    assert table.held("g")[place].offset == 3


def test_a_refused_step_leaves_no_file(spark, table):
    frame = spark.range(3)
    place = TopicPartition("t", 0)
    other = ManifestTable(table.path)

    late = Meddled(frame, lambda: other.append(frame, "g", {place: Step(None, 3)}))
    with pytest.raises(Fenced):
        table.append(late, "g", {place: Step(None, 3)})
    assert table.read(spark).count() == 3
    assert len(list((table.path / "rows").iterdir())) == 1


def test_rows_of_a_writer_killed_before_its_entry_are_no_rows_and_a_vacuum_removes_them(spark, table):
    frame = spark.range(3)
    table.append(frame, "g", {TopicPartition("t", 0): Step(None, 3)})
    frame.write.parquet((table.path / "rows" / "dead").as_uri())
    assert table.read(spark).count() == 3
    assert table.vacuum().directories == 0, "it may be a writer that is not done"
    assert table.vacuum(older_than_s=-1).directories == 1
    assert not (table.path / "rows" / "dead").exists()
    assert table.read(spark).count() == 3


def test_a_writer_whose_files_a_vacuum_took_for_dead_writes_them_again(spark, table):
    """Its directory is gone with all files: without a look at the log, the offsets would move without rows."""
    other = ManifestTable(table.path)
    vacuums = iter([1, 2])
    frame = Meddled(spark.range(3), lambda: next(vacuums, None) and other.vacuum(older_than_s=-1))
    table.append(frame, "g", {TopicPartition("t", 0): Step(None, 3)})
    assert other.read(spark).count() == 3
    hopeless = Meddled(spark.range(3), lambda: other.vacuum(older_than_s=-1))
    with pytest.raises(TableBroken, match="vacuums removed the files of a round before it was done"):
        table.append(hopeless, "g", {TopicPartition("t", 0): Step(3, 6)})
    assert other.held("g")[TopicPartition("t", 0)].offset == 3


def test_small_files_are_put_together_and_a_reader_of_before_is_not_disturbed(spark, table):
    for number in range(5):
        table.append(spark.range(0, 4, 1, 1), "g", {TopicPartition("t", 0): Step(4 * number or None, 4 * number + 4)})
    before = table.read(spark)
    assert table.compact(spark) == len(before.inputFiles()) == 5
    assert len(table.files) == 1
    table.vacuum()
    assert before.count() == table.read(spark).count() == 20
    assert table.vacuum(older_than_s=-1).directories == 5
    assert table.read(spark).count() == 20
    assert table.compact(spark) == 0


def test_an_empty_round_moves_the_offsets_and_adds_no_file(spark, table):
    table.append(spark.range(0), "g", {TopicPartition("t", 0): Step(None, 8)})
    assert table.files == ()
    assert table.held("g")[TopicPartition("t", 0)].offset == 8
    assert table.read(spark).count() == 0


@pytest.mark.parametrize("name", ["two words", "50%", "caf\u00e9", "a[0-9]{x}*"])
def test_a_table_may_have_any_name_that_a_directory_may_have(spark, tmp_path, name):
    table = ManifestTable(tmp_path / name)
    for number in range(2):
        table.append(spark.range(3), "g", {TopicPartition("t", 0): Step(3 * number or None, 3 * number + 3)})
    assert table.read(spark).count() == 6
    assert table.compact(spark) > 1
    assert ManifestTable(tmp_path / name).read(spark).count() == 6
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_round_whose_files_are_not_in_the_table_moves_no_offset(spark, table):
    """As when executors have a directory of that name, but on disks of their own."""
    elsewhere = Meddled(spark.range(3), lambda: [shutil.rmtree(each) for each in (table.path / "rows").iterdir()])
    with pytest.raises(TableBroken, match="driver and executors have to share the directory"):
        table.append(elsewhere, "g", {TopicPartition("t", 0): Step(None, 3)})
    assert table.held("g") == {}


def test_a_writer_killed_in_its_first_round_leaves_a_table_that_goes_on(spark, table):
    class Killed(BaseException):
        pass

    def kill():
        shutil.copytree(table.path, copy)
        raise Killed

    copy = table.path.parent / "as the kill left it"
    with pytest.raises(Killed):
        table.append(Meddled(spark.range(3), kill), "g", {TopicPartition("t", 0): Step(None, 3)})
    again = ManifestTable(copy)
    again.append(spark.range(3), "g", {TopicPartition("t", 0): Step(None, 3)})
    assert again.read(spark).count() == 3


def test_a_directory_of_other_files_is_refused(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(TableBroken, match="holds other files and no manifest"):
        ManifestTable(tmp_path)
