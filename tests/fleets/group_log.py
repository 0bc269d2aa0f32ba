"""The log of one generated group: a copy of its simulated scenario, stretched over days, with commits in between.

A scenario is simulated once and becomes a template. A copy replaces names by names of the same length and shifts times
in place, so that no record is decoded or encoded again: a copy costs a substitution per record. Names are the tokens of
`simulated_group`, member ids and topic ids.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from tests.fleets.generated_commits import Batch, CommitStyle, Committer, Span
from tests.fleets.scenarios import Scenario
from tests.fleets.share_group import ShareGroup, Topics
from tests.fleets.simulated_group import GROUP, Piece, SimulatedGroup

from kohort.fleet.load_check import KAFKA_17306, LogCheck, step_of
from kohort.fleet.schema import DAY_MS, HOUR_MS
from kohort.group.events import ConsumerMemberStored
from kohort.group.streams.events import StreamsMemberStored
from kohort.log.group_replay import raced
from kohort.log.offsets_topic import Replay
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.record_batches import Record, encode_batch

BORN_WITHIN_H = 6
"""Every group starts within so many hours from the beginning of the log."""
MOST_IN_A_BATCH = 50

MEMBERS = ConsumerMemberStored | StreamsMemberStored
_LONG = Struct(">q")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOKEN = rb"group-0{18}|member-\d\d|static-\d\d|host-\d{7}|topic-\d{6}"
TEAMS = ("billing", "search", "risk", "fleet", "mobile", "pricing", "crm", "ledger", "ads", "media", "supply", "care")
WORK = ("sync", "index", "score", "export", "enrich", "audit", "alert", "route", "bill", "feed", "join", "scan")
THINGS = ("order", "click", "price", "stock", "trip", "claim", "user", "event", "card", "photo")


# -- templates


class Line(NamedTuple):
    """One record, with its time since its piece began; `stamps` are the positions of timestamps in its value."""

    after_ms: int
    key: bytes
    value: bytes | None
    stamps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A scenario's log in pieces, each with its lines, and the topics that the group reads."""

    scenario: Scenario
    pieces: list[tuple[Piece, list[Line]]]
    topics: Topics
    names: re.Pattern[bytes]
    """Matches what copies replace."""


def simulate(scenario: Scenario, seed: int) -> Template:
    """Simulate a scenario once."""
    scene = SimulatedGroup(seed, scenario.topics)
    scenario.script(scene)
    pieces = scene.pieces(scenario.edit)
    if scenario.raced:
        pieces = raced_pieces(pieces, Random(seed))
    topics = {name: (scene.topic_ids[name], count) for name, count in scene.topics.items()}
    replay = Replay()
    events = (replay.event_of(record) for piece in pieces for record in piece.records)
    member_ids = {event.member_id for event in events if isinstance(event, MEMBERS)}
    return _template(scenario, pieces, topics, sorted(member_ids))


def construct(scenario: Scenario, seed: int) -> Template:
    """Construct the scenario of a share group."""
    random = Random(seed)
    topics = {name: (random.randbytes(16), count) for name, count in scenario.topics.items()}
    return _template(scenario, ShareGroup(topics).pieces(), topics)


def simple(scenario: Scenario) -> Template:
    """Return a group without records of its own, only commits."""
    return _template(scenario, (), {name: (NO_TOPIC_ID, count) for name, count in scenario.topics.items()})


def _template(scenario: Scenario, pieces: Iterable[Piece], topics: Topics, member_ids: Iterable[str] = ()) -> Template:
    ids = [topic_id for topic_id, _ in topics.values()]
    ids += [each.encode() for each in member_ids if not _UUID.fullmatch(each.encode())]
    names = re.compile(b"|".join([_TOKEN, _UUID.pattern, *map(re.escape, ids)]))
    lines = [(piece, [_line(record, piece) for record in piece.records]) for piece in pieces]
    return Template(scenario, lines, topics, names)


def _line(record: Record, piece: Piece) -> Line:
    stamps: list[int] = []
    value = record.value
    if value is not None:
        # The clock of a scene begins at a number that occurs nowhere else in a record.
        head, at = _LONG.pack(piece.ended_ms)[:4], 0
        while (at := value.find(head, at)) >= 0 and at + 8 <= len(value):
            if abs(_LONG.unpack_from(value, at)[0] - piece.began_ms) < 30 * DAY_MS:
                stamps.append(at)
                at += 7
            at += 1
    assert record.key is not None, "a record of a group has a key"
    return Line(record.timestamp_ms - piece.began_ms, record.key, value, tuple(stamps))


def raced_pieces(pieces: Sequence[Piece], random: Random) -> list[Piece]:
    """Return pieces as read during a compaction, at a moment at which a released Kafka fails to load them."""
    records = [record for piece in pieces for record in piece.records]
    moments = list(range(1, len(records)))
    random.shuffle(moments)
    for read in moments:
        left = raced(records, read)
        if is_refused(left):
            kept = {id(record) for record in left}
            return [piece._replace(records=[each for each in piece.records if id(each) in kept]) for piece in pieces]
    raise AssertionError("a cleaner finds a moment that is bad enough")


def is_refused(records: Sequence[Record]) -> bool:
    """Whether some released Kafka, from 4.0 on, fails at one of the records."""
    check = LogCheck()
    return any(
        violation.demand is not KAFKA_17306
        for offset, record in enumerate(records)
        for violation in check.take(step_of(offset, record.timestamp_ms, record.key or b"", record.value))
    )


