from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort
from kohort.cli.main import main, parser_for
from kohort.cli.terminal.options import SHORT_NAMES


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_no_parser_takes_an_abbreviated_option() -> None:
    assert [each.prog for each in parsers(parser_for([])) if each.allow_abbrev] == []


def test_every_help_has_examples_and_each_is_a_command_line_of_its_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    for parser in parsers(parser_for([])):
        _, heading, examples = parser.format_help().partition("\nexamples:\n")
        assert heading, parser.prog
        commands = [command for line in examples.splitlines() for command in commands_of(line)]
        assert any(f"kohort {' '.join(words)} ".startswith(f"{parser.prog} ") for words in commands), parser.prog
        for words in commands:
            if "--help" not in words:
                assert parser_for(words).parse_args(words).run


def commands_of(line: str) -> Iterator[list[str]]:
    """The words after `kohort` of each of its commands in a line of a shell."""
    words: list[str] | None = None
    for word in [*shlex.split(line, comments=True), "|"]:
        if word in ("|", ">", "<", "&"):
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(word)
        elif word == "kohort":
            words = []


def test_the_short_names_of_kcat_are_those_of_every_verb_that_has_the_long_ones() -> None:
    for parser in parsers(parser_for([])):
        for action in parser._actions:
            for long_name, short in SHORT_NAMES.items():
                assert (long_name in action.option_strings) == (short in action.option_strings), parser.prog
    words = ["-b", "kafka:9092", "-t", "flights", "-g", "readers", "-p", "0,2", "-o", "-10", "-f", "{key}"]
    parsed = parser_for(["consume"]).parse_args(["consume", *words])
    assert (parsed.bootstrap_server, parsed.topic, parsed.group) == ("kafka:9092", ["flights"], "readers")
    assert (parsed.partition, parsed.offset, parsed.format) == ({0, 2}, -10, "{key}")


def test_an_abbreviation_is_refused_and_not_taken_for_the_option_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["topics", "create", "t", "--part", "3"])
    assert refused.value.code == 2
    assert "unrecognized arguments: --part" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_verbs_of_verbs_and_their_options(
    shell: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsysbinary.readouterr().out.decode()
    assert "reset-offsets" in script
    assert "to-earliest" in script


def test_the_verb_demo_says_where_the_demo_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 2
    assert "run `make demo` in a clone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "give a change: --add, --kill"),
        (("--compare", "--protocol", "consumer"), "--compare tries every protocol by itself"),
    ],
)
def test_what_if_refuses_contradictory_options_before_it_connects(
    options: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "readers", "--bootstrap-server", "127.0.0.1:1", *options]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("topics", "create", "t", "--partitons", "3"), "instead of --partitons, did you mean --partitions?"),
        (("topics", "create", "t", "--part=3"), "instead of --part, did you mean --partitions?"),
        (("consume", "flights", "-G", "readers"), "instead of -G, did you mean -g?"),
        (("broker", "--dta", "d"), "are required: --data; instead of --dta, did you mean --data?"),
    ],
)
def test_a_misspelt_option_is_an_error_of_its_verb_that_names_the_nearest_option(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith(f"usage: kohort {' '.join(words[: 2 if words[0] == 'topics' else 1])} [-h]")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("help",), "usage: kohort [-h] [-V] [--context NAME] VERB ..."),
        (("help", "topics"), "usage: kohort topics [-h] VERB ..."),
        (("help", "topics", "create"), "usage: kohort topics create [-h]"),
    ],
)
def test_help_is_a_verb_too(words: tuple[str, ...], printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(printed)


def test_both_names_of_the_option_print_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-V"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"kohort {kohort.__version__}"


def test_a_misspelt_verb_of_a_verb_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["topics", "lst"])
    assert refused.value.code == 2
    assert "there is no verb 'lst': did you mean 'list'?" in capsys.readouterr().err
