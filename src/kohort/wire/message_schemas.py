"""The schemas of Kafka's messages: the files of wire/schema, and their notation, which schema/README.md explains.

What comes out are frozen values: a headline, a struct, its fields with the versions in which they are present or
nullable. Files are read once; a message is parsed when first asked for. Nothing here knows bytes or Python classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from kohort import wire

FIXED = {"bool": "?", "i8": "b", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "f64": "d", "uuid": "16s"}
"""Types of one size, with their `struct` codes."""

SIZED = frozenset({"str", "bytes", "records"})
"""Types that begin with their length."""

Default = None | bool | int | float | str | bytes | tuple[()]

_TOKEN = re.compile(
    r"""\s*(?: (?P<word>[A-Za-z][A-Za-z0-9-]*)
             | =(?P<default>[^,}\s]*)
             | \#tag(?P<tag>\d+)
             | (?P<range>@\d+(?:-\d+|\+)? | \?(?:\(\d+(?:-\d+|\+)?\))?)
             | (?P<mark>[\[\]{},:])
             | (?P<end>$) )""",
    re.VERBOSE,
)
_HEADLINE = re.compile(
    r"(?P<name>\w+) v(?P<versions>[\d-]+) flex (?P<flexible>none|\d+\+)"
    r"(?: key (?P<key>\d+)| record (?P<record>\d+))?(?: unstable (?P<unstable>\d+))?$"
)


class SchemaError(ValueError):
    """A schema file does not follow the notation."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty where `highest < lowest`."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else str(self.lowest)


EVERY = Versions(0, 0x7FFF)
NONE = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: its class's name and its fields in the order of the wire."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `element` is the type of an array's entries, else the field's own: a type's name or a struct."""

    kafka_name: str
    name: str
    element: str | Struct
    is_array: bool = False
    versions: Versions = EVERY
    nullable: Versions = NONE
    tag: int | None = None
    default: Default = None
    is_classic: bool = False
    blank_is_null: bool = False
    is_extension: bool = False

    @property
    def json_name(self) -> str:
        """The field's name in JSON, as Kafka's tools print it: `TopicId` is `topicId`."""
        return self.kafka_name[0].lower() + self.kafka_name[1:]

    @property
    def is_fixed(self) -> bool:
        """Whether the field has one size whatever its value."""
        return not self.is_array and isinstance(self.element, str) and self.element in FIXED


@dataclass(frozen=True, slots=True)
class Headline:
    """The first line of a message. `unstable` is a version that must not be advertised, or None."""

    name: str
    versions: Versions
    flexible: Versions
    api_key: int | None
    record_type: int | None
    unstable: int | None


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """One message in all its versions."""

    head: Headline
    struct: Struct


def snake(kafka_name: str) -> str:
    """Return a field's Python name: `TopicIdPartition` is `topic_id_partition`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1\2", kafka_name).lower()


def split_messages(text: str) -> dict[str, str]:
    """Return the messages of one schema file, unparsed, by name."""
    messages: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            name = line.split(" ", 1)[0]
            messages[name] = line + "\n"
        elif name:
            messages[name] += line + "\n"
        else:
            raise SchemaError(f"fields before any headline: {line!r}")
    return messages


def parse_headline(line: str) -> Headline:
    """Parse a message's first line. Raises `SchemaError`."""
    match = _HEADLINE.match(line)
    if match is None:
        raise SchemaError(f"not a headline: {line!r}")
    parts = match.groupdict()
    versions = _versions(parts["versions"])
    flexible = NONE
    if parts["flexible"] != "none":
        first = _versions(parts["flexible"]).lowest
        flexible = Versions(max(first, versions.lowest), versions.highest)
    key, record, unstable = (None if parts[p] is None else int(parts[p]) for p in ("key", "record", "unstable"))
    return Headline(parts["name"], versions, flexible, key, record, unstable)


def parse_message(text: str) -> MessageSchema:
    """Parse one message as `split_messages` cuts it out. Raises `SchemaError`."""
    line, _, body = text.partition("\n")
    head = parse_headline(line)
    return MessageSchema(head, Struct(head.name, _Parser(head.name, body).fields(end="end")))


def _versions(text: str) -> Versions:
    """Read `3`, `3-5` or `3+`."""
    if text.endswith("+"):
        return Versions(int(text[:-1]), EVERY.highest)
    lowest, _, highest = text.partition("-")
    return Versions(int(lowest), int(highest or lowest))


