"""docs/interop.md from outcomes: a run of some tests replaces their cells, and leaves the others."""

from __future__ import annotations

import pytest
from interop.table import cells_of_figures, cells_of_page, cells_of_run, page


def outcome(client: str, capability: str, broker: str, outcome: str = "passed", **more: str) -> dict[str, str]:
    return {"client": client, "capability": capability, "broker": broker, "outcome": outcome, "reason": "", **more}


WHOLE = [
    outcome("through the gateway", "kgo, range", "observe", figures="1 / 2 ms"),
    outcome("through the gateway", "kgo, range", "rewrite"),
    outcome("java", "matrix: range, static", "apache"),
    outcome("java", "matrix: consumer, dynamic", "kohort"),
    outcome("java", "is slow", "kohort"),
    outcome("java", "is slow", "kohort", "failed"),
    outcome("java", "is quick", "apache", "skipped", reason="no matter of policies"),
    outcome("kohort.spark", "copies", "apache, version 1 of transactions"),
    outcome("java", "matrix: range, dynamic", "rewrite_of_older"),
]


def test_a_page_has_the_cells_of_its_run() -> None:
    cells = cells_of_run(WHOLE)
    assert cells_of_page(page(cells)) == cells
    assert page(cells_of_page(page(cells))) == page(cells)


def test_each_outcome_is_in_the_column_of_its_broker() -> None:
    lines = page(cells_of_run(WHOLE)).splitlines()
    assert "| kgo, range | – | yes, 1 / 2 ms | – | – | yes |" in lines
    assert "| range | – | – | – | yes |" in lines
    assert "| is slow | **no** (1 of 2) | – |" in lines
    assert "| is quick | – | skipped: no matter of policies |" in lines
    assert "| copies, version 1 of transactions | – | yes |" in lines


def test_a_run_of_some_tests_replaces_their_cells_alone() -> None:
    before = page(cells_of_run(WHOLE))
    again = cells_of_page(before) | cells_of_run([outcome("java", "is slow", "kohort")])
    assert page(again) == before.replace("| is slow | **no** (1 of 2) | – |", "| is slow | yes | – |")


def test_a_new_version_of_a_client_makes_no_second_section() -> None:
    before = page(cells_of_run([outcome("aiokafka", "produces", "kohort")])).replace("## aiokafka ", "## aiokafka 9.")
    after = page(cells_of_page(before) | cells_of_run([outcome("aiokafka", "consumes", "apache")]))
    assert after.count("## aiokafka") == 1
    assert "| consumes | – | yes |\n| produces | yes | – |" in after


@pytest.mark.parametrize(
    "cell", [("through the gateway", "apache"), ("java", "rewrite_of_nothing"), ("locked", "kohort")]
)
def test_an_outcome_without_a_column_is_an_error(cell: tuple[str, str]) -> None:
    client, broker = cell
    with pytest.raises((KeyError, ValueError)):
        cells_of_run([outcome(client, "an assignor", broker)])


def test_shares_of_parked_heartbeats_come_from_the_figures() -> None:
    figures = """| heartbeat parked, kgo, at rest | 97.1 % | – | – |  |  |
| heartbeat parked, kgo, auto-commit | 93 % | – | – |  |  |
| heartbeat parked, java | 74.3 % | – | – |  |  |
"""
    cells = cells_of_figures(figures)
    assert "| kgo | 97.1 % | 93 % | – |" in page(cells).splitlines()
    assert cells_of_page(page(cells)) == cells
