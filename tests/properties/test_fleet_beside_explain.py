"""The fold of a group's log beside `explain`, which reads the coordinator's own events: in simulated scenes both agree.

Of a consumer or streams group the log has everything: the same rebalances, moves, durations and time without an owner.
Of a classic one it lacks the JoinGroups: the same rebalances and moves, and never more time than there was.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.fleets.simulated_group import GROUP, SimulatedGroup, topic_token

from kohort.fleet.decode.value_json import fields_of
from kohort.fleet.fold.fold import fold
from kohort.fleet.fold.folded_group import FoldedRecord, Group
from kohort.fleet.fold.hours import Hour
from kohort.group.explain.explain import explain
from kohort.group.explain.rebalance_report import GroupReport, Rebalance
from kohort.log.group_records import read_text
from kohort.log.group_replay import records_of
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.ids import topic_id_text
from kohort.node.groups.event_topic import EVENT_TOPIC

OF_A_MEMBER = (5, 7, 8, 19, 21, 22)
"""Types of records whose key has a member id."""


def played(kind: str, seed: int) -> SimulatedGroup:
    """Play members that come, go and die, each after the other has settled."""
    random, scene = Random(seed), SimulatedGroup(seed, {topic_token(1): 6})
    scene.start(0, kind)
    scene.converge()
    for number in range(1, 6):
        living = sorted(name for name, peer in scene.peers.items() if not peer.is_over)
        what = random.choice(["start", "start", "close", "kill"]) if len(living) > 1 else "start"
        if what == "start":
            scene.start(number, kind)
        elif what == "close":
            scene.close(scene.peers[random.choice(living)])
        else:
            scene.peers[random.choice(living)].kill()
            scene.pass_s(60)
        scene.converge()
    scene.pass_s(400)
    return scene


def folded(scene: SimulatedGroup) -> list[Hour]:
    """Return the hours that are folded from the log of a scene."""
    names = {topic_id_text(topic_id): name for name, topic_id in scene.topic_ids.items()}
    group = Group("cluster", GROUP)
    group.name_of = names.__getitem__
    records = (record for piece in scene.pieces(as_kafka=False) for record in piece.records)
    for offset, record in enumerate(records):
        assert record.key is not None
        kind = int.from_bytes(record.key[:2], "big")
        _, end = read_text(record.key, 2)
        member = read_text(record.key, end)[0] if kind in OF_A_MEMBER else None
        fields = None if record.value is None else fields_of(kind, record.value)
        fold(group, FoldedRecord(0, offset, record.timestamp_ms, kind, record.value is None, member, fields))
    return group.hours.collect(all_of_them=True)


def explained(scene: SimulatedGroup) -> GroupReport:
    """Return the explanation of the coordinator's own events."""
    log = PartitionLog.open(scene._node.disk.clone(), f"{EVENT_TOPIC}-0", LogConfig(), scene.now_ms)
    events = [json.loads(record.value) for record in records_of(log) if record.value]
    report = explain(events, GROUP, scene.now_ms)
    assert report.running is None, "the scene has come to rest"
    return report


def moved(rebalances: list[Rebalance]) -> int:
    return sum(len(each.moved()) for each in rebalances)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_the_fold_of_a_log_with_epochs_agrees_with_its_coordinators_events(kind: str, seed: int) -> None:
    scene = played(kind, seed)
    hours, report = folded(scene), explained(scene)
    assert sum(hour.rebalances for hour in hours) == report.total
    assert sum(hour.partitions_moved for hour in hours) == moved(report.rebalances)
    assert sum(hour.rebalance_ms_total for hour in hours) == sum(each.duration_ms() for each in report.rebalances)
    assert sum(hour.unowned_partition_ms for hour in hours) / 1000 == pytest.approx(
        report.unowned_partition_s, abs=0.01
    )


@pytest.mark.parametrize("kind", ["eager-range", "cooperative"])
def test_the_fold_of_a_classic_groups_log_has_the_same_rebalances_and_never_a_higher_cost(kind: str) -> None:
    scene = played(kind, 1)
    hours, report = folded(scene), explained(scene)
    assert sum(hour.rebalances for hour in hours) == report.total
    assert sum(hour.partitions_moved for hour in hours) == moved(report.rebalances)
    cost_s = sum(hour.unowned_partition_ms for hour in hours) / 1000
    assert 0 < cost_s <= report.unowned_partition_s
