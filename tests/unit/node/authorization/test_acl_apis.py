from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.authorization.api_cases import GROUP, READ, TOPIC, allowing
from tests.unit.node.authorization.test_api_checks import client, desk
from tests.unit.node.desk import Desk, Peer

from kohort.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kohort.model.errors import ErrorCode
from kohort.wire import messages as m

RULE = allowing((READ, TOPIC))


def creation(acl: AclBinding = RULE, **fields: Any) -> m.CreateAclsRequest.Creation:
    values = {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "resource_pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
    return m.CreateAclsRequest.Creation(**(values | fields))


def add(peer: Peer, *creations: m.CreateAclsRequest.Creation) -> list[int]:
    results = peer.call(m.CreateAclsRequest(creations=list(creations)), 3).results
    return [each.error_code for each in results]


def wanted(cls: Any, **fields: Any) -> Any:
    everything: dict[str, Any] = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    everything |= dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    return cls(**(everything | fields))


def described(peer: Peer, **fields: Any) -> set[tuple[str, str]]:
    response = peer.call(wanted(m.DescribeAclsRequest, **fields), 3)
    assert response.error_code == 0
    return {(each.resource_name, acl.principal) for each in response.resources for acl in each.acls}


def removed(peer: Peer, **fields: Any) -> set[tuple[str, str]]:
    (result,) = peer.call(m.DeleteAclsRequest(filters=[wanted(m.DeleteAclsRequest.Filter, **fields)]), 3).filter_results
    assert result.error_code == 0
    return {(each.resource_name, each.principal) for each in result.matching_acls}


@pytest.fixture
def broker() -> Desk:
    return desk()


@pytest.fixture
def root(broker: Desk) -> Peer:
    return client(broker, "root")


def test_rules_are_created_described_and_deleted(broker: Desk, root: Peer) -> None:
    group = allowing((READ, GROUP), "User:bob")
    assert add(root, creation(), creation(group)) == [0, 0]
    assert described(root) == {("orders", "User:alice"), ("billing", "User:bob")}
    assert described(root, resource_type_filter=GROUP) == {("billing", "User:bob")}
    assert described(root, pattern_type_filter=PatternType.MATCH, resource_name_filter="orders", resource_type_filter=2)
    assert removed(root, principal_filter="User:bob") == {("billing", "User:bob")}
    assert described(root) == {("orders", "User:alice")}
    assert list(broker.node.state.acls) == [RULE]


def test_rule_that_is_created_twice_is_there_once(broker: Desk, root: Peer) -> None:
    assert add(root, creation(), creation()) == [0, 0]
    assert add(root, creation()) == [0]
    assert len(broker.node.state.acls) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_type": 77},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "orders"},
        {"resource_name": ""},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"permission_type": AclPermission.ANY},
        {"principal": "alice"},
    ],
    ids=str,
)
def test_rule_that_is_not_valid_is_refused_and_hinders_no_other(broker: Desk, root: Peer, fields: Any) -> None:
    assert add(root, creation(**fields), creation()) == [ErrorCode.INVALID_REQUEST, 0]
    assert list(broker.node.state.acls) == [RULE]


def test_filter_of_an_unknown_type_is_refused(root: Peer) -> None:
    assert root.call(wanted(m.DescribeAclsRequest, operation=99), 3).error_code == ErrorCode.INVALID_REQUEST
    filters = [wanted(m.DeleteAclsRequest.Filter, permission_type=99)]
    (result,) = root.call(m.DeleteAclsRequest(filters=filters), 3).filter_results
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_without_an_authorizer_security_is_disabled() -> None:
    peer = client(desk(authorizer_class_name="", super_users=""))
    assert peer.call(wanted(m.DescribeAclsRequest), 3).error_code == ErrorCode.SECURITY_DISABLED
    assert add(peer, creation()) == [ErrorCode.SECURITY_DISABLED]
    filters = [wanted(m.DeleteAclsRequest.Filter)]
    (result,) = peer.call(m.DeleteAclsRequest(filters=filters), 3).filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("clean", [True, False])
def test_rules_survive_a_restart(broker: Desk, root: Peer, clean: bool) -> None:
    other = AclBinding(
        ResourceType.TRANSACTIONAL_ID, "é:*", PatternType.PREFIXED, "User:CN=a,O=b", "::1", AclOperation.ALL,
        AclPermission.DENY,
    )  # fmt: skip
    assert add(root, creation(), creation(other)) == [0, 0]
    assert removed(root, resource_name_filter="orders") == {("orders", "User:alice")}
    again = broker.restart(clean=clean)
    assert list(again.node.state.acls) == [other]


def test_rules_survive_the_shortening_of_the_metadata_log(broker: Desk, root: Peer) -> None:
    state = broker.node.state
    for _ in range(600):
        state.change_acls([RULE], [], 0)
        state.change_acls([], [RULE], 0)
    assert add(root, creation()) == [0]
    state.shorten(broker.clock.now_ms())
    assert list(broker.restart().node.state.acls) == [RULE]


def test_rules_that_cannot_be_stored_are_not_in_force(broker: Desk, root: Peer) -> None:
    broker.disk.capacity = broker.disk.used
    assert add(root, creation()) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(broker.node.state.acls) == 0


def test_ten_thousand_rules_are_the_most_of_one_request(root: Peer) -> None:
    too_many = [creation(resource_name=f"t{number}") for number in range(10_001)]
    assert set(add(root, *too_many)) == {ErrorCode.INVALID_REQUEST}
    assert set(add(root, *too_many[1:])) == {0}
