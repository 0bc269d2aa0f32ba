"""The base of every message class, and how a class is made from a schema.

One class serves all versions of a message: it has every field of every version, each with Kafka's default, so a
handler reads and writes one shape and the codec drops or fills in what a version lacks. It knows nothing of bytes.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

from kohort.wire.message_schemas import NONE, Field, MessageSchema, Struct, Versions

ResponseT = TypeVar("ResponseT", covariant=True)

_SHOWN_BYTES = 24


@dataclass_transform(kw_only_default=True, eq_default=False)
class Value:
    """A struct on the wire: equal by its fields, shown without those that are empty or absent."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = [(name, getattr(self, name)) for name in self.__slots__]
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in fields if value or value == 0)
        return f"{type(self).__qualname__}({shown})"


class Message(Value):
    """A whole message. `API_KEY` is -1 and `RECORD_TYPE` is -1 where the message has none."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    RECORD_TYPE: ClassVar[int] = -1
    VERSIONS: ClassVar[Versions] = NONE
    FLEXIBLE: ClassVar[Versions] = NONE
    HAS_RECORDS: ClassVar[bool] = False
    SCHEMA: ClassVar[MessageSchema]
    # Compiled functions by version, set by `codec`: an attribute is found faster than a key of two parts.
    ENCODERS: ClassVar[dict[int, Callable[[Any, list[Any]], None]]]
    DECODERS: ClassVar[dict[int, Callable[..., tuple[Any, int]]]]


class Response(Message):
    """A response."""

    __slots__ = ()


class Request(Message, Generic[ResponseT]):
    """A request; the parameter is the class of its response."""

    __slots__ = ()


def message_class(schema: MessageSchema, module: str) -> type[Message]:
    """Make the class of one message, with the classes of its nested structs as attributes."""
    head = schema.head
    base: type[Message] = Message
    if head.name.endswith("Request"):
        base = Request
    elif head.name.endswith("Response"):
        base = Response
    constants = {
        "API_KEY": -1 if head.api_key is None else head.api_key,
        "RECORD_TYPE": -1 if head.record_type is None else head.record_type,
        "VERSIONS": head.versions,
        "FLEXIBLE": head.flexible,
        "HAS_RECORDS": has_records(schema.struct),
        "SCHEMA": schema,
        "ENCODERS": {},
        "DECODERS": {},
        "__doc__": f"Kafka's {head.name}, versions {head.versions}.",
    }
    return _struct_class(schema.struct, base, head.name, module, constants)


def nested_structs(struct: Struct) -> list[Struct]:
    """Return the structs that `struct` encloses directly, in the order of the wire."""
    return [field.element for field in struct.fields if isinstance(field.element, Struct)]


def has_records(struct: Struct) -> bool:
    """Whether a struct has record batches in it, at any depth."""
    if any(field.element == "records" for field in struct.fields):
        return True
    return any(has_records(nested) for nested in nested_structs(struct))


def default_of(field: Field) -> str:
    """Return a field's default as source: `[]` for an empty list, a class's name and `()` for a struct of defaults."""
    if field.default != ():
        return repr(field.default)
    if field.is_array:
        return "[]"
    assert isinstance(field.element, Struct), "only arrays and structs have the default ()"
    # A tagged struct is there or not: its defaults mean "not", and building them would cost every message. Where null
    # is a value of its own, the two stay apart, as in Kafka.
    return "None" if field.tag is not None and not field.nullable else f"{field.element.name}()"


def _struct_class(
    struct: Struct, base: type[Any], qualified_name: str, module: str, constants: dict[str, Any]
) -> type[Any]:
    nested = {
        inner.name: _struct_class(inner, Value, f"{qualified_name}.{inner.name}", module, {})
        for inner in nested_structs(struct)
    }
    namespace: dict[str, Any] = {
        "__slots__": tuple(field.name for field in struct.fields),
        "__init__": _initializer(struct, qualified_name, nested),
        "__module__": module,
        "__qualname__": qualified_name,
        **nested,
        **constants,
    }
    made: type[Any] = type(struct.name, (base,), namespace)
    return made


def _initializer(struct: Struct, qualified_name: str, nested: dict[str, type[Any]]) -> Any:
    parameters, body = [], []
    for field in struct.fields:
        default = default_of(field)
        if default.endswith(("[]", "()")):
            parameters.append(f"{field.name}=_absent")
            body.append(f"    self.{field.name} = {default} if {field.name} is _absent else {field.name}")
        else:
            parameters.append(f"{field.name}={default}")
            body.append(f"    self.{field.name} = {field.name}")
    signature = f", *, {', '.join(parameters)}" if parameters else ""
    source = f"def __init__(self{signature}):\n" + "\n".join(body or ["    pass"]) + "\n"
    namespace: dict[str, Any] = {"_absent": object(), **nested}
    execute(source, f"<kohort.wire {qualified_name}.__init__>", namespace)
    return namespace["__init__"]


def execute(source: str, file_name: str, namespace: dict[str, Any]) -> None:
    """Execute generated source in a namespace and show its lines in tracebacks and debuggers."""
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    exec(compile(source, file_name, "exec"), namespace)


def is_present(field: Field, version: int) -> bool:
    """Whether a field travels in a version."""
    return version in field.versions


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value[:_SHOWN_BYTES])
        return repr(raw) + (f"… {len(value)} bytes" if len(value) > _SHOWN_BYTES else "")
    return repr(value)
