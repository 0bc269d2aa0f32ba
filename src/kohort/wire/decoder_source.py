"""Writes the source of a decoder: one function, straight down the fields of one version of one message.

Fields of one size, with the length, count or tag count that follows them, are unpacked by one `struct` call. The
position only ever grows, so one comparison at the end finds a text or bytes cut short; every loop takes at least a
byte of the buffer per turn or fails. What becomes of the values is up to an `Output`: by default, a message's object. A
stepwise decoder is a generator: it yields 1 for each entry of a list, and refuses a message that has more entries than
its caller allows.
"""

from __future__ import annotations

import struct
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from kohort.wire import primitives
from kohort.wire.encoder_source import INDENT, SourceLines
from kohort.wire.message import default_of, is_present
from kohort.wire.message_schemas import FIXED, Field, MessageSchema, Struct

_SIZES = {code: struct.calcsize(">" + code) for code in (*FIXED.values(), "B")}
_ALWAYS = nullcontext()


class Output(Protocol):
    """What becomes of the values that a decoder reads. It adds lines to the decoder's source."""

    def begin(self, source: DecoderSource, owner: str, path: str, cls: type[Any]) -> None:
        """Begin a struct in the variable `owner`."""

    def target(self, owner: str, field: Field) -> str:
        """Return what the value of a field is assigned to."""

    def absent(self, source: DecoderSource, owner: str, field: Field, cls: type[Any]) -> None:
        """Pass over a field that the version lacks."""

    def default(self, source: DecoderSource, field: Field, target: str, cls: type[Any]) -> None:
        """Assign a field's default."""

    def end(self, source: DecoderSource, owner: str, shape: Struct) -> None:
        """End a struct, all of whose fields have been read, or are in the run."""


class ObjectOutput:
    """The values become attributes of an object of the message's class; a field that is absent gets its default."""

    def begin(self, source: DecoderSource, owner: str, path: str, cls: type[Any]) -> None:
        made = "New" + path.replace(".", "_")
        source.namespace[made] = cls
        source.lines.add(f"{owner} = new({made})")

    def target(self, owner: str, field: Field) -> str:
        return f"{owner}.{field.name}"

    def absent(self, source: DecoderSource, owner: str, field: Field, cls: type[Any]) -> None:
        self.default(source, field, self.target(owner, field), cls)

    def default(self, source: DecoderSource, field: Field, target: str, cls: type[Any]) -> None:
        default = default_of(field)
        if default.endswith("()") and isinstance(field.element, Struct):
            made = f"Default{field.element.name}"
            source.namespace[made] = getattr(cls, field.element.name)
            default = f"{made}()"
        source.lines.add(f"{target} = {default}")

    def end(self, source: DecoderSource, owner: str, shape: Struct) -> None:
        pass


