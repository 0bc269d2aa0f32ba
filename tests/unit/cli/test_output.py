from __future__ import annotations

import io
import sys

import pytest

from kohort.cli import output
from kohort.cli.failure import USAGE, unknown


def test_a_table_sets_numbers_right_and_text_left() -> None:
    assert output.table(["topic", "lag"], [("flights", 12), ("a", 1), ("b", None)]) == (
        "TOPIC    LAG\nflights   12\na          1\nb          -"
    )


def test_a_table_without_rows_is_the_sentence_given() -> None:
    assert output.table(["topic"], [], empty="no topics") == "no topics"


def test_json_is_one_line_and_keeps_letters_readable(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    output.put_json({"name": "é\n"})
    output.flush()
    assert capsysbinary.readouterr().out == '{"name": "é\\n"}\n'.encode()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("total", [None, 100])
def test_progress_shows_on_a_terminal_once_it_takes_long(total: int | None) -> None:
    terminal = Terminal()
    with output.Meter("loading flights", total=total, stream=terminal) as meter:
        meter.started -= output.SHOW_AFTER_S
        meter.advance(42)
    assert "loading flights" in terminal.getvalue()
    assert "42" in terminal.getvalue()


def test_progress_without_rich_is_a_line_of_text_that_is_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    with output.Meter("loading flights", total=1000, stream=terminal) as meter:
        meter.started -= output.SHOW_AFTER_S
        meter.advance(42)
    assert "loading flights: 42 of 1,000 records, 2 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_for_quick_work_and_away_from_a_terminal() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    with output.Meter("quick", stream=terminal) as meter:
        meter.advance()
    with output.Meter("piped", stream=pipe) as meter:
        meter.started -= output.SHOW_AFTER_S
        meter.advance()
    assert (terminal.getvalue(), pipe.getvalue()) == ("", "")


def test_an_unknown_name_comes_with_the_nearest_one() -> None:
    failure = unknown("topic", "flihgts", ["riders", "flights"])
    assert (failure.sentence, failure.status) == ("there is no topic 'flihgts': did you mean 'flights'?", USAGE)
    assert unknown("topic", "x", [], "create it").sentence == "there is no topic 'x': create it"
