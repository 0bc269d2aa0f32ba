"""`kohort users` and the admin client's SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.commands import Commands

from kohort.broker.embedded import EmbeddedBroker
from kohort.client.admin.access_messages import UserScramCredentialDeletion, UserScramCredentialUpsertion
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.sasl import Sasl
from kohort.sync import Admin


@pytest.fixture
def commands(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Commands]:
    with EmbeddedBroker() as broker:
        yield Commands(broker.bootstrap_servers, capfdbinary, tmp_path, monkeypatch)


def test_users_are_set_listed_and_removed(commands: Commands, tmp_path: Path) -> None:
    commands("users", "set", "ann", stdin=b"secret\nnot the password\n")
    (tmp_path / "password").write_text("another")
    commands("users", "set", "ann", "--mechanism", "SCRAM-SHA-256", "--password-file", str(tmp_path / "password"))
    commands("users", "set", "bob", "--iterations", "4096", stdin=b"secret")
    assert commands("users", "list").rows == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["ann", "SCRAM-SHA-256", "8192"],
        ["ann", "SCRAM-SHA-512", "8192"],
        ["bob", "SCRAM-SHA-512", "4096"],
    ]
    assert commands("users", "remove", "--yes", "ann", "--mechanism", "SCRAM-SHA-256", "--json").json == [
        {"user": "ann", "mechanism": "SCRAM-SHA-256", "iterations": 8192}
    ]
    assert commands("users", "remove", "--yes", "ann").status == 0
    assert [each["user"] for each in commands("users", "list", "--json").json] == ["bob"]


def test_what_cannot_be_done_to_users_is_a_sentence(commands: Commands, tmp_path: Path) -> None:
    assert "there are no users" in commands("users", "list").err
    commands("users", "set", "ann", stdin=b"secret")
    assert "did you mean 'ann'" in commands("users", "list", "anne").err
    assert "did you mean 'ann'" in commands("users", "remove", "--yes", "anna").err
    assert (
        "no password by SCRAM-SHA-256"
        in commands("users", "remove", "--yes", "ann", "--mechanism", "SCRAM-SHA-256").err
    )
    assert "stdin contains no password" in commands("users", "set", "bob", stdin=b"\n").err
    assert "cannot be read" in commands("users", "set", "bob", "--password-file", str(tmp_path / "missing")).err
    few, many = (commands("users", "set", "bob", "--iterations", each, stdin=b"x") for each in ("4095", "16385"))
    assert "expected a whole number from 4096 on" in few.err
    assert "Too many iterations" in many.err
    assert (few.status, many.status) == (2, 1)


def test_user_logs_in_from_the_moment_that_its_password_is_set_until_it_is_deleted() -> None:
    with EmbeddedBroker(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512") as broker:

        def log_in() -> None:
            sasl = Sasl("SCRAM-SHA-512", "ann", "secret")
            with Admin(broker.bootstrap_servers, sasl=sasl, start_timeout_ms=2_000) as own:
                own.list_topics()

        with Admin(**broker.client_settings) as admin:
            with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
                log_in()
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", "secret")])
            log_in()
            assert admin.describe_user_scram_credentials(["ann"]) == {"ann": {"SCRAM-SHA-512": 8192}}
            deletion = UserScramCredentialDeletion("ann", "SCRAM-SHA-512")
            admin.alter_user_scram_credentials([deletion])
            with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
                log_in()
            with pytest.raises(KafkaError) as refused:
                admin.alter_user_scram_credentials([deletion])
            assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND


def test_wrong_changes_of_users_are_refused_before_they_are_sent() -> None:
    with EmbeddedBroker() as broker, Admin(broker.bootstrap_servers) as admin:
        for change, sentence in [
            (UserScramCredentialUpsertion("ann", ""), "the password of 'ann' is empty"),
            (UserScramCredentialDeletion("ann", "SCRAM-SHA-1"), "there are SCRAM-SHA-256, SCRAM-SHA-512"),
        ]:
            with pytest.raises(ValueError, match=sentence):
                admin.alter_user_scram_credentials([change])
        with pytest.raises(TypeError, match="UserScramCredentialUpsertion"):
            admin.alter_user_scram_credentials(["ann"])  # type: ignore[list-item]
        assert admin.describe_user_scram_credentials() == {}
