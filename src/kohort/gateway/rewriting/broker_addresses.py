"""Replaces the addresses of brokers in a response. Every other byte is copied as it came, unknown tagged fields too.

A walker is compiled from the message's schema for each version. It reads lengths and addresses only, and nothing
behind the last field that can have an address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from struct import Struct as Packed
from struct import calcsize, error
from typing import Any

from kohort.wire.apis import Api, response_class
from kohort.wire.codec import Buffer
from kohort.wire.message import is_present
from kohort.wire.message_schemas import FIXED, Field, MessageSchema, Struct
from kohort.wire.primitives import MOST_TAGS, MalformedMessage, compact, read_varint, skip_tags, varint

AddressOf = Callable[[int, str, int], tuple[str, int]]
"""Returns host and port by which clients reach a node, given its id and its own host and port.

Raises `NoAddress`: then the answer must not reach the client.
"""

_I8, _I16, _I32 = Packed(">b"), Packed(">h"), Packed(">i")

MOST_ENTRIES = 100_000
"""How many entries of lists in one answer are searched for addresses; that takes half a second."""

_NODE_IDS = ("node_id", "broker_id")
_WITH_ADDRESSES = (
    Api.PRODUCE,
    Api.FETCH,
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.DESCRIBE_CLUSTER,
    Api.SHARE_FETCH,
    Api.SHARE_ACKNOWLEDGE,
)


class NoAddress(ValueError):
    """There is no address of the gateway for a node; the text is a sentence."""


class _Copy:
    """A frame on its way: what of it has been walked, and what has been put in the place of addresses."""

    __slots__ = ("_copied", "address_of", "end", "entries", "frame", "parts", "position")

    def __init__(self, frame: bytes, position: int, address_of: AddressOf) -> None:
        self.frame = frame
        self.end = len(frame)
        self.position = position
        self.address_of = address_of
        self.entries = 0
        """How many entries the lists have that were searched so far."""
        self.parts: list[Buffer] = []
        self._copied = 0

    def number(self, packed: Packed) -> int:
        """Read a number of fixed size."""
        (number,) = packed.unpack_from(self.frame, self.position)
        self.position += packed.size
        return int(number)

    def varint(self) -> int:
        """Read an unsigned varint."""
        number, self.position = read_varint(self.frame, self.position)
        return number

    def copy_to(self, position: int) -> None:
        """Copy what lies before a position and has not been copied or replaced."""
        if position > self._copied:
            self.parts.append(memoryview(self.frame)[self._copied : position])
            self._copied = position

    def replace_to(self, position: int, data: Buffer) -> None:
        """Put other bytes in the place of those from what was copied last to a position."""
        self.parts.append(data)
        self._copied = position


_WalkStep = Callable[[_Copy], None]


class AddressWalker:
    """Finds the addresses in one version of one response."""

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._name = f"{schema.head.name} v{version}"
        self._version = version
        self._is_flexible = version in schema.head.flexible
        self._steps = self._struct(schema.struct, is_nested=False)

    @property
    def has_addresses(self) -> bool:
        """Whether the version has a field for an address."""
        return bool(self._steps)

    def replaced(self, frame: bytes, position: int, address_of: AddressOf) -> list[Buffer]:
        """Return a frame, whose header begins at `position` behind the correlation id, with other addresses.

        Its length is not corrected. Raises `MalformedMessage`, and `NoAddress` as `address_of` does.
        """
        copy = _Copy(frame, position, address_of)
        try:
            if self._is_flexible:
                copy.position = skip_tags(frame, position + 1, frame[position])
            for step in self._steps:
                step(copy)
        except (IndexError, error, UnicodeDecodeError) as cause:
            raise MalformedMessage(f"{self._name}: {cause}") from cause
        if copy.position > copy.end:
            raise MalformedMessage(f"{self._name} is cut short")
        copy.copy_to(copy.end)
        return copy.parts

    # -- compilation: a step moves over one field, or several of fixed size

    def _struct(self, shape: Struct, *, is_nested: bool) -> list[_WalkStep]:
        """Return the steps over a struct; of one that is not nested, up to its last address."""
        fields = [field for field in shape.fields if is_present(field, self._version)]
        tagged = [field for field in fields if field.tag is not None and self._is_flexible]
        steps: list[_WalkStep] = []
        last_address = 0
        for field, is_address in _with_addresses([field for field in fields if field not in tagged]):
            steps.append(_address(field, is_flexible=self._is_flexible) if is_address else self._field(field))
            if is_address or _has_address(field, self._version):
                last_address = len(steps)
        if not is_nested and not any(_has_address(field, self._version) for field in tagged):
            return _merged(steps[:last_address])
        if self._is_flexible:
            steps.append(self._tags({field.tag: field for field in tagged if _has_address(field, self._version)}))
        return _merged(steps)

    def _field(self, field: Field) -> _WalkStep:
        is_flexible = self._is_flexible and not field.is_classic
        if field.is_array:
            return self._array(field, is_flexible=is_flexible)
        if isinstance(field.element, Struct):
            steps = self._struct(field.element, is_nested=True)
            if self._version in field.nullable:
                return _unless_null(steps, is_tagged=field.tag is not None)
            return _all(steps)
        if field.is_fixed:
            return _Skip(calcsize(">" + FIXED[field.element]))
        return _sized(field.element, is_flexible=is_flexible)

    def _array(self, field: Field, *, is_flexible: bool) -> _WalkStep:
        element = field.element
        if isinstance(element, Struct):
            steps = self._struct(element, is_nested=True)
        elif element in FIXED:
            steps = [_Skip(calcsize(">" + FIXED[element]))]
        else:
            steps = [_sized(element, is_flexible=is_flexible)]
        if len(steps) == 1 and isinstance(steps[0], _Skip):
            return _run(steps[0].size, is_flexible=is_flexible)

        def walk(copy: _Copy) -> None:
            count = copy.varint() - 1 if is_flexible else copy.number(_I32)
            if count > copy.end - copy.position:
                raise IndexError("an array is cut short")
            copy.entries += max(count, 0)
            if copy.entries > MOST_ENTRIES:
                raise NoAddress(
                    f"the lists of a {self._name} have {copy.entries} entries:"
                    f" no more than {MOST_ENTRIES} are searched for addresses"
                )
            for _ in range(count):
                for step in steps:
                    step(copy)
                if copy.position > copy.end:
                    raise IndexError("an array is cut short")

        return walk

    def _tags(self, wanted: dict[int | None, Field]) -> _WalkStep:
        """Return the step over the tagged fields of a struct: those that are not wanted are copied, known or not."""
        steps = {tag: self._field(field) for tag, field in wanted.items()}

        def walk(copy: _Copy) -> None:
            count = copy.varint()
            if count > MOST_TAGS:
                raise MalformedMessage(f"{self._name}: {count} tagged fields in one struct")
            for _ in range(count):
                step = steps.get(copy.varint())
                size_at = copy.position
                size = copy.varint()
                stop = copy.position + size
                if step is None or stop > copy.end:
                    copy.position = stop
                    continue
                copy.copy_to(size_at)
                outer, copy.parts = copy.parts, []
                copy.replace_to(copy.position, b"")
                step(copy)
                if copy.position != stop:
                    raise MalformedMessage(f"{self._name}: a tagged field does not have the stated length")
                copy.copy_to(stop)
                content = b"".join(copy.parts)
                copy.parts = [*outer, varint(len(content)), content]

        return walk


class _Skip:
    """A step over bytes whose number is known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, copy: _Copy) -> None:
        copy.position += self.size


