"""`kohort acls` and the admin client's ACLs, on a broker with an authorizer and on one without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.commands import Commands

from kohort.broker.embedded import EmbeddedBroker
from kohort.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.configuration.broker_settings import STANDARD_AUTHORIZER
from kohort.sync import Admin

READING = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, AclPermission.ALLOW
)


@pytest.fixture
def locked() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS") as broker:
        yield broker


@pytest.fixture
def commands(
    locked: EmbeddedBroker,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    return Commands(locked.bootstrap_servers, capfdbinary, tmp_path, monkeypatch)


def test_rules_are_added_listed_and_removed(commands: Commands) -> None:
    added = commands("acls", "add", "--allow", "User:ann", "--operation", "read,write", "--topic", "orders")
    assert added.rows == [
        ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"],
        ["User:ann", "allow", "read", "topic", "orders", "literal", "*"],
        ["User:ann", "allow", "write", "topic", "orders", "literal", "*"],
    ]
    commands("acls", "add", "--deny", "User:bob", "--operation", "all", "--topic", "ord", "--prefixed")
    commands("acls", "add", "--allow", "User:bob", "--operation", "Describe", "--cluster", "--host", "192.0.2.7")
    assert len(commands("acls", "list", "--json").json) == 4
    applying = commands("acls", "list", "--topic", "orders", "--match", "--json").json
    assert [each["name"] for each in applying] == ["ord", "orders", "orders"]
    (at_host,) = commands("acls", "list", "--host", "192.0.2.7", "--json").json
    assert at_host == {
        "principal": "User:bob",
        "permission": "allow",
        "operation": "describe",
        "resource_type": "cluster",
        "name": "kafka-cluster",
        "pattern_type": "literal",
        "host": "192.0.2.7",
    }
    trial = commands("acls", "remove", "--principal", "User:ann", "--dry-run")
    assert "nothing was removed" in trial.err
    assert len(commands("acls", "list", "--json").json) == 4
    refused = commands("acls", "remove", "--principal", "User:ann")
    assert (refused.status, "there is no terminal to ask on: give --yes" in refused.err) == (2, True)
    readers = ("acls", "remove", "--principal", "User:ann", "--operation", "read")
    assert len(commands(*readers, "--yes", "--json").json) == 1
    assert len(commands("acls", "list", "--json").json) == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "--allow", "ann", "--operation", "read", "--topic", "t"), "'ann' is no principal"),
        (("add", "--allow", "User:ann", "--operation", "reed", "--topic", "t"), "'reed' is no operation"),
        (("add", "--allow", "User:ann", "--operation", "read"), "no resource"),
        (("add", "--operation", "read", "--topic", "t"), "--allow --deny"),
        (("add", "--allow", "User:ann", "--operation", "read", "--topic", ""), "a resource has a name"),
        (("add", "--allow", "User:ann", "--operation", "read", "--cluster", "--prefixed"), "--prefixed"),
        (("remove", "--yes"), "every rule"),
        (("list", "--match"), "--match is about a resource"),
    ],
)
def test_wrong_command_line_is_refused_with_a_sentence(
    commands: Commands, words: tuple[str, ...], sentence: str
) -> None:
    refused = commands("acls", *words)
    assert refused.status == 2
    assert sentence in refused.err


def test_cluster_without_an_authorizer_refuses_with_the_setting_to_use(kohort: Commands) -> None:
    refused = kohort("acls", "list")
    assert refused.status == 1
    assert "authorizer.class.name" in refused.err


def test_admin_creates_describes_and_deletes(locked: EmbeddedBroker) -> None:
    with Admin(locked.bootstrap_servers) as admin:
        admin.create_acls([READING])
        assert admin.describe_acls() == [READING]
        assert admin.describe_acls(AclFilter(ResourceType.GROUP)) == []
        assert admin.delete_acls(AclFilter(principal="User:ann")) == [READING]
        assert admin.describe_acls() == []


def test_admin_names_the_rule_that_is_refused(locked: EmbeddedBroker) -> None:
    with Admin(locked.bootstrap_servers) as admin:
        unsound = AclBinding(
            ResourceType.TOPIC, "", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, AclPermission.ALLOW
        )
        with pytest.raises(KafkaError, match="User:ann") as refused:
            admin.create_acls([unsound])
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        with pytest.raises(TypeError, match="an AclFilter"):
            admin.delete_acls("User:ann")  # type: ignore[arg-type]
