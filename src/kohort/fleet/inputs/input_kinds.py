"""Kinds of inputs: parses `[NAME=]WHERE` and detects the kind of files by their first bytes.

WHERE is a file, a directory, or the addresses of a cluster. NAME is the source of the rows; its default is the
cluster's id where that is known, else the name of the file or directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kohort.client.arguments import bootstrap_addresses
from kohort.fleet.inputs import segment_files
from kohort.fleet.inputs.cluster_input import cluster_name
from kohort.fleet.inputs.input_splits import Input, Kind, WrongInput
from kohort.fleet.inputs.text_files import opened

_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)=(.+)$", re.DOTALL)
_HEAD_BYTES: Final = 4096

_LOOKS: Final[tuple[tuple[Kind, re.Pattern[bytes]], ...]] = (
    ("dump", re.compile(rb"(Dumping |Log starting offset: |Snapshot end offset: |baseOffset: \d)")),
    ("export", re.compile(rb'\{"partition": ?-?\d')),
    ("metrics", re.compile(rb"(# (HELP|TYPE) \w|[a-zA-Z_:][\w:]*(\{[^\n]*\})? [-+\d.NI][^\n]*\n)")),
    ("metrics", re.compile(rb'\{\s*"(at_ms|metrics|client_id)"')),
    ("broker_log", re.compile(rb"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3}")),
)  # fmt: skip


def parse_inputs(given: Iterable[str], properties: Mapping[str, str] | None = None) -> list[Input]:
    """Return the inputs that the texts name; `properties` are the security settings of clusters.

    Raises WrongInput when one is neither a file nor a directory nor addresses, or has nothing readable in it, and
    KafkaError when a cluster without a NAME does not answer with its id.
    """
    found: list[Input] = []
    for text in given:
        found += _parse(text, properties or {})
    if not found:
        raise WrongInput("nothing to read: name a cluster (HOST:PORT), a data directory, segment files or a dump")
    return found


def _parse(text: str, properties: Mapping[str, str]) -> Iterator[Input]:
    name, where = "", text
    if not (text and Path(text).exists()) and (named := _NAMED.match(text)):
        name, where = named[1], named[2]
    path = Path(where).absolute()  # executors may work in another directory
    if not where or not path.exists():
        yield _cluster(where, name, properties)
    elif path.is_dir():
        yield from _in_directory(path, name)
    else:
        yield _file(path, name)


def _cluster(where: str, name: str, properties: Mapping[str, str]) -> Input:
    try:
        addresses = bootstrap_addresses(where)
    except ValueError:
        addresses = []
    if not addresses or "/" in where or not re.search(r":\d+$", where):
        raise WrongInput(f"{where!r} is no file, no directory, and no cluster's addresses (HOST:PORT[,HOST:PORT])")
    return Input("cluster", name or cluster_name(where, properties), (where,), dict(properties))


def _in_directory(path: Path, name: str) -> Iterator[Input]:
    source = name or segment_files.cluster_id(path) or path.resolve().name
    folders = segment_files.partition_folders(path)
    if any(segment_files.segment_files(folder) for folder in folders):
        yield Input("segment", source, (str(path),))
        return
    if folders:
        raise WrongInput(f"{path} has directories of __consumer_offsets and no segment file in any of them")
    by_kind: dict[Kind, list[str]] = {}
    for file in sorted(path.iterdir()):
        if file.is_file() and file.stat().st_size:
            kind = kind_of(file)
            if kind != "segment" or file.suffix == ".log":
                by_kind.setdefault(kind, []).append(str(file))
    if not by_kind:
        raise WrongInput(f"{path} has neither directories __consumer_offsets-N nor files that can be read")
    for kind, files in by_kind.items():
        yield Input(kind, source, tuple(files))


def _file(path: Path, name: str) -> Input:
    kind = kind_of(path)
    source = name or (segment_files.cluster_id(path.parent) if kind == "segment" else None) or _stem(path)
    return Input(kind, source, (str(path),))


def _stem(path: Path) -> str:
    """Return a name for a file's rows: its own, or for a segment, which has an offset for a name, its directory's."""
    plain = path.name.removesuffix(".gz")
    plain = plain.rpartition(".")[0] or plain
    return path.resolve().parent.name if plain.isdigit() else plain


def kind_of(path: Path) -> Kind:
    """Return the kind of a file by its first bytes; a segment where no text format matches."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, EOFError) as error:
        raise WrongInput(f"{path} cannot be read: {error}") from None
    head = head.lstrip()
    return next((kind for kind, look in _LOOKS if look.match(head)), "segment")
