"""Every client with every protocol it has, dynamic and static, on both brokers: members come, go and die."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from interop.brokers import BROKERS
from interop.group import NEWEST_JAVA, Group, Member, keyed, merged
from interop.ownership import check_single_owner, kept
from interop.producers import produce
from interop.stored import last_stored
from tests.interop.groups import set_session
from tests.interop.lanes import JAVA_AT_ONCE, Stage
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(25)]
PROTOCOLS = {
    "kohort": ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer"),
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer"),
    "librdkafka": ("range", "roundrobin", "cooperative-sticky", "consumer"),
    "kafka_python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
}
CELLS = [(library, protocol) for library, protocols in PROTOCOLS.items() for protocol in protocols]
STICKY = ("sticky", "cooperative-sticky", "consumer")
INCREMENTAL = ("cooperative-sticky", "consumer")
RECORDS = 120
STATIC_SESSION_S = 20


@pytest.mark.parametrize("broker", list(BROKERS))
@pytest.mark.parametrize("membership", ["dynamic", "static"])
@pytest.mark.parametrize(("library", "protocol"), CELLS)
@pytest.mark.capability("{library}", "matrix: {protocol}, {membership}")
def test_members_join_leave_and_are_killed(library: str, protocol: str, membership: str, stage: Stage) -> None:
    join_leave_and_be_killed(library, protocol, membership, stage)


def join_leave_and_be_killed(library: str, protocol: str, membership: str, stage: Stage) -> None:
    """Let members of one library come, go and die, and account for every record and partition."""
    need(library)
    is_static = membership == "static"
    with JAVA_AT_ONCE if library in ("java", NEWEST_JAVA) else nullcontext(), stage.group() as group:
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(RECORDS, 17))
        for _ in range(3):
            start(group, library, protocol, is_static=is_static)
        group.calm(1)
        if is_static:
            restart_within_the_session(group, library, protocol)
        one_more_joins(group, library, protocol, is_static=is_static)
        written = merged([written, produce("librdkafka", stage.bootstrap, group.topic, keyed(RECORDS, 17, RECORDS))])
        group.drain(written)
        one_leaves(group, protocol, is_static=is_static)
        more = produce("librdkafka", stage.bootstrap, group.topic, keyed(RECORDS, 17, 2 * RECORDS))
        one_is_killed(group, protocol)
        rest = produce("librdkafka", stage.bootstrap, group.topic, keyed(RECORDS, 17, 3 * RECORDS))
        written = merged([written, more, rest])
        group.drain(written)
        group.settle()
        killed = [member for member in group.gone if not member.has_left]
        group.check(written, may_repeat=killed)
        check_single_owner(group.gone + group.members)


def start(group: Group, library: str, protocol: str, *, is_static: bool, instance: int | None = None) -> Member:
    """Start one more; a static member's session is long enough to come back in, a dynamic one's short to be missed."""
    number = len(group.members) if instance is None else instance
    settings = {"instance": f"instance-{number}"} if is_static else {}
    session_ms = str(1000 * STATIC_SESSION_S) if is_static else "4000"
    if protocol == "consumer":
        set_session(group.bootstrap, group.name, session_ms)
        return group.start(library, protocol=protocol, **settings)
    return group.start(library, assignor=protocol, session_ms=session_ms, **settings)


def restart_within_the_session(group: Group, library: str, protocol: str) -> None:
    """A static member, the leader where there is one, is killed and restarted: other members do not notice."""
    number = 0 if protocol == "consumer" else leading_instance(group)
    member = group.members[number]
    others = [each for each in group.members if each is not member]
    held = set(member.owned)
    changes = [len(each.changes) for each in others]
    if protocol == "consumer":
        group.leave(member)  # temporarily; a killed member remains the owner of its name
    else:
        group.kill(member)
    back = start(group, library, protocol, is_static=True, instance=number)
    group.await_(lambda: back.owned == held, "it owns again what it owned", STATIC_SESSION_S)
    now = [len(each.changes) for each in others]
    assert now == changes, f"a restart of a static member moved partitions\n{group.state()}\n{group.events()}"


def leading_instance(group: Group) -> int:
    """Return the number of the instance that leads."""
    stored = last_stored(group.bootstrap, group.name, 8)
    return next(int(str(each.instance_id)[-1]) for each in stored.members if each.member_id == stored.leader)


def one_more_joins(group: Group, library: str, protocol: str, *, is_static: bool) -> None:
    """The newcomer gets its share, and sticky assignors take no more than that share from the others."""
    before = [(member, set(member.owned), len(member.changes)) for member in group.members]
    start(group, library, protocol, is_static=is_static, instance=3)
    group.settle()
    group.calm(1)
    if protocol in STICKY:
        assert sum(len(held & member.owned) for member, held, _ in before) == 5, f"moved too much: {group.state()}"
    if protocol in INCREMENTAL:
        for member, held, since in before:
            assert kept(member, held, since) == held & member.owned, f"gave up what it keeps: {group.state()}"


def one_leaves(group: Group, protocol: str, *, is_static: bool) -> None:
    """What a member leaves behind goes to the others; a static one leaves nothing until its session ends."""
    leaver = group.members[1]
    before = survivors(group, leaver)
    group.leave(leaver)
    if not is_static:
        group.settle()
        check_kept(before, protocol, group)


def one_is_killed(group: Group, protocol: str) -> None:
    """What a member held when it died goes to the others when its session is over."""
    victim = group.members[1]
    before = survivors(group, victim)
    group.await_(lambda: len(victim.rows) > 0 or not victim.owned, "the victim reads", 20)
    group.kill(victim)
    group.settle()
    check_kept(before, protocol, group)


Held = list[tuple[Member, set[int], int]]


def survivors(group: Group, victim: Member) -> Held:
    """Return the partitions of all others, and how often that has changed."""
    return [(member, set(member.owned), len(member.changes)) for member in group.members if member is not victim]


def check_kept(before: Held, protocol: str, group: Group) -> None:
    """Sticky assignors leave the survivors what they had, cooperative ones without a break."""
    for member, held, since in before:
        if protocol in STICKY:
            assert held <= member.owned, f"took {held - member.owned} from a survivor: {group.state()}"
        if protocol in INCREMENTAL:
            assert kept(member, held, since) == held, f"gave up what it keeps: {group.state()}"
