"""A program's protocols as assignors, and as bytes that other members and other brokers see."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from kohort.assign.spec import GroupSpec, MemberSpec
from kohort.client import CooperativeProtocol, EagerProtocol, GroupMember, JsonCodec
from kohort.client.own_groups.group_protocols import GroupProtocol, Metadata, OwnAssignor, OwnProtocol, names_of
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


def assignor(protocol: GroupProtocol) -> OwnAssignor:
    return OwnAssignor(protocol, lambda *_: None)


def cooperative(assigned: Mapping[str, Any]) -> OwnAssignor:
    return assignor(CooperativeProtocol(name="v1", assign=lambda _: assigned))


def claiming(generation: int, *names: str) -> MemberSpec:
    owned = tuple(TopicPartition(name, 0) for name in names)
    return MemberSpec(Subscription((), b"", owned, generation))


def group(**members: MemberSpec) -> GroupSpec:
    return GroupSpec(members)


def test_a_name_that_another_member_owns_is_withheld_for_one_round() -> None:
    spec = group(a=claiming(3, "x", "y"), b=claiming(3))
    assigned = cooperative({"a": ["x"], "b": ["y"]}).assign(spec)
    assert {member: names_of(each.partitions) for member, each in assigned.items()} == {"a": {"x"}, "b": frozenset()}


def test_the_claim_of_the_newest_generation_counts() -> None:
    seen: dict[str, frozenset[str]] = {}

    def assign(members: Collection[Any]) -> dict[str, list[str]]:
        seen.update({member.member_id: member.owned for member in members})
        return {"a": ["x"]}

    spec = group(a=claiming(3, "x"), b=claiming(2, "x"))
    assigned = assignor(CooperativeProtocol(name="v1", assign=assign)).assign(spec)
    assert seen == {"a": {"x"}, "b": frozenset()}
    assert names_of(assigned["a"].partitions) == {"x"}


@pytest.mark.parametrize(
    ("assigned", "kind", "text"),
    [
        ({"a": ["x"], "b": ["x"]}, ValueError, "v1 assigns 'x' to a and to b"),
        ({"c": ["x"]}, ValueError, "v1 assigns to 'c', which is no member of the group"),
        ({"a": "xyz"}, TypeError, "what v1 assigns to a='xyz' is a str: expected a collection of names"),
        ({"a": [7]}, TypeError, "what v1 assigns to a=7 is an int: expected a name"),
    ],
)
def test_an_assignment_that_cannot_be_meant_is_refused(assigned: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        cooperative(assigned).assign(group(a=claiming(-1), b=claiming(-1)))


def test_metadata_that_the_codec_cannot_read_names_its_member() -> None:
    protocol = EagerProtocol(name="v1", assign=lambda _: {}, codec=JsonCodec())
    for metadata, why in ((b"{", "Expecting property name"), (b"[" * 100_000, "nested too deeply")):
        with pytest.raises(ValueError, match=f"the metadata of member a cannot be read: .*{why}"):
            assignor(protocol).assign(group(a=MemberSpec(Subscription((), metadata))))


def test_an_eager_group_has_no_bytes_but_those_of_its_codecs() -> None:
    protocol = EagerProtocol(name="v1", assign=lambda members: {members[0].member_id: b"kohort\x01"})
    own = OwnProtocol("mine", {"v1": protocol}, Metadata(b"here"), is_cooperative=False)
    assert own.encode_subscription("v1", Subscription(("t",))) == b"here"
    assigned = assignor(protocol).assign(group(a=MemberSpec(own.decode_subscription(b"here")), b=claiming(-1)))
    assert [own.encode_assignment(each) for each in assigned.values()] == [b"kohort\x01", b""]
    taken: list[Any] = []
    OwnAssignor(protocol, lambda *given: taken.append(given)).on_assignment(own.decode_assignment(b"kohort\x01"), 4)
    assert taken == [("v1", b"kohort\x01", 4)]


SETTINGS: dict[str, Any] = {
    "group_id": "g",
    "protocol_type": "mine",
    "protocols": EagerProtocol(name="v1", assign=lambda _: {}),
}


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"protocol_type": "consumer"}, ValueError, "is that of consumers: use Consumer"),
        ({"group_id": ""}, ValueError, "group_id='': expected a str that is not empty"),
        ({"protocols": []}, ValueError, "protocols is empty"),
        ({"protocols": ["v1"]}, TypeError, "one of protocols='v1' is a str: expected an EagerProtocol"),
        (
            {"protocols": [SETTINGS["protocols"], CooperativeProtocol(name="v2", assign=lambda _: {})]},
            ValueError,
            "eager or cooperative protocols, not both",
        ),
        ({"protocols": [SETTINGS["protocols"]] * 2}, ValueError, "the protocol v1 is offered twice"),
        ({"on_assigned": "print"}, TypeError, "on_assigned='print' is a str: expected a function"),
        ({"heartbeat_interval_ms": 45_000}, ValueError, "must be less than session_timeout_ms"),
        ({"sesion_timeout_ms": 1}, TypeError, "did you mean 'session_timeout_ms'"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(settings: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        GroupMember("localhost:9092", **SETTINGS | settings)
