"""Avro decoded to Arrow: the same values as fastavro reads, and no bytes that raise."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
pytest.importorskip("fastavro")

import fastavro
import numpy as np
import pyarrow as pa

from kohort.schemas.avro_schema import parse_avro
from kohort.spark.schemas.avro_decoder import AvroReader

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """Draw a schema whose values look the same from fastavro and from Arrow."""
    kinds = ["plain", *(["record", "array", "nullable"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "record":
            fields = draw(st.lists(schemas(depth - 1), min_size=1, max_size=4))
            return {
                "type": "record",
                "name": "R",
                "fields": [{"name": f"f{number}", "type": each} for number, each in enumerate(fields)],
            }
        case "array":
            return {"type": "array", "items": draw(schemas(depth - 1))}
        case "nullable":
            inner = draw(schemas(depth - 1).filter(lambda each: not isinstance(each, list)))
            return draw(st.sampled_from([["null", inner], [inner, "null"]]))
    return draw(st.sampled_from(sorted(PLAIN)))


def root(kind: Any) -> Any:
    """Return a record with a field of this type; each record in it gets a name of its own."""
    numbers = itertools.count()

    def named(each: Any) -> Any:
        if isinstance(each, list):
            return [named(branch) for branch in each]
        if not isinstance(each, dict):
            return each
        if each["type"] == "array":
            return {"type": "array", "items": named(each["items"])}
        fields = [{"name": field["name"], "type": named(field["type"])} for field in each["fields"]]
        return {"type": "record", "name": f"R{next(numbers)}", "fields": fields}

    return named({"type": "record", "name": "Root", "fields": [{"name": "x", "type": kind}]})


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, str):
        return st.none() if schema == "null" else PLAIN[schema]
    if isinstance(schema, list):
        return st.one_of(*map(values, schema))
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=4)
    return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})


def decode(schema: Any, contents: list[bytes]) -> tuple[pa.Array, dict[int, str]]:
    parsed = parse_avro(json.dumps(schema))
    found, wrong = (
        AvroReader(parsed).decoder(parsed).decode(pa.array(contents, pa.binary()), np.arange(len(contents)), 0)
    )
    found.validate(full=True)
    return found, wrong


@settings(deadline=None)  # the first call loads the compiled code
@given(st.data())
def test_values_are_those_that_fastavro_reads(data: st.DataObject) -> None:
    schema = root(data.draw(schemas()))
    rows = data.draw(st.lists(values(schema), max_size=6))
    parsed = fastavro.parse_schema(schema)
    contents = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        contents.append(out.getvalue())
    found, wrong = decode(schema, contents)
    assert wrong == {}
    assert found.to_pylist() == [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in contents]


@settings(deadline=None)  # the first call loads the compiled code
@given(schemas(), st.lists(st.binary(max_size=40), min_size=1, max_size=8))
def test_any_bytes_are_values_or_bad_records(kind: Any, contents: list[bytes]) -> None:
    schema = root(kind)
    found, wrong = decode(schema, contents)
    assert len(found) == len(contents)
    assert [place for place, row in enumerate(found.to_pylist()) if row is None] == sorted(wrong)


@settings(deadline=None)  # the first call loads the compiled code
@given(st.data())
def test_a_value_that_is_cut_off_is_a_bad_record(data: st.DataObject) -> None:
    schema = root(data.draw(schemas()))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), data.draw(values(schema)))
    content = out.getvalue()
    contents = [content, *(content[:length] for length in range(len(content))), content]
    found, wrong = decode(schema, contents)
    assert sorted(wrong) == list(range(1, len(contents) - 1))
    assert found[0].equals(found[len(contents) - 1])