# -- copies


class GeneratedGroup:
    """One group of a fleet: a template with names and times of its own."""

    def __init__(self, template: Template, random: Random, began_ms: int, ended_ms: int, interval_ms: int) -> None:
        self.template, self.scenario = template, template.scenario
        self._random = random
        self._began_ms, self._ended_ms = began_ms, ended_ms
        self._interval_ms = interval_ms
        self._service = f"{random.choice(TEAMS)}-{random.choice(WORK)}"
        self._names: dict[bytes, bytes] = {}
        self.group = self._name(GROUP.encode()).decode()
        self.topics = {
            self._name(token.encode()).decode(): (self._name(topic_id), partitions)
            for token, (topic_id, partitions) in template.topics.items()
        }

    def batches(self) -> Iterator[Batch]:
        """Yield all batches of the group."""
        pieces = self.template.pieces
        starts = self._starts() if pieces else []
        spans: list[Span] = [] if pieces else [Span(self._began_ms, self._ended_ms)]
        empty_until_ms = None
        for (piece, lines), start_ms, next_ms in zip(pieces, starts, [*starts[1:], self._ended_ms], strict=False):
            for after_ms, same_time in groupby(lines, key=lambda line: line.after_ms):
                at_ms = start_ms + after_ms
                records = [Record(0, at_ms, *self._copied(line, start_ms - piece.began_ms)) for line in same_time]
                for first in range(0, len(records), MOST_IN_A_BATCH):
                    yield Batch(at_ms, encode_batch(records[first : first + MOST_IN_A_BATCH]))
            if piece.is_occupied:
                spans.append(Span(start_ms + piece.duration_ms, next_ms, empty_until_ms))
            empty_until_ms = None if piece.is_occupied else next_ms
        if not self.scenario.rests and self.scenario.commits is not CommitStyle.RESET:
            spans = _joined(spans)
        committer = Committer(self.group, self.topics, self.scenario.commits, self._interval_ms, self._random)
        yield from committer.batches(spans, self._ended_ms)

    def _starts(self) -> list[int]:
        """Return when each piece begins."""
        pieces, random = [piece for piece, _ in self.template.pieces], self._random
        rests: list[int | None] = [None] * len(pieces)
        for place, (least, most) in self.scenario.rests.items():
            rests[place] = int((least + (most - least) * random.random()) * HOUR_MS)
        at_ms = self._began_ms + random.randrange(BORN_WITHIN_H * HOUR_MS)
        spare = self._ended_ms - at_ms - sum(piece.duration_ms for piece in pieces)
        spare -= sum(rest for rest in rests if rest is not None)
        assert spare > 0, f"the days of the fleet are enough for {self.scenario.name!r}"
        weights = [0.3 + random.random() if rest is None else 0.0 for rest in rests]
        total = sum(weights)
        if not total:
            at_ms += spare
        starts = []
        for piece, rest, weight in zip(pieces, rests, weights, strict=True):
            starts.append(at_ms)
            at_ms += piece.duration_ms + (int(spare * weight / total) if rest is None else rest)
        return starts

    def _copied(self, line: Line, shift_ms: int) -> tuple[bytes, bytes | None]:
        """Return the key and value of a line, `shift_ms` later than it was."""
        substitute = self.template.names.sub
        key = substitute(self._found, line.key)
        if line.value is None:
            return key, None
        value = substitute(self._found, line.value)
        if line.stamps:
            moved = bytearray(value)
            for at in line.stamps:
                _LONG.pack_into(moved, at, _LONG.unpack_from(moved, at)[0] + shift_ms)
            value = bytes(moved)
        return key, value

    def _found(self, match: re.Match[bytes]) -> bytes:
        return self._name(match[0])

    def _name(self, token: bytes) -> bytes:
        """Return the group's own name for a token, of the same length."""
        found = self._names.get(token)
        if found is None:
            found = self._names[token] = self._new_name(token)
            assert len(found) == len(token), "a name has the length of its token"
        return found

    def _new_name(self, token: bytes) -> bytes:
        random = self._random
        kind, _, number = token.partition(b"-")
        match kind:
            case b"group":
                return _filled(f"{self._service}-", token, random)
            case b"topic":
                return _filled(f"{random.choice(THINGS)}-", token, random)
            case b"member" | b"static":
                return f"{self._service[:6]}-{number.decode()}".encode()
            case b"host":
                return f"10.{random.randint(100, 255)}.{random.randint(10, 99)}.{random.randint(10, 99)}".encode()
        if len(token) == 36:
            return str(UUID(int=random.getrandbits(128), version=4)).encode()
        if len(token) == 22:
            return urlsafe_b64encode(random.randbytes(16)).rstrip(b"=")
        return random.randbytes(len(token))


def _filled(head: str, token: bytes, random: Random) -> bytes:
    """Return a name of the token's length that ends in digits."""
    digits = len(token) - len(head)
    return f"{head}{random.randrange(10**digits):0{digits}}".encode()


def _joined(spans: list[Span]) -> list[Span]:
    """Join spans with short gaps: the other members continue while one is replaced."""
    found: list[Span] = []
    for span in spans:
        if found and span.from_ms - found[-1].until_ms < 12 * HOUR_MS:
            found[-1] = Span(found[-1].from_ms, span.until_ms)
        else:
            found.append(span)
    return found
