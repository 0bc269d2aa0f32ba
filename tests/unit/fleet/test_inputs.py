"""What a user names as input, and what is read from each kind of it."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.fleet.written_log import COMMIT_VALUE, batch_of, commit_key, name, short

from kohort.client.cluster.list_offsets import OffsetAndTimestamp
from kohort.client.cluster.metadata import PartitionView, TopicView
from kohort.client.errors import PartitionErrors, UnknownPartition, UnknownTopic
from kohort.fleet import bronze
from kohort.fleet.inputs import cluster_input
from kohort.fleet.inputs.broker_log import state_change
from kohort.fleet.inputs.export_lines import export_lines
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.inputs.input_splits import Split, WrongInput, packed, text_splits
from kohort.fleet.inputs.member_metrics import measurements
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

IGNORED = dict.fromkeys(("file", "position", "sample"))
COMMITS = batch_of([(commit_key("g", "t", number), COMMIT_VALUE) for number in range(3)])

DUMP = """\
Dumping /data/__consumer_offsets-12/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 \
CreateTime: 1795292543228 size: 313 magic: 2 compresscodec: none crc: 1041840864 isvalid: true
| offset: 0 CreateTime: 1795292543228 keySize: 14 valueSize: 42 sequence: 0 headerKeys: [] key: \
{"type":"1","data":{"group":"a key: payload: of sorts","topic":"t","partition":0}} payload: {"version":"4","data":\
{"offset":25,"leaderEpoch":0,"metadata":"","commitTimestamp":1795292543228,"topicId":"UZfjOntbTDS6Y_ynmReiVA"}}
| offset: 1 CreateTime: 1795292543228 keySize: 31 valueSize: -1 sequence: 1 headerKeys: [] key: \
{"type":"8","data":{"groupId":"new","memberId":"m"}} payload: <DELETE>
baseOffset: 7 lastOffset: 7 count: 1 baseSequence: 0 lastSequence: 0 producerId: 9 producerEpoch: 2 \
partitionLeaderEpoch: 0 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty position: 711 \
CreateTime: 1795292551559 size: 106 magic: 2 compresscodec: none crc: 2677441099 isvalid: true
| offset: 7 CreateTime: 1795292551559 keySize: 14 valueSize: 24 sequence: 0 headerKeys: [] key: \
{"type":"1","data":{"group":"txn","topic":"t","partition":1}} payload: {"version":"1","data":{"offset":10,\
"metadata":"m","commitTimestamp":5,"expireTimestamp":6}}
baseOffset: 8 lastOffset: 8 count: 1 baseSequence: -1 lastSequence: -1 producerId: 9 producerEpoch: 2 \
partitionLeaderEpoch: 0 isTransactional: true isControl: true deleteHorizonMs: OptionalLong.empty position: 817 \
CreateTime: 1795292551958 size: 78 magic: 2 compresscodec: none crc: 755420985 isvalid: true
| offset: 8 CreateTime: 1795292551958 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT \
coordinatorEpoch: 0
baseOffset: 9 lastOffset: 9 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 895 \
CreateTime: 1795292551959 size: 78 magic: 2 compresscodec: none crc: 755420985 isvalid: true
| offset: 9 CreateTime: 1795292551959 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] key: \
Unknown record type 77 at offset 9, skipping.
| offset: 10 CreateTime: 1795292551959 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] key: bytes payload: more
what is this
"""


def write(folder: Path, partition: int, content: bytes, first_offset: int = 0) -> Path:
    path = folder / f"__consumer_offsets-{partition}"
    path.mkdir(exist_ok=True)
    file = path / f"{first_offset:020}.log"
    file.write_bytes(content)
    return file


def rows_from(*given: str, since=None) -> list[dict]:
    splits = bronze.plan(parse_inputs(given), since or {})
    batches = [batch for split in splits for batch in bronze.rows_of(split)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def records(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["reason"] is None and row["next_offset"] is None]


# -- names


def test_the_name_of_a_source_is_given_or_the_clusters_id_or_that_of_the_directory(tmp_path):
    file = write(tmp_path, 4, COMMITS)
    (plain,) = parse_inputs([str(tmp_path)])
    (named,) = parse_inputs([f"mine={tmp_path}"])
    assert (plain.kind, plain.source, named.source) == ("segment", tmp_path.name, "mine")
    (alone,) = parse_inputs([str(file)])
    assert (alone.kind, alone.source) == ("segment", "__consumer_offsets-4")
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=AgmMV9WGOlEprPpA9KDwWA\n")
    for where in (tmp_path, file.parent, file):
        assert [each.source for each in parse_inputs([str(where)])] == ["AgmMV9WGOlEprPpA9KDwWA"]


def test_the_partition_is_read_off_the_directory(tmp_path):
    write(tmp_path, 11, COMMITS)
    write(tmp_path, 2, COMMITS)
    rows = records(rows_from(str(tmp_path)))
    assert [(row["partition"], row["offset"]) for row in rows] == [(p, offset) for p in (2, 11) for offset in range(3)]


def test_files_are_known_by_what_is_in_them_not_by_their_names(tmp_path):
    contents = {
        "dump.log": (DUMP.encode(), "dump"),
        "e.txt": (b'{"partition": 3, "offset": 1}\n', "export"),
        "m.log": (b"# HELP x y\nx 1\n", "metrics"),
        "n": (b'kohort_consumer_lag{topic="t"} 4\n', "metrics"),
        "o": (b'{"at_ms": 5, "metrics": {}}', "metrics"),
        "server.log": (b"[2026-11-21 20:08:10,123] INFO x\n", "broker_log"),
        "00000000000000000000.log": (COMMITS, "segment"),
        "packed.gz": (gzip.compress(DUMP.encode()), "dump"),
    }
    for file, (content, kind) in contents.items():
        (tmp_path / file).write_bytes(content)
        assert [each.kind for each in parse_inputs([str(tmp_path / file)])] == [kind], file
    found = parse_inputs([f"all={tmp_path}"])
    assert {each.kind for each in found} == {"dump", "export", "metrics", "broker_log", "segment"}
    assert {each.source for each in found} == {"all"}


@pytest.mark.parametrize("text", ["nowhere", "no/such/file", "host", "host:port", "name=/no/such:9092", ""])
def test_an_input_that_is_neither_file_nor_cluster_is_refused(text):
    with pytest.raises(WrongInput, match="no file, no directory, and no cluster"):
        parse_inputs([text])


def test_an_empty_directory_is_no_input(tmp_path):
    with pytest.raises(WrongInput, match="has neither directories"):
        parse_inputs([str(tmp_path)])
    (tmp_path / "__consumer_offsets-1").mkdir()
    with pytest.raises(WrongInput, match="no segment file"):
        parse_inputs([str(tmp_path)])
    with pytest.raises(WrongInput, match="nothing to read"):
        parse_inputs([])


# -- segments


def test_segments_that_end_before_what_is_wanted_are_not_opened(tmp_path):
    for first in (0, 3, 6):
        write(
            tmp_path, 0, batch_of([(commit_key("g", "t", number), COMMIT_VALUE) for number in range(3)], first), first
        )
    inputs = parse_inputs([f"a={tmp_path}"])
    names = [[Path(split.where).stem for split in bronze.plan(inputs, {"a": {0: start}})] for start in (0, 2, 3, 8, 9)]
    assert [[int(each) for each in found] for found in names] == [[0, 3, 6], [0, 3, 6], [3, 6], [6], []]
    rows = rows_from(f"a={tmp_path}", since={"a": {0: 7}})
    assert [row["offset"] for row in records(rows)] == [7, 8]
    assert rows_from(f"a={tmp_path}", since={"a": {0: 9}}) == []


@pytest.mark.parametrize(
    ("tail", "is_read"),
    [(b"", False), (bytes(4096), False), (b"\x01", True), (batch_of([(b"k", None)], 3)[:-1], True)],
    ids=["nothing", "zeros of a preallocated file", "bytes that are no batch", "a batch that is cut off"],
)
def test_a_segment_that_was_read_is_read_again_for_what_is_behind_its_batches(tmp_path, tail, is_read):
    write(tmp_path, 0, batch_of([(commit_key("g", "t", number), COMMIT_VALUE) for number in range(3)]) + tail)
    inputs = parse_inputs([f"a={tmp_path}"])
    assert bool(bronze.plan(inputs, {"a": {0: 3}})) is bronze.has_unread(inputs, {"a": {0: 3}}) is is_read
    assert bronze.has_unread(inputs, {"a": {0: 2}})


def test_a_file_that_is_gone_when_it_is_read_is_a_fault(tmp_path):
    file = write(tmp_path, 0, COMMITS)
    (split,) = bronze.plan(parse_inputs([str(tmp_path)]), {})
    file.unlink()
    fault, end = pa.Table.from_batches(list(bronze.rows_of(split))).to_pylist()
    assert "cannot be read" in fault["reason"]
    assert end["next_offset"] == 0


def test_small_files_share_a_task_and_large_ones_do_not(tmp_path):
    for partition in range(4):
        write(tmp_path, partition, COMMITS if partition else COMMITS * 4000)
    tasks = packed(bronze.plan(parse_inputs([str(tmp_path)]), {}), 1 << 20)
    assert [[split.partition for split in task] for task in tasks] == [[0, 1, 2, 3]]
    tasks = packed(bronze.plan(parse_inputs([str(tmp_path)]), {}), 1 << 18)
    assert [[split.partition for split in task] for task in tasks] == [[0], [1, 2, 3]]
    assert pickle.loads(pickle.dumps(tasks)) == tasks


# -- dumps and exports


def test_a_dump_of_kafkas_tool_is_read_back(tmp_path):
    (tmp_path / "d.txt").write_text(DUMP)
    rows = rows_from(str(tmp_path / "d.txt"))
    assert {(row["source"], row["partition"]) for row in records(rows)} == {("d", 12)}
    by_offset = {row["offset"]: row for row in records(rows)}
    first, deleted, open_, marker, unknown = (by_offset[offset] for offset in (0, 1, 7, 8, 9))
    assert (first["group"], first["committed_offset"]) == ("a key: payload: of sorts", 25)
    assert (first["topic_id"], first["at_ms"]) == ("UZfjOntbTDS6Y_ynmReiVA", 1795292543228)
    assert (deleted["record_type"], deleted["member"], deleted["tombstone"]) == (8, "m", True)
    assert (open_["transaction"], open_["producer_id"], open_["expire_at_ms"]) == ("committed", 9, 6)
    assert (marker["record_type"], marker["transaction"]) == (None, "committed")
    assert unknown["record_type"] == 77
    faults = [(row["offset"], row["reason"], row["position"]) for row in rows if row["reason"]]
    assert faults == [
        (
            10,
            "its key is shown as text, so that it cannot be read: dump with --offsets-decoder",
            DUMP.index("| offset: 10"),
        ),
        (None, "a line that the dump tool does not print", DUMP.index("what is this")),
    ]


def test_what_was_read_of_a_dump_is_passed_over(tmp_path):
    (tmp_path / "d.txt").write_text(DUMP)
    rows = rows_from(str(tmp_path / "d.txt"), since={"d": {12: 8}})
    assert [row["offset"] for row in records(rows) if row["record_type"] is not None] == [9]


def test_an_export_has_every_byte_of_keys_and_values(tmp_path):
    broken = batch_of([(short(1) + name(b"\xff") + b"\x00", b"\xfe"), (None, b""), (commit_key("g", "t", 1), None)], 3)
    log = write(tmp_path, 5, COMMITS + broken)
    (tmp_path / "x.jsonl").write_text("".join(f"{line}\n" for line in export_lines(COMMITS + broken, 5)))
    rows = [{**row, **IGNORED} for row in rows_from(f"a={tmp_path / 'x.jsonl'}")]
    held = [{**row, **IGNORED} for row in rows_from(f"a={log}")]
    assert rows == held


def test_a_line_that_is_no_record_is_a_fault(tmp_path):
    good = next(export_lines(COMMITS, 5))
    bad = [
        '{"partition": 5}',
        "[]",
        "not json",
        good.replace('"offset": 0', '"offset": "0"'),
        good.replace("0001", "zz"),
    ]
    (tmp_path / "x.jsonl").write_text("\n".join([good, *bad, json.dumps({**json.loads(good), "offset": -3})]))
    rows = rows_from(str(tmp_path / "x.jsonl"))
    assert len(records(rows)) == 1
    assert len([row for row in rows if row["reason"]]) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": 5_000_000_000},
        {"partition": True},
        {"offset": 1 << 62},
        {"timestamp": 1 << 63},
        {"producerEpoch": 70_000},
        {"producerId": 1 << 70},
    ],
)
def test_a_number_that_no_log_can_have_is_a_fault(tmp_path, wrong):
    good = json.loads(next(export_lines(COMMITS, 5)))
    lines = [json.dumps(each) for each in (good, {**good, **wrong}, {**good, "offset": 9})]
    (tmp_path / "x.jsonl").write_text("\n".join([*lines, "[" * 5000]))
    rows = rows_from(str(tmp_path / "x.jsonl"))
    assert [row["offset"] for row in records(rows)] == [0, 9]
    assert len([row for row in rows if row["reason"]]) == 2


RECORD = """\
| offset: %s CreateTime: %s keySize: 14 valueSize: -1 sequence: 0 headerKeys: [] key: \
{"type":"1","data":{"group":"%s","topic":"t","partition":0}} payload: <DELETE>
"""


def test_a_dump_with_what_no_log_can_have_is_read_to_its_end(tmp_path):
    first, _ = DUMP.split("\n", 1)
    (tmp_path / "x.txt").write_text(
        f"{first}\n"
        + RECORD % ("9" * 30, 5, "g")
        + RECORD % (1, "9" * 5000, "g")
        + "| offset: 2 CreateTime: 5 keySize: 1 key: "
        + '{"a":' * 5000
        + "\n"
        + RECORD % (3, 5, " endTxnMarker: COMMIT coordinatorEpoch: 1")
        + first.replace("-12/", "-99999999999/")
        + "\n"
        + RECORD % (4, 5, "g")
        + f"{first}\n"
        + RECORD % (5, 5, "g")
    )
    rows = rows_from(str(tmp_path / "x.txt"))
    assert [(row["partition"], row["offset"], row["group"]) for row in records(rows)] == [
        (12, 3, " endTxnMarker: COMMIT coordinatorEpoch: 1"),
        (12, 5, "g"),
    ]
    assert sorted(row["partition"] for row in rows if row["reason"]) == [0, 12, 12, 12]


def test_a_packed_file_that_is_cut_off_gives_what_is_there(tmp_path):
    whole = gzip.compress("".join(f"{line}\n" for line in export_lines(COMMITS, 5) for _ in range(400)).encode(), 0)
    (tmp_path / "x.gz").write_bytes(whole[: len(whole) - 100])
    rows = rows_from(str(tmp_path / "x.gz"))
    assert records(rows)
    assert "cannot be read any further" in next(row["reason"] for row in rows if row["reason"])


# -- a live cluster


class Cluster:
    """An admin client of a cluster of which some topics return no end offsets."""

    def __init__(self, *failures: KafkaError) -> None:
        self.failures = list(failures)

    def list_offsets(self, wanted):
        if self.failures:
            raise self.failures.pop(0)
        return {partition: OffsetAndTimestamp(7) for partition in wanted}


def topic(name: str, *leaders: int) -> TopicView:
    return TopicView(
        name, partitions={at: PartitionView(at, leader, 0, (1,), (1,)) for at, leader in enumerate(leaders)}
    )


def test_a_topic_without_end_offsets_does_not_hide_those_of_others():
    b0 = TopicPartition("b", 0)
    offline = PartitionErrors("offsets could not be listed", {b0: ErrorCode.LEADER_NOT_AVAILABLE})
    cluster = Cluster(UnknownTopic("c"), offline, UnknownPartition(TopicPartition("d", 1), 1))
    topics = [topic("a", 1, -1), topic("b", 1, 1), topic("c", 1), topic("d", 1, 1)]
    ends = cluster_input.ends_of(cluster, topics)
    assert sorted(ends) == [TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("d", 0)]


def test_a_partition_without_a_leader_is_quarantined_and_requested_again():
    split = Split("cluster", "a", "nowhere:1", 3, 40, cluster_input.UNLED)
    fault, end = pa.Table.from_batches(list(bronze.rows_of(split))).to_pylist()
    assert (fault["partition"], fault["offset"], fault["reason"][:26]) == (3, 40, "no broker leads this parti")
    assert end["next_offset"] == 40


# -- the log of a broker, and metrics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Preparing to rebalance group my group in state Stable with old generation 5 (reason: Removing member m on"
            " LeaveGroup; client reason: the consumer is being closed).",
            ("rebalance", "my group", 5, None, None, "Stable"),
        ),
        ("Stabilized group g generation 6 with 2 members.", ("generation", "g", 6, None, None, None)),
        ("Group g with generation 7 is now empty.", ("emptied", "g", 7, None, None, None)),
        ("Member m-1 in group g has failed, removing it from the group.", ("failed", "g", None, "m-1", None, None)),
        (
            "Dynamic member with unknown member id joins group g in Empty state. Created a new member id m-1 and"
            " requesting the member to rejoin with this id.",
            ("joined", "g", None, "m-1", None, "Empty"),
        ),
        (
            "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Replacing"
            " previously mapped member m-0 with this groupInstanceId.",
            ("replaced", "g", None, "m-0", "i", "Stable"),
        ),
        (
            "[Group g] Member m has left group through explicit `LeaveGroup` request; client reason: not provided",
            ("left", "g", None, "m", None, None),
        ),
        (
            "[GroupId g] Member m fenced from the group because the member session expired.",
            ("fenced", "g", None, "m", None, None),
        ),
        (
            "[GroupId g] Member m fenced from the group because it failed to transition from epoch 3 within 1000ms.",
            ("fenced", "g", None, "m", None, None),
        ),
        ("[GroupId g][MemberId m] Member joins the streams group.", ("joined", "g", None, "m", None, None)),
        (
            "[GroupId g] Bumped group epoch to 4 with metadata hash 123.",
            ("epoch", "g", 4, None, None, None),
        ),
        (
            "[GroupId g] Member m new assignment state: epoch=4, previousEpoch=3, state=STABLE, assignedPartitions=[].",
            ("assigned", "g", 4, "m", None, None),
        ),
        ("[GroupId g] Converted the classic group to a consumer group.", ("converted", "g", None, None, None, None)),
    ],
)
def test_a_line_of_a_coordinator_shows_what_happened_to_which_group(text, expected):
    line = f"[2026-11-21 20:08:10,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=3] {text}"
    found = state_change(f"{line} (org.apache.kafka.coordinator.group.GroupMetadataManager)\n")
    assert found is not None
    names = ("change", "group", "epoch", "member", "instance", "state")
    assert tuple(found[each] for each in names) == expected
    assert (found["at_ms"], found["level"], found["text"]) == (1795291690123, "INFO", text)


def test_the_reason_of_a_rebalance_is_stored():
    text = "Preparing to rebalance group g in state Stable with old generation 5 (reason: why (so) it did)."
    found = state_change(f"[2026-11-21 20:08:10,123] INFO [GroupCoordinator id=1] {text} (x.Y)")
    assert found is not None
    assert found["reason"] == "why (so) it did"


@pytest.mark.parametrize("line", ["", "\tat a.b.C(D.java:5)", "[2026-13-99 99:99:99,999] INFO Groups", "x" * 9000])
def test_other_lines_are_of_no_group(line):
    assert state_change(line) is None


def test_metrics_of_prometheus_retain_their_labels():
    (row,) = measurements(r'kohort_consumer_lag{client_id="c",group="a \"b\"",topic="t",partition="3",rack="r"} 5 17')
    assert row == {
        "metric": "kohort_consumer_lag",
        "value": 5.0,
        "at_ms": 17,
        "client_id": "c",
        "group": 'a "b"',
        "topic": "t",
        "topic_partition": 3,
        "labels": '{"rack": "r"}',
    }
    assert [row["value"] for row in measurements("up +Inf")] == [float("inf")]
    for line in ("# HELP x y", "", "x", "x one", 'x{a="b} 1', 'x{a="b" c} 1'):
        assert list(measurements(line)) == [], line


def test_metrics_of_a_consumer_are_read_from_json():
    line = {"at_ms": 5, "client_id": "c", "group": "g", "metrics": {"rebalance-total": 3, "x": None}, "lag": {"t-0": 9}}
    total, lag = measurements(json.dumps(line))
    assert (total["metric"], total["value"], total["group"], total["at_ms"]) == ("rebalance-total", 3.0, "g", 5)
    assert (lag["metric"], lag["topic"], lag["topic_partition"], lag["value"]) == ("lag", "t", 0, 9.0)


def test_what_no_table_can_have_is_no_measurement_and_no_change(tmp_path):
    (tmp_path / "m.json").write_text(
        '{"metrics": {"a": 1}}\n'
        f'{{"metrics": {{"b": 1{"0" * 400}, "c": 1}}}}\n'
        f'{{"at_ms": {10**30}, "metrics": {{"d": 1}}}}\n'
        '{"client_id": "\\ud800", "metrics": {"\\ud800": 1}}\n'
        f'{{"metrics": {"[" * 5000}\n'
        f"e 1 {10**30}\n"
        f"f 1 {10**15}\n"
    )
    (given,) = parse_inputs([str(tmp_path / "m.json")])
    (split,) = text_splits(given, {})
    rows = pa.Table.from_batches(list(bronze.rows_of(split))).to_pylist()
    assert [row["metric"] for row in rows] == ["a", "c", "d", "\\ud800", "f"]
    line = "[2026-11-21 20:08:10,123] INFO Group g with generation 99999999999 is now empty (x.Y)"
    assert state_change(line) is None


def test_files_of_metrics_and_logs_fill_tables_of_their_own(tmp_path):
    (tmp_path / "m.prom").write_text('# TYPE x gauge\nx{group="g"} 1\n')
    (tmp_path / "server.log").write_text(
        "[2026-11-21 20:08:10,123] INFO Group g with generation 7 is now empty (x.Y)\n"
    )
    for given in parse_inputs([f"a={tmp_path}"]):
        splits = text_splits(given, {})
        (row,) = pa.Table.from_batches([batch for split in splits for batch in bronze.rows_of(split)]).to_pylist()
        assert (row["source"], row["group"]) == ("a", "g")


def test_a_partition_that_two_brokers_have_is_read_once(tmp_path):
    for broker, offsets in (("one", (0,)), ("two", (0, 3))):
        for offset in offsets:
            (tmp_path / broker).mkdir(exist_ok=True)
            write(tmp_path / broker, 1, COMMITS, first_offset=offset)
    write(tmp_path / "one", 4, COMMITS)
    inputs = parse_inputs([f"a={tmp_path / 'one'}", f"a={tmp_path / 'two'}", f"b={tmp_path / 'one'}"])
    found = [(split.source, split.partition, Path(split.where).parts[-3]) for split in bronze.plan(inputs, {})]
    assert found == [("a", 4, "one"), ("a", 1, "two"), ("a", 1, "two"), ("b", 1, "one"), ("b", 4, "one")]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    file = write(tmp_path, 1, COMMITS)
    inputs = parse_inputs([f"a={each}" for each in (tmp_path, file.parent, file, file)] + [f"b={file}"])
    assert [(split.source, split.where) for split in bronze.plan(inputs, {})] == [("a", str(file)), ("b", str(file))]


def test_segments_that_came_since_a_directory_was_named_are_read_too(tmp_path):
    write(tmp_path, 1, COMMITS)
    inputs = parse_inputs([f"a={tmp_path}"])
    write(tmp_path, 2, COMMITS)
    write(tmp_path, 1, COMMITS, first_offset=3)
    assert [(split.partition, Path(split.where).stem[-1]) for split in bronze.plan(inputs, {})] == [
        (1, "0"),
        (1, "3"),
        (2, "0"),
    ]
