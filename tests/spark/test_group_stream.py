"""`GroupStream` against a broker: which rows it hands over, what it commits, and what a rebalance does to a round."""

from __future__ import annotations

import signal
import socket
from collections import Counter

import pytest
from tests.spark.cluster import Topic, wait_until_assigned

from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.errors import KafkaError
from kohort.spark import GroupStream, exactly_once
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


class TableOfFrames:
    """A table of one's own, which knows nothing of Arrow."""

    def offsets(self, *_):
        return {}

    def append(self, frame, *_):
        frame.collect()


def stream_of(spark, topic: Topic, **settings) -> GroupStream:
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100} | settings
    return GroupStream(
        spark, topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, **settings
    )


def collect_into(rows: Counter):
    return lambda frame, _: rows.update(bytes(row.value) for row in frame.select("value").collect())


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


def read_all(spark, topic: Topic, **settings) -> Counter:
    rows: Counter = Counter()
    with stream_of(spark, topic, **settings) as stream:
        stream.run(collect_into(rows), until=is_caught_up, timeout_s=60)
    return rows


def test_every_row_is_handed_over_once_and_committed(spark, topic):
    values = topic.fill(1000)
    rows: Counter = Counter()
    with stream_of(spark, topic, max_rows_per_round=300) as stream:
        metrics = stream.run(collect_into(rows), until=is_caught_up, timeout_s=60)
    assert rows == Counter(values)
    assert (metrics.rounds, metrics.offsets, metrics.lost_rounds) == (4, 1000, 0)
    assert topic.committed() == {0: 334, 1: 333, 2: 333}


def test_no_round_is_larger_than_the_limit(spark, topic):
    topic.fill(100)
    with stream_of(spark, topic, max_rows_per_round=40) as stream:
        sizes = [(each.size, frame.count()) for frame, each in stream.rounds(until=is_caught_up, timeout_s=60)]
    assert sizes == [(40, 40), (40, 40), (20, 20)]


def test_the_next_application_goes_on_where_the_last_one_committed(spark, topic):
    topic.fill(30)
    read_all(spark, topic)
    values = topic.fill(20)
    assert read_all(spark, topic) == Counter(values)


def test_an_empty_topic_makes_no_round(spark, topic):
    with stream_of(spark, topic) as stream:
        metrics = stream.run(collect_into(Counter()), until=is_caught_up, timeout_s=60)
    assert metrics.rounds == 0
    assert topic.committed() == {}


def test_latest_reads_only_what_comes_after_the_start(spark, topic):
    topic.fill(10)
    rows: Counter = Counter()
    with stream_of(spark, topic, auto_offset_reset="latest") as stream:
        stream.run(collect_into(rows), until=is_caught_up, timeout_s=60)
        values = topic.fill(6)
        stream.run(collect_into(rows), until=lambda _: rows.total() == 6, timeout_s=60)
    assert rows == Counter(values)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_partition_that_is_added_is_read_from_its_first_record_on(spark, topic, is_running):
    """KIP-1327: the latest offset is for what exists when the group begins."""
    topic.fill(10)
    rows: Counter = Counter()
    settings = {"auto_offset_reset": None, "metadata_max_age_ms": 100}
    with stream_of(spark, topic, **settings) as stream:
        stream.run(collect_into(rows), until=is_caught_up, timeout_s=60)
        if is_running:
            values = topic.grow(60)
            stream.run(collect_into(rows), until=lambda _: rows.total() >= 60, timeout_s=60)
    if not is_running:
        values = topic.grow(60)
        with stream_of(spark, topic, **settings) as stream:
            stream.run(collect_into(rows), until=lambda _: rows.total() >= 60, timeout_s=60)
    assert rows == Counter(values)


def test_a_topic_that_begins_to_match_a_pattern_is_read_from_its_first_record_on(spark, topic):
    rows: Counter = Counter()
    settings = {"bootstrap_servers": topic.bootstrap_servers, "group_id": topic.group_id, "metadata_max_age_ms": 100}
    with GroupStream(spark, pattern=f"{topic.name}.*", heartbeat_interval_ms=100, **settings) as stream:
        stream.run(collect_into(rows), until=is_caught_up, timeout_s=60)
        with Topic(topic.bootstrap_servers, f"{topic.name}-2", 1) as other:
            values = other.fill(60)
            stream.run(collect_into(rows), until=lambda _: rows.total() >= 60, timeout_s=60)
    assert rows == Counter(values)


