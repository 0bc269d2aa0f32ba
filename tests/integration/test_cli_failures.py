"""Wrong command lines and clusters that do not answer: one sentence, the right exit status, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.ports import free_port
from tests.integration.commands import Commands
from tests.integration.test_broker_command import running

from kohort.broker.embedded import EmbeddedBroker


@pytest.mark.parametrize(
    "words",
    [
        ("topcs",),
        ("topics",),
        ("topics", "lst"),
        ("topics", "list", "--bootstrap-server", "nowhere"),
        ("topics", "list", "--bootstrap-server", "a:b"),
        ("produce",),
        ("produce", "t", "--acks", "2"),
        ("produce", "t", "--compression", "zip"),
        ("produce", "t", "--json", "--key-separator", ":"),
        ("produce", "t", "--key-separator", ""),
        ("produce", "no-such-topic"),
        ("consume",),
        ("consume", "no-such-topic"),
        ("consume", "t", "--max", "0"),
        ("consume", "t", "--timeout-ms", "soon"),
        ("consume", "t", "--format", "{nothing}"),
        ("consume", "t", "--json", "--format", "{key}"),
        ("groups", "describe", "no-such-group"),
        ("groups", "delete", "no-such-group", "--yes"),
        ("groups", "reset-offsets", "g", "--topic", "t"),
        ("groups", "reset-offsets", "g", "--to-earliest"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"),
        ("groups", "reset-offsets", "g", "--topic", "no-such-topic", "--to-earliest"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-offset", "-1"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-datetime", "today"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_exit_status_2_and_one_sentence(kohort: Commands, words: tuple[str, ...]) -> None:
    kohort("topics", "create", "t")
    outcome = kohort(*words)
    assert outcome.status == 2
    assert "Traceback" not in outcome.err
    assert "kohort" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(
    "words", [("topics", "list"), ("produce", "t"), ("consume", "t"), ("groups", "list")], ids=" ".join
)
def test_a_broker_that_does_not_answer_is_named_with_what_to_do(kohort: Commands, words: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    outcome = kohort(*words, "--bootstrap-server", address)
    assert outcome.status == 1
    assert outcome.err == (
        f"kohort: no broker answers at {address} (nothing listens there): start one with `kohort broker --data DIR`, "
        "or name another with --bootstrap-server or KOHORT_BOOTSTRAP\n"
    )


def test_a_name_that_does_not_resolve_is_named(kohort: Commands) -> None:
    outcome = kohort("topics", "list", "--bootstrap-server", "broker.invalid:9092")
    assert outcome.status == 1
    assert outcome.err.startswith("kohort: no broker answers at broker.invalid:9092 (")


def test_an_advertised_listener_that_does_not_resolve_is_named_with_the_broker_that_sent_it(
    kohort: Commands, tmp_path: Path
) -> None:
    with running("--data", str(tmp_path / "data"), "--advertised", "kafka-7.invalid:9092") as (_, address):
        outcome = kohort("topics", "create", "t", "--bootstrap-server", address)
    assert outcome.status == 1
    assert outcome.err == (
        f"kohort: the broker at {address} advertises kafka-7.invalid:9092 for broker 1 (advertised.listeners), which"
        " this machine cannot reach: the name does not resolve\n"
    )


def test_a_tls_listener_that_is_met_in_plain_text_is_taken_for_one(kohort: Commands, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data", security_protocol="SSL") as broker:
        outcome = kohort("topics", "list", "--bootstrap-server", broker.bootstrap_servers)
    assert outcome.status == 1
    assert outcome.err == (
        f"kohort: {broker.bootstrap_servers} closed the connection before its first answer, as a listener with TLS does"
        " with a client without: set security.protocol to SSL or SASL_SSL if it is one; else it may be no broker"
        " (commands read it from the file of --command-config, or from the context)\n"
    )


def test_an_advertised_listener_without_a_process_is_a_remark_while_the_command_tries_again(
    kohort: Commands, tmp_path: Path
) -> None:
    there = f"127.0.0.1:{free_port()}"
    with running("--data", str(tmp_path / "data"), "--advertised", there) as (_, address):
        command = kohort.start("groups", "describe", "readers", "--bootstrap-server", address)
        assert command.stderr is not None
        assert command.stderr.readline().decode() == (
            f"kohort: the broker at {address} advertises {there} for broker 1 (advertised.listeners), which this"
            " machine cannot reach: nothing listens there; it is tried again\n"
        )
        command.terminate()
        command.communicate()
