from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

import kohort
from kohort.cli.main import main, parser_for


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_no_parser_takes_an_abbreviated_option() -> None:
    assert [each.prog for each in parsers(parser_for([])) if each.allow_abbrev] == []


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
        (("help",), "usage: kohort [-h] [-V] VERB ..."),
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
