"""Write src/kohort/wire/messages.pyi: the types of every message class, from the schemas."""

from __future__ import annotations

from pathlib import Path

from kohort.wire.message import default_of, nested_structs
from kohort.wire.message_schemas import Field, MessageSchema, Struct, schema, schema_texts

PAGE = Path(__file__).resolve().parents[1] / "src" / "kohort" / "wire" / "messages.pyi"

_HEAD = '''"""Kafka's messages. Made from wire/schema by `make gen`; do not edit.

Arrays are lists; a uuid is 16 bytes; `records` decode as a view and encode from any buffer or a list of buffers. A
tagged struct that was not sent is None. "from 3", "2 to 4" and "only 2" are versions: in all others the field is not
written, and has its default after reading.
"""

from kohort.wire.message import Message, Request, Response, Value

Records = bytes | bytearray | memoryview | list[bytes | bytearray | memoryview]'''

_PYTHON_TYPES = {
    "str": "str",
    "bytes": "bytes",
    "records": "memoryview",
    "uuid": "bytes",
    "bool": "bool",
    "f64": "float",
}


def render() -> str:
    """Return the whole file."""
    lines = [_HEAD]
    for name in schema_texts():
        lines += _message(schema(name))
    return "\n".join(lines) + "\n"


def _message(found: MessageSchema) -> list[str]:
    head = found.head
    base = "Message"
    if head.name.endswith("Request"):
        base = f"Request[{head.name.removesuffix('Request')}Response]"
    elif head.name.endswith("Response"):
        base = "Response"
    return ["", *_class(found.struct, base, "")]


def _class(struct: Struct, base: str, indent: str) -> list[str]:
    lines = [f"{indent}class {struct.name}({base}):"]
    inner = indent + "    "
    for nested in nested_structs(struct):
        lines += [*_class(nested, "Value", inner), ""]
    for field in struct.fields:
        note = _versions_note(field)
        lines.append(f"{inner}{field.name}: {_type_of(field)} = {_shown(field)}" + (f"  # {note}" if note else ""))
    if any(field.element == "records" for field in struct.fields):
        lines += _initializer(struct, inner)
    return lines


def _initializer(struct: Struct, indent: str) -> list[str]:
    """Spell out the initializer of a struct whose record batches may be given as more than they are read as."""
    lines = [f"{indent}def __init__(", f"{indent}    self,", f"{indent}    *,"]
    for field in struct.fields:
        given = _type_of(field).replace("memoryview", "Records")
        lines.append(f"{indent}    {field.name}: {given} = {_shown(field)},")
    return [*lines, f"{indent}) -> None: ..."]


def _shown(field: Field) -> str:
    default = default_of(field)
    return "..." if default.endswith(("[]", "()")) or field.element == "uuid" else default.replace("'", '"')


def _type_of(field: Field) -> str:
    element = field.element.name if isinstance(field.element, Struct) else _PYTHON_TYPES.get(field.element, "int")
    name = f"list[{element}]" if field.is_array else element
    is_optional = bool(field.nullable) or default_of(field) == "None"
    return f"{name} | None" if is_optional else name


def _versions_note(field: Field) -> str:
    lowest, highest = field.versions.lowest, field.versions.highest
    if highest < 0x7FFF:
        return f"{lowest} to {highest}" if lowest < highest else f"only {lowest}"
    return f"from {lowest}" if lowest else ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
