"""What every server-side assignor owes its group, and what uniform owes it besides.

Every wanted partition to just one subscriber; the same target for the same group, whatever order it is written in; an
end. `uniform` and `standby`: nothing more even can be had, and a target in force that is even is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_assignors import fewest_moves

from kohort.assign.quality import measure_target
from kohort.assign.server import even_dealing
from kohort.assign.server.adapter import checked, group_spec
from kohort.assign.server.range import ServerRangeAssignor
from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic, StandbyLags
from kohort.assign.server.standby import StandbyAssignor
from kohort.assign.server.uniform import UniformAssignor, in_order, sharing
from kohort.model.assignment import IdPartitions, each, id_partitions, size

ASSIGNORS: list[ServerAssignor] = [UniformAssignor(), ServerRangeAssignor(), StandbyAssignor(10)]
EVEN: list[ServerAssignor] = [UniformAssignor(), StandbyAssignor(10)]
TOPICS = [bytes([number]) * 16 for number in range(5)]
RACKS = ["r1", "r2", "r3"]
SOME_TOPICS = st.lists(st.sampled_from(TOPICS), max_size=5)
RACKS_OF_PARTITIONS = st.lists(st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2), max_size=10)
NAMES = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=9, unique=True)


@st.composite
def server_groups(
    draw: st.DrawFn,
    *,
    is_alike: bool = False,
    is_contested: bool = False,
    has_racks: bool = False,
    has_lags: bool = False,
) -> ServerGroup:
    """Draw a group with previous targets, some of what is unknown, gone or no longer wanted; or contested."""
    names = draw(NAMES)
    topics = {
        topic_id: ServerTopic(f"t{topic_id[0]}", len(racks), tuple(racks) if has_racks else ())
        for topic_id, racks in draw(st.dictionaries(st.sampled_from(TOPICS), RACKS_OF_PARTITIONS)).items()
    }
    choices = [frozenset(draw(SOME_TOPICS)) for _ in range(1 if is_alike else 3)]
    everything = [(topic_id, number) for topic_id in TOPICS for number in range(draw(st.integers(0, 9)))]
    owners = draw(st.lists(st.sampled_from([None, *names]), min_size=len(everything), max_size=len(everything)))
    claims: dict[str | None, list[tuple[bytes, tuple[int]]]] = {name: [] for name in [None, *names]}
    for (topic_id, number), name in zip(everything, owners, strict=True):
        claims[name].append((topic_id, (number,)))
    if is_contested and everything:
        for topic_id, number in draw(st.lists(st.sampled_from(everything), max_size=4)):
            claims[draw(st.sampled_from(names))].append((topic_id, (number,)))
    members = {}
    for at, name in enumerate(names):
        rack = draw(st.none() | st.sampled_from(RACKS)) if has_racks else None
        lags = draw(standby_lags()) if has_lags else ()
        instance = f"i-{name}" if draw(st.booleans()) else None
        wanted = choices[at % len(choices)]
        members[name] = ServerMember(wanted, id_partitions(claims[name]), instance, rack, lags=lags)
    subscribed = frozenset[bytes]().union(*(member.topics for member in members.values()))
    known = {topic_id: topic for topic_id, topic in topics.items() if topic_id in subscribed}
    return ServerGroup(members, known, len({member.topics for member in members.values()}) == 1)


@st.composite
def standby_lags(draw: st.DrawFn) -> StandbyLags:
    found = draw(
        st.dictionaries(st.sampled_from(TOPICS), st.dictionaries(st.integers(0, 9), st.integers(-3, 20), max_size=4))
    )
    return tuple((topic_id, tuple(sorted(found[topic_id].items()))) for topic_id in sorted(found))


def in_force(group: ServerGroup, target: dict[str, IdPartitions]) -> ServerGroup:
    """Return the group with a target as the previous one."""
    members = {name: member._replace(previous=target[name]) for name, member in group.members.items()}
    return ServerGroup(members, group.topics, group.is_homogeneous)


def can_keep(group: ServerGroup) -> dict[str, set[tuple[bytes, int]]]:
    """Return what each member has that exists and that it subscribes to."""
    return {
        name: {
            (topic_id, number)
            for topic_id, number in each(member.previous)
            if topic_id in member.topics and topic_id in group.topics and number < group.topics[topic_id].partitions
        }
        for name, member in group.members.items()
    }


@contextmanager
def dealt_in(limit: int) -> Iterator[None]:
    before = even_dealing.SPREAD_LIMIT
    even_dealing.SPREAD_LIMIT = limit
    try:
        yield
    finally:
        even_dealing.SPREAD_LIMIT = before


limits = st.sampled_from([0, 6, 4_096])


class TestEveryServerAssignor:
    @given(group=server_groups(is_contested=True, has_racks=True, has_lags=True), limit=limits)
    def test_every_wanted_partition_goes_to_one_subscriber_in_canonical_form(
        self, group: ServerGroup, limit: int
    ) -> None:
        for assignor in ASSIGNORS:
            with dealt_in(limit):
                target = assignor.assign(group)
            assert checked(group, target, assignor.name) == target, assignor.name
            quality = measure_target(group, dict(target))
            assert (quality.faults, quality.unassigned) == ((), frozenset()), assignor.name

    @given(
        group=server_groups(is_contested=True, has_racks=True, has_lags=True), seed=st.randoms(use_true_random=False)
    )
    def test_the_order_in_which_a_group_is_written_makes_no_difference(self, group: ServerGroup, seed: object) -> None:
        members, topics = list(group.members.items()), list(group.topics.items())
        seed.shuffle(members)  # type: ignore[attr-defined]
        seed.shuffle(topics)  # type: ignore[attr-defined]
        turned = ServerGroup(dict(members), dict(topics), group.is_homogeneous)
        for assignor in ASSIGNORS:
            assert assignor.assign(turned) == assignor.assign(group), assignor.name


@given(group=server_groups(is_contested=True, has_racks=True, has_lags=True), limit=limits)
def test_a_target_in_force_is_not_touched(group: ServerGroup, limit: int) -> None:
    for assignor in EVEN:
        with dealt_in(limit):
            target = dict(assignor.assign(group))
            again = assignor.assign(in_force(group, target))
        assert again == target, assignor.name
        assert all(again[name] is target[name] for name in target), assignor.name


class TestUniform:
    @given(group=server_groups(is_contested=True, has_racks=True), limit=limits)
    def test_no_move_could_make_it_more_even(self, group: ServerGroup, limit: int) -> None:
        with dealt_in(limit):
            assert measure_target(group, UniformAssignor().assign(group)).improvable is None

    @given(group=server_groups(is_alike=True), limit=limits)
    def test_where_all_subscribe_alike_loads_differ_by_one_and_just_what_is_too_much_moves(
        self, group: ServerGroup, limit: int
    ) -> None:
        with dealt_in(limit):
            target = UniformAssignor().assign(group)
        sizes = [size(mine) for mine in target.values()]
        assert max(sizes) - min(sizes) <= 1
        keep = can_keep(group)
        share, extras = divmod(sum(topic.partitions for topic in group.topics.values()), len(group.members))
        too_many = [max(0, len(mine) - share) for mine in keep.values()]
        spared = min(extras, sum(count > 0 for count in too_many))
        moved = sum(len(mine - set(each(target[name]))) for name, mine in keep.items())
        assert moved == sum(too_many) - spared

    @given(group=server_groups())
    def test_where_they_do_not_hardly_more_moves_than_must(self, group: ServerGroup) -> None:
        target = UniformAssignor().assign(group)
        moved = sum(len(mine - set(each(target[name]))) for name, mine in can_keep(group).items())
        assert moved <= fewest_moves(group_spec(group, "")) + 1

    @given(group=server_groups(is_contested=True, has_racks=True))
    def test_racks_never_cost_balance_and_never_bring_partitions_farther(self, group: ServerGroup) -> None:
        bare = {name: member._replace(rack=None) for name, member in group.members.items()}
        plain = UniformAssignor().assign(ServerGroup(bare, group.topics, group.is_homogeneous))
        target = UniformAssignor().assign(group)
        assert sorted(map(size, target.values())) == sorted(map(size, plain.values()))
        held = in_force(group, dict(plain))
        assert measure_target(held, UniformAssignor().assign(held)).near >= measure_target(held, plain).near

    @given(group=server_groups(is_contested=True, has_racks=True))
    def test_it_ends_within_the_steps_that_it_counts(self, group: ServerGroup) -> None:
        order, members = in_order(group)
        round_one = sharing(group, order, members, [member.rack for member in members])
        round_one.targets()
        partitions = sum(topic.partitions for topic in group.topics.values())
        assert round_one.steps <= 4 * (partitions + len(group.members)) + 1


class TestStandby:
    @given(group=server_groups(has_lags=True))
    def test_a_partition_with_copies_goes_to_its_owner_or_to_a_copy_that_has_caught_up(
        self, group: ServerGroup
    ) -> None:
        target = StandbyAssignor(10).assign(group)
        owner = {held: name for name, mine in can_keep(group).items() for held in mine}
        for name, given_to in target.items():
            for held in each(given_to):
                lags = {
                    other: lag if lag >= 0 else 2**63
                    for other, member in group.members.items()
                    if held[0] in member.topics
                    for topic_id, some in member.lags
                    for number, lag in some
                    if (topic_id, number) == held
                }
                if lags and owner.get(held) != name:
                    assert name in lags
                    ready = [other for other, lag in lags.items() if lag <= 10]
                    assert name in ready or (not ready and held not in owner and lags[name] == min(lags.values()))

    @given(group=server_groups(has_racks=True))
    def test_without_copies_it_is_uniform(self, group: ServerGroup) -> None:
        assert StandbyAssignor(10).assign(group) == UniformAssignor().assign(group)
