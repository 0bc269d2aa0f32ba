"""The table of rolling restarts: one line for each cell, whenever it was measured."""

from __future__ import annotations

from typing import Any

from bench.result import Aim, Result
from bench.roll import BROKER, CELLS, GATEWAY, KAFKA, Cell
from bench.roll_table import section
from bench.run import rows_of

JAVA = Cell("java", "eager", "auto", 12)
MIX = Cell("six", "cooperative", "sync", 5)
CAREFUL = Cell("kafka_python", "eager", "auto", 12)


def measured(cell: Cell, *costs: float, twice: int = 0) -> list[dict[str, Any]]:
    """Return what a run stores of a cell; `costs` are on Apache Kafka, our broker, and through the gateway."""
    theirs, *ours = costs
    found = []
    for name, cost in zip((BROKER, GATEWAY), ours, strict=True):
        title, none = f"{cell.row}, {name}", Aim(0, of_ratio=False, at_most=True)
        found += [
            Result(title, "s", [cost], [theirs], KAFKA, cell.aim),
            Result(f"{title}, read twice", "records", [twice], [0], KAFKA, none),
            Result(f"{title}, never read", "records", [0], [0], KAFKA, none),
        ]
    return [{"row": cell.row, "at": "2026-11-28T01:02:03Z", **each.as_json()} for each in found]


def line(text: str, beginning: str) -> str:
    """Return one line of the table."""
    (found,) = [each for each in text.splitlines() if each.startswith(beginning)]
    return found


def test_a_cell_that_was_not_measured_is_empty() -> None:
    text = section(measured(JAVA, 20, 2, 8, twice=3))
    figures = "2026-11-28 | 20 s | 2 s, 0.10× | **8 s, 0.40×** | ≤ 0.15× | 0 / **3** / **3** | 0 / 0 / 0 |"
    assert line(text, "| Java | eager | auto-commit | 12 s |") == f"| Java | eager | auto-commit | 12 s | {figures}"
    assert line(text, "| five makes | cooperative | each batch | 5 s |").endswith("5 s | | | | | | | |")
    assert len(text.splitlines()) == len(section([]).splitlines()), "a measurement adds no line"


def test_cells_of_another_day_stay() -> None:
    both = measured(JAVA, 20, 2, 3) + measured(MIX, 30, 9, 9)
    first = section(measured(JAVA, 40, 4, 4) + measured(MIX, 30, 9, 9))
    assert section(measured(JAVA, 20, 2, 3), first) == section(both)
    assert section([], first) == first


def test_a_cell_that_failed_has_its_reason() -> None:
    failed = {"row": MIX.row, "name": MIX.row, "skipped": "failed: AssertionError: no owner"}
    assert "not measured: failed: AssertionError: no owner" in section([failed], section(measured(MIX, 3, 2, 1)))


def test_every_cell_is_a_row_and_names_are_found_by_their_beginning() -> None:
    assert rows_of("roll") == [cell.row for cell in CELLS]
    assert rows_of("roll-java-eager-auto") == ["roll-java-eager-auto-12", "roll-java-eager-auto-5"]
    assert all("librdkafka" not in row for row in rows_of("roll-java"))
    assert rows_of("coordinator") == ["coordinator"]
    assert rows_of("no-such-row") == []


def test_strict_clients_need_only_be_no_slower() -> None:
    aims = [cell.aim.limit for cell in (JAVA, MIX, CAREFUL, Cell("six", "consumer", "auto", 12))]
    assert aims == [0.15, 0.6, 1.0, 0.3]
