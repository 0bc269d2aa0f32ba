"""Kafka's transaction coordinator and ours on the same random steps, in virtual time.

A step is a JSON object, as TransactionLockstep.java takes it: `op`, `now` in milliseconds, `next_id`, a producer id
that was never used, and what the operation takes. After each the answers, the records of `__transaction_state` and the
markers that begin must be the same. Markers are written when a step says so, so that every request also meets
transactions that end.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from interop.java_lines import JavaLines
from tests.lockstep.run import fewest

from kohort.log.transaction_records import read_event, record_of
from kohort.model.errors import ErrorCode
from kohort.transaction.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    ExpireIds,
    InitProducer,
    Loaded,
    MarkersWritten,
    TimedOut,
)
from kohort.transaction.decisions import Transactions, apply, decide, verify
from kohort.transaction.effects import (
    Append,
    Arm,
    Decision,
    Disarm,
    Event,
    Reply,
    TransactionStored,
    Why,
    WriteMarkers,
)
from kohort.transaction.transaction import ENDING, LARGEST_EPOCH, NOT_OPEN, State, Transaction

STEPS = 150
"""Steps of one seed."""

START_MS = 1_700_000_000_000
EXPIRATION_MS = 7 * 24 * 3_600_000
MOST_TIMEOUT_MS = 900_000
IDS = ("orders", "payments", "refunds")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0), ("__consumer_offsets", 3))
OLD_STATES = (State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

Step = dict[str, Any]
Answer = tuple[int, int, int]
"""The error, the producer id and the epoch."""


class Outcome(NamedTuple):
    """What one step led to."""

    answer: Answer | None
    records: list[tuple[int | None, Event | None]]
    """The version of each value, and the event that it is."""
    markers: list[Any]


class Kafkas:
    """Kafka's coordinator."""

    def __init__(self) -> None:
        self._lines = JavaLines("TransactionLockstep")

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    def do(self, step: Step) -> Outcome:
        """Take a step."""
        found = json.loads(self._lines.ask(json.dumps(step)))
        records = [(base64.b64decode(key), value and base64.b64decode(value)) for key, value in found["records"]]
        answer = found["answer"]
        return Outcome(None if answer is None else tuple(answer), [_shown(*each) for each in records], found["markers"])


def _shown(key: bytes, value: bytes | None) -> tuple[int | None, Event | None]:
    return None if value is None else int.from_bytes(value[:2]), read_event(key, value)


class Ours:
    """Our coordinator: decisions, their events and their timers. `log` is what it has written."""

    def __init__(self) -> None:
        self.transactions = Transactions(MOST_TIMEOUT_MS)
        self.deadlines: dict[str, int] = {}
        self.ending: dict[str, WriteMarkers] = {}
        self.log: dict[bytes, bytes | None] = {}

    def do(self, step: Step) -> Outcome:
        """Take a step."""
        outcome = Outcome(None, [], [])
        for command in self._commands(step):
            if isinstance(command, ErrorCode):
                outcome = outcome._replace(answer=(command, -1, -1))
                continue
            outcome = self._carry_out(decide(self.transactions, command, step["now"]), outcome)
        return outcome

    def _carry_out(self, decision: Decision, outcome: Outcome) -> Outcome:
        for effect in decision:
            match effect:
                case Append():
                    key, value = record_of(effect.event)
                    self.log[key] = value
                    outcome.records.append(_shown(key, value))
                    apply(self.transactions, effect.event)
                case Reply():
                    result = effect.result
                    outcome = outcome._replace(answer=(result.error, result.producer_id, result.epoch))
                case WriteMarkers():
                    self.ending[effect.transactional_id] = effect
                    outcome.markers.append(_marker(effect))
                case Arm():
                    self.deadlines[effect.transactional_id] = effect.deadline_ms
                case Disarm():
                    self.deadlines.pop(effect.transactional_id, None)
        return outcome

    def _commands(self, step: Step) -> Iterator[Command | ErrorCode]:
        next_id = step["next_id"]
        transactional_id, producer = step.get("id", ""), (step.get("producer_id", -1), step.get("epoch", -1))
        partitions = frozenset((topic, partition) for topic, partition in step.get("partitions", ()))
        version = step.get("version", 0)
        match step["op"]:
            case "open" | "load":
                self._load(step)
                yield from (Loaded(each) for each in sorted(self.transactions.by_id))
            case "init":
                expected = producer if producer[0] >= 0 else None
                yield InitProducer(transactional_id, step["timeout"], expected, next_id)
            case "add":
                yield AddPartitions(transactional_id, *producer, partitions, version)
            case "verify":
                yield verify(self.transactions, AddPartitions(transactional_id, *producer, partitions, version))
            case "end":
                yield EndTransaction(transactional_id, *producer, step["commit"], version, next_id)
            case "markers":
                if (done := self.ending.pop(transactional_id, None)) is not None:
                    yield MarkersWritten(transactional_id, done.producer_id, done.epoch)
            case "timeouts":
                due = [each for each, deadline_ms in sorted(self.deadlines.items()) if deadline_ms <= step["now"]]
                yield from (TimedOut(each, next_id) for each in due)
            case "expire":
                yield ExpireIds(EXPIRATION_MS)

    def _load(self, step: Step) -> None:
        self.__init__()  # type: ignore[misc]
        for key, value in step["records"]:
            key, value = base64.b64decode(key), value and base64.b64decode(value)
            self.log[key] = value
            event = read_event(key, value)
            assert event is not None, "only transactional ids are in the log"
            apply(self.transactions, event)


