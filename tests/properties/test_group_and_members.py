"""Our coordinator and our members together, on connections that break, through restarts: one owner for each partition.

And when nothing breaks any more, every partition has its owner, all members are in one generation, and nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.properties.member_of_world import MemberOfWorld
from tests.unit.group.world import World

from kohort.assign import Assignor, CooperativeStickyAssignor, RangeAssignor, StickyAssignor, TopicSpec
from kohort.group.events import GroupStored
from kohort.member import inputs
from kohort.model.cause import CauseKind
from kohort.model.ids import TopicPartition
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings

Kit = Callable[[], Sequence[Assignor]]
KITS: dict[str, Kit] = {
    "cooperative": lambda: [CooperativeStickyAssignor()],
    "java's default": lambda: [RangeAssignor(), CooperativeStickyAssignor()],
    "sticky": lambda: [StickyAssignor()],
}
TOPICS = ("t", "u")
MOST = 5
CALM_MS = 90_000


class Party:
    """A group and its members, and everything that may happen to them."""

    def __init__(self, seed: int, kit: Kit) -> None:
        self.random = Random(seed)
        read = group_settings(Config())
        self.world = World(
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
            initial_quiet_ms=self.random.choice([-1, 100]),
            sync_hold_ms=self.random.choice([0, 1_000]),
            **{
                name: getattr(read, name)
                for name in ("topics_of", "owned_of", "assigned_of", "offer_of", "compared_metadata_of")
            },
        )
        self.topics = {topic: TopicSpec(self.random.randint(1, 6)) for topic in TOPICS}
        self.kit = kit
        self.members: list[MemberOfWorld] = []
        self.absent: list[str] = []
        """Instances whose process was killed."""

    @property
    def alive(self) -> list[MemberOfWorld]:
        return [member for member in self.members if not member.is_dead]

    def happen(self) -> None:
        """Let one thing happen, or nothing."""
        things = [
            self.join,
            self.kill,
            self.leave,
            self.restart,
            self.grow,
            self.change_topics,
            self.want,
            self.break_off,
        ]
        if self.random.random() < 0.5:
            self.random.choice(things)()
        for member in self.alive:
            member.loss = self.random.choice([0, 0, 0.08])
        self.pass_time(self.random.choice([0, 0, 5, 50, 200, 1_000, 3_000]))

    def pass_time(self, by_ms: int) -> None:
        for _ in range(2):
            for member in self.alive:
                member.live()
            self.check()
        self.world.advance(by_ms)

    def check(self) -> None:
        """No partition has two owners. Who was killed owns nothing, whatever its group believes."""
        owner: dict[TopicPartition, str] = {}
        for member in self.alive:
            for partition in member.member.owned:
                assert partition not in owner, f"{partition} is owned by {owner[partition]} and {member.name}"
                owner[partition] = member.name

    @property
    def has_skipped(self) -> bool:
        """Whether a static member came back without a round."""
        kinds = {event.cause.kind for event in self.world.events if isinstance(event, GroupStored)}
        return CauseKind.STATIC_MEMBER_REPLACED in kinds

    # What may happen

    def join(self) -> None:
        if len(self.alive) == MOST:
            return
        name = f"m{len(self.members)}"
        instance_id = self.absent.pop() if self.absent else name if self.random.random() < 0.25 else None
        member = MemberOfWorld(name, self.world, self.topics, self.kit(), self.random, instance_id)
        self.members.append(member)
        member.look_around()
        member.take(inputs.Subscribed(self.random.choice([("t",), TOPICS, TOPICS])))

    def kill(self) -> None:
        if self.alive and self.random.random() < 0.5:
            member = self.random.choice(self.alive)
            member.is_dead = True
            if member.instance_id is not None:
                self.absent.append(member.instance_id)

    def leave(self) -> None:
        if self.alive:
            self.random.choice(self.alive).take(inputs.CloseRequested("done", leave=True))

    def restart(self) -> None:
        """The coordinator is lost with everything but its log."""
        self.world.restart()
        for member in self.alive:
            member.lose_connection()

    def grow(self) -> None:
        topic = self.random.choice(TOPICS)
        self.topics[topic] = TopicSpec(self.random.randint(1, 6))
        self.deliver_some()

    def change_topics(self) -> None:
        self.topics.pop(self.random.choice(TOPICS), None)
        self.deliver_some()

    def deliver_some(self) -> None:
        for member in self.alive:
            if self.random.random() < 0.8:
                member.look_around()

    def want(self) -> None:
        if self.alive:
            wish = inputs.Subscribed(self.random.choice([("t",), ("u",), TOPICS]))
            self.random.choice(self.alive).take(self.random.choice([wish, inputs.RejoinRequested("a whim")]))

    def break_off(self) -> None:
        if self.alive:
            self.random.choice(self.alive).lose_connection()

    # The end

    def calm_down(self) -> None:
        """Nothing fails any more; departed members are noticed."""
        for member in self.alive:
            member.loss = 0
            member.look_around()
            if self.has_skipped:
                # A leader that came back cannot know what changed while it was away (KIP-814).
                member.take(inputs.RejoinRequested("the end"))
        self.wait()

    def wait(self) -> None:
        for _ in range(CALM_MS // 100):
            self.pass_time(100)


@pytest.mark.parametrize("kit", KITS)
@settings(deadline=None, max_examples=examples(40))
@given(seed=st.integers(0, 2**32), things=st.integers(5, 60))
def test_a_partition_has_one_owner_under_any_failure_and_all_members_settle_in_the_end(
    kit: str, seed: int, things: int
) -> None:
    party = Party(seed, KITS[kit])
    party.join()
    for _ in range(things):
        party.happen()
    party.calm_down()
    alive = party.alive
    if not alive:
        return
    assert [member.failure for member in alive if member.failure] == []
    assert all(member.is_settled for member in alive), [str(member.member.state) for member in alive]
    assert {member.member.identity.generation for member in alive} == {party.world.group().generation}
    wanted = {
        TopicPartition(topic, number)
        for member in alive
        for topic in member.member.topics
        if topic in party.topics
        for number in range(party.topics[topic].partitions)
    }
    # Who never saw a topic cannot see that it is gone: it may hold partitions that are no more.
    assert wanted <= frozenset().union(*(member.member.owned for member in alive))
    generation = party.world.group().generation
    party.wait()
    assert party.world.group().generation == generation, "nothing moves any more"
