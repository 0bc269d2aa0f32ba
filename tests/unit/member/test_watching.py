"""What a leader watches: the topics of its whole group, and racks where the group places partitions by racks."""

from __future__ import annotations

import pytest
from tests.unit.member.classic_script import TWO, Script

from kohort.assign import TopicSpec
from kohort.assign.spec import MemberSpec
from kohort.member import MemberConfig, inputs
from kohort.member.effects import Callback
from kohort.model.assignment import Assignment
from kohort.model.subscription import Subscription

A, B, C = (frozenset({rack}) for rack in "abc")


def leader(
    config: MemberConfig | None = None,
    topics: dict[str, TopicSpec] | None = None,
    others: dict[str, MemberSpec] | None = None,
    *,
    is_skip: bool = False,
) -> Script:
    """Return a stable leader `m` that has assigned with this metadata, or was told not to."""
    config = config or MemberConfig()
    script = Script(config)
    script.subscribe("t")
    members = {"m": MemberSpec(Subscription(("t",), rack=config.rack), config.instance_id), **(others or {})}
    script.joined(1, leader="m", members=members, is_skip=is_skip)
    script.take(inputs.Computed(script.member.identity, {"m": Assignment(TWO)}, topics or {"t": TopicSpec(2)}))
    script.synced(TWO)
    script.finished(Callback.ASSIGNED)
    script.forget()
    return script


def rejoins(script: Script, **topics: TopicSpec) -> bool:
    script.take(inputs.MetadataChanged(topics))
    return bool(script.callbacks())


def test_a_leader_that_was_told_to_skip_watches_the_topics_of_others_too() -> None:
    others = {"n": MemberSpec(Subscription(("u",)), "j")}
    both = {"t": TopicSpec(2), "u": TopicSpec(1)}
    script = leader(MemberConfig(instance_id="i"), both, others, is_skip=True)
    assert not rejoins(script, **both)
    assert rejoins(script, t=TopicSpec(2), u=TopicSpec(2))


@pytest.mark.parametrize(
    ("racks", "is_rejoining"),
    [
        ((A | B, B | C), False),
        ((A | C, B | C), True),
        ((A | B | C, B | C), True),
        ((A, B | C), False),
        ((A | B, B | C, A), True),
    ],
    ids=["the same", "others", "one more", "one less, as when a broker restarts", "of a new partition"],
)
def test_replicas_in_racks_where_there_were_none_start_a_round_of_a_rack_aware_group(
    racks: tuple[frozenset[str], ...], is_rejoining: bool
) -> None:
    script = leader(MemberConfig(rack="a"), {"t": TopicSpec(2, (A | B, B | C))})
    assert rejoins(script, t=TopicSpec(len(racks), racks)) is is_rejoining
