from __future__ import annotations

from sys import getrefcount

import pytest

from kohort.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, Principal, ResourceType
from kohort.node.authorization.authorizer import Acls, Authorizer

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
HOST = "192.0.2.1"
READ, WRITE, DESCRIBE, ALTER_CONFIGS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS,
)


def rule(
    name: str,
    operation: AclOperation = READ,
    principal: str = "User:alice",
    *,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
    is_prefix: bool = False,
    denies: bool = False,
) -> AclBinding:
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    permission = AclPermission.DENY if denies else AclPermission.ALLOW
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def authorizer(*rules: AclBinding, super_users: str = "", allows_without_acl: bool = False) -> Authorizer:
    acls = Acls()
    made = Authorizer(acls, super_users.split(";"), allows_without_acl=allows_without_acl)
    acls.change(added=rules)
    return made


def may(
    asked: Authorizer,
    name: str,
    operation: AclOperation = READ,
    principal: Principal = ALICE,
    host: str = HOST,
    kind: ResourceType = ResourceType.TOPIC,
) -> bool:
    return asked.allows(principal, host, operation, kind, name)


def test_nothing_is_allowed_without_a_rule() -> None:
    assert not may(authorizer(), "orders")


def test_everything_without_rules_is_allowed_where_the_setting_allows_it() -> None:
    made = authorizer(rule("orders", principal="User:bob"), allows_without_acl=True)
    assert may(made, "payments")
    assert not may(made, "orders"), "a resource with a rule for another principal has rules"


@pytest.mark.parametrize(
    "applying",
    [rule("orders"), rule("*"), rule("ord", is_prefix=True), rule("orders", is_prefix=True)],
    ids=["literal", "wildcard", "prefix", "whole name as prefix"],
)
def test_literal_wildcard_and_prefix_apply(applying: AclBinding) -> None:
    assert may(authorizer(applying), "orders")


@pytest.mark.parametrize(
    "other",
    [
        rule("order"),
        rule("orders.eu", is_prefix=True),
        rule("orders", principal="User:bob"),
        rule("orders", host="192.0.2.2"),
        rule("orders", WRITE),
        rule("orders", kind=ResourceType.GROUP),
    ],
    ids=["shorter literal", "longer prefix", "other principal", "other host", "other operation", "other type"],
)
def test_rule_about_something_else_allows_nothing(other: AclBinding) -> None:
    assert not may(authorizer(other), "orders")


@pytest.mark.parametrize("denying", [rule("orders", denies=True), rule("*", AclOperation.ALL, "User:*", denies=True)])
def test_denial_goes_before_every_allowance(denying: AclBinding) -> None:
    assert not may(authorizer(rule("orders"), rule("o", AclOperation.ALL, is_prefix=True), denying), "orders")


def test_super_user_may_do_what_is_denied() -> None:
    made = authorizer(
        rule("orders", principal="User:*", denies=True), super_users="User:root; User:alice".replace(" ", "")
    )
    assert may(made, "orders")
    assert not may(made, "orders", principal=BOB)


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALL])
def test_describe_is_implied_by_what_needs_it(operation: AclOperation) -> None:
    assert may(authorizer(rule("orders", operation)), "orders", DESCRIBE)


def test_describe_configs_is_implied_by_alter_configs() -> None:
    made = authorizer(rule("orders", ALTER_CONFIGS))
    assert may(made, "orders", AclOperation.DESCRIBE_CONFIGS)
    assert not may(made, "orders", DESCRIBE)


def test_denial_implies_nothing() -> None:
    made = authorizer(rule("orders", READ, denies=True), rule("orders", DESCRIBE))
    assert may(made, "orders", DESCRIBE)
    assert not may(made, "orders", READ)


def test_rule_for_all_applies_to_principals_of_any_type() -> None:
    assert may(authorizer(rule("orders", principal="User:*")), "orders", principal=Principal("Group", "staff"))


def test_rules_of_any_name_do_not_apply_to_a_longer_name_that_begins_with_a_star() -> None:
    made = authorizer(
        rule("*", kind=ResourceType.GROUP), rule("*", principal="User:bob", kind=ResourceType.GROUP, is_prefix=True)
    )
    assert may(made, "*", kind=ResourceType.GROUP)
    assert not may(made, "*group", kind=ResourceType.GROUP)
    assert may(made, "*group", principal=BOB, kind=ResourceType.GROUP)


def test_change_of_rules_takes_effect_at_the_next_question() -> None:
    acls = Acls()
    made = Authorizer(acls)
    assert not may(made, "orders")
    acls.change(added=[rule("orders")])
    assert may(made, "orders")
    acls.change(removed=[rule("orders")])
    assert not may(made, "orders")


def test_removal_of_one_rule_leaves_the_others_of_its_pattern() -> None:
    acls = Acls()
    acls.change(added=[rule("o", is_prefix=True), rule("o", principal="User:bob", is_prefix=True)])
    acls.change(removed=[rule("o", is_prefix=True)])
    made = Authorizer(acls)
    assert may(made, "orders", principal=BOB)
    assert not may(made, "orders")


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ((), False),
        ((rule("orders", WRITE),), True),
        ((rule("o", WRITE, is_prefix=True),), True),
        ((rule("*", WRITE),), True),
        ((rule("orders", READ),), False),
        ((rule("*", AclOperation.ALL), rule("*", WRITE, "User:*", denies=True)), False),
        ((rule("orders", WRITE), rule("orders", WRITE, denies=True)), False),
        ((rule("orders", WRITE), rule("ord", WRITE, denies=True, is_prefix=True)), False),
        ((rule("ord", WRITE, is_prefix=True), rule("orders", WRITE, denies=True)), True),
    ],
)
def test_some_resource_of_a_type_is_allowed_unless_denials_cover_it(
    rules: tuple[AclBinding, ...], is_allowed: bool
) -> None:
    assert authorizer(*rules).allows_some(ALICE, HOST, WRITE, ResourceType.TOPIC) is is_allowed


def test_rules_are_stored_once_and_reported_by_type() -> None:
    acls = Acls()
    seen: list[frozenset[ResourceType]] = []
    acls.on_change.append(seen.append)
    acls.change(added=[rule("orders"), rule("orders"), rule("g", kind=ResourceType.GROUP)])
    acls.change(added=[rule("orders")], removed=[rule("payments")])
    assert len(acls) == 2
    assert seen == [frozenset({ResourceType.TOPIC, ResourceType.GROUP})]
    assert acls.selected(AclFilter(ResourceType.GROUP)) == [rule("g", kind=ResourceType.GROUP)]


def test_answers_about_long_names_are_not_stored() -> None:
    made = authorizer(rule("orders"))
    name = "x" * 32_767
    before = getrefcount(name)
    assert not may(made, name)
    assert getrefcount(name) == before
