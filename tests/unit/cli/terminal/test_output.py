from __future__ import annotations

import io
import json
import sys

import pytest

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import USAGE, unknown


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


HOSTILE = "a\x1b]0;owned\x07\nb\u202ec\x9b"


def test_a_name_forges_no_row_and_reaches_the_terminal_without_control_characters() -> None:
    shown = output.table(["group"], [(HOSTILE,)])
    assert shown.splitlines()[1:] == [r"a\x1b]0;owned\x07\nb\u202ec\x9b"]


def test_sentences_are_printed_with_control_characters_escaped(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    output.put(f"first\t{HOSTILE}")
    output.flush()
    output.remark(HOSTILE)
    captured = capsysbinary.readouterr()
    assert captured.out.decode() == "first\ta\\x1b]0;owned\\x07\nb\\u202ec\\x9b\n"
    assert captured.err.decode() == "kohort: a\\x1b]0;owned\\x07\\nb\\u202ec\\x9b\n"


def test_json_with_control_characters_is_the_same_json_and_prints_none(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    output.put_json({"group": HOSTILE})
    output.flush()
    out = capsysbinary.readouterr().out.decode()
    assert json.loads(out) == {"group": HOSTILE}
    assert output.CONTROL.search(out.rstrip("\n")) is None


@pytest.mark.parametrize(
    ("environment", "is_terminal", "is_coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_show_on_a_terminal_unless_they_are_unwanted(
    environment: dict[str, str], is_terminal: bool, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if is_terminal else io.StringIO()
    assert output.coloured("x", output.RED, stream) == ("\x1b[31mx\x1b[0m" if is_coloured else "x")


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
