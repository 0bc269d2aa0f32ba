"""A log as a loader sees it that reads while the cleaner works: of some records it has missed what came after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from kohort.fleet.generator.simulated_group import Piece
from kohort.fleet.log_check.load_check import KAFKA_17306, LogCheck
from kohort.fleet.log_check.steps import step_of
from kohort.log.group_replay import raced
from kohort.wire.record_batches import Record


def raced_pieces(pieces: Sequence[Piece], random: Random) -> list[Piece]:
    """Return pieces from which the cleaner has taken records at such a moment that a released Kafka does not load."""
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
    """Whether some released Kafka with consumer groups that are no preview stops at one of the records."""
    check = LogCheck()
    return any(
        violation.demand is not KAFKA_17306
        for offset, record in enumerate(records)
        for violation in check.take(step_of(offset, record.timestamp_ms, record.key or b"", record.value))
    )
