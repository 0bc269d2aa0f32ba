"""Writes the source of an encoder: one function, straight down the fields of one version of one message.

The function takes a message and a list and adds buffers to the list. Fields of one size, with the lengths and tag
counts between them, are packed by one `struct` call; structs are written in place, without a call. What a version
lacks is not written; a tagged field is written only where it differs from its default. A stepwise encoder is a
generator that yields 1 for each entry of a list.
"""

from __future__ import annotations

import struct
from typing import Any

from kohort.wire import primitives
from kohort.wire.message import default_of, is_present
from kohort.wire.message_schemas import FIXED, Field, MessageSchema, Struct

INDENT = "    "


class SourceLines:
    """The lines of one function's body that is being written; the first are indented `depth` times."""

    def __init__(self, depth: int) -> None:
        self.lines: list[str] = []
        self._depth = depth
        self._names = 0

    def add(self, line: str) -> None:
        """Add a line at the present depth."""
        self.lines.append(INDENT * self._depth + line)

    def block(self, head: str) -> SourceLines:
        """Add a line; what is added inside of the context that this returns is indented."""
        self.add(head)
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def name(self, stem: str) -> str:
        """Return a name that was never returned before."""
        self._names += 1
        return f"{stem}{self._names}"


_NULL = "b'\\0'"
_CLASSIC_NULL = "b'\\xff\\xff\\xff\\xff'"


