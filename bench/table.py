"""Writes docs/figures.md from what the last runs of each row left in build/bench/results.json.

python -m bench.table [FILE]

A row that the file does not have keeps its section, so that one row can be measured on another day.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import roll_table
from bench.result import Aim, number
from bench.run import RESULTS, ROWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "figures.md"
HEAD = """# What was measured

Written by `python -m bench.table` from what `make bench` left. Ours and the peer's were measured in turns on the same
machine, which has {cores} cores, and their medians are compared: **the ratio is what counts**, the figures are those of
one machine on one day. What each row is, and how it is measured, is in [bench/README.md](../bench/README.md). An aim
that was missed stays here as it is.
"""
ROW_HEAD = """## {row}

Measured {day}.

| | ours | peer | ratio | aim | met |
|---|---|---|---|---|---|
"""


def cell(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    return "–" if value is None else f"{number(value)} {unit}"


def line(found: dict[str, Any]) -> str:
    """Return one line of a row's table."""
    if "skipped" in found:
        return f"| {found['name']} | not measured: {found['skipped']} | | | | |\n"
    unit, ratio = found["unit"], found["ratio"]
    theirs = cell(found["theirs"], unit) + (f", {found['peer']}" if found["theirs"] is not None else "")
    aim = Aim(**found["aim"]).text(unit) if found["aim"] else ""
    met = {True: "yes", False: "**no**", None: ""}[found["is_met"]]
    name = found["name"].strip()
    return (
        f"| {name} | {cell(found['ours'], unit)} | {theirs} | {f'{ratio:.2f}×' if ratio else '–'} | {aim} | {met} |\n"
    )


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by the name of their row."""
    _, *found = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {each.splitlines()[0].removeprefix("## "): each.rstrip() + "\n" for each in found}


def page(document: dict[str, Any], before: str = "") -> str:
    """Return the page; `before` is the page as it was: its other sections stay, those that are no rows at the end."""
    known = sections(before)
    rows = (roll_table.SECTION if row in roll_table.ROWS else row for row in ROWS)
    order = list(dict.fromkeys([*rows, *known]))
    for row, lines in groupby(document["results"], key=lambda each: each["row"]):
        found = list(lines)
        text = ROW_HEAD.format(row=row, day=found[0]["at"][:10]) + "".join(map(line, found))
        notes = [f"- {each['name'].strip()}: {each['note']}\n" for each in found if each.get("note")]
        if row in order:
            known[row] = text + ("\n" + "".join(notes) if notes else "")
    rolls = [each for each in document["results"] if each["row"] in roll_table.ROWS]
    known[roll_table.SECTION] = roll_table.section(rolls, known.get(roll_table.SECTION, ""))
    return "\n".join([HEAD.format(cores=document["cores"]), *(known[row] for row in sorted(known, key=order.index))])


def main() -> int:
    """Write the page."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    PAGE.write_text(page(json.loads(file.read_text()), PAGE.read_text()))
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
