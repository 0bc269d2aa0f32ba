"""ACLs: Kafka's tool on our broker, ours on Apache Kafka, and the same requests with and without rights to both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.waiting import eventually
from interop.wire import Wire
from tests.interop.kafka_tools import tool
from tests.unit.node.authorization.api_cases import CASES, Case, Right, allowing, errors_in

from kohort.cli.main import main
from kohort.client.admin.access_messages import create_request, delete_request, described
from kohort.model.acl import AclBinding, AclFilter
from kohort.node.configuration.broker_settings import NEWEST_VERSIONS, STANDARD_AUTHORIZER
from kohort.wire import messages as m
from kohort.wire.apis import Api

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("java")]

ACLS = "AclCommand"
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:root"}
USERS = ("root", "alice")


@dataclass
class LockedSide:
    """One broker with an authorizer, and a connection of a super user; `alice` may do what rules allow."""

    address: str
    root: Wire

    def give(self, acls: list[AclBinding]) -> None:
        """Leave these rules and no others in force."""
        self.root.call(delete_request(AclFilter()), 3)
        created = self.root.call(create_request(acls), 3).results if acls else []
        assert not any(each.error_code for each in created)
        request = m.DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        eventually(lambda: described(self.root.call(request, 3)), sorted(acls))  # Kafka's broker learns a moment later

    def restore(self) -> None:
        """Create what the requests are about, where an earlier one has deleted it."""
        topic = m.CreateTopicsRequest.Topic(name="orders", num_partitions=1, replication_factor=1)
        self.root.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        commits = next(case for case in CASES if case.api is Api.OFFSET_COMMIT)

        def committed() -> bool:
            answer = self.root.call(commits.message, commits.version)
            return not any(each.error_code for topic in answer.topics for each in topic.partitions)

        self.root.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"]), 4)
        # The member of an earlier request would keep others from committing.
        (joined,) = (case.message for case in CASES if case.api is Api.CONSUMER_GROUP_HEARTBEAT)
        leaving = m.ConsumerGroupHeartbeatRequest(group_id="billing", member_id=joined.member_id, member_epoch=-1)
        self.root.call(leaving, 1)
        eventually(committed, True)

    def ask(self, case: Case, rights: list[Right]) -> Any:
        """Return the answer to `alice`, who has these rights."""
        self.restore()
        self.give([allowing(right) for right in rights])
        with logged_in(self.address, "alice") as alice:
            return alice.call(case.message, case.version)


def logged_in(address: str, user: str) -> Wire:
    """Return a connection of a user."""
    wire = Wire(address)
    assert wire.call(m.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{user}-secret".encode()
    assert wire.call(m.SaslAuthenticateRequest(auth_bytes=token), 1).error_code == 0
    return wire


@pytest.fixture(scope="module")
def kohort_side() -> Iterator[LockedSide]:
    users = ",".join(f"{user}:{user}-secret" for user in USERS)
    with KohortBroker({**SETTINGS, "kohort.sasl.plain.users": users}) as broker:
        yield LockedSide(broker.bootstrap, logged_in(broker.bootstrap, "root"))


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheKafka]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    settings = {
        **SETTINGS,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{plain} required {users};",
    }
    with ApacheKafka(settings, heap="512m", wait_s=240, listeners=("PLAINTEXT", "CLIENTS:SASL_PLAINTEXT")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def apache_side(apache: ApacheKafka) -> LockedSide:
    address = apache.addresses["CLIENTS"]
    return LockedSide(address, logged_in(address, "root"))


@pytest.fixture(scope="module")
def open_broker() -> Iterator[KohortBroker]:
    with KohortBroker(SETTINGS) as broker:
        yield broker


@pytest.mark.capability("ACLs", "each API with and without each of its rights, as on Apache Kafka")
@pytest.mark.parametrize("case", [each for each in CASES if NEWEST_VERSIONS.get(each.api, 0) >= 0], ids=str)
def test_request_is_refused_as_by_kafka(kohort_side: LockedSide, apache_side: LockedSide, case: Case) -> None:
    for left_out in (*case.rights, None):
        rights = [right for right in case.rights if right != left_out]
        own, theirs = kohort_side.ask(case, rights), apache_side.ask(case, rights)
        assert set(errors_in(own)) == set(errors_in(theirs)), f"without {left_out}: {theirs}"
        assert bool([*errors_in(own)]) is (left_out is not None), f"without {left_out}: {own}"


@pytest.mark.capability("Java tools", "AclCommand: add, list, remove")
def test_acl_command_adds_lists_and_removes(open_broker: KohortBroker) -> None:
    rule = ("--allow-principal", "User:ann", "--topic", "orders")
    tool(open_broker, ACLS, "--add", *rule, "--operation", "Read", "--operation", "Describe")
    prefixed = ("--resource-pattern-type", "prefixed", "--topic", "o", "--group", "g")
    tool(open_broker, ACLS, "--add", "--allow-principal", "User:bob", "--consumer", *prefixed)
    tool(open_broker, ACLS, "--add", "--deny-principal", "User:bob", "--operation", "All", "--cluster")
    listed = tool(open_broker, ACLS, "--list", "--topic", "orders")
    assert "principal=User:ann, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:ann, host=*, operation=DESCRIBE, permissionType=ALLOW" in listed
    everything = tool(open_broker, ACLS, "--list")
    assert "name=g, patternType=PREFIXED" in everything
    assert "principal=User:bob, host=*, operation=ALL, permissionType=DENY" in everything
    tool(open_broker, ACLS, "--remove", "--force", "--topic", "orders")
    assert "User:ann" not in tool(open_broker, ACLS, "--list")


@pytest.mark.capability("ACLs", "kohort acls: add, list, remove", broker="apache")
def test_our_command_line_changes_the_rules_of_apache_kafka(
    apache: ApacheKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", apache.bootstrap)
    assert main(["acls", "add", "--allow", "User:zoe", "--operation", "read", "--topic", "zoo", *at]) == 0
    capsys.readouterr()
    eventually(lambda: _listed(capsys, "acls", "list", "--principal", "User:zoe", *at), True)
    assert main(["acls", "remove", "--principal", "User:zoe", "--yes", *at]) == 0
    eventually(lambda: _listed(capsys, "acls", "list", "--principal", "User:zoe", *at), False)


@pytest.mark.capability("ACLs", "kohort users: set, list, remove", broker="apache")
def test_our_command_line_changes_the_users_of_apache_kafka(
    apache: ApacheKafka, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    at = ("--bootstrap-server", apache.bootstrap)
    (tmp_path / "password").write_text("secret")
    assert main(["users", "set", "zoo", "--password-file", str(tmp_path / "password"), *at]) == 0
    capsys.readouterr()
    eventually(lambda: _listed(capsys, "users", "list", *at), True)
    assert main(["users", "remove", "zoo", "--yes", *at]) == 0
    eventually(lambda: _listed(capsys, "users", "list", *at), False)


def _listed(capsys: pytest.CaptureFixture[str], *words: str) -> bool:
    assert main([*words]) == 0
    return "zoo" in capsys.readouterr().out
