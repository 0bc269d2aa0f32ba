"""Writes the source of a function from a message's bytes to its JSON: the codec's decoder, but for what it makes.

How bytes lie is the codec's to say. Here what is read becomes local names, and each struct, once it is read, a text.
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


class JsonSource(DecoderSource):
    """The source of one function, and the names that it uses.

    `names` hold at least `show_id` and `show_bytes`, from bytes to JSON, and what `of_bytes` uses: JSON of fields of
    bytes by their names, as source, where `{value}` is what was read and `{message}` begins the names of the message's
    own fields. That source has no single quotes: it stands between them.
    """

    def __init__(self, cls: type[Message], version: int, names: Mapping[str, Any], of_bytes: Mapping[str, str]) -> None:
        self._of_bytes = of_bytes
        self._outermost = ""
        super().__init__(cls.SCHEMA, version, cls)
        self.namespace |= {"quote": encode_basestring, **names}

    def _begin(self, owner: str, path: str, cls: type[Any]) -> None:  # noqa: ARG002
        self._outermost = self._outermost or owner

    def _target(self, owner: str, field: Field) -> str:
        return f"{owner}_{field.name}"

    def _absent(self, field: Field, owner: str, cls: type[Any]) -> None:
        """A field that the version lacks is not shown."""

    def _default(self, field: Field, target: str, cls: type[Any]) -> None:
        if field.is_array or not default_of(field).endswith("()"):
            super()._default(field, target, cls)
            return
        assert isinstance(field.element, Struct), "only arrays and structs have the default ()"
        owner = self._new("struct")
        for inner in field.element.fields:
            self._default(inner, self._target(owner, inner), getattr(cls, field.element.name))
        self._end(owner, field.element)
        self._line(f"{target} = {owner}")

    def _end(self, owner: str, shape: Struct) -> None:
        self._flush()
        fields = ""
        for field in shape.fields:
            if not is_present(field, self._version):
                continue
            value = self._target(owner, field)
            shown = f'{"," if fields else ""}"{field.json_name}":{{{self._shown(field, value)}}}'
            if field.is_extension:  # shown where it says something: Kafka's own records have none
                self._line(f"{value}_shown = f'{shown}' if {value} else ''")
                shown = f"{{{value}_shown}}"
            fields += shown
        self._line(f"{owner} = f'{{{{{fields}}}}}'")

    def _shown(self, field: Field, value: str) -> str:
        """Return the JSON of a field's value, as source without single quotes."""
        shown = self._items(field, value) if field.is_array else self._item(field, value)
        return f'"null" if {value} is None else {shown}' if self._version in field.nullable else shown

    def _item(self, field: Field, value: str) -> str:
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
    """Return the compiled function of a message in a version; the rest is `JsonSource`'s."""
    source = JsonSource(cls, version, names, of_bytes)
    execute(source.text, f"<kohort.fleet {cls.__name__} v{version} as JSON>", source.namespace)
    found: JsonWriter = source.namespace["decode"]
    return found
