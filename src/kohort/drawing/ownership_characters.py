"""Who owned what when, in characters: a line for each partition, a letter for each owner, for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import ceil
from string import ascii_letters

from kohort.drawing.display_text import TimeAxis
from kohort.drawing.ownership_drawing import Lane, OwnershipDrawing

UNOWNED, BRIEFLY, NO_MEMBERS, UNKNOWN, ANOTHER = "!:- *"
"""No owner for half of the character's time or more, or for less; no members in the group; not known; more owners."""


def letters_of(owners: Sequence[str]) -> dict[str, str]:
    """Return the letter of each owner."""
    return dict(zip_longest(owners, ascii_letters[: len(owners)], fillvalue=ANOTHER))


def strip(lane: Lane, axis: TimeAxis, letters: dict[str, str], width: int) -> str:
    """Return a lane in `width` characters; a time without an owner is seen however short it was."""
    characters = [UNKNOWN] * width
    owned = [(letters[span.owner], span.from_ms, span.until_ms) for span in lane.spans]
    for letter, from_ms, until_ms in (*((NO_MEMBERS, *times) for times in lane.empty), *owned):
        first = min(int(axis.share(from_ms) * width), width - 1)
        end = max(first + 1, round(axis.share(until_ms) * width))
        characters[first:end] = letter * (end - first)
    unowned: dict[int, float] = {}
    for from_ms, until_ms in lane.gaps:
        begin, end_at = axis.share(from_ms) * width, axis.share(until_ms) * width
        for place in range(min(int(begin), width - 1), max(int(begin) + 1, ceil(end_at))):
            unowned[place] = unowned.get(place, 0) + max(min(end_at, place + 1) - max(begin, place), 0)
    for place, share in unowned.items():
        characters[min(place, width - 1)] = UNOWNED if share >= 0.5 else BRIEFLY
    return "".join(characters)


def drawn_lanes(drawing: OwnershipDrawing, most: int) -> tuple[list[Lane], int]:
    """Return the lanes to draw, those with most changes in the order of all, and how many are left out."""
    lanes = [lane for group in drawing.groups for lane in group.lanes]
    busiest = sorted(range(len(lanes)), key=lambda place: (-len(lanes[place].spans) - len(lanes[place].gaps), place))
    return [lanes[place] for place in sorted(busiest[:most])], max(0, len(lanes) - most)
