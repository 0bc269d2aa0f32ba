"""A principal's text is Kafka's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.model.acl import (
    ANONYMOUS,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Principal,
    ResourceType,
)


def test_principal_is_read_from_its_own_text():
    assert Principal.parse(str(Principal("User", "CN=a:b,O=c"))) == Principal("User", "CN=a:b,O=c")
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_text_without_type_or_name_is_no_principal(text):
    with pytest.raises(ValueError, match="User:alice"):
        Principal.parse(text)


RULE = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
)


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(),
        AclFilter(ResourceType.TOPIC, "orders", PatternType.LITERAL),
        AclFilter(name="orders", pattern_type=PatternType.MATCH),
        AclFilter(principal="User:alice", host="*", operation=AclOperation.READ, permission=AclPermission.ALLOW),
    ],
)
def test_filter_selects_the_rule_that_it_describes(wanted: AclFilter) -> None:
    assert wanted.matches(RULE)


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(ResourceType.GROUP),
        AclFilter(name="order"),
        AclFilter(pattern_type=PatternType.PREFIXED),
        AclFilter(principal="User:bob"),
        AclFilter(host="192.0.2.1"),
        AclFilter(operation=AclOperation.ALL),
        AclFilter(permission=AclPermission.DENY),
        AclFilter(name="orders.eu", pattern_type=PatternType.MATCH),
    ],
)
def test_filter_leaves_out_a_rule_that_differs_in_one_part(wanted: AclFilter) -> None:
    assert not wanted.matches(RULE)


@pytest.mark.parametrize(
    ("name", "pattern_type"), [("*", PatternType.LITERAL), ("ord", PatternType.PREFIXED), ("o", PatternType.PREFIXED)]
)
def test_match_selects_the_rules_that_apply_to_a_resource(name: str, pattern_type: PatternType) -> None:
    rule = replace(RULE, name=name, pattern_type=pattern_type)
    assert AclFilter(name="orders", pattern_type=PatternType.MATCH).matches(rule)
    assert not AclFilter(name="orders", pattern_type=PatternType.ANY).matches(rule)


def test_filter_of_an_unknown_kind_is_unknown() -> None:
    assert AclFilter(operation=AclOperation.UNKNOWN).is_unknown
    assert not AclFilter().is_unknown
