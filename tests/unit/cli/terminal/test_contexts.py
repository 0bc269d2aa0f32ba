"""Contexts: which of option, variable and file names the cluster, and the sentences about a wrong file."""

from __future__ import annotations

import stat
from argparse import Namespace
from pathlib import Path

import pytest

from kohort.cli.main import main, parser_for
from kohort.cli.terminal.options import resolve_cluster

CONTEXTS = """\
# who may do what is asked of ops
current = "staging"

[contexts.staging]
bootstrap.servers = ["stage-1:9092", "stage-2:9092"]

[contexts.prod]
bootstrap.servers = "prod-1:9093"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "ann"
sasl.password = "${env:PROD_PASSWORD}"

[contexts.shared]
command.config = "shared.properties"
"""
VARIABLES = ("KOHORT_CONTEXT", "KOHORT_BOOTSTRAP", "KOHORT_COMMAND_CONFIG")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PROD_PASSWORD", "hidden")
    path = tmp_path / "kohort" / "config.toml"
    path.parent.mkdir()
    path.write_text(CONTEXTS)
    (path.parent / "shared.properties").write_text("bootstrap.servers=shared-1:9092\n")
    return path


def resolved(*words: str) -> Namespace:
    """The options of a command as it gets them."""
    args = parser_for(words).parse_args(words)
    resolve_cluster(args)
    return args


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("words", "variables", "servers", "options"),
    [
        ((), {}, "stage-1:9092,stage-2:9092", ["--context", "staging"]),
        ((), {"KOHORT_CONTEXT": "prod"}, "prod-1:9093", ["--context", "prod"]),
        ((), {"KOHORT_BOOTSTRAP": "h:1"}, "h:1", ["--bootstrap-server", "h:1"]),
        (("--context", "prod"), {"KOHORT_CONTEXT": "shared"}, "prod-1:9093", ["--context", "prod"]),
        (("--context", "prod"), {"KOHORT_BOOTSTRAP": "h:1"}, "prod-1:9093", ["--context", "prod"]),
        (("-b", "h:2"), {}, "h:2", ["--bootstrap-server", "h:2"]),
        (("-b", "h:2", "--context", "prod"), {}, "h:2", ["--context", "prod", "--bootstrap-server", "h:2"]),
        (("--context", "shared"), {}, "shared-1:9092", ["--context", "shared"]),
    ],
)
def test_an_option_goes_before_a_variable_and_both_before_the_current_context(
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    servers: str,
    options: list[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    args = resolved("topics", "list", *words)
    assert (args.bootstrap_server, args.cluster_options) == (servers, options)
    assert ("sasl" in args.security) == ("prod" in options)


@pytest.mark.usefixtures("file")
def test_the_login_of_the_current_context_is_sent_to_no_other_cluster() -> None:
    assert main(["contexts", "use", "prod"]) == 0
    assert resolved("topics", "list").security["sasl"].username == "ann"
    assert resolved("topics", "list", "-b", "h:2").security == {}
    assert resolved("gateway", "--config", "gateway.toml").security == {}, "its file names the cluster"


@pytest.mark.usefixtures("file")
def test_the_option_may_stand_before_the_verb() -> None:
    assert resolved("--context", "prod", "topics", "list").bootstrap_server == "prod-1:9093"
    assert resolved("--context=prod", "topics", "list").bootstrap_server == "prod-1:9093"


@pytest.mark.usefixtures("file")
def test_a_verb_without_a_cluster_takes_no_context(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "prod", "completion", "bash"]) == 2
    assert capsys.readouterr().err == "kohort: --context is for verbs that connect to one cluster\n"


def test_contexts_are_listed_without_their_logins(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CONTEXTS.replace("${env:PROD_PASSWORD}", "hidden"))
    assert main(["contexts", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CONTEXT  CURRENT  BOOTSTRAP SERVERS          SECURITY PROTOCOL  COMMAND CONFIG",
        "prod              prod-1:9093                SASL_PLAINTEXT     -",
        "shared            -                          -                  shared.properties",
        "staging  *        stage-1:9092,stage-2:9092  -                  -",
    ]
    assert main(["contexts", "list", "--json"]) == 0
    assert "hidden" not in capsys.readouterr().out


def test_a_context_is_chosen_in_the_file_and_the_rest_of_it_stays(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o600)
    assert main(["contexts", "use", "prod"]) == 0
    assert file.read_text() == CONTEXTS.replace('current = "staging"', 'current = "prod"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    capsys.readouterr()
    assert main(["contexts", "current"]) == 0
    monkeypatch.setenv("KOHORT_CONTEXT", "shared")
    assert main(["contexts", "current"]) == 0
    assert capsys.readouterr().out == "prod\nshared\n"
    monkeypatch.delenv("KOHORT_CONTEXT")
    file.write_text(CONTEXTS.replace('current = "staging"\n', ""))
    assert main(["contexts", "current"]) == 1
    assert main(["contexts", "use", "shared"]) == 0
    assert file.read_text().startswith('current = "shared"\n')


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"staging"', '"staging', ": Illegal character '\\n' (at line 2, column 19)"),
        ('"staging"', '"stage"', ", line 2: current = 'stage' is no context of this file"),
        ("# who", "curent = 1 #", ", line 1: 'curent' is neither 'current' nor a context: a table is named"),
        ("[contexts.staging]", "[context.staging]", ", line 4: 'context' is neither 'current' nor a context"),
        ("sasl.mechanism", "sasl.mechanizm", ", line 10: context 'prod': a connection has no setting 'sasl.mechanizm'"),
        ("SASL_PLAINTEXT", "KERBEROS", ", line 9: context 'prod': security.protocol='KERBEROS': expected"),
        (
            "PROD_PASSWORD",
            "NOWHERE",
            ", line 12: context 'prod': sasl.password: the environment variable NOWHERE is not",
        ),
        ('bootstrap.servers = "prod', 'servers = "prod', ", line 7: context 'prod': it has no bootstrap.servers"),
        ("contexts.prod", "contexts.produce", ": there is no context 'prod'"),
    ],
)
def test_a_wrong_file_is_a_sentence_with_the_line(
    file: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, sentence: str
) -> None:
    file.write_text(CONTEXTS.replace(old, new))
    assert main(["--context", "prod", "topics", "list"]) == 2
    error = capsys.readouterr().err
    where = f"kohort: {file}" if "there is no context" not in sentence else "kohort"
    assert error.startswith(f"{where}{sentence}")
    assert "hidden" not in error


def test_a_context_that_does_not_exist_gets_the_nearest_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "prd", "topics", "list"]) == 2
    assert capsys.readouterr().err == f"kohort: there is no context 'prd' in {file}: did you mean 'prod'?\n"
