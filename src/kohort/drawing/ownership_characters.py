"""Who owned what when, in characters: a line for each partition, a letter for each owner, for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from string import ascii_letters

from kohort.drawing.display_text import TimeAxis
from kohort.drawing.ownership_drawing import Lane, OwnershipDrawing

UNOWNED, NO_MEMBERS, UNKNOWN, ANOTHER = "!", "-", " ", "*"
"""A partition had no owner, its group had no members, nothing is known, an owner beyond the letters."""


def letters_of(owners: Sequence[str]) -> dict[str, str]:
    """Return the letter of each owner."""
    return dict(zip_longest(owners, ascii_letters[: len(owners)], fillvalue=ANOTHER))


def strip(lane: Lane, axis: TimeAxis, letters: dict[str, str], width: int) -> str:
    """Return a lane in `width` characters; a time without an owner is seen however short it was."""
    characters = [UNKNOWN] * width
    owned = [(letters[span.owner], span.from_ms, span.until_ms) for span in lane.spans]
    for letter, from_ms, until_ms in (*_all(NO_MEMBERS, lane.empty), *owned, *_all(UNOWNED, lane.gaps)):
        first = min(int(axis.share(from_ms) * width), width - 1)
        end = max(first + 1, round(axis.share(until_ms) * width))
        characters[first:end] = letter * (end - first)
    return "".join(characters)


def _all(letter: str, times: Iterable[tuple[float, float]]) -> Iterable[tuple[str, float, float]]:
    return ((letter, from_ms, until_ms) for from_ms, until_ms in times)


def drawn_lanes(drawing: OwnershipDrawing, most: int) -> tuple[list[Lane], int]:
    """Return the lanes to draw, those with most changes in the order of all, and how many are left out."""
    lanes = [lane for group in drawing.groups for lane in group.lanes]
    busiest = sorted(range(len(lanes)), key=lambda place: (-len(lanes[place].spans) - len(lanes[place].gaps), place))
    return [lanes[place] for place in sorted(busiest[:most])], max(0, len(lanes) - most)