class EncoderSource:
    """The source of one encoder, as lines, and the names that it uses."""

    def __init__(self, schema: MessageSchema, version: int, *, is_stepwise: bool = False) -> None:
        self.namespace: dict[str, Any] = {
            "COMPACT": primitives.COMPACT,
            "compact": primitives.compact,
            "varint": primitives.varint,
            "pack_run": primitives.pack_run,
        }
        self._version = version
        self._is_stepwise = is_stepwise
        self._is_flexible = version in schema.head.flexible
        self._lines = SourceLines(1)
        self._run: list[tuple[str, str]] = []
        self._parts: list[str] = []
        self._list = "parts"
        if is_stepwise:
            self._lines.add("yield 0")
        self._fields(schema.struct, "message")
        self._flush()

    @property
    def text(self) -> str:
        """The whole source: a function `encode`."""
        return "\n".join(["def encode(message, parts):", *(self._lines.lines or [f"{INDENT}pass"]), ""])

    # -- parts and runs

    def _packed(self, code: str, value: str = "") -> None:
        """Add a value of one size to the run that one `struct` call will pack; the code `x` is a zero byte."""
        self._run.append((code, value))

    def _part(self, expression: str) -> None:
        """Add a buffer after the run before it."""
        self._close_run()
        self._parts.append(expression)

    def _close_run(self) -> None:
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        values = [value for _, value in self._run if value]
        self._run.clear()
        if values:
            name = "pack_" + codes.replace("?", "t")
            self.namespace[name] = struct.Struct(">" + codes).pack
            self._parts.append(f"{name}({', '.join(values)})")
        else:
            self._parts.append(repr(bytes(len(codes))))

    def _flush(self) -> None:
        self._close_run()
        if self._parts:
            if len(self._parts) == 1 and not self._parts[0].startswith("*"):
                self._lines.add(f"{self._list}.append({self._parts[0]})")
            else:
                self._lines.add(f"{self._list} += ({', '.join(self._parts)},)")
            self._parts.clear()

    # -- fields

    def _fields(self, shape: Struct, owner: str) -> None:
        present = [field for field in shape.fields if is_present(field, self._version)]
        for field in present:
            if field.tag is None or not self._is_flexible:
                self._field(field, f"{owner}.{field.name}")
        if self._is_flexible:
            self._tags(sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0), owner)

    def _field(self, field: Field, value: str) -> None:
        is_flexible = self._is_flexible and not field.is_classic
        is_nullable = self._version in field.nullable
        if field.is_array:
            self._array(field, value, is_flexible, is_nullable)
        elif isinstance(field.element, Struct):
            # Kafka's generated code marks a null struct by 0 inside of a tagged field, by -1 elsewhere.
            null = _NULL if field.tag is not None else "b'\\xff'"
            self._struct(field.element, value, null if is_nullable else None)
        elif field.is_fixed:
            self._packed(FIXED[str(field.element)], value)
        else:
            if field.blank_is_null:
                value = f"({value} or {None if is_nullable else repr('')})"
            self._sized(str(field.element), value, is_flexible, is_nullable)

    def _struct(self, shape: Struct, value: str, null: str | None) -> None:
        name = self._lines.name("struct")
        if null is None:
            self._lines.add(f"{name} = {value}")
            self._fields(shape, name)
            return
        self._flush()
        self._lines.add(f"{name} = {value}")
        self._lines.add(f"if {name} is None: {self._list}.append({null})")
        with self._lines.block("else:"):
            self._part("b'\\x01'")
            self._fields(shape, name)
            self._flush()

    def _sized(self, kind: str, value: str, is_flexible: bool, is_nullable: bool) -> None:
        """Write a text, bytes or batches with their length."""
        content, length = self._lines.name("value"), self._lines.name("length")
        measure = [f"{length} = len({content})"]
        if kind == "records":
            # Batches may come as the list of buffers that a log read; none is copied.
            measure = [
                f"if {content}.__class__ is list: {length} = sum([len(part) for part in {content}])",
                f"else: {length} = len({content}); {content} = ({content},)",
            ]
        elif kind == "str":
            cut = f"[:{primitives.MOST_SENTENCE}]" if value.rpartition(".")[2] in primitives.CUT_TEXTS else ""
            measure = [f"{content} = {content}{cut}.encode()", *measure]
        compacted = f"COMPACT[{length}] if {length} < {primitives.SHORT} else compact({length})"
        head = length
        self._lines.add(f"{content} = {value}")
        if is_nullable:
            empty = "()" if kind == "records" else "b''"
            if is_flexible:
                head = self._lines.name("head")
                measure.append(f"{head} = {compacted}")
            self._lines.add(f"if {content} is None: {content} = {empty}; {head} = {_NULL if is_flexible else -1}")
            self._lines.add("else:")
            measure = [INDENT + line for line in measure]
        elif is_flexible:
            head = f"({compacted})"
        for line in measure:
            self._lines.add(line)
        if is_flexible:
            self._part(head)
        else:
            self._packed("h" if kind == "str" else "i", head)
        self._part(f"*{content}" if kind == "records" else content)

    def _array(self, field: Field, value: str, is_flexible: bool, is_nullable: bool) -> None:
        name, length = self._lines.name("array"), self._lines.name("length")
        self._lines.add(f"{name} = {value}")
        if not is_nullable:
            self._lines.add(f"{length} = len({name})")
            self._elements(field, name, length, is_flexible)
            return
        self._flush()
        null = _NULL if is_flexible else _CLASSIC_NULL
        self._lines.add(f"if {name} is None: {self._list}.append({null})")
        with self._lines.block("else:"):
            self._lines.add(f"{length} = len({name})")
            self._elements(field, name, length, is_flexible)
            self._flush()

    def _elements(self, field: Field, name: str, length: str, is_flexible: bool) -> None:
        if isinstance(field.element, str) and field.element in FIXED and field.element != "uuid":
            prefix, code = "B" if is_flexible else "i", FIXED[field.element]
            packers = f"pack_{prefix}_{code.replace('?', 't')}s"
            self.namespace[packers] = primitives.run_packers(prefix, code)
            count = f"{length} + 1" if is_flexible else length
            short = f"{packers}[{length}]({count}, *{name}) if {length} < {primitives.SHORT_RUN}"
            self._part(f"({short} else pack_run({prefix!r}, {code!r}, {name}))")
            return
        if is_flexible:
            self._part(f"(COMPACT[{length}] if {length} < {primitives.SHORT} else compact({length}))")
        else:
            self._packed("i", length)
        self._flush()
        each = self._lines.name("each")
        with self._lines.block(f"for {each} in {name}:"):
            if isinstance(field.element, Struct):
                self._fields(field.element, each)
            elif field.element == "uuid":
                self._packed("16s", each)
            else:
                self._sized(field.element, each, is_flexible, is_nullable=False)
            self._flush()
            if self._is_stepwise:
                self._lines.add("yield 1")

    # -- tagged fields

    def _tags(self, tagged: list[Field], owner: str) -> None:
        if not tagged:
            self._packed("x")
            return
        self._flush()
        outer, tags = self._list, self._lines.name("tags")
        self._lines.add(f"{tags} = ()")
        for field in tagged:
            value, self._list, body = self._lines.name("tagged"), self._lines.name("body"), self._lines.name("bytes")
            self._lines.add(f"{value} = {owner}.{field.name}")
            with self._lines.block(f"if {self._differs(field, value)}:"):
                self._lines.add(f"{self._list} = []")
                self._field(field, value)
                self._flush()
                self._lines.add(f"{body} = b''.join({self._list})")
                self._lines.add(f"{tags} += (varint({field.tag}), varint(len({body})), {body})")
        self._list = outer
        self._lines.add(f"if {tags}: {outer} += (varint(len({tags}) // 3), *{tags})")
        self._lines.add(f"else: {outer}.append({_NULL})")

    def _differs(self, field: Field, value: str) -> str:
        """Return the condition under which a tagged field is written."""
        if field.default is None:
            return f"{value} is not None"
        null = f"{value} is None or " if self._version in field.nullable else ""
        if field.is_array:
            return null + value
        if not isinstance(field.element, Struct):
            return f"{value} != {field.default!r}"
        leaves = " or ".join(f"{value}.{leaf.name} != {default_of(leaf)}" for leaf in field.element.fields)
        return null + leaves if null else f"{value} is not None and ({leaves})"
