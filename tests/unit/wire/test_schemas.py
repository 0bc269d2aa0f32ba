"""The schema files: none is left out, and they are found wherever the package was imported from."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import kohort
from kohort.wire.primitives import COMPACT, SHORT, varint
from kohort.wire.schemas import FILES, schema, schema_texts

PACKAGE = Path(kohort.__file__).parent


def test_every_schema_file_is_read() -> None:
    assert sorted(path.name for path in (PACKAGE / "wire" / "schema").glob("*.txt")) == sorted(FILES)


def test_schemas_are_read_out_of_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "kohort.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in PACKAGE.rglob("*"):
            if path.suffix in (".py", ".txt"):
                target.write(path, path.relative_to(PACKAGE.parent))
    script = "import sys; sys.path.insert(0, sys.argv[1]); from kohort.wire import schemas; print(schemas.__file__)"
    command = [sys.executable, "-I", "-c", f"{script}; schemas.schema('FetchRequest')", str(archive)]
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
