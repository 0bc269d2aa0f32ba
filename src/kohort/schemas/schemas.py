"""Deserializers for a `Consumer` and serializers for a `Producer`, by the schemas of a registry.

Values are in the format of Confluent's serializers: a zero byte and the schema's id in four bytes before the value, or
its GUID in a header, `__key_schema_id` or `__value_schema_id`. Schemas never change under their ids, so each is
requested once. The law: on an event loop nothing waits for the registry. A deserializer without a schema raises
`NotReady`, by which a consumer requests the schema in a thread; a serializer is complete when it is made.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

from kohort.client.errors import NotReady
from kohort.schemas.avro_schema import Avro, Enum, Fixed, Record, parse_avro
from kohort.schemas.avro_value import avro_bytes, avro_value, native_value
from kohort.schemas.registry import Reference, Registered, Registry, RegistrySettings, SchemaUnknown, registry_of

Strategy = Literal["topic", "record", "topic_record"]
Headers = Iterable[tuple[str, bytes | None]]
Which = Literal["key", "value"]

_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17
_MOST_DECODERS: Final = 1_000


class Schemas:
    """The schemas of a registry: its URL, several with commas, or settings by the names `schema.registry.…`."""

    def __init__(self, registry: str | Mapping[str, str] | Registry) -> None:
        self.registry = registry if isinstance(registry, Registry) else registry_of(RegistrySettings.parse(registry))

    def deserializer(
        self, reader: str | None = None, *, references: Iterable[str] = (), message: Any = None, as_json: bool = False
    ) -> SchemaDeserializer:
        """Return a `key_deserializer` or `value_deserializer`. Raises ValueError for a wrong schema.

        Avro becomes what its writer's schema describes, resolved to the schema `reader`, if there is one, which may use
        the types of the schemas `references`; JSON what JSON has. Protobuf needs the class `message` of the package
        `protobuf`. With `as_json` everything is what JSON can have: bytes are hex, times and decimals are texts.
        """
        avro = None if reader is None else parse_avro(reader, references, may_recur=True)
        return SchemaDeserializer(self.registry, avro, message, as_json=as_json)

    def serializer(
        self,
        topic: str | None = None,
        schema: str | None = None,
        *,
        kind: Literal["AVRO", "JSON"] = "AVRO",
        message: Any = None,
        references: Sequence[Reference] = (),
        subject: str | None = None,
        strategy: Strategy = "topic",
        which: Which = "value",
        is_registering: bool = True,
        id_in_header: bool = False,
    ) -> SchemaSerializer:
        """Return a `key_serializer` or `value_serializer`; it waits for the registry: in a coroutine use a thread.

        `schema` is a text of Avro or JSON Schema, `message` a class of the package `protobuf` instead. The subject is
        `subject`, or that of Confluent's TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy.
        `is_registering`: False only looks the schema up. With `id_in_header` values have no prefix: pass
        `headers=[serializer.header]` to `send`. Raises ValueError, SchemaUnknown, RegistryUnavailable.
        """
        encode: Callable[[Any], bytes]
        if message is not None:
            proto = message.DESCRIPTOR
            registered = Registered(-1, "PROTOBUF", b64encode(proto.file.serialized_pb).decode())
            name, prefix = proto.full_name, _message_indexes(proto)

            def encode(value: Any) -> bytes:
                if not isinstance(value, message):
                    raise ValueError(f"{value!r:.80} is no {name}")
                return prefix + bytes(value.SerializeToString())
        elif schema is None:
            raise ValueError("serializer() takes a schema, or message=, a class of protobuf")
        elif kind == "JSON":
            registered, name, encode = Registered(-1, kind, schema), str(json.loads(schema).get("title", "")), _json
        else:
            registered = Registered(-1, kind, schema)
            used = [self.registry.version(each.subject, each.version) for each in references]
            texts = [text for each in used for text in (*each.references, each.text)]
            avro = parse_avro(schema, dict.fromkeys(texts), may_recur=True)
            name = avro.name if isinstance(avro, Record | Enum | Fixed) else ""
            encode = partial(avro_bytes, avro)
        subject = subject or subject_name(topic, name, strategy, which)
        found = self.registry.register(subject, registered, references, is_new=is_registering)
        return SchemaSerializer(found, subject, encode, which, id_in_header=id_in_header)


def subject_name(topic: str | None, record: str, strategy: Strategy = "topic", which: Which = "value") -> str:
    """Return the subject of a topic's keys or values, or of a record, as Confluent's strategies name it.

    Raises ValueError where a part of the name is missing.
    """
    if (topic is None and strategy != "record") or (not record and strategy != "topic"):
        missing = "topic" if topic is None and strategy != "record" else "name of a record"
        raise ValueError(f"the subject by the strategy {strategy!r} needs a {missing}: pass it, or subject=")
    match strategy:
        case "topic":
            return f"{topic}-{which}"
        case "record":
            return record
        case "topic_record":
            return f"{topic}-{record}"
    raise ValueError(f"strategy={strategy!r}: expected topic, record or topic_record")


class SchemaSerializer:
    """Makes bytes of values by one schema, registered under `id` and `guid`; the guid is empty in older registries."""

    def __init__(
        self, found: Registered, subject: str, encode: Callable[[Any], bytes], which: Which, *, id_in_header: bool
    ) -> None:
        self.id = found.id
        self.guid = found.guid
        self.subject = subject
        self._encode = encode
        self._name = _header_name(which)
        self._prefix = b"" if id_in_header else b"\0" + found.id.to_bytes(4, "big")
        if id_in_header and not found.guid:
            raise ValueError("this schema registry has no GUIDs, which headers need: leave id_in_header away")

    @property
    def header(self) -> tuple[str, bytes]:
        """The header with the schema's GUID."""
        return self._name, b"\1" + UUID(self.guid).bytes

    def __call__(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises ValueError."""
        return self._prefix + self._encode(value)


class SchemaDeserializer:
    """Makes values of bytes by the schemas that they name. On an event loop it raises `NotReady` for a new one."""

    def __init__(self, registry: Registry, reader: Avro | None, message: Any, *, as_json: bool) -> None:
        self._registry = registry
        self._reader = reader
        self._message = message
        self._as_json = as_json
        self._decoders: dict[int | str, Callable[[bytes], Any]] = {}

    def __call__(self, content: bytes) -> Any:
        """Return the value of bytes that begin with a schema's id. Raises ValueError, SchemaUnknown, `NotReady`."""
        return self.of_record(content, (), "value")

    def of_record(self, content: bytes, headers: Headers, which: Which) -> Any:
        """Return a record's key or value, whose schema is named by its header or its first bytes. Raises the same."""
        schema, payload = schema_of(content, headers, which)
        if (decode := self._decoders.get(schema)) is None:
            if asyncio._get_running_loop() is not None:
                raise NotReady(f"schema {schema} of {self._registry}", partial(self._load, schema))
            decode = self._load(schema)
        return decode(payload)

    def _load(self, schema: int | str) -> Callable[[bytes], Any]:
        """Request a schema, and return what decodes by it. Raises SchemaUnknown, RegistryUnavailable."""
        try:
            decode = self._decoder(self._registry.schema(schema))
        except SchemaUnknown:
            raise
        except ValueError as error:
            decode = partial(_refuse, f"schema {schema} of {self._registry} cannot be used: {error}")
        while len(self._decoders) >= _MOST_DECODERS:
            del self._decoders[next(iter(self._decoders))]
        self._decoders[schema] = decode
        return decode

    def _decoder(self, found: Registered) -> Callable[[bytes], Any]:
        if found.kind == "JSON":
            return json.loads
        if found.kind == "AVRO":
            writer = parse_avro(found.text, found.references, may_recur=True)
            if self._as_json:
                return partial(avro_value, writer)
            return partial(native_value, writer, reader=self._reader)
        if self._message is None:
            raise ValueError(f"it is {found.kind}: pass message=, the class that protobuf generated")
        return partial(_protobuf, self._message)


def _refuse(text: str, _: bytes) -> Any:
    raise ValueError(text)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _header_name(which: Which) -> str:
    return f"__{which}_schema_id"


def schema_of(content: bytes, headers: Headers, which: Which) -> tuple[int | str, bytes]:
    """Return the id or GUID of a value's schema, and the value without it. Raises ValueError."""
    name = _header_name(which)
    for header, named in headers:
        if header != name or not named:
            continue
        if len(named) >= _GUID_BYTES and named[0] == 1:
            return str(UUID(bytes=bytes(named[1:_GUID_BYTES]))), content
        if len(named) >= _ID_BYTES and named[0] == 0:
            return int.from_bytes(named[1:_ID_BYTES], "big"), content
    if len(content) >= _ID_BYTES and content[0] == 0:
        return int.from_bytes(content[1:_ID_BYTES], "big"), content[_ID_BYTES:]
    if len(content) >= _GUID_BYTES and content[0] == 1:
        return str(UUID(bytes=bytes(content[1:_GUID_BYTES]))), content[_GUID_BYTES:]
    raise ValueError(
        f"{content[:20]!r} names no schema: it begins with no zero byte and id, and there is no header {name}"
    )


def _message_indexes(descriptor: Any) -> bytes:
    """Return which message of a file a value is, as Confluent's serializers write it: the first one is a zero byte."""
    indexes: list[int] = []
    while descriptor.containing_type is not None:
        indexes.append(descriptor.containing_type.nested_types.index(descriptor))
        descriptor = descriptor.containing_type
    indexes.append(list(descriptor.file.message_types_by_name.values()).index(descriptor))
    if indexes == [0]:
        return b"\0"
    return avro_bytes(_INDEXES, indexes[::-1])[:-1]  # both formats count in zigzag varints


_INDEXES: Final = parse_avro('{"type": "array", "items": "int"}')


def _protobuf(message: Any, content: bytes) -> Any:
    """Return a message, behind the indexes that name it. Raises ValueError."""
    wanted = _message_indexes(message.DESCRIPTOR)
    if not content.startswith((wanted, b"\2\0") if wanted == b"\0" else wanted):
        raise ValueError(f"the value is another message than {message.DESCRIPTOR.full_name}")
    start = 2 if wanted == b"\0" and content[:1] == b"\2" else len(wanted)
    try:
        return message.FromString(bytes(content[start:]))
    except Exception as error:
        raise ValueError(f"it is no {message.DESCRIPTOR.full_name}: {error}") from None