def test_after_retention_a_stream_continues_at_the_first_record_that_is_left(spark, topic, caplog):
    topic.fill(30)
    read_all(spark, topic)
    values = topic.fill(90)
    topic.delete_records(15)
    left = Counter(values[number] for number in range(90) if 10 + number // 3 >= 15)
    assert read_all(spark, topic, auto_offset_reset="latest") == left
    assert "5 offsets are lost, 10 to 14: the log begins at 15" in caplog.text


def test_without_a_reset_policy_a_missing_offset_is_an_error_that_says_so(spark, topic):
    topic.fill(1)
    with (
        stream_of(spark, topic, auto_offset_reset="none") as stream,
        pytest.raises(KafkaError, match=r'no committed offset.*auto_offset_reset is "none"'),
    ):
        stream.run(collect_into(Counter()), timeout_s=60)


def test_what_the_function_raises_leaves_its_round_uncommitted(spark, topic):
    values = topic.fill(9)

    def fail(*_):
        raise ZeroDivisionError

    with stream_of(spark, topic) as stream, pytest.raises(ZeroDivisionError):
        stream.run(fail, timeout_s=60)
    assert topic.committed() == {}
    assert read_all(spark, topic) == Counter(values)


def test_a_round_is_committed_only_when_the_next_is_asked_for(spark, topic):
    topic.fill(90)
    with stream_of(spark, topic, max_rows_per_round=30) as stream:
        rounds = stream.rounds(timeout_s=60)
        next(rounds)
        assert topic.committed() == {}
        next(rounds)
        assert sum(topic.committed().values()) == 30
        rounds.close()
    assert sum(topic.committed().values()) == 30


def test_a_revocation_waits_for_the_round_and_its_commit(spark, topic):
    """A member that joins in the middle of a round gets its partitions after the commit, and no row comes twice."""
    values = topic.fill(60)
    rows: Counter = Counter()
    seen: list[str] = []

    class GroupReport(RebalanceListener):
        async def on_partitions_revoked(self, partitions):
            if partitions:
                seen.append("revoked")

    def slow(frame, _):
        neighbour = topic.join()
        with pytest.raises(TimeoutError):
            topic.run(neighbour.joined(timeout_ms=1000))
        collect_into(rows)(frame, None)
        seen.append("done")

    stream = stream_of(
        spark, topic, listener=GroupReport(), finished=lambda _, is_committed: seen.append(f"committed {is_committed}")
    )
    with stream:
        stream.run(slow, until=lambda _: bool(rows), timeout_s=60)
        stream.run(collect_into(rows), until=lambda each: len(each.owned) in (1, 2), timeout_s=60)
        topic.run(wait_until_assigned(topic.neighbours[0][1], 3 - len(stream.owned)))
        assert seen[:3] == ["done", "committed True", "revoked"]
        assert rows == Counter(values)
        assert topic.committed() == {0: 20, 1: 20, 2: 20}


def test_a_round_whose_member_was_removed_is_lost_and_read_again(spark, topic):
    values = topic.fill(30)
    rows: Counter = Counter()
    outcomes: list[bool] = []

    def once_removed(frame, each):
        if not outcomes:
            topic.remove_member(stream.member_id)
        collect_into(rows)(frame, each)

    stream = stream_of(spark, topic, finished=lambda _, is_committed: outcomes.append(is_committed))
    with stream:
        metrics = stream.run(once_removed, until=is_caught_up, timeout_s=60)
    assert outcomes == [False, True]
    assert (metrics.lost_rounds, metrics.lost_offsets, metrics.offsets) == (1, 30, 30)
    assert rows == Counter(values * 2)
    assert topic.committed() == {0: 10, 1: 10, 2: 10}


def test_a_round_that_outlasts_the_rebalance_timeout_is_lost(spark, topic):
    """The group does not wait for ever: a neighbour gets its share, and the late commit is refused."""
    topic.fill(30)
    outcomes: list[bool] = []

    def too_slow(*_):
        if not outcomes:
            topic.run(topic.join().joined(timeout_ms=30_000))

    stream = stream_of(
        spark, topic, rebalance_timeout_ms=1000, finished=lambda _, is_committed: outcomes.append(is_committed)
    )
    with stream:
        stream.run(too_slow, until=lambda _: bool(outcomes), timeout_s=60)
    assert outcomes == [False]
    assert topic.committed() == {}


def test_sigterm_ends_the_run_after_the_committed_round_and_leaves_the_group(spark, topic):
    topic.fill(90)

    def terminated(*_):
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with stream_of(spark, topic, max_rows_per_round=30).stop_on(signal.SIGTERM) as stream:
        metrics = stream.run(terminated, timeout_s=60)
        assert topic.members() == 1
    assert metrics.rounds == 1
    assert sum(topic.committed().values()) == 30
    assert topic.members() == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_offsets_that_retention_has_overtaken_start_by_the_policy(spark, topic):
    values = topic.fill(30)
    read_all(spark, topic)
    more = topic.fill(30)

    async def delete(before):
        from kohort.client import Admin

        async with Admin(topic.bootstrap_servers) as admin:
            await admin.delete_records(dict.fromkeys(topic.partitions, before))

    topic.run(delete(15))
    late = Counter(more) - Counter(value for number in range(3) for value in more[number::3][:5])
    assert read_all(spark, topic) == late
    assert not set(values) & set(late)


def test_a_round_of_executors_that_retention_has_overtaken_is_lost_and_the_next_starts_by_the_policy(spark, topic):
    values = topic.fill(30)
    outcomes, rows = [], Counter()

    def read(frame, _):
        if not outcomes:
            topic.delete_records(7)
        rows.update(bytes(row.value) for row in frame.collect())

    stream = stream_of(spark, topic, rows_on_driver=0, finished=lambda _, is_committed: outcomes.append(is_committed))
    with stream:
        stream.run(read, until=lambda stream: stream.is_caught_up, timeout_s=120)
    assert outcomes == [False, True]
    assert rows == Counter(value for number in range(3) for value in values[number::3][7:])


def test_a_stream_that_was_closed_is_no_member_again(topic):
    topic.commit({0: 0, 1: 0, 2: 0})  # so there is a group, whether or not a member came as far as to join
    stream = stream_of(None, topic)
    stream.start()
    stream.close()
    assert stream.run(lambda *_: None, timeout_s=10).rounds == 0
    assert topic.members() == 0


def test_in_the_consumer_protocol_a_stream_reads_what_matches_a_pattern_headers_and_all(spark, topic):
    topic.produce(0, [Record(0, 0, b"k", b"v", (("trace", b"1"),))])
    stream = GroupStream(
        spark,
        bootstrap_servers=topic.bootstrap_servers,
        group_id=topic.group_id,
        pattern=f"{topic.name}.*",
        protocol="consumer",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        include_headers=True,
    )
    found: list = []
    with stream:
        stream.run(lambda frame, _: found.extend(frame.collect()), until=is_caught_up, timeout_s=60)
    assert [[tuple(header) for header in row.headers] for row in found] == [[("trace", b"1")]]
    assert topic.committed() == {0: 1}


def test_a_stream_that_is_closed_in_the_middle_of_a_round_leaves_at_once_and_commits_nothing(spark, topic):
    topic.fill(9)
    stream = stream_of(spark, topic)
    rounds = stream.rounds(timeout_s=60)
    next(rounds)
    stream.close()
    assert (topic.members(), topic.committed()) == (0, {})


def test_an_unreachable_broker_is_an_error_that_names_it(spark):
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        GroupStream(spark, "t", bootstrap_servers="127.0.0.1:1", group_id="g").start()


@pytest.mark.parametrize("wrong", [{"max_rows_per_round": 0}, {"session_timeout": 5}])
def test_a_wrong_option_is_refused_before_anything_starts(spark, wrong):
    with pytest.raises((ValueError, TypeError), match=r"max_rows_per_round|session_timeout"):
        GroupStream(spark, "t", bootstrap_servers="127.0.0.1:1", group_id="g", **wrong)


def test_a_round_of_large_rows_ends_early_and_the_rest_follows(spark, topic):
    for _ in range(8):
        topic.produce(0, [Record(0, 0, b"k", bytes(200_000))] * 3)
    with stream_of(spark, topic, bytes_on_driver=1_500_000) as stream:
        sizes = [frame.count() for frame, _ in stream.rounds(until=is_caught_up, timeout_s=60)]
    assert sum(sizes) == 24
    assert len(sizes) > 2
    assert topic.committed() == {0: 24}


def test_a_closed_stream_has_its_progress_and_a_report_of_its_ownership_and_lag(spark, topic, tmp_path):
    topic.fill(90)
    path = tmp_path / "report.html"
    with stream_of(spark, topic, max_rows_per_round=30, report=path) as stream:
        stream.run(lambda *_: None, until=is_caught_up, timeout_s=60)
        assert stream.progress.member_id == stream.member_id
        assert [(lag.records, lag.seconds) for lag in stream.read_lag().values()] == [(0, 0)] * 3
    reached = stream.progress
    assert (reached.group, reached.partitions, reached.lag, reached.read_again) == (topic.group_id, 3, 0, 0)
    text = path.read_text()
    assert "<b>90</b><span>offsets committed</span>" in text
    assert all(f"{topic.name} {number}" in text for number in range(3)), "each partition has a row in the plot"


def test_a_report_that_cannot_be_written_is_a_warning_and_the_member_has_left(spark, topic, tmp_path, caplog):
    with stream_of(spark, topic, report=tmp_path / "missing" / "report.html") as stream:
        stream.run(lambda *_: None, until=is_caught_up, timeout_s=60)
    assert "no report" in caplog.text
    assert topic.members() == 0


def test_a_function_of_arrow_gets_the_same_rows_from_rounds_of_any_size(spark, topic):
    values = topic.fill(700)
    frames, tables = [], []
    with stream_of(spark, topic) as stream:
        stream.run(lambda frame, _: frames.append(frame.toArrow()), until=is_caught_up, timeout_s=60)
    for name, rows_on_driver in (("small", 1000), ("large", 100)):
        settings = {"rows_on_driver": rows_on_driver, "auto_offset_reset": "earliest", "include_headers": False}
        address = {"bootstrap_servers": topic.bootstrap_servers, "group_id": f"{topic.group_id}-{name}"}
        with GroupStream(spark, topic.name, **address, **settings) as stream:
            stream.run(lambda table, _: tables.append(table), rows="arrow", until=is_caught_up, timeout_s=60)
    small, large = (table.sort_by([("partition", "ascending"), ("offset", "ascending")]) for table in tables)
    assert small.schema == large.schema
    assert small.equals(large)
    assert small["value"].to_pylist() == sorted_values(frames[0])
    assert Counter(small["value"].to_pylist()) == Counter(values)


def sorted_values(table):
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])["value"].to_pylist()


