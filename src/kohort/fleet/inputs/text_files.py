"""Files of text as pieces, one each: a dump or an export says itself which partitions it tells of."""

from __future__ import annotations

from pathlib import Path

from kohort.fleet.inputs.input_splits import NO_END, Input, Piece, Since


def plan(given: Input, since: Since) -> list[Piece]:
    """Return a piece for each file."""
    starts = {str(partition): start for partition, start in since.get(given.source, {}).items()}
    assert given.kind not in ("cluster", "segment"), "an input of these kinds is no text"
    return [
        Piece(given.kind, given.source, where, -1, 0, NO_END, Path(where).stat().st_size, starts)
        for where in given.where
    ]
