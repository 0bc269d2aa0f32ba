"""Live groups of several libraries go from the classic protocols to the consumer protocol and back, under load."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import Group, keyed, merged
from interop.kohort_broker import KohortBroker
from interop.producers import Load, produce
from interop.referee import Referee, verdict
from interop.trap import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Trap
from tests.interop.groups import group_type
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = pytest.mark.timeout(400)
FLEET = ("kohort", "java", "librdkafka", "kohort")  # all that know both protocols
OLD = ("kafka_python", "aiokafka")  # who write embedded versions 0 and 1
COOPERATIVE = "cooperative-sticky"
PARTITIONS = 12
on_both = pytest.mark.parametrize("broker", list(BROKERS))


@on_both
@pytest.mark.lane(100)
@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
@pytest.mark.capability("all together", "rolled from {assignor} to the consumer protocol and back, by new processes")
def test_group_rolls_to_the_consumer_protocol_and_back(assignor: str, stage: Stage) -> None:
    need(*FLEET)
    with stage.group(PARTITIONS) as group, Load(stage.bootstrap, group.topic) as load:
        referee = Referee(group, load)
        begin(group, assignor)
        # librdkafka goes first: when the first leader leaves, any member may lead next.
        for number, member in enumerate(sorted(group.members, key=lambda each: each.library != "librdkafka")):
            assert group_type(stage.bootstrap, group.name) == ("CONSUMER" if number else "CLASSIC")
            referee.bounce(member, protocol="consumer")
        for member in list(group.members):
            assert group_type(stage.bootstrap, group.name) == "CONSUMER"
            referee.bounce(member, assignor=assignor)
        assert group_type(stage.bootstrap, group.name) == "CLASSIC"
        assert referee.verdict() == 0


def begin(group: Group, assignor: str, *, are_static: bool = False) -> None:
    """Start the fleet, whose first member leads, or its second: never librdkafka.

    A librdkafka leader sends the user data of each subscription back with the assignment. Kafka takes it for the state
    of a custom assignor, and refuses to convert the group. (Ours converts it: there is a unit test.)
    """
    for number, library in enumerate(FLEET):
        extra = {"instance": f"instance-{number}", "session_ms": "20000"} if are_static else {}
        group.start(library, assignor=assignor, **extra)
        if number < 2:
            group.settle()
    group.calm(1)


@on_both
@pytest.mark.lane(80)
@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
@pytest.mark.capability("all together", "static members turned from {assignor} to the consumer protocol and back")
def test_static_members_turn_to_the_consumer_protocol_and_back(assignor: str, stage: Stage) -> None:
    need(*FLEET)
    with stage.group(PARTITIONS) as group, Load(stage.bootstrap, group.topic) as load:
        referee = Referee(group, load)
        begin(group, assignor, are_static=True)
        for expected in ("CONSUMER", "CLASSIC"):
            for member in group.members:
                referee.turn(member)
            assert group_type(stage.bootstrap, group.name) == expected
        assert referee.verdict() == 0


@pytest.mark.lane(30)
@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.parametrize("native", ["kohort", "java", "librdkafka"])
@pytest.mark.parametrize("old", OLD)
@pytest.mark.capability("{native}", "gets an error that {old} keeps a group from the consumer protocol")
def test_refused_conversion_names_the_members_that_are_too_old(old: str, native: str, stage: Stage) -> None:
    need(old, native)
    with stage.group() as group:
        for library in ("kohort", old):
            group.start(library, assignor="range")
        group.calm(1)
        before = [len(member.changes) for member in group.members]
        group.are_troubles_expected = True
        newcomer = group.start(native, protocol="consumer")
        group.await_(lambda: bool(newcomer.troubles), "the newcomer is refused", 30)
        says = "Invalid request" if native == "librdkafka" else old.replace("_", "-")  # that does not pass the text on
        assert says in newcomer.troubles[0], newcomer.troubles[0]
        assert group_type(stage.bootstrap, group.name) == "CLASSIC"
        group.kill(newcomer)
        assert [len(member.changes) for member in group.members] == before, f"it was felt: {group.state()}"
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(120, 17))
        group.drain(written)
        group.check(written)


@pytest.mark.lane(90)
@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.capability("all together", "old members (embedded v0 and v1) in a group of the consumer protocol")
def test_old_members_are_translated_where_the_bound_is_lowered(stage: Stage) -> None:
    need(*FLEET, *OLD)
    with KohortBroker({"kohort.group.migration.min.embedded.version": "0"}) as broker:
        create_topic(broker.bootstrap, stage.name, PARTITIONS)
        with (
            Group(broker.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group,
            Load(broker.bootstrap, stage.name) as load,
        ):
            referee = Referee(group, load)
            for library in (*OLD, "java", "kohort"):
                group.start(library, assignor="range")
            group.calm(1)
            for member in group.members[2:]:
                referee.bounce(member, protocol="consumer")
            assert group_type(broker.bootstrap, group.name) == "CONSUMER"
            for member in group.members[2:]:
                referee.bounce(member, assignor="range")
            assert group_type(broker.bootstrap, group.name) == "CLASSIC"
            referee.verdict()


MOMENTS = {"conversion": CONSUMER_GROUP_HEARTBEAT, "join": JOIN_GROUP, "assignment": SYNC_GROUP}


@pytest.mark.lane(60)
@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.parametrize("moment", list(MOMENTS))
@pytest.mark.capability("all together", "broker killed in a migration when only one member has received its {moment}")
def test_migration_survives_a_broker_killed_in_the_middle(moment: str, stage: Stage) -> None:
    need(*FLEET)
    with Trap() as trap, KohortBroker({"advertised.listeners": f"PLAINTEXT://{trap.bootstrap}"}) as broker:
        trap.upstream = broker.bootstrap
        create_topic(trap.bootstrap, stage.name, PARTITIONS)
        with Group(trap.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group:
            for library in FLEET:
                group.start(library, assignor="range", session_ms="10000")
            group.settle()
            written = produce("librdkafka", trap.bootstrap, stage.name, keyed(300, 40))
            group.drain(written)
            trap.set(MOMENTS[moment])
            group.start("java", protocol="consumer")
            group.await_(trap.has_sprung.is_set, f"a member receives the {moment}", 30)
            broker.kill()
            trap.open()
            broker.start()
            group.settle(60)
            assert group_type(trap.bootstrap, group.name) == "CONSUMER"
            written = merged([written, produce("librdkafka", trap.bootstrap, stage.name, keyed(300, 40, 300))])
            verdict(group, written, may_lose=group.members)