class _Parser:
    """A recursive descent over one message's fields, one token ahead."""

    def __init__(self, message: str, text: str) -> None:
        self._message = message
        self._text = text.rstrip()
        self._at = 0
        self._kind = self._value = ""
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise SchemaError(f"{self._message}: cannot read {self._text[self._at : self._at + 40]!r}")
        self._at = match.end()
        self._kind = match.lastgroup or "end"
        self._value = match[self._kind]

    def _take(self, kind: str, value: str | None = None) -> str:
        if self._kind != kind or (value is not None and self._value != value):
            raise SchemaError(f"{self._message}: expected {value or kind}, found {self._value!r}")
        taken = self._value
        self._advance()
        return taken

    def _took(self, kind: str, value: str) -> bool:
        if self._kind == kind and self._value == value:
            self._advance()
            return True
        return False

    def fields(self, end: str) -> tuple[Field, ...]:
        """Read fields up to `}` or to the end of the text."""
        found: list[Field] = []
        while not (self._kind == "end" if end == "end" else self._took("mark", end)):
            if found:
                self._take("mark", ",")
            found.append(self._field())
        return tuple(found)

    def _field(self) -> Field:
        kafka_name = self._take("word")
        self._take("mark", ":")
        is_array = self._took("mark", "[")
        element = self._element()
        if is_array:
            self._take("mark", "]")
        versions, nullable, tag, default, words = EVERY, NONE, None, None, set()
        while True:
            if self._kind == "range" and self._value.startswith("@"):
                versions = _versions(self._take("range")[1:])
            elif self._kind == "range":
                mark = self._take("range")[1:].strip("()")
                nullable = _versions(mark) if mark else EVERY
            elif self._kind == "tag":
                tag = int(self._take("tag"))
            elif self._kind == "default":
                default = self._take("default")
            elif self._kind == "word":
                words.add(self._take("word"))
            else:
                break
        if not words <= {"classic", "blank-is-null", "extension"}:
            raise SchemaError(f"{self._message}.{kafka_name}: unknown marks {sorted(words)}")
        return Field(
            kafka_name=kafka_name,
            name=snake(kafka_name),
            element=element,
            is_array=is_array,
            versions=versions,
            nullable=nullable,
            tag=tag,
            default=_default(element, is_array, default),
            is_classic="classic" in words,
            blank_is_null="blank-is-null" in words,
            is_extension="extension" in words,
        )

    def _element(self) -> str | Struct:
        name = self._take("word")
        if self._took("mark", "{"):
            return Struct(name, self.fields(end="}"))
        if name not in FIXED and name not in SIZED:
            raise SchemaError(f"{self._message}: no type is called {name!r}")
        return name


def _default(element: str | Struct, is_array: bool, text: str | None) -> Default:
    """Return a field's default value; `()` stands for an empty list and for a struct of defaults."""
    if text == "null" or element == "records":
        return None
    if is_array or isinstance(element, Struct):
        return ()
    match element:
        case "str":
            return text or ""
        case "bytes":
            return b""
        case "uuid":
            return bytes(16)
        case "bool":
            return text == "true"
        case "f64":
            return float(text or 0)
        case _:
            return int(text or "0", 0)


_FILES = (
    "acls admin embedded group offsets offsets_topic records session share streams topics transaction_log transactions"
)
FILES = tuple(f"{name}.txt" for name in _FILES.split())


def _read(name: str) -> str:
    # Through the loader, so that a zip file serves as well; `importlib.resources` takes longer to import than to use.
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(f"{wire.__path__[0]}/schema/{name}")
    return content.decode().replace("\r\n", "\n")


@cache
def schema_texts() -> dict[str, str]:
    """Return every message's text in the notation, by name, in the order of the files. Raises `SchemaError`."""
    texts: dict[str, str] = {}
    for file_name in FILES:
        for name, text in split_messages(_read(file_name)).items():
            if name in texts:
                raise SchemaError(f"{name} is described twice")
            texts[name] = text
    return texts


@cache
def schema(name: str) -> MessageSchema:
    """Return the schema of one message. Raises `KeyError` for a name that no file describes."""
    return parse_message(schema_texts()[name])


@cache
def headlines() -> dict[str, Headline]:
    """Return every message's headline by name, without parsing its fields."""
    return {name: parse_headline(text.partition("\n")[0]) for name, text in schema_texts().items()}