def _id_of(record: tuple[int | None, Event | None]) -> str:
    return "" if record[1] is None else record[1].transactional_id


def _marker(effect: WriteMarkers) -> list[Any]:
    return [
        effect.transactional_id,
        effect.producer_id,
        effect.epoch,
        effect.is_commit,
        [list(each) for each in sorted(effect.partitions)],
    ]


def as_json(log: dict[bytes, bytes | None]) -> list[list[str | None]]:
    """Return a log as a step carries it."""
    return [
        [base64.b64encode(key).decode(), None if value is None else base64.b64encode(value).decode()]
        for key, value in log.items()
    ]


# -- random steps


class Generator:
    """Draws steps by what our side knows, so that most of them are of producers that exist."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now_ms = START_MS
        self._next_id = 1_000
        self._versions = {each: random.choice((0, 2, 2)) for each in IDS}
        """The transaction version that the client of each id knows."""
        self._producers: dict[str, list[tuple[int, int]]] = {each: [] for each in IDS}

    def first(self) -> Step:
        """Return the step that begins a run: at times with ids whose epochs have nearly run out."""
        log: dict[bytes, bytes | None] = {}
        for number, each in enumerate(IDS):
            if self._random.random() < 0.5:
                key, value = record_of(TransactionStored(self._old(each, 500 + number), Why.LOADED))
                log[key] = value
        config = {"expiration": EXPIRATION_MS, "max_timeout": MOST_TIMEOUT_MS, "version": 2}
        return self._step("open", config=config, records=as_json(log))

    def _old(self, transactional_id: str, producer_id: int) -> Transaction:
        random = self._random
        state = random.choice(OLD_STATES)
        is_open = state not in NOT_OPEN
        largest = LARGEST_EPOCH if state in ENDING else LARGEST_EPOCH - 1
        epoch = random.choice((0, 7, *(largest - each for each in range(4))))
        self._producers[transactional_id].append((producer_id, epoch))
        return Transaction(
            transactional_id,
            producer_id,
            epoch,
            60_000,
            state,
            frozenset(random.sample(PARTITIONS, 2)) if is_open else frozenset(),
            START_MS - 5_000 if is_open else -1,
            START_MS - 1_000,
            random.choice((-1, producer_id)),
            producer_id + 100 if epoch == LARGEST_EPOCH else -1,
            2 if epoch == LARGEST_EPOCH else self._versions[transactional_id],
        )

    def next(self, ours: Ours) -> Step:
        """Return the next step."""
        random = self._random
        self._now_ms += random.choice((1, 1, 10, 500, 7_000))
        for each, known in ours.transactions.by_id.items():
            if (producer := (known.producer_id, known.epoch)) not in self._producers[each]:
                self._producers[each].append(producer)
        op = random.choices(
            ("init", "add", "verify", "end", "markers", "timeouts", "expire", "load"), (16, 30, 6, 26, 20, 3, 1, 2)
        )[0]
        transactional_id = random.choice(IDS) if random.random() < 0.98 else ""
        if op == "timeouts":
            self._now_ms += random.choice((0, 10_000, 61_000, MOST_TIMEOUT_MS + 1))
        elif op == "expire":
            self._now_ms += random.choice((0, EXPIRATION_MS // 2, EXPIRATION_MS))
        if op in ("timeouts", "expire"):
            return self._step(op)
        if op == "load":
            return self._step(op, records=as_json(ours.log))
        if op == "markers":
            transactional_id = random.choice(sorted(ours.ending) or [transactional_id])
        step = self._step(op, id=transactional_id)
        if op == "init":
            timeouts = (60_000, 60_000, 60_000, 10_000, MOST_TIMEOUT_MS, MOST_TIMEOUT_MS + 1, 0, -1)
            step["timeout"] = random.choice(timeouts)
        if op in ("add", "verify"):
            step["partitions"] = [list(each) for each in random.sample(PARTITIONS, random.choice((1, 1, 2, 3)))]
        if op == "end":
            step["commit"] = random.random() < 0.6
        if op in ("add", "verify", "end") or (op == "init" and random.random() < 0.4):
            step["producer_id"], step["epoch"] = self._producer(transactional_id)
        step["version"] = self._versions.get(transactional_id, 2) if random.random() < 0.95 else random.choice((0, 2))
        return step

    def _producer(self, transactional_id: str) -> tuple[int, int]:
        known = self._producers.get(transactional_id) or [(999, 0)]
        if self._random.random() < 0.75:
            return known[-1]
        producer_id, epoch = self._random.choice(known)
        if self._random.random() < 0.2:
            producer_id += self._random.choice((-1, 1))
        return producer_id, min(max(epoch + self._random.choice((-2, -1, 0, 0, 1)), -1), LARGEST_EPOCH)

    def _step(self, op: str, **rest: Any) -> Step:
        self._next_id += 1
        return {"op": op, "now": self._now_ms, "next_id": self._next_id, **rest}


# -- runs


@dataclass(frozen=True)
class TransactionDifference:
    """One row of the table: what the two sides do differently on purpose, and the rule that knows it."""

    name: str
    kafka: str
    ours: str
    reason: str
    request: str
    rule: Callable[[Step, Outcome, Outcome, Transaction | None], bool]
    """Takes the step, Kafka's outcome and ours, and the id's transaction before it."""
    ends: Callable[[Step], bool] = field(default=lambda _: True)


def _is_end_dated(step: Step, kafkas: Outcome, own: Outcome, _: Transaction | None) -> bool:
    return step["op"] == "expire" or (step["op"] == "markers" and _undated(kafkas) == _undated(own))


def _undated(outcome: Outcome) -> list[Any]:
    events = [event for _, event in outcome.records]
    return [replace(each.transaction, update_ms=0) for each in events if isinstance(each, TransactionStored)]


def _is_old_epoch(step: Step, kafkas: Outcome, _: Outcome, before: Transaction | None) -> bool:
    is_exhausted = step["op"] == "init" and before is not None and before.is_epoch_exhausted
    return is_exhausted and kafkas.answer is not None and kafkas.answer[0] == ErrorCode.UNKNOWN_SERVER_ERROR


TRANSACTIONS: tuple[TransactionDifference, ...] = (
    TransactionDifference(
        "a producer whose epoch is behind one that has run out",
        "Answers UNKNOWN_SERVER_ERROR.",
        "Answers as where the epoch has not run out: a repeated request alike, PRODUCER_FENCED to any other.",
        "A producer whose request was repeated goes on, and one that another has replaced ends.",
        "InitProducerId with the producer id and an epoch before the last, where the last is 32766.",
        _is_old_epoch,
    ),
    TransactionDifference(
        "the time stamp of an ended transaction",
        "Stores the time at which the end was decided.",
        "Stores the time at which all its partitions had their marker.",
        "It is the time of the id's last change; only the expiry of ids reads it.",
        "None: `transactionLastUpdateTimestamp` in the record of a CompleteCommit or CompleteAbort.",
        _is_end_dated,
        ends=lambda step: step["op"] == "expire",
    ),
)


@dataclass
class TransactionRun:
    """What became of a seed: its steps, the differences that it met, and why it failed, if it did."""

    steps: list[Step] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    failure: str | None = None


def run(theirs: Kafkas, seed: int) -> TransactionRun:
    """Take the steps of a seed."""
    generator, ours = Generator(Random(f"transactions {seed}")), Ours()
    found = TransactionRun()
    step = generator.first()
    while _take(theirs, ours, step, found) and len(found.steps) < STEPS:
        step = generator.next(ours)
    return found


def again(theirs: Kafkas, steps: list[Step]) -> TransactionRun:
    """Take these steps; the first of them opens the log whatever it is."""
    found, ours = TransactionRun(), Ours()
    for step in steps:
        if not _take(theirs, ours, step, found):
            break
    return found


def shrink(theirs: Kafkas, failed: TransactionRun) -> TransactionRun:
    """Leave out whatever the failure does not need."""
    first, *steps = failed.steps
    return fewest(steps, failed, lambda fewer: again(theirs, [first, *fewer]))


def _take(theirs: Kafkas, ours: Ours, step: Step, found: TransactionRun) -> bool:
    """Take one step on both sides; return whether the run goes on."""
    before = ours.transactions.by_id.get(step.get("id", ""))
    found.steps.append(step)
    kafkas, own = theirs.do(step), ours.do(step)
    if step["op"] in ("add", "verify") and own.answer is not None:
        own = own._replace(answer=(own.answer[0], -1, -1))
    for outcome in (kafkas, own):  # several ids at once come in the order of a hash map
        outcome.records.sort(key=_id_of)
        outcome.markers.sort()
    if kafkas == own:
        return True
    for difference in TRANSACTIONS:
        if difference.rule(step, kafkas, own, before):
            found.met[difference.name] += 1
            return not difference.ends(step)
    found.failure = f"{step}\n  before: {before}\n  Kafka: {kafkas}\n  ours:  {own}"
    return False
