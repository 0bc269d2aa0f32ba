"""`kohort produce` and `kohort consume` on a running broker: what goes in comes out, and is committed."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.integration.commands import Commands, json_lines

from kohort.schemas import Schemas
from kohort.sync import Producer
from kohort.testing import SchemaRegistry

ALL = ("--from-beginning", "--timeout-ms", "300")


def sent(kohort: Commands, topic: str, *values: str, partitions: int = 1) -> None:
    kohort("topics", "create", topic, "--partitions", str(partitions))
    outcome = kohort("produce", topic, stdin="".join(f"{value}\n" for value in values).encode())
    assert outcome.status == 0
    assert outcome.err.startswith(f"kohort: {len(values):,} record")


def test_lines_come_back_byte_for_byte(kohort: Commands) -> None:
    kohort("topics", "create", "lines")
    text = "één\n\n two words \nlast without a line end".encode()
    assert kohort("produce", "lines", stdin=text).err.startswith("kohort: 4 records sent to lines in ")
    assert kohort("consume", "lines", *ALL).out.encode() == text + b"\n"


def test_no_lines_are_no_records(kohort: Commands) -> None:
    kohort("topics", "create", "nothing")
    outcome = kohort("produce", "nothing")
    assert (outcome.status, outcome.err[:25]) == (0, "kohort: 0 records sent to")
    assert kohort("consume", "nothing", *ALL).out == ""


@pytest.mark.parametrize("words", [("produce", "named"), ("consume", "named", *ALL)], ids=["produce", "consume"])
def test_every_connection_has_the_given_client_id(kohort: Commands, words: tuple[str, ...]) -> None:
    kohort("topics", "create", "named")
    with recorded_connections(kohort.address) as (address, sent_bytes):
        outcome = kohort(*words, "--client-id", "loader", "--bootstrap-server", address)
    assert outcome.status == 0, outcome.err
    assert len(sent_bytes) > 1
    assert all(b"loader" in each for each in sent_bytes)


@contextmanager
def recorded_connections(broker: str) -> Iterator[tuple[str, list[bytearray]]]:
    """A port in front of a broker, and the bytes that each of its clients has sent."""
    sent_bytes: list[bytearray] = []

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, kept: bytearray) -> None:
        while read := await source.read(1 << 16):
            kept += read
            to.write(read)
        to.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent_bytes.append(bytearray())
        host, _, port = broker.rpartition(":")
        answers, requests = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, requests, sent_bytes[-1]), copy(answers, writer, bytearray()))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(pass_on, "127.0.0.1", 0), loop).result()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", sent_bytes
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_keys_choose_partitions_and_a_format_shows_them(kohort: Commands) -> None:
    kohort("topics", "create", "keyed", "--partitions", "3")
    kohort("produce", "keyed", "--key-separator", "::", stdin=b"a::1\nb::2\na::3\n")
    lines = kohort("consume", "keyed", *ALL, "--format", r"{key}\t{value}\t{partition}\t{offset}").rows
    by_key = {key: [row for row in lines if row[0] == key] for key in "ab"}
    assert [row[1] for row in by_key["a"]] == ["1", "3"]
    assert len({row[2] for row in by_key["a"]}) == 1


def test_json_carries_every_field_there_and_back(kohort: Commands) -> None:
    kohort("topics", "create", "source", "--partitions", "2")
    kohort("topics", "create", "copy", "--partitions", "2")
    records: list[dict[str, Any]] = [
        {"key": "k", "value": "é", "headers": {"h": "1"}, "partition": 1, "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/wA="}, "value": None, "headers": [["h", None], ["h", {"base64": "gA=="}]], "partition": 0},
        {"value": {"nested": [1, None]}, "partition": 1},
    ]
    assert kohort("produce", "source", "--json", stdin=json_lines(records)).status == 0
    consumed = kohort("consume", "source", *ALL, "--json").out
    assert kohort("produce", "copy", "--json", stdin=consumed.encode()).status == 0
    copied = kohort("consume", "copy", *ALL, "--json").out

    def by_place(lines: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) | {"topic": ""} for line in lines.splitlines()]
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    tombstone, first, nested = by_place(consumed)
    assert by_place(copied) == [tombstone, first, nested]
    assert (first["key"], first["value"], first["headers"], first["timestamp"]) == (
        "k",
        "é",
        [["h", "1"]],
        1_700_000_000_000,
    )
    assert (tombstone["key"], tombstone["value"]) == ({"base64": "/wA="}, None)
    assert tombstone["headers"] == [["h", None], ["h", {"base64": "gA=="}]]
    assert nested["value"] == '{"nested":[1,null]}'


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_comes_back(kohort: Commands, codec: str) -> None:
    kohort("topics", "create", f"in-{codec}")
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    assert kohort("produce", f"in-{codec}", "--compression", codec, stdin=lines).status == 0
    assert kohort("consume", f"in-{codec}", "--from-beginning", "--max", "1000").out.encode() == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_delivers(kohort: Commands, acks: str) -> None:
    kohort("topics", "create", f"acks-{acks}")
    assert kohort("produce", f"acks-{acks}", "--acks", acks, stdin=b"a\nb\n").status == 0
    assert kohort("consume", f"acks-{acks}", "--from-beginning", "--max", "2").out == "a\nb\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{", "line 2 of stdin is no record: it is no JSON"),
        (b'{"value": "x", "partition": 7}', "line 2 of stdin cannot be sent: topic 'strict' has partitions 0 to 0"),
        (b'{"value": "' + b"x" * 1_100_000 + b'"}', "line 2 of stdin cannot be sent: a record of 1100"),
    ],
    ids=["no json", "no such partition", "too large"],
)
def test_a_line_that_cannot_be_sent_is_named_and_those_before_it_are_sent(
    kohort: Commands, line: bytes, sentence: str
) -> None:
    kohort("topics", "create", "strict")
    outcome = kohort("produce", "strict", "--json", stdin=b'{"value": "good"}\n' + line + b'\n{"value": "after"}\n')
    assert outcome.status == 2
    assert outcome.err.splitlines()[0].startswith("kohort: 1 record sent to strict in ")
    assert sentence in outcome.err.splitlines()[1]
    assert "after" not in kohort("consume", "strict", *ALL).out


def test_a_group_goes_on_exactly_after_the_last_line_that_was_written(kohort: Commands) -> None:
    sent(kohort, "resumed", *map(str, range(10)))
    read = ("consume", "resumed", "--group", "resumers", "--from-beginning")
    assert kohort(*read, "--max", "3").out == "0\n1\n2\n"
    assert kohort(*read, "--max", "4").out == "3\n4\n5\n6\n"
    assert kohort(*read, "--timeout-ms", "300").out == "7\n8\n9\n"
    assert kohort(*read, "--timeout-ms", "300").out == ""


def test_several_topics_are_read_together(kohort: Commands) -> None:
    sent(kohort, "left", "l")
    sent(kohort, "right", "r", partitions=2)
    assert sorted(kohort("consume", "left", "right", *ALL).out.split()) == ["l", "r"]


def test_a_consumer_without_options_sees_only_what_comes_after_it(kohort: Commands) -> None:
    sent(kohort, "quiet", "before")
    assert kohort("consume", "quiet", "--timeout-ms", "300").out == ""


def test_a_closed_pipe_ends_consume_without_an_error_and_commits_no_unread_record(kohort: Commands) -> None:
    sent(kohort, "piped", *["x" * 1000] * 3000)
    process = kohort.start("consume", "piped", "--from-beginning", "--group", "pipers")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"x" * 1000 + b"\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 0
    offsets = kohort("groups", "describe", "pipers", "--json").json["offsets"]
    assert all(row["committed"] is None or row["committed"] < 3000 for row in offsets)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_member_cleanly_with_what_it_wrote_committed(kohort: Commands, stop: signal.Signals) -> None:
    topic = f"signalled-{stop.value}"
    sent(kohort, topic, "a", "b")
    process = kohort.start("consume", topic, "--from-beginning", "--group", topic)
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == [b"a\n", b"b\n"]
    process.send_signal(stop)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")
    group = kohort("groups", "describe", topic, "--json").json
    assert (group["members"], group["offsets"][0]["committed"]) == ([], 2)


def test_a_signal_ends_produce_with_what_was_read_sent(kohort: Commands) -> None:
    kohort("topics", "create", "typed")
    process = kohort.start("produce", "typed")
    reader = kohort.start("consume", "typed", "--from-beginning", "--max", "2")
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\n")
    process.stdin.flush()
    assert reader.communicate(timeout=30)[0] == b"one\ntwo\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err[:30]) == (0, b"kohort: 2 records sent to type")


def test_head_ends_a_consumer_of_an_idle_topic(kohort: Commands) -> None:
    sent(kohort, "idle", "a", "b")
    process = kohort.start("consume", "idle", "--from-beginning")
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"
    process.stdout.close()
    assert process.wait(20) == 0


def test_a_full_device_is_named_and_not_the_broker(kohort: Commands) -> None:
    sent(kohort, "poured", "a")
    with Path("/dev/full").open("wb") as full:
        process = kohort.start("consume", "poured", "--from-beginning", stdout=full)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, b"kohort: cannot write to stdout: No space left on device\n")


def test_options_give_records_their_key_headers_and_partition(kohort: Commands) -> None:
    kohort("topics", "create", "given", "--partitions", "3")
    options = ("--key", "k", "--header", "a=1", "--header", "empty", "--partition", "2")
    assert kohort("produce", "given", *options, stdin=b"x\n").status == 0
    assert kohort("produce", "given", "--json", *options, stdin=b'{"key": "own", "partition": 0}\n').status == 0
    rows = [json.loads(line) for line in kohort("consume", "given", *ALL, "--json").out.splitlines()]
    (own, given) = sorted(rows, key=lambda row: row["partition"])
    assert (given["partition"], given["key"], given["headers"]) == (2, "k", [["a", "1"], ["empty", None]])
    assert (own["partition"], own["key"]) == (0, "own")
    refused = kohort("produce", "given", "--partition", "3", stdin=b"x\n")
    assert (refused.status, refused.err) == (2, "kohort: topic 'given' has partitions 0 to 2, and no 3\n")


def test_consume_starts_at_an_offset_or_a_time_of_chosen_partitions(kohort: Commands) -> None:
    kohort("topics", "create", "placed", "--partitions", "2")
    records = [{"value": f"{p}-{n}", "partition": p, "timestamp": 1_000 * (n + 1)} for p in (0, 1) for n in range(5)]
    kohort("produce", "placed", "--json", stdin=json_lines(records))

    def read(*options: str) -> list[str]:
        return sorted(kohort("consume", "placed", "--timeout-ms", "300", *options).out.split())

    assert read("--partition", "1", "--offset", "3") == ["1-3", "1-4"]
    assert read("--offset", "-1") == ["0-4", "1-4"]
    assert read("--partition", "0", "--from-beginning", "--max", "2") == ["0-0", "0-1"]
    assert read("--offset", "latest") == []
    assert read("--timestamp", "1970-01-01T00:00:04Z") == ["0-3", "0-4", "1-3", "1-4"]
    far = kohort("consume", "placed", "--partition", "0", "--offset", "99", "--timeout-ms", "300")
    assert (far.out, far.err) == ("", "kohort: placed-0 has offsets 0 to 4: starting at 5, not 99\n")
    for wrong in (("--partition", "2"), ("--offset", "0", "--group", "g"), ("--offset", "0", "--from-beginning")):
        assert kohort("consume", "placed", *wrong).status == 2


def test_a_hundred_thousand_lines_are_all_there(kohort: Commands) -> None:
    kohort("topics", "create", "many", "--partitions", "4")
    lines = [b"%06d" % number for number in range(100_000)]
    assert kohort("produce", "many", stdin=b"\n".join(lines)).err.startswith("kohort: 100,000 records sent to many in ")
    out = kohort("consume", "many", "--from-beginning", "--max", "100000").out.encode()
    assert sorted(out.split()) == lines


def test_records_are_read_by_the_schemas_of_a_registry(kohort: Commands) -> None:
    pytest.importorskip("urllib3")
    schema = '{"type": "record", "name": "R", "fields": [{"name": "at", "type": DATE}]}'.replace(
        "DATE", '{"type": "int", "logicalType": "date"}'
    )
    with SchemaRegistry() as registry:
        serializer = Schemas(registry.url).serializer("typed-values", schema)
        kohort("topics", "create", "typed-values", "--partitions", "1")
        with Producer(kohort.address) as producer:
            for value in (
                serializer({"at": date(2026, 1, 31)}),
                b"plain",
                b"\0\0\0\0\x63?",
                serializer({"at": date(1970, 1, 1)}),
            ):
                producer.send("typed-values", value, key=b"k")
        read = ("consume", "typed-values", "--from-beginning", "--max", "4", "--schema-registry", registry.url)
        outcome = kohort(*read)
        assert outcome.out.split("\n")[:2] == ['{"at":"2026-01-31"}', "plain"]
        assert outcome.out.endswith('\n{"at":"1970-01-01"}\n')
        assert "records are written as they are: " in outcome.err
        assert "has no schema with the id 99" in outcome.err
        row = json.loads(kohort(*read, "--json").out.splitlines()[0])
        assert (row["key"], row["value"]) == ("k", {"at": "2026-01-31"})
