"""A simulated group's log as a template: copies have other names and times.

Names are replaced by names of the same length and times are shifted in place, so that no record is decoded or encoded
again: a copy costs a substitution per record. Names are the tokens of `simulated_group`, member ids and topic ids.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from kohort.fleet.generator.simulated_group import GROUP, Piece
from kohort.wire.record_batches import Record

_LONG = Struct(">q")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOKEN = rb"group-0{18}|member-\d\d|static-\d\d|host-\d{7}|topic-\d{6}"
TEAMS = ("billing", "search", "risk", "fleet", "mobile", "pricing", "crm", "ledger", "ads", "media", "supply", "care")
WORK = ("sync", "index", "score", "export", "enrich", "audit", "alert", "route", "bill", "feed", "join", "scan")
THINGS = ("order", "click", "price", "stock", "trip", "claim", "user", "event", "card", "photo")


class Line(NamedTuple):
    """One record, with its time since its piece began; `stamps` are the positions of timestamps in its value."""

    after_ms: int
    key: bytes
    value: bytes | None
    stamps: tuple[int, ...]


class TemplatePiece(NamedTuple):
    """The records between two cuts, as lines."""

    began_ms: int
    duration_ms: int
    is_occupied: bool
    """Whether the group has members at its end."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A group's log in pieces, and the topics that it reads."""

    pieces: tuple[TemplatePiece, ...]
    topics: dict[str, tuple[bytes, int]]
    pattern: re.Pattern[bytes]

    def copy(self, random: Random) -> Copy:
        """Return a copy with random names."""
        return Copy(self, random)


def make_template(
    pieces: Sequence[Piece], occupied: Sequence[bool], topics: dict[str, tuple[bytes, int]], member_ids: Iterable[str]
) -> Template:
    """Return the template of a log. `topics` are ids and partitions by token, `member_ids` those of native members."""
    raw = [topic_id for topic_id, _ in topics.values()] + [
        each.encode() for each in member_ids if not _UUID.fullmatch(each.encode())
    ]
    pattern = re.compile(b"|".join([_TOKEN, _UUID.pattern, *map(re.escape, raw)]))
    made = tuple(
        TemplatePiece(
            piece.began_ms,
            piece.ended_ms - piece.began_ms,
            is_occupied,
            tuple(_line(record, piece.began_ms, piece.ended_ms) for record in piece.records),
        )
        for piece, is_occupied in zip(pieces, occupied, strict=True)
    )
    return Template(made, topics, pattern)


def _line(record: Record, began_ms: int, ended_ms: int) -> Line:
    stamps: list[int] = []
    value = record.value
    if value is not None:
        # The clock of a scene begins at a number that occurs nowhere else in a record.
        head, at = _LONG.pack(ended_ms)[:4], 0
        while (at := value.find(head, at)) >= 0 and at + 8 <= len(value):
            if abs(_LONG.unpack_from(value, at)[0] - began_ms) < 30 * 86_400_000:
                stamps.append(at)
                at += 7
            at += 1
    assert record.key is not None, "a record of a group has a key"
    return Line(record.timestamp_ms - began_ms, record.key, value, tuple(stamps))


class Copy:
    """One group made of a template."""

    def __init__(self, template: Template, random: Random) -> None:
        self.template = template
        self._random = random
        self._service = f"{random.choice(TEAMS)}-{random.choice(WORK)}"
        self._names: dict[bytes, bytes] = {}
        self.group = self._name(GROUP.encode()).decode()
        self.topics = {
            self._name(token.encode()).decode(): (self._name(topic_id), partitions)
            for token, (topic_id, partitions) in template.topics.items()
        }

    def record(self, line: Line, shift_ms: int) -> tuple[bytes, bytes | None]:
        """Return the key and value of a line, `shift_ms` later than it was."""
        substitute = self.template.pattern.sub
        key, value = substitute(self._found, line.key), line.value
        if value is None:
            return key, None
        value = substitute(self._found, value)
        if line.stamps:
            moved = bytearray(value)
            for at in line.stamps:
                _LONG.pack_into(moved, at, _LONG.unpack_from(moved, at)[0] + shift_ms)
            value = bytes(moved)
        return key, value

    def _found(self, match: re.Match[bytes]) -> bytes:
        return self._name(match[0])

    def _name(self, token: bytes) -> bytes:
        found = self._names.get(token)
        if found is None:
            found = self._names[token] = self._made(token)
            assert len(found) == len(token), "a name has the length of its token"
        return found

    def _made(self, token: bytes) -> bytes:
        random = self._random
        kind, dash, number = token.partition(b"-")
        if dash and kind in _MADE:
            return _MADE[kind](self, number.decode()).encode()
        if len(token) == 36:
            return str(UUID(int=random.getrandbits(128), version=4)).encode()
        if len(token) == 22:
            return urlsafe_b64encode(random.randbytes(16)).rstrip(b"=")
        return random.randbytes(len(token))

    def _group_name(self, number: str) -> str:
        return _filled(f"{self._service}-", 6 + len(number), self._random)

    def _member_name(self, number: str) -> str:
        return f"{self._service[:6]}-{number}"

    def _topic_name(self, number: str) -> str:
        return _filled(f"{self._random.choice(THINGS)}-", 6 + len(number), self._random)

    def _host_name(self, _: str) -> str:
        random = self._random
        return f"10.{random.randint(100, 255)}.{random.randint(10, 99)}.{random.randint(10, 99)}"


def _filled(head: str, length: int, random: Random) -> str:
    digits = length - len(head)
    return f"{head}{random.randrange(10**digits):0{digits}}"


_MADE = {
    b"group": Copy._group_name,
    b"member": Copy._member_name,
    b"static": Copy._member_name,
    b"topic": Copy._topic_name,
    b"host": Copy._host_name,
}
