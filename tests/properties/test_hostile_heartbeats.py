"""Whatever heartbeats an attacker sends, correct members stay in the group and end with all their partitions."""

from __future__ import annotations

import logging
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.properties.test_garbage import Failures
from tests.unit.node.consumer_desk import consumer_desk, settle, stable_members, topics_of

from kohort.group.consumer.group import ConsumerGroup
from kohort.sim.checks.invariants import violations
from kohort.wire.messages import ConsumerGroupHeartbeatRequest

IDS = ("", "m1", "m2", "m3", "é\0", "x" * 300)
TOPIC_IDS = ("orders", "invoices", "none")
REGEXES = ("", ".*", "o.+", "(", "(a+)+", "[z-a]", "a{1,1000}", r"\pL*")
Chosen = dict[str, Any]


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


PARTITIONS = st.lists(st.integers(-1, 4) | st.sampled_from([2**31 - 1, -(2**31)]), max_size=4)
HEARTBEATS = st.fixed_dictionaries(
    {
        "group_id": st.sampled_from(["g", "g", "g", "h", ""]),
        "member_id": st.sampled_from(IDS),
        "member_epoch": st.integers(-3, 8) | st.sampled_from([0, 0, -1, 2**31 - 1, -(2**31)]),
        "instance_id": maybe(st.sampled_from(["", "i1", "i2"])),
        "rack_id": maybe(st.sampled_from(["", "r1"])),
        "rebalance_timeout_ms": st.sampled_from([-1, 0, 1, 60_000, 2**31 - 1, -5]),
        "subscribed_topic_names": maybe(st.lists(st.sampled_from(["orders", "invoices", "none", "", "*"]), max_size=3)),
        "subscribed_topic_regex": maybe(st.sampled_from(REGEXES)),
        "server_assignor": maybe(st.sampled_from(["uniform", "range", "mine", ""])),
        "topic_partitions": maybe(st.lists(st.tuples(st.sampled_from(TOPIC_IDS), PARTITIONS), max_size=3)),
        "reason": maybe(st.text(max_size=3)),
    }
)


@settings(max_examples=examples(150), deadline=None)
@given(
    heartbeats=st.lists(st.tuples(HEARTBEATS, st.sampled_from([0, 1]), st.sampled_from([0, 1, 700])), max_size=12),
    park_ms=st.sampled_from([0, 1_000]),
)
def test_honest_members_are_not_harmed_by_made_up_heartbeats(
    heartbeats: list[tuple[Chosen, int, int]], park_ms: int
) -> None:
    desk = consumer_desk(kohort_group_consumer_heartbeat_park_ms=0)
    ids = {name: desk.create(name, 2) for name in ("invoices",)}
    orders = desk.node.topics.get("orders")
    assert orders is not None
    ids |= {"orders": orders.topic_id, "none": b"\7" * 16}
    honest = stable_members(desk, 2, group_id="g")
    for member, member_id in zip(honest, ("h1", "h2"), strict=True):
        member.peer.call(member.request(member_epoch=-1), 1)
        member.member_id = member_id
        member.join()
    settle(*honest)
    desk.node.coordinator.runtime.epoch_parking._park_ms = park_ms
    failures = Failures()
    logging.getLogger("kohort").addHandler(failures)
    try:
        for chosen, version, pause_ms in heartbeats:
            owned = chosen["topic_partitions"]
            fields = {**chosen, "subscribed_topic_regex": chosen["subscribed_topic_regex"] if version else None}
            if owned is not None:
                fields["topic_partitions"] = [
                    each for name, numbers in owned for each in topics_of({ids[name]: numbers})
                ]
            peer = desk.connect()
            peer.send(ConsumerGroupHeartbeatRequest(**fields), version)
            desk.advance(pause_ms)
            assert peer.closed is None
    finally:
        logging.getLogger("kohort").removeHandler(failures)
    assert not failures.found, failures.found[0]
    desk.node.coordinator.runtime.epoch_parking._park_ms = 0
    # All sessions of the made-up members end, and those of the honest ones do not.
    for _ in range(3):
        desk.advance(20_000)
        for member in honest:
            assert member.ack().error_code == 0
    settle(*honest)
    hosted = desk.node.coordinator.runtime.hosted("g")
    assert hosted is not None
    assert not violations(hosted.shard)
    group = hosted.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert set(group.members) == {"h1", "h2"}
    assert sorted(honest[0].partitions + honest[1].partitions) == [0, 1, 2]
