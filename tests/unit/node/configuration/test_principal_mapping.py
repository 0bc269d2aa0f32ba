"""Kafka's rules for names in certificates; the cases are those of KIP-371 and their edges."""

from __future__ import annotations

import pytest

from kohort.model.setting import SettingsError
from kohort.node.configuration.config import Config
from kohort.node.configuration.listeners import listeners_of
from kohort.node.configuration.principal_mapping import PrincipalMapping

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U, DEFAULT", "DUKE@SERVICEUSERS"),
        ("RULE:^OU=.*$/x/, RULE:^CN=(\\w+),.*/$1-a\\/b/", "Duke-a\\/b"),
        ("RULE:^CN=(\\w+),.*/$2$1/", "$2Duke"),
        ("RULE:CN=Duke/whole names only/,DEFAULT", DUKE),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_gives_the_users(rules: str, name: str) -> None:
    assert PrincipalMapping(rules).name(DUKE) == name


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule for 'CN=Duke"):
        PrincipalMapping("RULE:^OU=.*$/x/").name(DUKE)


@pytest.mark.parametrize("rules", ["RULE:a/b", "RULE:(/b/", "default", "RULE:a/b/X", "DEFAULT DEFAULT", "RULE:a/b/L x"])
def test_rules_that_are_none_are_refused_at_the_start(rules: str) -> None:
    with pytest.raises(SettingsError, match=r"ssl\.principal\.mapping\.rules"):
        listeners_of(Config({"ssl.principal.mapping.rules": rules}))
