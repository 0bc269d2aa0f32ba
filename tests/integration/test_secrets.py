"""Passwords, private keys and tokens reach no log, no answer and no list of processes."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from pathlib import Path

import pytest
from tests.integration.test_broker_command import refused, running

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Sasl
from kohort.model.errors import KafkaError
from kohort.net.connection import Connection
from kohort.wire.messages import (
    AlterUserScramCredentialsRequest,
    DescribeConfigsRequest,
    DescribeUserScramCredentialsRequest,
)

SECRET, TYPED = "s3cret-of-ann", "typed-by-mistake"


async def log_in(address: str, *sasl: Sasl) -> str:
    """Log in, describe everything that can be described, and return all that was answered or raised."""
    answered = []
    for each in sasl:
        host, _, port = address.rpartition(":")
        try:
            connection = await Connection.open(host, int(port), "c", sasl=each)
        except KafkaError as error:
            answered.append(f"{error} {error.text}")
            continue
        asked = DescribeConfigsRequest.Resource(resource_type=4, resource_name="1", configuration_keys=None)
        upsertion = AlterUserScramCredentialsRequest.Upsertion(
            name="bob", mechanism=1, iterations=1, salt=b"salt", salted_password=TYPED.encode()
        )
        described = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=True)
        altered = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        answered += [
            repr(await connection.call(described)),
            repr(await connection.call(DescribeUserScramCredentialsRequest(users=None))),
            repr(await connection.call(altered)),
        ]
        connection.close()
    return "\n".join(answered)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_no_secret_is_logged_or_answered(mechanism: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    with EmbeddedBroker(
        tmp_path,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        kohort_sasl_plain_users=f"eve:{SECRET}",
        kohort_sasl_scram_users=f"ann:{SECRET}",
        **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'x.PlainLoginModule required user_ann="{SECRET}";'},
    ) as broker:
        right, wrong = Sasl(mechanism, "ann", SECRET), Sasl(mechanism, "ann", TYPED)
        answered = asyncio.run(log_in(broker.bootstrap_servers, right, wrong))
    # A second start finds another password in its settings, and reports that.
    with EmbeddedBroker(tmp_path, kohort_sasl_scram_users=f"ann:{TYPED}"):
        pass
    assert "ann" in answered
    assert "has another password" in caplog.text
    for secret in (SECRET, TYPED):
        assert secret not in answered
        assert secret not in caplog.text
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"stored_key" in stored
    assert SECRET.encode() not in stored


def test_a_secret_on_the_command_line_is_warned_of_and_one_in_a_variable_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_ANN", SECRET)
    options = ("--data", str(tmp_path), "--set", "kohort.sasl.plain.users=ann:${env:OF_ANN}")
    with running(*options) as (process, address):
        asyncio.run(admin(address))
        command = ["ps", "-ww", "-o", "args", str(process.pid)]
        assert SECRET not in subprocess.run(command, capture_output=True, text=True, check=True).stdout
        process.terminate()
        assert "warning" not in process.communicate(timeout=30)[1]
    with running("--data", str(tmp_path), "--set", f"kohort.sasl.plain.users=ann:{SECRET}") as (process, _):
        process.terminate()
        log = process.communicate(timeout=30)[1]
    assert "every user of this machine can read kohort.sasl.plain.users" in log
    assert SECRET not in log


async def admin(address: str) -> None:
    async with Admin(address, sasl=Sasl("PLAIN", "ann", SECRET)) as connected:
        await connected.list_topics()


def test_a_setting_that_is_refused_shows_no_secret(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    for line, reason in (
        (f"kohort.sasl.plain.users={SECRET}", "expected NAME:PASSWORD"),
        (f"listeners=SSL://:0\nssl.keystore.key={SECRET}", "the text has no PEM block"),
        (
            "listeners=SASL_PLAINTEXT://:0\nsasl.enabled.mechanisms=PLAIN\n"
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={SECRET}",
            "offers PLAIN and has no users",
        ),
        ("kohort.sasl.plain.users=ann:${env:NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE is not set"),
    ):
        properties.write_text(line)
        status, log = refused("--data", str(tmp_path / "data"), "--config", str(properties))
        assert (status, reason in log, SECRET in log) == (2, True, False), log
