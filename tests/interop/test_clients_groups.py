"""Groups of three by other people's clients: every record read once, through restarts, crashes and leaving."""

from __future__ import annotations

import pytest
from interop.brokers import Broker
from interop.group import LIBRARIES, Group, check_keys, keyed, merged
from interop.producers import produce

from interop import jars

pytestmark = pytest.mark.timeout(150)
MEMBERS = (*LIBRARIES, "java", "kohort")


@pytest.fixture(params=MEMBERS)
def library(request: pytest.FixtureRequest) -> str:
    """Each client library in turn, skipped where it cannot be had."""
    if request.param == "java":
        try:
            jars.compiled("GroupMember")
        except jars.Unavailable as reason:
            pytest.skip(str(reason))
    else:
        pytest.importorskip(
            {"librdkafka": "confluent_kafka", "kafka_python": "kafka"}.get(request.param, request.param)
        )
    return str(request.param)


@pytest.mark.capability("{library}", "a group of three reads every record once")
def test_group_of_three_reads_every_record_once(library: str, broker: Broker, group: Group) -> None:
    before = produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 17))
    for _ in range(3):
        group.start(library)
    group.settle()
    after = produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 17, 600))
    written = merged([before, after])
    group.drain(written)
    for member in list(group.members):
        group.leave(member)
    group.check(written)
    check_keys(written)


@pytest.mark.capability("{library}", "a restarted member continues from what was committed")
def test_restarted_member_continues_from_what_was_committed(library: str, broker: Broker, group: Group) -> None:
    first, *_ = [group.start(library) for _ in range(3)]
    group.settle()
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 17))
    group.drain(written)
    group.leave(first)
    group.settle()
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17, 600))])
    group.drain(written)
    group.start(library)
    group.settle()
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17, 900))])
    group.drain(written)
    for member in list(group.members):
        group.leave(member)
    # Nobody is left: what the next one may read is what comes after the commits.
    group.start(library)
    group.settle()
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(60, 17, 1200))])
    group.drain(written)
    group.check(written)


@pytest.mark.capability("{library}", "the others take over from a killed member")
def test_others_take_over_from_a_killed_member(library: str, broker: Broker, group: Group) -> None:
    first, *_ = [group.start(library) for _ in range(3)]
    group.settle()
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 17))
    group.await_(lambda: len(first.rows) > 0, "the first member reads", 20)
    group.kill(first)
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 17, 600))])
    group.settle()
    group.drain(written)
    group.check(written, may_repeat=[first])


@pytest.mark.capability("{library}", "static membership: a restart within the session moves nothing")
def test_static_member_comes_back_to_its_own_partitions(library: str, broker: Broker, group: Group) -> None:
    members = [group.start(library, instance=f"instance-{n}", session_ms="15000") for n in range(3)]
    group.calm()
    held = set(members[0].owned)
    changes = [len(member.changes) for member in members[1:]]
    group.kill(members[0])
    back = group.start(library, instance="instance-0", session_ms="15000")
    group.settle(12)
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17))
    group.drain(written)
    assert back.owned == held
    now = [len(member.changes) for member in members[1:]]
    assert now == changes, f"a restart of a static member moved partitions\n{group.events()}"
    group.check(written)


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("cooperative", ["librdkafka", "kafka_python", "java"])
@pytest.mark.capability("{cooperative}", "cooperative-sticky: a join takes only what must move")
def test_cooperative_join_takes_only_what_must_move(cooperative: str, broker: Broker, group: Group) -> None:
    first = group.start(cooperative, assignor="cooperative-sticky")
    second = group.start(cooperative, assignor="cooperative-sticky")
    group.settle()
    assert len(first.owned) == len(second.owned) == 3
    held = first.owned | set(), second.owned | set()
    seen = len(first.changes), len(second.changes)
    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17))
    group.start(cooperative, assignor="cooperative-sticky")
    # The two may give up theirs in rounds of their own, and between those every partition has an owner too.
    group.await_(lambda: all(len(member.owned) == 2 for member in group.members), "two partitions each", 40)
    for member, partitions, count in zip((first, second), held, seen, strict=True):
        assert len(member.owned) == 2
        assert member.owned < partitions
        kept = set.intersection(partitions, *(owned for _, owned in member.changes[count:]))
        assert len(kept) == 2, f"gave up more than it had to: {member.changes}"
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17, 300))])
    group.drain(written)
    group.check(written)


@pytest.mark.usefixtures("java")
@pytest.mark.capability("all together", "five libraries in one group (range)")
def test_five_libraries_share_one_group(broker: Broker, group: Group) -> None:
    pytest.importorskip("confluent_kafka")
    members = [group.start(each, assignor="range") for each in MEMBERS]
    group.settle(60)
    written = merged(produce(each, broker.bootstrap, group.topic, keyed(300, 17)) for each in LIBRARIES)
    group.drain(written)
    group.leave(members[0])
    group.settle()
    written = merged([written, produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 17, 900))])
    group.drain(written)
    group.check(written)
