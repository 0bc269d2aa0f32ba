"""Which cluster a command connects to and as which user: option, file of properties, environment, in that order."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.commands import Commands
from tests.interop.certificates import authority

from kohort.broker.embedded import EmbeddedBroker
from kohort.cli.cluster import principal_of
from kohort.cli.terminal.options import resolve_cluster


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    """A broker that requires a password."""
    with EmbeddedBroker(kohort_sasl_plain_users="ann:secret", group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def properties(guarded: EmbeddedBroker, tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={guarded.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=secret\n"
    )
    return file


def test_every_command_is_let_in_by_the_file(kohort: Commands, properties: Path) -> None:
    option = ("--command-config", str(properties))
    assert kohort("topics", "create", "guarded", "--partitions", "1", *option).status == 0
    assert kohort("produce", "guarded", *option, stdin=b"one\ntwo\n").status == 0
    reading = ("--group", "g", "--from-beginning", "--max", "2")
    assert kohort("consume", "guarded", *reading, *option).out == "one\ntwo\n"
    assert kohort("groups", "list", *option).rows[1][0] == "g"
    assert "guarded" not in kohort("topics", "list").out, "without the file it is the environment's cluster"


def test_the_file_may_come_from_the_environment_and_the_option_wins(
    kohort: Commands, properties: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_COMMAND_CONFIG", str(properties))
    assert kohort("topics", "create", "by-file", "--json").status == 0
    assert "by-file" in kohort("topics", "list").out
    elsewhere = kohort("topics", "list", "--bootstrap-server", "127.0.0.1:1")
    assert elsewhere.status == 1
    assert "127.0.0.1:1" in elsewhere.err


def test_a_wrong_password_names_the_user_and_what_to_check(kohort: Commands, properties: Path) -> None:
    properties.write_text(properties.read_text().replace("secret", "guess"))
    outcome = kohort("topics", "list", "--command-config", str(properties))
    assert outcome.status == 1
    assert "refused user 'ann'" in outcome.err
    assert "check the name and the password" in outcome.err
    assert "guess" not in outcome.err


def test_a_file_that_cannot_be_used_is_a_wrong_command_line(kohort: Commands, tmp_path: Path) -> None:
    missing = kohort("topics", "list", "--command-config", str(tmp_path / "nowhere"))
    assert (missing.status, "cannot read" in missing.err) == (2, True)
    (tmp_path / "odd").write_text("security.protocol=KERBEROS\n")
    odd = kohort("groups", "list", "--command-config", str(tmp_path / "odd"))
    assert (odd.status, "expected PLAINTEXT, SSL" in odd.err) == (2, True)


def test_consume_takes_an_expression_for_topics(kohort: Commands) -> None:
    for topic in ("log-a", "log-b", "other"):
        kohort("topics", "create", topic, "--partitions", "1")
        kohort("produce", topic, stdin=f"{topic}\n".encode())
    outcome = kohort("consume", "^log-.", "--from-beginning", "--max", "2")
    assert sorted(outcome.out.split()) == ["log-a", "log-b"]


def test_principal_of_a_command_is_its_login(tmp_path: Path) -> None:
    signed = authority(tmp_path, "ops")
    files = {
        "User:ANONYMOUS": "security.protocol=PLAINTEXT",
        "User:ann": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=secret",
        "User:CN=ops": "security.protocol=SSL\n"
        f"ssl.certificate.location={signed.certificate}\nssl.key.location={signed.key}",
    }
    for principal, properties in files.items():
        path = tmp_path / "command.properties"
        path.write_text(properties)
        args = Namespace(command_config=str(path), bootstrap_server=None, context=None)
        resolve_cluster(args)
        assert principal_of(args) == principal
