"""Compiles functions from a message's bytes to its JSON: the codec's decoder with another output.

What is read becomes local names, and each struct, once it is read, a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

from kohort.wire.decoder_source import DecoderSource
from kohort.wire.message import Message, default_of, execute, is_present
from kohort.wire.message_schemas import Field, Struct

JsonWriter = Callable[[bytes, int], tuple[str, int]]
"""From bytes and a position in them to JSON and the position behind it. Raises MalformedMessage."""


class JsonOutput:
    """Makes JSON of the values that are read.

    The names of the source include `show_id` and `show_bytes`, from bytes to JSON, and what `of_bytes` uses: JSON of
    fields of bytes by their names, as source, where `{value}` is what was read and `{message}` begins the names of the
    message's own fields. That source has no single quotes: it stands between them.
    """

    def __init__(self, of_bytes: Mapping[str, str]) -> None:
        self._of_bytes = of_bytes
        self._outermost = ""

    def begin(self, source: DecoderSource, owner: str, path: str, cls: type[Any]) -> None:  # noqa: ARG002
        self._outermost = self._outermost or owner

    def target(self, owner: str, field: Field) -> str:
        return f"{owner}_{field.name}"

    def absent(self, source: DecoderSource, owner: str, field: Field, cls: type[Any]) -> None:
        """A field that the version lacks is not shown."""

    def default(self, source: DecoderSource, field: Field, target: str, cls: type[Any]) -> None:
        default = default_of(field)
        if not field.is_array and isinstance(field.element, Struct) and default.endswith("()"):
            default = source.lines.name("struct")
            for inner in field.element.fields:
                self.default(source, inner, self.target(default, inner), getattr(cls, field.element.name))
            self.end(source, default, field.element)
        source.lines.add(f"{target} = {default}")

    def end(self, source: DecoderSource, owner: str, shape: Struct) -> None:
        source.flush()
        fields = ""
        for field in shape.fields:
            if not is_present(field, source.version):
                continue
            value = self.target(owner, field)
            json = f'"null" if {value} is None else ' if source.version in field.nullable else ""
            json += self._items(field, value) if field.is_array else self._item(field, value)
            shown = f'{"," if fields else ""}"{field.json_name}":{{{json}}}'
            if field.is_extension:  # shown where it holds something: Kafka's own records have none
                source.lines.add(f"{value}_shown = f'{shown}' if {value} else ''")
                shown = f"{{{value}_shown}}"
            fields += shown
        source.lines.add(f"{owner} = f'{{{{{fields}}}}}'")

    def _item(self, field: Field, value: str) -> str:
        """Return the JSON of a value, as source without single quotes."""
        match field.element:
            case "str":
                return f"quote({value})"
            case "bool":
                return f'"true" if {value} else "false"'
            case "uuid":
                return f"show_id({value})"
            case "bytes":
                found = self._of_bytes.get(field.name, "show_bytes({value})")
                return found.format(value=value, message=self._outermost)
            case Struct():
                return f'{value} or "null"'
            case _:
                return value

    def _items(self, field: Field, value: str) -> str:
        match field.element:
            case "str":
                return f'"[" + ",".join(map(quote, {value})) + "]"'
            case "uuid":
                return f'"[" + ",".join(map(show_id, {value})) + "]"'
            case Struct():
                return f'"[" + ",".join({value}) + "]"'
            case _:  # numbers
                return f'str({value}).replace(" ", "")'


def json_writer(cls: type[Message], version: int, names: Mapping[str, Any], of_bytes: Mapping[str, str]) -> JsonWriter:
    """Return the compiled function of a message in a version; `names` and `of_bytes` are what `JsonOutput` uses."""
    source = DecoderSource(cls.SCHEMA, version, cls, JsonOutput(of_bytes))
    source.namespace |= {"quote": encode_basestring, **names}
    execute(source.text, f"<kohort.fleet {cls.__name__} v{version} as JSON>", source.namespace)
    found: JsonWriter = source.namespace["decode"]
    return found