def test_a_round_of_arrow_is_committed_after_its_function_and_not_if_that_fails(spark, topic):
    topic.fill(60)
    seen: list[tuple[int, dict[int, int]]] = []

    def fail_in_the_second(table, each) -> None:
        seen.append((table.num_rows, topic.committed()))
        if each.number == 1:
            raise RuntimeError("power cut")

    with stream_of(spark, topic, max_rows_per_round=30) as stream, pytest.raises(RuntimeError, match="power cut"):
        stream.run(fail_in_the_second, rows="arrow", timeout_s=60)
    assert seen == [(30, {}), (30, {0: 10, 1: 10, 2: 10})]
    assert topic.committed() == {0: 10, 1: 10, 2: 10}


def test_rounds_of_arrow_have_the_same_connection(spark, topic, monkeypatch):
    values, opened, rows = topic.fill(90), [], Counter()
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *given: (opened.append(given[0]), connect(*given))[1])
    with stream_of(spark, topic, max_rows_per_round=30) as stream:
        metrics = stream.run(
            lambda table, _: rows.update(table["value"].to_pylist()), rows="arrow", until=is_caught_up, timeout_s=60
        )
    assert (metrics.rounds, rows) == (3, Counter(values))
    assert len(opened) == len({*opened})


def test_rows_are_a_frame_or_a_table_and_nothing_else(spark, topic):
    for store in (exactly_once(TableOfFrames()), exactly_once("delta:no-table", merge_on=["id"], delete="op = 'd'")):
        with pytest.raises(ValueError, match='rows is "arrow", and exactly_once'):
            stream_of(spark, topic).run(store, rows="arrow")
    with pytest.raises(ValueError, match="rows is 'pandas'"):
        stream_of(spark, topic).run(print, rows="pandas")