class DecoderSource:
    """The source of one decoder, and the `namespace` in which it is executed."""

    def __init__(
        self,
        schema: MessageSchema,
        version: int,
        cls: type[Any],
        output: Output | None = None,
        *,
        is_stepwise: bool = False,
    ) -> None:
        self.namespace: dict[str, Any] = {
            "new": object.__new__,
            "read_length": primitives.read_length,
            "read_varint": primitives.read_varint,
            "refuse_null": primitives.refuse_null,
            "skip_tags": primitives.skip_tags,
            "unpack_run": primitives.unpack_run,
            "refuse_length": primitives.refuse_length,
            "refuse_text": primitives.refuse_text,
            "TooManyEntries": primitives.TooManyEntries,
            "MalformedMessage": primitives.MalformedMessage,
            "StructError": struct.error,
        }
        self.version = version
        self.lines = SourceLines(2)
        self._name = schema.head.name
        self._output = output or ObjectOutput()
        self._is_stepwise = is_stepwise
        self._is_flexible = version in schema.head.flexible
        # Batches stay where they are, so that their messages are read from any buffer; the others from bytes.
        self._is_viewed = cls.HAS_RECORDS
        self._run: list[tuple[str, str]] = []
        self._message = self._struct(schema.struct, schema.head.name, cls)
        self.flush()

    @property
    def text(self) -> str:
        """The whole source: a function `decode`."""
        what = f"{self._name} v{self.version}"
        copied = "if buffer.__class__ is not bytes: buffer = bytes(buffer)"
        head = "view = memoryview(buffer)" if self._is_viewed else copied
        limit = ", limit=0" if self._is_stepwise else ""
        return "\n".join(
            [
                f"def decode(buffer, position=0{limit}):",
                *([f"{INDENT}yield 0", f"{INDENT}left = limit"] if self._is_stepwise else ()),
                f"{INDENT}{head}",
                f"{INDENT}try:",
                *self.lines.lines,
                f"{INDENT}except (IndexError, StructError, UnicodeDecodeError) as error:",
                f"{INDENT * 2}raise MalformedMessage(f'{what}: {{error}}') from error",
                f"{INDENT}if position > len(buffer):",
                f"{INDENT * 2}raise MalformedMessage('{what} is cut short')",
                f"{INDENT}return {self._message}, position",
                "",
            ]
        )

    # -- runs

    def _unpacked(self, code: str, target: str) -> None:
        """Add a value of one size to the run that one `struct` call will unpack."""
        self._run.append((code, target))

    def _number(self, stem: str, code: str) -> str:
        """Read a length, a count or a marker, after the run before it; return its name."""
        name = self.lines.name(stem)
        self._unpacked(code, name)
        self.flush()
        return name

    def flush(self) -> None:
        """Read the run. The position is then after it."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        comma = "," if len(self._run) == 1 else ""
        self._run.clear()
        if codes == "B":
            self.lines.add(f"{targets} = buffer[position]")
        else:
            name = "unpack_" + codes.replace("?", "t")
            self.namespace[name] = struct.Struct(">" + codes).unpack_from
            self.lines.add(f"{targets}{comma} = {name}(buffer, position)")
        self.lines.add(f"position += {struct.calcsize('>' + codes)}")

    def _unless_null(self, condition: str, target: str, is_nullable: bool) -> AbstractContextManager[None]:
        """Read what is inside of the context unless the value is null, where it may be."""
        if not is_nullable:
            return _ALWAYS
        with self.lines.block(f"if {condition}:"):
            self.lines.add(f"{target} = None")
        return self.lines.block("else:")

    def _lengthen(self, number: str) -> None:
        """Read on where a varint has more than its first byte."""
        self.lines.add(f"if {number} > 127: {number}, position = read_varint(buffer, position - 1)")

    def _complete(self, length: str, where: str, is_flexible: bool, is_nullable: bool) -> None:
        """Read the rest of a length whose field may be null only where `is_nullable`."""
        if is_nullable:
            if is_flexible:
                self._lengthen(length)
        elif is_flexible:
            read = f"{length}, position = read_length(buffer, position, {where!r})"
            self.lines.add(f"if {length} > 127 or {length} < 1: {read}")
        else:
            self.lines.add(f"if {length} < 0: refuse_null({where!r})")

    # -- fields

    def _struct(self, shape: Struct, path: str, cls: type[Any]) -> str:
        """Read a struct's fields; return the variable that has it."""
        owner, output = self.lines.name("struct"), self._output
        output.begin(self, owner, path, cls)
        tagged = []
        for field in shape.fields:
            if not is_present(field, self.version):
                output.absent(self, owner, field, cls)
            elif field.tag is not None and self._is_flexible:
                tagged.append(field)
            else:
                self._field(field, output.target(owner, field), path, cls)
        if self._is_flexible:
            self._tags(tagged, owner, path, cls)
        output.end(self, owner, shape)
        return owner

    def _field(self, field: Field, target: str, path: str, cls: type[Any]) -> None:
        is_flexible = self._is_flexible and not field.is_classic
        is_nullable = self.version in field.nullable
        where = f"{path}.{field.name}"
        if field.is_array:
            self._array(field, target, where, cls, is_flexible, is_nullable)
        elif isinstance(field.element, Struct):
            condition = ""
            if is_nullable:
                condition = f"{self._number('marker', 'b')} {'== 0' if field.tag is not None else '< 0'}"
            self.flush()
            inner = field.element
            with self._unless_null(condition, target, is_nullable):
                name = self._struct(inner, f"{path}.{inner.name}", getattr(cls, inner.name))
                if is_nullable:
                    self.flush()
                self.lines.add(f"{target} = {name}")
        elif field.is_fixed:
            self._unpacked(FIXED[str(field.element)], target)
        else:
            self._sized(str(field.element), target, where, is_flexible, is_nullable)

    def _sized(self, kind: str, target: str, where: str, is_flexible: bool, is_nullable: bool) -> None:
        """Read a text or bytes with their length."""
        length = self._number("length", "B" if is_flexible else "h" if kind == "str" else "i")
        with self._unless_null(f"{length} {'== 0' if is_flexible else '< 0'}", target, is_nullable):
            self._complete(length, where, is_flexible, is_nullable)
            if kind == "str" and is_flexible:
                most = primitives.MOST_TEXT + 1
                self.lines.add(f"if {length} > {most}: refuse_text({where!r}, {length} - 1)")
            self.lines.add(f"end = position + {length}{' - 1' if is_flexible else ''}")
            self.lines.add(f"{target} = {self._content(kind)}")
            self.lines.add("position = end")

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
        length = self._number("length", "B" if is_flexible else "i")
        self._complete(length, where, is_flexible, is_nullable)
        if is_flexible:
            self.lines.add(f"{length} -= 1")
        with self._unless_null(f"{length} < 0", target, is_nullable):
            if self._is_stepwise:
                # An entry takes at least one byte.
                self.lines.add(f"if {length} > len(buffer) - position: refuse_length({where!r}, {length})")
                self._count(length)
            self._elements(field, target, where, cls, length, is_flexible)

    def _elements(self, field: Field, target: str, where: str, cls: type[Any], length: str, is_flexible: bool) -> None:
        element = field.element
        if isinstance(element, str) and element in FIXED and element != "uuid":
            code = FIXED[element]
            unpackers = f"unpack_{code.replace('?', 't')}s"
            self.namespace[unpackers] = primitives.run_unpackers(code)
            size = _SIZES[code]
            short = f"[*{unpackers}[{length}](buffer, position)] if {length} < {primitives.SHORT_RUN}"
            self.lines.add(f"{target} = {short} else unpack_run(buffer, position, {length}, {code!r}, {size})")
            self.lines.add(f"position += {f'{size} * ' if size > 1 else ''}{length}")
            return
        array = self.lines.name("array")
        self.lines.add(f"{array} = {target} = []")
        with self.lines.block(f"for _ in range({length}):"):
            if isinstance(element, Struct):
                prefix = where.rpartition(".")[0]
                value = self._struct(element, f"{prefix}.{element.name}", getattr(cls, element.name))
            else:
                value = self.lines.name("value")
                if element == "uuid":
                    self._unpacked("16s", value)
                else:
                    self._sized(element, value, where, is_flexible, is_nullable=False)
            self.flush()
            self.lines.add(f"{array}.append({value})")
            if self._is_stepwise:
                self.lines.add("yield 1")

    def _count(self, number: str) -> None:
        """Count entries, and refuse those beyond the limit."""
        self.lines.add(f"left -= {number}")
        self.lines.add("if left < 0: raise TooManyEntries(limit, limit - left)")

    # -- tagged fields

    def _tags(self, tagged: list[Field], owner: str, path: str, cls: type[Any]) -> None:
        lines, output = self.lines, self._output
        count = self._number("count", "B")
        for field in tagged:
            output.default(self, field, output.target(owner, field), cls)
        with lines.block(f"if {count}:"):
            if self._is_stepwise:
                self._count(count)
            if not tagged:
                lines.add(f"position = skip_tags(buffer, position, {count})")
                return
            self._lengthen(count)
            with lines.block(f"for _ in range({count}):"):
                tag = self._number("tag", "B")
                self._lengthen(tag)
                size = self._number("size", "B")
                self._lengthen(size)
                stop = lines.name("stop")
                lines.add(f"{stop} = position + {size}")
                for place, field in enumerate(tagged):
                    with lines.block(f"{'elif' if place else 'if'} {tag} == {field.tag}:"):
                        self._field(field, output.target(owner, field), path, cls)
                        self.flush()
                with lines.block("else:"):
                    lines.add(f"position = {stop}")
                longer = f"raise MalformedMessage('{path}: tag %d does not have the stated length' % {tag})"
                lines.add(f"if position != {stop}: {longer}")
