"""The table of all rolling restarts in docs/figures.md: a line for each cell, empty where it was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.result import number
from bench.roll import BROKER, CELLS, GATEWAY, MIXED, Cell

SECTION = "roll"
ROWS = {cell.row: cell for cell in CELLS}
HEAD = """## roll

Partition-seconds without an owner while six clients are closed and started again one by one, and what part of those on
Apache Kafka that is; in bold where an aim is missed. The last two columns count records, on Apache Kafka, our broker,
and through the gateway: those read twice, no more than on Apache Kafka, and those never read, none.

A restart costs two rounds, and each cell has six: one that falls into the interval in which no member is in reach
(three seconds of each fifteen, and the first after a round) costs as much as on Apache Kafka. There the heartbeats of a
young group come together, so that all stop at the same time; after hours they do not, and it costs more. Where members
commit each batch, those whose client neither repeats a heartbeat nor takes answers by id stop with their own next one.

| clients | protocol | commits | pace | measured | Apache Kafka | our broker | gateway | aim | read twice | never read |
|---|---|---|---|---|---|---|---|---|---|---|
"""
TITLES = {"java": "Java", "kafka_python": "kafka-python", "kohort": "ours", "java+librdkafka": "Java, librdkafka"}
COMMITS = {"auto": "auto-commit", "sync": "each batch"}


def section(results: Iterable[dict[str, Any]], before: str = "") -> str:
    """Return the section; cells that the results do not have stay as they were in the section before."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for each in results:
        found.setdefault(each["row"], {})[each["name"].removeprefix(f"{each['row']}, ")] = each
    known = {_name(cell): "| | | | | | | |" for cell in CELLS}
    for line in before.splitlines():
        if (place := "|".join(line.split("|")[:5])) in known:
            known[place] = line.removeprefix(place)
    known |= {_name(ROWS[row]): _figures(ROWS[row], lines) for row, lines in found.items()}
    return HEAD + "".join(f"{name}{figures}\n" for name, figures in known.items())


def _name(cell: Cell) -> str:
    makes = {4: "four makes", 5: "five makes", 6: "six makes"}
    title = makes[len(set(cell.makes))] if cell.clients == MIXED else TITLES.get(cell.clients, cell.clients)
    return f"| {title} | {cell.protocol} | {COMMITS[cell.commits]} | {cell.pace_s} s "


def _figures(cell: Cell, lines: Mapping[str, dict[str, Any]]) -> str:
    if BROKER not in lines:
        (skipped,) = lines.values()
        return f"| not measured: {skipped['skipped']} | | | | | | |"
    sides = (BROKER, GATEWAY)
    seconds = [lines[side] for side in sides]
    cells = [lines[BROKER]["at"][:10], f"{number(seconds[0]['theirs'])} s"]
    for each in seconds:
        ratio = "" if each["ratio"] is None else f", {each['ratio']:.2f}×"
        cells.append(_bold(f"{number(each['ours'])} s{ratio}", is_met=each["is_met"]))
    cells.append(cell.aim.text("s"))
    for what in ("read twice", "never read"):
        counts = [lines[f"{side}, {what}"] for side in sides]
        shown = [f"{counts[0]['theirs']:,.0f}", *(_bold(f"{c['ours']:,.0f}", is_met=c["is_met"]) for c in counts)]
        cells.append(" / ".join(shown))
    return f"| {' | '.join(cells)} |"


def _bold(text: str, *, is_met: bool | None) -> str:
    return f"**{text}**" if is_met is False else text
