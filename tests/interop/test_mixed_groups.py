"""Groups of members from several libraries, each library leading in turn: they share, and nothing has two owners."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import Group, Member, keyed, merged
from interop.kohort_broker import KohortBroker
from interop.ownership import check_single_owner, kept
from interop.producers import Load, produce
from interop.stored import leading_client
from tests.interop.lanes import Stage
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(40)]
ALL_MEMBERS = ("kohort", "java", "librdkafka", "kafka_python", "aiokafka")
STICKY = ("kohort", "java", "kafka_python", "aiokafka")
READ_BY = {
    "kohort": STICKY,
    "java": ("kohort", "java", "aiokafka"),
    "kafka_python": ("kafka_python",),
    "aiokafka": ("kohort", "java", "aiokafka"),
}
"""Whose memory a `sticky` leader can read: kafka-python writes a version before Java's format, and reads only that."""
COOPERATIVE = ("kohort", "java", "librdkafka", "kafka_python")
CLIENT_ID = {"kafka_python": "kafka-python"}
PARTITIONS = 12
on_both = pytest.mark.parametrize("broker", list(BROKERS))


def together(
    group: Group, leader: str, libraries: tuple[str, ...], protocol: str, *, is_passed_over: bool = False
) -> list[Member]:
    """Start the leader, and when it has everything the others; the leader stays the leader while it stays.

    `is_passed_over`: the coordinator elects another, whose version of the embedded protocol reads more.
    """
    members = [group.start(leader, assignor=protocol)]
    group.settle()
    members += [group.start(each, assignor=protocol) for each in libraries if each != leader]
    group.settle(60)
    group.calm(1.5)
    is_leading = leading_client(group.bootstrap, group.name) == CLIENT_ID.get(leader, leader)
    assert is_leading is not is_passed_over
    return members


@on_both
@pytest.mark.parametrize("protocol", ["range", "roundrobin"])
@pytest.mark.capability("all together", "five libraries in one group: {protocol}")
def test_five_libraries_share_one_group(protocol: str, stage: Stage) -> None:
    need(*ALL_MEMBERS)
    with stage.group(PARTITIONS) as group:
        members = together(group, "kohort", ALL_MEMBERS, protocol)
        written = merged(produce(each, stage.bootstrap, group.topic, keyed(150, 40)) for each in ("kohort", "aiokafka"))
        group.drain(written)
        group.leave(members[0])  # another library leads
        group.settle()
        group.kill(members[2])
        more = produce("librdkafka", stage.bootstrap, group.topic, keyed(150, 40, 300))
        written = merged([written, more])
        group.settle()
        group.drain(written)
        group.check(written, may_repeat=[members[2]])
        check_single_owner(group.gone + group.members)


@on_both
@pytest.mark.parametrize("leader", STICKY)
@pytest.mark.capability("all together", "sticky, led by {leader}")
def test_sticky_leader_reads_what_other_libraries_remember(leader: str, stage: Stage) -> None:
    need(*STICKY)
    with stage.group(PARTITIONS) as group:
        members = together(group, leader, STICKY, "sticky")
        before = {id(member): set(member.owned) for member in members}
        group.leave(members[-1])
        group.settle()
        group.calm(1)
        for member in group.members:
            is_read = member.library in READ_BY[leader]
            assert not is_read or before[id(member)] <= member.owned, f"{member.library} forgot: {group.state()}"
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(300, 40))
        group.drain(written)
        group.check(written)
        check_single_owner(group.gone + group.members)


@on_both
@pytest.mark.parametrize("leader", COOPERATIVE)
@pytest.mark.capability("all together", "cooperative-sticky, led by {leader}")
def test_cooperative_change_moves_only_what_must_move(leader: str, stage: Stage) -> None:
    need(*COOPERATIVE)
    with stage.group(PARTITIONS) as group, Load(stage.bootstrap, group.topic) as load:
        # kafka-python writes version 1, in which a subscription has no generation (docs/decisions, 13).
        is_passed_over = leader == "kafka_python" and isinstance(stage.broker, KohortBroker)
        members = together(group, leader, COOPERATIVE, "cooperative-sticky", is_passed_over=is_passed_over)
        first = members[0]
        leaver = members[2]
        before = [(member, set(member.owned), len(member.changes)) for member in members if member is not leaver]
        group.leave(leaver)
        group.settle()
        for member, held, since in before:
            assert kept(member, held, since) == held, f"{member.library} gave up what it keeps: {group.state()}"
        group.calm(1)
        before = [(member, set(member.owned), len(member.changes)) for member in group.members]
        group.start(leaver.library, assignor="cooperative-sticky")
        group.settle()
        group.calm(1)
        for member, held, since in before:
            assert kept(member, held, since) == held & member.owned, f"{member.library} gave up more: {group.state()}"
        assert sum(len(held & member.owned) for member, held, _ in before) == 9, f"moved too much: {group.state()}"
        assert first in group.members
        written = load.stop()
        group.drain(written)
        group.check(written)
        check_single_owner(group.gone + group.members)