def _merged(steps: Sequence[_WalkStep]) -> list[_WalkStep]:
    """Return the steps with neighbours of fixed size made one."""
    merged: list[_WalkStep] = []
    for step in steps:
        before = merged[-1] if merged else None
        if isinstance(step, _Skip) and isinstance(before, _Skip):
            merged[-1] = _Skip(before.size + step.size)
        else:
            merged.append(step)
    return merged


def _all(steps: list[_WalkStep]) -> _WalkStep:
    if len(steps) == 1:
        return steps[0]

    def walk(copy: _Copy) -> None:
        for step in steps:
            step(copy)

    return walk


def _unless_null(steps: list[_WalkStep], *, is_tagged: bool) -> _WalkStep:
    def walk(copy: _Copy) -> None:
        marker = copy.number(_I8)
        if marker == 0 if is_tagged else marker < 0:
            return
        for step in steps:
            step(copy)

    return walk


def _sized(kind: Any, *, is_flexible: bool) -> _WalkStep:
    packed = _I16 if kind == "str" else _I32

    def skip(copy: _Copy) -> None:
        length = copy.varint() - 1 if is_flexible else copy.number(packed)
        if length > 0:
            copy.position += length

    return skip


def _run(size: int, *, is_flexible: bool) -> _WalkStep:
    def skip(copy: _Copy) -> None:
        count = copy.varint() - 1 if is_flexible else copy.number(_I32)
        if count > 0:
            copy.position += count * size

    return skip


def _address(field: Field, *, is_flexible: bool) -> _WalkStep:
    """Return the step over a node's id, host and port, of which the latter two are replaced."""

    def walk(copy: _Copy) -> None:
        node_id = copy.number(_I32)
        host_at = copy.position
        length = copy.varint() - 1 if is_flexible else copy.number(_I16)
        if length < 0:
            raise MalformedMessage(f"the host of {field.name} {node_id} is null")
        host = str(copy.frame[copy.position : copy.position + length], "utf-8")
        copy.position += length
        port = copy.number(_I32)
        if not host:
            return  # no node, or none that can be reached: there is no address to hide
        if node_id < 0:
            raise NoAddress(f"an answer has the address {host}:{port} without a node id")
        new_host, new_port = copy.address_of(node_id, host, port)
        encoded = new_host.encode()
        head = compact(len(encoded)) if is_flexible else _I16.pack(len(encoded))
        copy.copy_to(host_at)
        copy.replace_to(copy.position, head + encoded + _I32.pack(new_port))

    return walk


# -- where a schema has addresses


def _with_addresses(fields: Sequence[Field]) -> Iterator[tuple[Field, bool]]:
    """Yield fields, each with whether it is a node's id before its host and port, which are left out then."""
    position = 0
    while position < len(fields):
        is_address = _is_address(fields[position : position + 3])
        yield fields[position], is_address
        position += 3 if is_address else 1


def _is_address(fields: Sequence[Field]) -> bool:
    if len(fields) < 3 or [field.name for field in fields[1:]] != ["host", "port"]:
        return False
    assert fields[0].name in _NODE_IDS, "a host stands behind the id of its node"
    return True


def _has_address(field: Field, version: int) -> bool:
    if not isinstance(field.element, Struct):
        return field.name == "host"
    return any(is_present(each, version) and _has_address(each, version) for each in field.element.fields)


@cache
def address_walker(api_key: int, version: int) -> AddressWalker | None:
    """Return the walker of one version of an API's response; None where it has no address."""
    if api_key not in _WITH_ADDRESSES:
        return None
    walker = AddressWalker(response_class(Api(api_key)).SCHEMA, version)
    return walker if walker.has_addresses else None
