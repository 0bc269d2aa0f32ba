from __future__ import annotations

import json

import pytest

from kohort import Record
from kohort.cli.terminal.record_lines import (
    NotARecord,
    Outgoing,
    as_format,
    as_json,
    as_value,
    iso_time,
    json_line,
    keyed_line,
    raw_line,
)

CONSUMED = Record("flights", 3, 7, 1_700_000_000_123, b"k", b"v")


def test_a_raw_line_is_a_value_without_a_key() -> None:
    assert raw_line(b"a:b") == Outgoing(None, b"a:b")


def test_a_keyed_line_is_split_at_the_first_separator() -> None:
    assert keyed_line(b":")(b"N1:a:b") == Outgoing(b"N1", b"a:b")


def test_a_keyed_line_without_its_separator_is_refused() -> None:
    with pytest.raises(NotARecord, match="no '::' between key and value"):
        keyed_line(b"::")(b"key:value")


def test_a_json_line_carries_every_field_of_a_record() -> None:
    line = b'{"key": "a", "value": "\\u00e9", "headers": {"h": "x", "n": null}, "partition": 2, "timestamp": 5}'
    assert json_line(line) == Outgoing(b"a", "é".encode(), (("h", b"x"), ("n", None)), 2, 5)


def test_a_json_value_that_is_no_text_is_sent_as_compact_json() -> None:
    assert json_line(b'{"value": {"a": [1, 2]}}').value == b'{"a":[1,2]}'


def test_a_null_value_is_a_tombstone_and_an_absent_key_is_null() -> None:
    assert json_line(b'{"key": "a", "value": null}') == Outgoing(b"a", None)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON: maximum recursion depth"),
        (b"[1]", "a record is a JSON object"),
        (b'{"vlaue": 1}', "the field 'vlaue' is none of headers, key, partition, timestamp, value"),
        (b'{"partition": -1}', "'partition' is a whole number from 0 on"),
        (b'{"partition": true}', "'partition' is a whole number"),
        (b'{"timestamp": "now"}', "'timestamp' is a whole number"),
        (b'{"headers": [["a"]]}', "'headers' is an object"),
        (b'{"headers": "a"}', "'headers' is an object"),
        (b'{"value": {"base64": "?"}}', "'value' is no valid base64"),
    ],
)
def test_a_json_line_that_is_no_record_says_why(line: bytes, sentence: str) -> None:
    with pytest.raises(NotARecord, match=sentence.replace("[", r"\[")):
        json_line(line)


def test_what_consume_prints_as_json_produce_reads_back_byte_for_byte() -> None:
    record = CONSUMED._replace(key=b"\xff\x00", value="é\n".encode(), headers=(("h", b"\x80"), ("h", None)))
    read = json_line(as_json(record))
    assert read == Outgoing(b"\xff\x00", "é\n".encode(), (("h", b"\x80"), ("h", None)), 3, 1_700_000_000_123)


def test_a_record_that_had_no_timestamp_gets_one_when_it_is_sent_again() -> None:
    assert json_line(as_json(CONSUMED._replace(timestamp_ms=-1))).timestamp_ms is None


def test_a_consumed_record_as_json_has_its_documented_fields_in_order() -> None:
    assert list(json.loads(as_json(CONSUMED))) == [
        "topic", "partition", "offset", "timestamp", "key", "value", "headers",
    ]  # fmt: skip


def test_the_plain_form_is_the_value_byte_for_byte() -> None:
    assert as_value(CONSUMED._replace(value=b"\xff\xfe")) == b"\xff\xfe\n"
    assert as_value(CONSUMED._replace(value=None)) == b"\n"


def test_a_format_places_fields_and_keeps_bytes_that_are_no_text() -> None:
    write = as_format(r"{topic}-{partition}\t{offset}\t{key}={value}\t{headers}")
    record = CONSUMED._replace(value=b"\xff", headers=(("a", b"1"), ("b", None)))
    assert write(record) == b"flights-3\t7\tk=\xff\ta=1,b=\n"


def test_a_format_shows_time_as_iso() -> None:
    assert as_format("{time}")(CONSUMED) == b"2023-11-14T22:13:20.123Z\n"
    assert iso_time(-1) == "-"


@pytest.mark.parametrize("template", ["{valeu}", "{}", "{0}", "{value", "{value.__class__}", "{key:d}"])
def test_a_format_that_cannot_work_is_refused_before_anything_is_read(template: str) -> None:
    with pytest.raises(ValueError, match="format"):
        as_format(template)
