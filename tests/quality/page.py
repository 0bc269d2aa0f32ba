"""The museum's page: what was found, by what, after how many seeds, and each bug's story."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from tests.quality.exhibits import Exhibit
from tests.quality.museum import Score

HEAD = """# The museum

Bugs that other coordinators, assignors and clients had, put into our code one at a time, and looked for by the
simulator: how many seeds does it need until an invariant breaks? A bug that it did not find would be a hole in the
simulator. Each is a small mutation in `tests/quality`: production code has no switch for it.

`make museum` does it again, from {starts} starting seeds each, and writes this page. *Found* is from how many of them
the bug was found within its budget; *seeds* is the median of how many worlds that took, the one that broke included;
*by* are the [invariants](invariants.md) that broke, the most frequent first. `NoDefect` is no invariant of groups:
our code raises nothing that it should not, and comes to an end. `AssertionError` is the check of a world's own test.

| bug | what | found | seeds | budget | by |
|---|---|---|---|---|---|
"""


def page(scores: Sequence[Score]) -> str:
    """Return the page."""
    rows = [row(score) for score in scores]
    stories = [story(score.exhibit) for score in scores]
    starts = max((len(score.hunts) for score in scores), default=0)
    return HEAD.format(starts=starts) + "\n".join(rows) + "\n\n" + "\n".join(stories)


def row(score: Score) -> str:
    """Return a score's line of the table."""
    exhibit = score.exhibit
    found = f"{score.found} of {len(score.hunts)}"
    by = ", ".join(score.invariants) or "–"
    return f"| {exhibit.name} | {exhibit.title} | {found} | {_seeds(score)} | {exhibit.budget} | {by} |"


def story(exhibit: Exhibit) -> str:
    """Return an exhibit's part of the page."""
    return f"## {exhibit.name}: {exhibit.title}\n\n{fill(exhibit.story, 120)}\n\nSource: {exhibit.link}.\n"


def score_line(score: Score) -> str:
    """Return a score as the command line shows it."""
    found = f"{score.found}/{len(score.hunts)}"
    by = ", ".join(score.invariants)
    return f"{score.exhibit.name:24} found {found}  median {_seeds(score):>5} of {score.exhibit.budget:>5} seeds  {by}"


def _seeds(score: Score) -> str:
    return f"{score.median:g}" if score.median <= score.exhibit.budget else f"> {score.exhibit.budget}"
