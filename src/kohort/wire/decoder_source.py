"""Writes the source of a decoder: one function, straight down the fields of one version of one message.

Fields of one size, with the length, count or tag count that follows them, are unpacked by one `struct` call. The
position only ever grows, so one comparison at the end finds a text or bytes cut short; every loop takes at least a
byte of the buffer per turn or fails. What a version lacks gets its default. A stepwise decoder is a generator: it
yields 1 for each entry of a list, and refuses a message that has more entries than its caller allows.
"""

from __future__ import annotations

import struct
from typing import Any

from kohort.wire import primitives
from kohort.wire.message import default_of, is_present
from kohort.wire.message_schemas import FIXED, Field, MessageSchema, Struct

_INDENT = "    "
_SIZES = {code: struct.calcsize(">" + code) for code in (*FIXED.values(), "B")}


class DecoderSource:
    """The source of one decoder, as lines, and the names that it uses."""

    def __init__(self, schema: MessageSchema, version: int, cls: type[Any], *, is_stepwise: bool = False) -> None:
        self.namespace: dict[str, Any] = {
            "new": object.__new__,
            "read_length": primitives.read_length,
            "read_varint": primitives.read_varint,
            "refuse_null": primitives.refuse_null,
            "skip_tags": primitives.skip_tags,
            "unpack_run": primitives.unpack_run,
            "refuse_length": primitives.refuse_length,
            "TooManyEntries": primitives.TooManyEntries,
            "MalformedMessage": primitives.MalformedMessage,
            "StructError": struct.error,
        }
        self._version = version
        self._name = schema.head.name
        self._is_stepwise = is_stepwise
        self._is_flexible = version in schema.head.flexible
        # Batches stay where they are, so that their messages are read from any buffer; the others from bytes.
        self._is_viewed = cls.HOLDS_RECORDS
        self._lines: list[str] = []
        self._depth = 2
        self._names = 0
        self._run: list[tuple[str, str]] = []
        self._message = self._struct(schema.struct, schema.head.name, cls)
        self._flush()

    @property
    def text(self) -> str:
        what = f"{self._name} v{self._version}"
        copied = "if buffer.__class__ is not bytes: buffer = bytes(buffer)"
        head = "view = memoryview(buffer)" if self._is_viewed else copied
        limit = ", limit=0" if self._is_stepwise else ""
        return "\n".join(
            [
                f"def decode(buffer, position=0{limit}):",
                *([f"{_INDENT}yield 0", f"{_INDENT}left = limit"] if self._is_stepwise else ()),
                f"{_INDENT}{head}",
                f"{_INDENT}try:",
                *self._lines,
                f"{_INDENT}except (IndexError, StructError, UnicodeDecodeError) as error:",
                f"{_INDENT * 2}raise MalformedMessage(f'{what}: {{error}}') from error",
                f"{_INDENT}if position > len(buffer):",
                f"{_INDENT * 2}raise MalformedMessage('{what} is cut short')",
                f"{_INDENT}return {self._message}, position",
                "",
            ]
        )

    # -- lines and runs ----------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    def _new(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def _unpacked(self, code: str, target: str) -> None:
        """Add a value of one size to the run that one `struct` call will unpack."""
        self._run.append((code, target))

    def _flush(self) -> None:
        """Read the run. The position is then after it."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        comma = "," if len(self._run) == 1 else ""
        self._run.clear()
        if codes == "B":
            self._line(f"{targets} = buffer[position]")
        else:
            name = "unpack_" + codes.replace("?", "t")
            self.namespace[name] = struct.Struct(">" + codes).unpack_from
            self._line(f"{targets}{comma} = {name}(buffer, position)")
        self._line(f"position += {struct.calcsize('>' + codes)}")

    # -- fields ------------------------------------------------------------------------------------------------------

    def _struct(self, shape: Struct, path: str, cls: type[Any]) -> str:
        """Read a struct's fields; return the name that holds it."""
        owner = self._new("struct")
        self._begin(owner, path, cls)
        tagged = []
        for field in shape.fields:
            if not is_present(field, self._version):
                self._absent(field, owner, cls)
            elif field.tag is not None and self._is_flexible:
                tagged.append(field)
            else:
                self._field(field, self._target(owner, field), path, cls)
        if self._is_flexible:
            self._tags(tagged, owner, path, cls)
        self._end(owner, shape)
        return owner

    # What follows is what becomes of values that were read: here, attributes of an object.

    def _begin(self, owner: str, path: str, cls: type[Any]) -> None:
        """Begin a struct that the name `owner` will hold."""
        made = "New" + path.replace(".", "_")
        self.namespace[made] = cls
        self._line(f"{owner} = new({made})")

    def _target(self, owner: str, field: Field) -> str:
        """Return what a field's value is assigned to."""
        return f"{owner}.{field.name}"

    def _absent(self, field: Field, owner: str, cls: type[Any]) -> None:
        """Pass over a field that the version lacks."""
        self._default(field, self._target(owner, field), cls)

    def _end(self, owner: str, shape: Struct) -> None:
        """End a struct, all of whose fields have been read, or are in the run."""

    def _default(self, field: Field, target: str, cls: type[Any]) -> None:
        default = default_of(field)
        if default.endswith("()") and isinstance(field.element, Struct):
            made = f"Default{field.element.name}"
            self.namespace[made] = getattr(cls, field.element.name)
            default = f"{made}()"
        self._line(f"{target} = {default}")

    def _field(self, field: Field, target: str, path: str, cls: type[Any]) -> None:
        is_flexible = self._is_flexible and not field.is_classic
        is_nullable = self._version in field.nullable
        where = f"{path}.{field.name}"
        if field.is_array:
            self._array(field, target, where, cls, is_flexible, is_nullable)
        elif isinstance(field.element, Struct):
            inner = field.element
            if not is_nullable:
                self._flush()
                self._line(f"{target} = {self._struct(inner, f'{path}.{inner.name}', getattr(cls, inner.name))}")
                return
            marker = self._new("marker")
            self._unpacked("b", marker)
            self._flush()
            self._line(f"if {marker} {'== 0' if field.tag is not None else '< 0'}:")
            self._line(f"{_INDENT}{target} = None")
            self._line("else:")
            self._depth += 1
            name = self._struct(inner, f"{path}.{inner.name}", getattr(cls, inner.name))
            self._flush()
            self._line(f"{target} = {name}")
            self._depth -= 1
        elif field.is_fixed:
            self._unpacked(FIXED[str(field.element)], target)
        else:
            self._sized(str(field.element), target, where, is_flexible, is_nullable)

    def _sized(self, kind: str, target: str, where: str, is_flexible: bool, is_nullable: bool) -> None:
        """Read a text or bytes with their length."""
        length = self._new("length")
        self._unpacked("B" if is_flexible else "h" if kind == "str" else "i", length)
        self._flush()
        if is_nullable:
            self._line(f"if {length} {'== 0' if is_flexible else '< 0'}:")
            self._line(f"{_INDENT}{target} = None")
            self._line("else:")
            self._depth += 1
            if is_flexible:
                self._line(f"if {length} > 127: {length}, position = read_varint(buffer, position - 1)")
        elif is_flexible:
            self._line(
                f"if {length} > 127 or {length} < 1: {length}, position = read_length(buffer, position, {where!r})"
            )
        else:
            self._line(f"if {length} < 0: refuse_null({where!r})")
        self._line(f"end = position + {length}{' - 1' if is_flexible else ''}")
        self._line(f"{target} = {self._content(kind)}")
        self._line("position = end")
        if is_nullable:
            self._depth -= 1

    def _refuse_or_lengthen(self, length: str, where: str) -> None:
        """Read on where a compact length has more than its first byte; refuse null."""
        self._line(f"if {length} > 127 or {length} < 1:")
        self._line(f"{_INDENT}{length}, position = read_length(buffer, position, {where!r})")

    def _content(self, kind: str) -> str:
        match kind, self._is_viewed:
            case "records", _:
                return "view[position:end]"
            case "str", True:
                return "str(view[position:end], 'utf-8')"
            case "str", False:
                return "buffer[position:end].decode()"
            case _, True:
                return "bytes(view[position:end])"
            case _:
                return "buffer[position:end]"

    def _array(
        self, field: Field, target: str, where: str, cls: type[Any], is_flexible: bool, is_nullable: bool
    ) -> None:
        length = self._new("length")
        self._unpacked("B" if is_flexible else "i", length)
        self._flush()
        if is_flexible:
            if is_nullable:
                self._line(f"if {length} > 127: {length}, position = read_varint(buffer, position - 1)")
            else:
                self._line(
                    f"if {length} > 127 or {length} < 1: {length}, position = read_length(buffer, position, {where!r})"
                )
            self._line(f"{length} -= 1")
        elif not is_nullable:
            self._line(f"if {length} < 0: refuse_null({where!r})")
        if is_nullable:
            self._line(f"if {length} < 0:")
            self._line(f"{_INDENT}{target} = None")
            self._line("else:")
            self._depth += 1
        if self._is_stepwise:
            # An entry takes at least one byte.
            self._line(f"if {length} > len(buffer) - position: refuse_length({where!r}, {length})")
            self._count(length)
        self._elements(field, target, where, cls, length, is_flexible)
        if is_nullable:
            self._depth -= 1

    def _elements(self, field: Field, target: str, where: str, cls: type[Any], length: str, is_flexible: bool) -> None:
        element = field.element
        if isinstance(element, str) and element in FIXED and element != "uuid":
            code = FIXED[element]
            unpackers = f"unpack_{code.replace('?', 't')}s"
            self.namespace[unpackers] = primitives.run_unpackers(code)
            size = _SIZES[code]
            short = f"[*{unpackers}[{length}](buffer, position)] if {length} < {primitives.SHORT_RUN}"
            self._line(f"{target} = {short} else unpack_run(buffer, position, {length}, {code!r}, {size})")
            self._line(f"position += {f'{size} * ' if size > 1 else ''}{length}")
            return
        array = self._new("array")
        self._line(f"{array} = {target} = []")
        self._line(f"for _ in range({length}):")
        self._depth += 1
        if isinstance(element, Struct):
            prefix = where.rpartition(".")[0]
            value = self._struct(element, f"{prefix}.{element.name}", getattr(cls, element.name))
        else:
            value = self._new("value")
            if element == "uuid":
                self._unpacked("16s", value)
            else:
                self._sized(element, value, where, is_flexible, is_nullable=False)
        self._flush()
        self._line(f"{array}.append({value})")
        if self._is_stepwise:
            self._line("yield 1")
        self._depth -= 1

    def _count(self, number: str) -> None:
        """Count entries, and refuse those beyond the limit."""
        self._line(f"left -= {number}")
        self._line("if left < 0: raise TooManyEntries(limit, limit - left)")

    # -- tagged fields -----------------------------------------------------------------------------------------------

    def _tags(self, tagged: list[Field], owner: str, path: str, cls: type[Any]) -> None:
        count = self._new("count")
        self._unpacked("B", count)
        self._flush()
        for field in tagged:
            self._default(field, self._target(owner, field), cls)
        self._line(f"if {count}:")
        self._depth += 1
        if self._is_stepwise:
            self._count(count)
        if not tagged:
            self._line(f"position = skip_tags(buffer, position, {count})")
            self._depth -= 1
            return
        tag, size, stop = self._new("tag"), self._new("size"), self._new("stop")
        self._line(f"if {count} > 127: {count}, position = read_varint(buffer, position - 1)")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        for number in (tag, size):
            self._unpacked("B", number)
            self._flush()
            self._line(f"if {number} > 127: {number}, position = read_varint(buffer, position - 1)")
        self._line(f"{stop} = position + {size}")
        for place, field in enumerate(tagged):
            self._line(f"{'elif' if place else 'if'} {tag} == {field.tag}:")
            self._depth += 1
            self._field(field, self._target(owner, field), path, cls)
            self._flush()
            self._depth -= 1
        self._line("else:")
        self._line(f"{_INDENT}position = {stop}")
        self._line(f"if position != {stop}: raise MalformedMessage('{path}: tag %d is not as long as it says' % {tag})")
        self._depth -= 2
