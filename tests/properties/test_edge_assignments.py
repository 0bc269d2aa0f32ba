"""Whatever members and leaders write: a leader's assignments are replaced by valid ones, or pass byte for byte."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.gateway.assigning.test_edge import GROUP, Member, gateway

from kohort.assign.server.adapter import assign_by_name
from kohort.assign.server.uniform import UniformAssignor
from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.assign.user_data import encode_generation, encode_sticky
from kohort.gateway.assigning.assignments import Done, Intended
from kohort.gateway.assigning.edge import EdgeResult
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from kohort.wire.frames import encode_request
from kohort.wire.messages import JoinGroupResponse, SyncGroupRequest

TOPICS = {"t": TopicSpec(3), "u": TopicSpec(2)}
NAMES = ("a", "b", "c")
PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky")

partitions = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(("t", "u", "gone")), st.integers(-1, 4)), max_size=6
)
user_data = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(lambda owned, generation: encode_sticky(sorted(owned), generation), partitions, st.integers(-1, 9)),
    st.builds(encode_generation, st.integers(-1, 9)),
)
subscriptions = st.builds(
    Subscription,
    st.lists(st.sampled_from(("t", "u", "gone", "")), max_size=3).map(tuple),
    user_data,
    partitions.map(lambda owned: tuple(sorted(owned))),
    st.integers(-1, 9),
    st.sampled_from((None, "r1")),
    st.integers(0, 3),
)


@st.composite
def damaged(draw: st.DrawFn, blobs: st.SearchStrategy[bytes]) -> bytes:
    """Return bytes as they were written, cut off, changed or followed by others."""
    blob = draw(blobs)
    match draw(st.integers(0, 9)):
        case 0:
            return blob[: draw(st.integers(0, len(blob)))]
        case 1:
            at = draw(st.integers(0, max(0, len(blob) - 1)))
            return blob[:at] + draw(st.binary(min_size=1, max_size=4)) + blob[at + 1 :]
        case 2:
            return blob + draw(st.binary(max_size=5))
        case _:
            return blob


class UniformRunner:
    """Assigns by `uniform`, at once."""

    def assignor_of(self, group_id: str) -> str | None:
        return "uniform" if group_id == GROUP else None

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        del group_id
        known = {name: TOPICS[name] for name in topics if name in TOPICS}
        done(Intended(assign_by_name(UniformAssignor(), GroupSpec(members.members, known)), known), 0)


@example(
    protocol="range",
    joined={"b": encode_subscription(Subscription(())), "a": encode_subscription(Subscription(("t",)))},
    own={"a": b""},
    drained=frozenset({"a"}),
    is_assigned=True,
)
@example(
    protocol="range",
    joined={"b": encode_subscription(Subscription(()))},
    own={"a": encode_assignment(Assignment(frozenset()))},
    drained=frozenset({"a"}),
    is_assigned=True,
)
@example(
    protocol="range",
    joined={"b": encode_subscription(Subscription(()))},
    own={"a": encode_assignment(Assignment(frozenset()))},
    drained=frozenset({"a"}),
    is_assigned=False,
)
@given(
    protocol=st.sampled_from(PROTOCOLS),
    joined=st.dictionaries(st.sampled_from(NAMES), damaged(subscriptions.map(encode_subscription)), min_size=1),
    own=st.dictionaries(
        st.sampled_from((*NAMES, "stranger")),
        damaged(st.builds(encode_assignment, st.builds(Assignment, partitions), st.integers(0, 3))),
        min_size=1,
    ),
    drained=st.frozensets(st.sampled_from(NAMES)),
    is_assigned=st.booleans(),
)
def test_foreign_bytes_are_replaced_by_valid_assignments_or_pass(
    protocol: str, joined: Mapping[str, bytes], own: Mapping[str, bytes], drained: frozenset[str], is_assigned: bool
) -> None:
    leader = Member(gateway(UniformRunner() if is_assigned else None), "a")
    leader.gateway.edge.drain(GROUP, drained)
    listed = [JoinGroupResponse.Member(member_id=name, metadata=blob) for name, blob in joined.items()]
    leader.join(protocol, {"a": Subscription(("t",))}, 1, members=listed)
    handed_in = [SyncGroupRequest.Assignment(member_id=name, assignment=blob) for name, blob in own.items()]
    request = SyncGroupRequest(group_id=GROUP, member_id="a", generation_id=1, assignments=handed_in)
    leader.send(request, 5)
    results = leader.gateway.edge.counters.results
    if not results[EdgeResult.REPLACED]:
        assert leader.to_broker[-1] == encode_request(request, 5, leader.number, "client")
        return
    given_to = {each.member_id: decode_assignment(each.assignment).partitions for each in leader.passed().assignments}
    assert given_to.keys() == joined.keys()
    assert not any(given_to[name] for name in drained & joined.keys())
    owned = [partition for mine in given_to.values() for partition in mine]
    if is_assigned:
        assert len(owned) == len(set(owned)), "a partition has one owner"
