"""The same group in each protocol: who is what there, and what each member begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.what_if.groups import group

from kohort.assign.server.catalog import server_assignors
from kohort.group.migration.migration_plan import LiveGroup, MemberKind
from kohort.model.ids import TopicPartition
from kohort.what_if.change import PlannedChange, Restarts
from kohort.what_if.group_facts import GroupFacts, Roster, Times
from kohort.what_if.variants import NOW, compare, name_of_now, variants

UNIFORM = server_assignors(["uniform"])["uniform"]
THREE = ("m-1", "m-2", "m-3")


def casts(found: LiveGroup) -> dict[str, Roster]:
    return dict(variants(GroupFacts(found), UNIFORM))


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (group(*THREE), "eager"),
        (group(*THREE, assignor="cooperative-sticky"), "cooperative"),
        (group(*THREE, kind="consumer"), "consumer"),
        (group(*THREE, is_static=True), "static"),
        (group(*THREE, kind="consumer", is_static=True), "static"),
    ],
)
def test_group_is_one_of_its_variants_and_owns_there_what_it_owns(found: LiveGroup, name: str) -> None:
    assert name_of_now(GroupFacts(found)) == name
    assert list(casts(found)) == ["eager", "cooperative", "static", "consumer"]
    assert casts(found)[name].owned == {each.member_id: each.owned for each in found.members}


def test_group_of_several_kinds_stands_first_as_it_is() -> None:
    natives = group(*THREE, kind="consumer")
    mixed = replace(natives, members=(replace(natives.members[0], is_native=False), *natives.members[1:]))
    assert name_of_now(GroupFacts(mixed)) == NOW
    assert list(casts(mixed)) == [NOW, "eager", "cooperative", "static", "consumer"]


def test_variant_has_members_of_one_kind_and_only_static_ones_have_instances() -> None:
    found = casts(group(*THREE, is_static=True))
    for name, kind in (
        ("eager", MemberKind.EAGER),
        ("cooperative", MemberKind.COOPERATIVE),
        ("consumer", MemberKind.CONSUMER),
    ):
        assert {(profile.kind, profile.instance_id) for profile in found[name].profiles.values()} == {(kind, None)}
    assert {profile.instance_id for profile in found["static"].profiles.values()} == set(THREE)


def test_variant_of_another_protocol_begins_with_what_its_assignor_gives() -> None:
    live = group(*THREE)
    everything = frozenset(TopicPartition("orders", number) for number in range(12))
    lopsided = tuple(
        replace(each, owned=everything if each.name == "m-1" else frozenset[TopicPartition]()) for each in live.members
    )
    found = casts(replace(live, members=lopsided))
    assert sorted(map(len, found["eager"].owned.values())) == [0, 0, 12], "as it is"
    for name in ("cooperative", "consumer"):
        assert sorted(map(len, found[name].owned.values())) == [4, 4, 4]


def test_cluster_without_the_consumer_protocol_is_not_offered_it() -> None:
    assert "consumer" not in dict(variants(GroupFacts(group(*THREE)), UNIFORM, has_consumer_protocol=False))


def test_same_change_is_played_in_every_variant() -> None:
    change = PlannedChange(restarts=(Restarts(),))
    found = compare(GroupFacts(group(*THREE)), Times(), change, UNIFORM, lambda _: None, has_consumer=True)
    assert [each.label for each in found] == ["eager", "cooperative", "static", "consumer"]
    assert all(each.is_settled and not each.failures for each in found)
    costs = {each.label: each.unread_partition_s for each in found}
    assert costs["consumer"] < costs["eager"] < costs["static"]
