"""The schemas: what a file may hold, what its marks mean, and that no file is left out wherever the package is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kohort
from kohort.wire.message_schemas import (
    FILES,
    NONE,
    SchemaError,
    Struct,
    Versions,
    parse_headline,
    parse_message,
    schema,
    schema_texts,
    snake,
    split_messages,
)
from kohort.wire.primitives import COMPACT, SHORT, varint

PACKAGE = Path(kohort.__file__).parent


def test_a_headline_names_versions_flexible_versions_and_key() -> None:
    head = parse_headline("JoinGroupRequest v0-9 flex 6+ key 11")
    assert (head.name, head.api_key, head.record_type) == ("JoinGroupRequest", 11, None)
    assert head.versions == Versions(0, 9)
    assert head.flexible == Versions(6, 9)


def test_a_message_of_one_version_that_is_never_flexible() -> None:
    head = parse_headline("OffsetCommitKey v0 flex none record 1")
    assert head.versions == Versions(0, 0)
    assert head.flexible == NONE
    assert head.record_type == 1


def test_flexible_versions_do_not_begin_before_the_lowest_version() -> None:
    assert parse_headline("WriteTxnMarkersRequest v1-2 flex 0+ key 27").flexible == Versions(1, 2)


def test_an_unstable_version_is_marked() -> None:
    assert parse_headline("InitProducerIdRequest v0-6 flex 2+ key 22 unstable 6").unstable == 6


def test_marks_of_a_field() -> None:
    found = parse_message("M v0-9 flex 6+\n  Name:str?(3+)@2-8=null, Epoch:i64#tag4@6+=-1, ClientId:str? classic")
    name, epoch, client_id = found.struct.fields
    assert (name.versions, name.nullable, name.default) == (Versions(2, 8), Versions(3, 0x7FFF), None)
    assert (epoch.tag, epoch.default, epoch.is_fixed) == (4, -1, True)
    assert client_id.is_classic
    assert 9 in client_id.nullable


def test_structs_nest_and_carry_the_names_of_their_classes() -> None:
    found = parse_message(
        "M v0 flex none\n  Topics:[Topic{Name:str,\n  Partitions:[i32]}]@0, Cursor:Cursor{At:i32}?=null"
    )
    topics, cursor = found.struct.fields
    assert isinstance(topics.element, Struct)
    assert topics.is_array
    assert [field.name for field in topics.element.fields] == ["name", "partitions"]
    assert isinstance(cursor.element, Struct)
    assert not cursor.is_array
    assert cursor.default is None


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("F:i32", 0),
        ("F:i32=0x7fffffff", 0x7FFFFFFF),
        ("F:bool=true", True),
        ("F:str", ""),
        ("F:str?=null", None),
        ("F:bytes", b""),
        ("F:records?", None),
        ("F:uuid", bytes(16)),
        ("F:f64", 0.0),
        ("F:[i32]", ()),
        ("F:[i32]?=null", None),
    ],
)
def test_a_field_without_a_default_has_its_type_s_own(text: str, default: object) -> None:
    (field,) = parse_message(f"M v0 flex none\n  {text}").struct.fields
    assert field.default == default
    assert type(field.default) is type(default)


@pytest.mark.parametrize(
    ("kafka_name", "name"),
    [
        ("GroupId", "group_id"),
        ("timeoutMs", "timeout_ms"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("Enable2Pc", "enable2_pc"),
        ("ResultsByTopicV3AndBelow", "results_by_topic_v3_and_below"),
    ],
)
def test_fields_are_named_in_snake_case(kafka_name: str, name: str) -> None:
    assert snake(kafka_name) == name


def test_comments_and_blank_lines_mean_nothing() -> None:
    texts = split_messages("# about A\n\nA v0 flex none\n  # a field\n  X:i8\n\nB v0 flex none\n")
    assert list(texts) == ["A", "B"]
    assert [field.name for field in parse_message(texts["A"]).struct.fields] == ["x"]
    assert parse_message(texts["B"]).struct.fields == ()


@pytest.mark.parametrize(
    "text",
    [
        "M v0\n  X:i8",
        "M v0 flex none\n  X:i128",
        "M v0 flex none\n  X:[i8",
        "M v0 flex none\n  X:S{Y:i8",
        "M v0 flex none\n  X:i8 Y:i8",
        "M v0 flex none\n  X:i8 sometimes",
        "M v0 flex none\n  X:i8, ,",
        "M v0 flex none\n  X:i8;",
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_message(text)


def test_fields_before_any_headline_are_refused() -> None:
    with pytest.raises(SchemaError, match="before any headline"):
        split_messages("  X:i8\n")


def test_a_range_of_versions_includes_both_ends() -> None:
    versions = Versions(2, 4)
    assert [version in versions for version in range(1, 6)] == [False, True, True, True, False]
    assert list(versions) == [2, 3, 4]
    assert (str(versions), str(Versions(3, 3))) == ("2-4", "3")
    assert not NONE


def test_every_schema_file_is_read() -> None:
    assert sorted(path.name for path in (PACKAGE / "wire" / "schema").glob("*.txt")) == sorted(FILES)


def test_schemas_are_read_out_of_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "kohort.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in PACKAGE.rglob("*"):
            if path.suffix in (".py", ".txt"):
                target.write(path, path.relative_to(PACKAGE.parent))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kohort.wire.message_schemas as made; print(made.__file__)"
    )
    command = [sys.executable, "-I", "-c", f"{script}; made.schema('FetchRequest')", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(str(archive))


def test_our_own_fields_are_tagged_far_from_kafkas_and_in_flexible_versions_only() -> None:
    ours = [(schema(name).head, field) for name in schema_texts() for field in schema(name).struct.fields]
    extensions = {f"{head.name}.{field.kafka_name}": (head, field) for head, field in ours if field.is_extension}
    assert sorted(extensions) == [
        "ConsumerGroupCurrentMemberAssignmentValue.ClassicPhase",
        "ConsumerGroupHeartbeatRequest.AcceptableRecoveryLag",
        "ConsumerGroupHeartbeatRequest.Reason",
        "ConsumerGroupHeartbeatRequest.StandbyLags",
        "ConsumerGroupMemberMetadataValue.AcceptableRecoveryLag",
        "ConsumerGroupMemberMetadataValue.StandbyLags",
        "GroupMetadataValue.awaitsSync",
        "SyncGroupRequest.AssignmentError",
        "SyncGroupResponse.ErrorMessage",
    ]
    for head, field in extensions.values():
        assert field.tag is not None
        assert field.tag >= 27500
        assert all(version in head.flexible for version in head.versions if version in field.versions)


def test_compact_lengths_in_the_table_are_varints_of_one_more() -> None:
    assert len(COMPACT) == SHORT
    assert list(COMPACT) == [varint(length + 1) for length in range(SHORT)]
