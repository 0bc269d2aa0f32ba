"""The same bytes as others write: Kafka's own classes, kio and kafka-python read ours and write them again."""

from __future__ import annotations

import importlib
import io
import pkgutil
import subprocess
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from tests.properties.random_messages import Number, any_number, message_versions, random_message

from interop import jars
from kohort.wire import codec
from kohort.wire.message import Message
from kohort.wire.message_schemas import Field, snake
from kohort.wire.messages import ApiVersionsResponse

SEEDS = range(4)
KNOWN_ERRORS = (0, 3, 16, 25, 27, 79)

Rewrite = Callable[[bytes], bytes]
Peer = Callable[[type[Message], int], Rewrite | None]


def tame_number(field: Field, random: Random) -> int:
    """Return a number that a peer with enumerations, dates and durations takes too."""
    if field.name.endswith("error_code"):
        return random.choice(KNOWN_ERRORS)
    if field.element in ("i8", "u16"):
        return random.randint(0, 100)
    return random.randint(0, 30_000) if field.element == "i16" else random.randint(0, 1_700_000_000)


def message_for(cls: type[Message], version: int, seed: int, number: Number = any_number) -> Any:
    """Return a message without what is ours alone: a peer would skip it."""
    return random_message(cls, version, Random(f"{cls.__name__} v{version} {seed}"), number, is_extended=False)


@cache
def kafka_python_classes() -> dict[str, Any]:
    try:
        package = importlib.import_module("kafka.protocol")
        api_message = importlib.import_module("kafka.protocol.api_message").ApiMessage
    except ImportError:
        return {}
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
        if ".old" not in module.name and not module.name.endswith("generate_stubs"):
            found |= vars(importlib.import_module(module.name))
    return {name: cls for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, api_message)}


def kafka_python(cls: type[Message], version: int) -> Rewrite | None:
    theirs = kafka_python_classes().get(cls.__name__)
    if theirs is None or not theirs.min_version <= version <= theirs.max_version:
        return None

    def rewrite(blob: bytes) -> bytes:
        message = theirs.decode(blob, version=version)
        message._header, message._version = None, version
        return bytes(message.encode(version=version))

    return rewrite


def kio(cls: type[Message], version: int) -> Rewrite | None:
    name = cls.__name__
    kind = next((k for k in ("Request", "Response") if name.endswith(k)), "Data")
    module = f"kio.schema.{snake(name.removesuffix(kind))}.v{version}.{kind.lower()}"
    try:
        serial = importlib.import_module("kio.serial")
        theirs = getattr(importlib.import_module(module), name)
    except ImportError:
        return None
    read, write = serial.entity_reader(theirs), serial.entity_writer(theirs)

    def rewrite(blob: bytes) -> bytes:
        entity, size = read(blob, 0)
        assert size == len(blob), "all of it is read"
        stream = io.BytesIO()
        write(stream, entity)
        return stream.getvalue()

    return rewrite


@pytest.mark.parametrize("peer", [kio, kafka_python])
def test_a_peer_reads_our_bytes_and_writes_the_same(peer: Peer) -> None:
    compared, different = set(), []
    for cls, version in message_versions():
        rewrite = peer(cls, version)
        if rewrite is None:
            continue
        compared.add(cls.__name__)
        for seed in SEEDS:
            message = message_for(cls, version, seed, tame_number)
            if isinstance(message, ApiVersionsResponse) and peer is kafka_python:
                message.error_code = 0  # it reads every error as version 0
            blob = codec.encode(message, version)
            if (theirs := rewrite(blob)) != blob:
                different.append(f"{cls.__name__} v{version}, seed {seed}:\n  {blob.hex()}\n  {theirs.hex()}")
    if not compared:
        pytest.skip(f"{peer.__name__} is not installed")
    assert not different, "\n".join(different)
    assert len(compared) >= 60, compared


def test_kafka_reads_our_bytes_and_writes_the_same(java: str) -> None:
    """Every message in every version, with the extremes of every type, through the classes that Kafka ships."""
    lines, names = [], []
    for cls, version in message_versions():
        for seed in SEEDS:
            message = message_for(cls, version, seed)
            lines.append(f"{cls.__name__} {version} {codec.encode(message, version).hex()}")
            names.append(f"{cls.__name__} v{version}, seed {seed}")
    # The newest classes come first; what they need besides is in the broker's jars.
    path = f"{jars.compiled('Rewriter')}:{jars.class_path('schemas-pom.xml')}:{jars.class_path()}"
    done = subprocess.run(
        [java, "-cp", path, "Rewriter"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), done.stderr
    different = [
        f"{name}:\n  {line.rpartition(' ')[2]}\n  {answer}"
        for name, line, answer in zip(names, lines, answers, strict=True)
        if line.rpartition(" ")[2] != answer
    ]
    assert not different, f"{len(different)} of {len(lines)}\n" + "\n".join(different[:20])
