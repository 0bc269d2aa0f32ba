"""From eager to cooperative and back by rolling bounces under load, with Java in the group; late old members."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.ownership import check_single_owner, kept
from interop.producers import Load
from interop.referee import Referee
from interop.stored import leading_client
from tests.interop.lanes import Stage
from tests.interop.libraries import need

FLEET = ("kohort", "java", "kohort")
BOTH = "range,cooperative-sticky"
COOPERATIVE = "cooperative-sticky"
STEPS = (BOTH, COOPERATIVE, BOTH, "range")
on_both = pytest.mark.parametrize("broker", list(BROKERS))


@on_both
@pytest.mark.timeout(400)
@pytest.mark.lane(100)
@pytest.mark.capability("all together", "rolling upgrade from range to cooperative-sticky, and back (kohort and Java)")
def test_rolling_bounces_lead_to_cooperative_and_back(stage: Stage) -> None:
    need("java")
    with stage.group() as group, Load(stage.bootstrap, group.topic) as load:
        for library in FLEET:
            group.start(library, assignor="range")
        group.calm(1)
        referee = Referee(group, load)
        for assignors in STEPS:
            for member in list(group.members):
                referee.bounce(member, assignor=assignors)
        repeated = referee.verdict()
        # Kafka refuses a commit that comes while a round is completed; then what it held, and no more, is read again.
        assert repeated == 0 or (stage.broker.name == "apache" and referee.refusals), f"{repeated} read again"


@on_both
@pytest.mark.timeout(300)
@pytest.mark.lane(40)
@pytest.mark.parametrize("leader", ["kohort", "java"])
@pytest.mark.capability("all together", "an old (embedded v0) member joins a cooperative group late, led by {leader}")
def test_old_member_joins_an_upgraded_group_late(leader: str, stage: Stage) -> None:
    need("java", "aiokafka")
    with stage.group() as group, Load(stage.bootstrap, group.topic) as load:
        first = group.start(leader, assignor=COOPERATIVE)
        group.settle()
        second = group.start("java" if leader == "kohort" else "kohort", assignor=COOPERATIVE)
        group.settle()
        group.calm(1)
        assert leading_client(stage.bootstrap, group.name) == leader
        before = [(member, set(member.owned), len(member.changes)) for member in (first, second)]
        old = group.start("aiokafka", assignor=COOPERATIVE)
        group.await_(lambda: len(old.changes) > 1, "the old member gets its assignment", 30)
        if leader == "kohort":
            group.await_(lambda: not old.owned, "the old member gets nothing", 20)
        else:
            group.settle()
            group.calm(1)
        for member, held, since in before:
            assert kept(member, held, since) == held & member.owned, f"{member.library} gave up more: {group.state()}"
        group.leave(old)
        group.settle()
        written = load.stop()
        group.drain(written)
        group.check(written)
        check_single_owner(group.gone + group.members)
