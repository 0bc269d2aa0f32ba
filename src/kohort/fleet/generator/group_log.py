"""The log of one generated group: a copy of its simulated scenario, stretched over days, with commits in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from random import Random

from kohort.fleet.generator.generated_commits import Batch, Committer, Span
from kohort.fleet.generator.group_scenario import CommitStyle, Scenario
from kohort.fleet.generator.group_template import Copy, Template, make_template
from kohort.fleet.generator.share_and_streams import ConstructedGroup, played
from kohort.fleet.generator.simulated_group import Piece, SimulatedGroup
from kohort.fleet.log_check.checked_files import step_of
from kohort.fleet.log_check.load_check import KAFKA_17306, LogCheck
from kohort.group.events import ConsumerMemberStored
from kohort.log.group_replay import raced
from kohort.log.offsets_topic import Replay
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.record_batches import Record, encode_batch

HOUR_MS = 3_600_000
BORN_WITHIN_H = 6
"""Every group starts within so many hours from the beginning of the log."""
MOST_IN_A_BATCH = 50


@dataclass(frozen=True, slots=True)
class ScenarioTemplate:
    """A scenario with the template made of its simulation."""

    scenario: Scenario
    template: Template


def simulate(scenario: Scenario, seed: int) -> ScenarioTemplate:
    """Simulate a scenario once."""
    scene = SimulatedGroup(seed, scenario.topics, **scenario.settings)
    scenario.script(scene)
    pieces = scene.pieces(scenario.edit)
    if scenario.raced:
        pieces = raced_pieces(pieces, Random(seed))
    topics = {name: (scene.topic_ids[name], count) for name, count in scene.topics.items()}
    replay = Replay()
    members = {
        event.member_id
        for piece in pieces
        for event in map(replay.event_of, piece.records)
        if isinstance(event, ConsumerMemberStored)
    }
    return ScenarioTemplate(scenario, make_template(pieces, scene.occupied, topics, sorted(members)))


def construct(scenario: Scenario, kind: type[ConstructedGroup], seed: int) -> ScenarioTemplate:
    """Construct the scenario of a share or streams group."""
    random = Random(seed)
    topics = {name: (random.randbytes(16), count) for name, count in scenario.topics.items()}
    pieces, occupied = played(kind, topics)
    return ScenarioTemplate(scenario, make_template(pieces, occupied, topics, ()))


def simple(scenario: Scenario) -> ScenarioTemplate:
    """Return a group without records of its own, only commits."""
    topics = {name: (NO_TOPIC_ID, count) for name, count in scenario.topics.items()}
    return ScenarioTemplate(scenario, make_template((), (), topics, ()))


class GeneratedGroup:
    """One group of a fleet."""

    def __init__(self, made: ScenarioTemplate, random: Random, began_ms: int, ended_ms: int, interval_ms: int) -> None:
        self.copy: Copy = made.template.copy(random)
        self.scenario = made.scenario
        self._random = random
        self._began_ms, self._ended_ms = began_ms, ended_ms
        self._interval_ms = interval_ms

    @property
    def group(self) -> str:
        """The group's name."""
        return self.copy.group

    def batches(self) -> Iterator[Batch]:
        """Yield all batches of the group."""
        starts = self._starts()
        spans: list[Span] = []
        pieces = self.copy.template.pieces
        ends = [*starts[1:], self._ended_ms][: len(pieces)]
        for piece, start_ms, next_ms in zip(pieces, starts, ends, strict=True):
            for after_ms, lines in groupby(piece.lines, key=lambda line: line.after_ms):
                at_ms = start_ms + after_ms
                records = [Record(0, at_ms, *self.copy.record(line, start_ms - piece.began_ms)) for line in lines]
                for first in range(0, len(records), MOST_IN_A_BATCH):
                    yield Batch(at_ms, encode_batch(records[first : first + MOST_IN_A_BATCH]))
            if piece.is_occupied:
                spans.append(Span(start_ms + piece.duration_ms, next_ms))
        if not pieces:
            spans.append(Span(self._began_ms, self._ended_ms))
        commits_on = spans if self.scenario.commits is CommitStyle.RESET or self.scenario.rests else _joined(spans)
        topics = self.copy.topics
        committer = Committer(self.group, topics, self.scenario.commits, self._interval_ms, self._random)
        yield from committer.batches(commits_on, self._ended_ms)

    def _starts(self) -> list[int]:
        """Return when each piece begins."""
        pieces, random = self.copy.template.pieces, self._random
        if not pieces:
            return []
        rests: list[int | None] = [None] * len(pieces)
        for place, (least, most) in self.scenario.rests.items():
            rests[place] = int((least + (most - least) * random.random()) * HOUR_MS)
        born_ms = self._began_ms + random.randrange(BORN_WITHIN_H * HOUR_MS)
        spare = self._ended_ms - born_ms - sum(piece.duration_ms for piece in pieces)
        spare -= sum(rest for rest in rests if rest is not None)
        assert spare > 0, f"the days of the fleet are enough for {self.scenario.name!r}"
        weights = [0.3 + random.random() if rest is None else 0.0 for rest in rests]
        total = sum(weights) or 1.0
        starts, at_ms = [], born_ms
        if not any(weights):
            at_ms += spare
        for piece, rest, weight in zip(pieces, rests, weights, strict=True):
            starts.append(at_ms)
            at_ms += piece.duration_ms + (int(spare * weight / total) if rest is None else rest)
        return starts


def _joined(spans: list[Span]) -> list[Span]:
    """Join spans with short gaps: the other members continue while one is replaced."""
    found: list[Span] = []
    for span in spans:
        if found and span.from_ms - found[-1].until_ms < 12 * HOUR_MS:
            found[-1] = Span(found[-1].from_ms, span.until_ms)
        else:
            found.append(span)
    return found


def raced_pieces(pieces: Sequence[Piece], random: Random) -> list[Piece]:
    """Return pieces as read during a compaction, at a moment at which a released Kafka fails to load them."""
    records = [record for piece in pieces for record in piece.records]
    moments = list(range(1, len(records)))
    random.shuffle(moments)
    for read in moments:
        left = raced(records, read)
        if is_refused(left):
            kept = {id(record) for record in left}
            return [
                replace(piece, records=tuple(record for record in piece.records if id(record) in kept))
                for piece in pieces
            ]
    raise AssertionError("a cleaner finds a moment that is bad enough")


def is_refused(records: Sequence[Record]) -> bool:
    """Whether some released Kafka, from 4.0 on, fails at one of the records."""
    check = LogCheck()
    return any(
        violation.demand is not KAFKA_17306
        for offset, record in enumerate(records)
        for violation in check.take(step_of(offset, record.timestamp_ms, record.key or b"", record.value))
    )
