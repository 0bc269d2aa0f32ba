"""Two Spark jobs and a consumer of another library in one group: killed, restarted and rolled to another protocol.

One job has its executors on a standalone cluster, the other runs in one process.
"""

from __future__ import annotations

import pytest
from interop.brokers import Broker
from interop.group import Group, Member
from interop.producers import Load
from interop.referee import Referee
from interop.spark_cluster import SparkCluster
from tests.interop.groups import group_type
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(2400), pytest.mark.spark]
START_S = 400  # for an application of Spark on a busy machine
PAUSE_S = 60  # the first round of such an application
STILL_S = 4  # a revocation waits for a round to end
COOPERATIVE = {"assignor": "cooperative-sticky"}
CONSUMER = {"protocol": "consumer"}


@pytest.mark.parametrize("job", ["group_stream", "structured_streaming"])
@pytest.mark.capability("kohort.spark", "{job}: two jobs on a cluster and librdkafka, killed, restarted and rolled")
def test_jobs_and_a_consumer_share_a_group_through_kills_and_a_roll(
    job: str, broker: Broker, group: Group, spark_cluster: SparkCluster
) -> None:
    need("librdkafka")
    on_cluster = {"master": spark_cluster.address, "rows_on_driver": "0"}
    with Load(broker.bootstrap, group.topic) as load:
        referee = Referee(group, load, still_s=STILL_S, timeout_s=START_S, longest_pause_s=PAUSE_S)
        # The job leads. Where librdkafka does, it copies what members say of themselves into their assignments, and
        # Apache Kafka converts no group whose assignments hold data of an assignor.
        group.start(job, **COOPERATIVE)
        group.calm(STILL_S, START_S)
        other = group.start("librdkafka", **COOPERATIVE)
        victim = group.start(job, **COOPERATIVE, **on_cluster)
        group.calm(STILL_S, START_S)
        kill_in_a_round(referee, victim)
        with referee.change():
            victim = group.start(job, **COOPERATIVE, **on_cluster)
        for member in sorted(group.members, key=lambda each: each is not other):
            referee.bounce(member, **CONSUMER, **(on_cluster if member is victim else {}))
        assert group_type(broker.bootstrap, group.name) == "CONSUMER"
        kill_in_a_round(referee, group.members[-1])
        with referee.change():
            group.start(job, **CONSUMER, **on_cluster)
        repeats = referee.verdict()
    refused = [each.refusals for each in group.gone + group.members if each.library == job and each.refusals]
    assert not refused, "rounds on partitions that stayed, or were given up in time, are committed"
    assert repeats <= sum(map(uncommitted, group.gone))


def kill_in_a_round(referee: Referee, victim: Member) -> None:
    """Kill a member that reads and commits, as a machine would die: with its Java and all that it has started."""
    group = referee.group
    group.await_(lambda: bool(victim.rows) and bool(victim.committed), f"{victim.name} reads", START_S)
    with referee.change(victim):
        group.kill(victim)


def uncommitted(gone: Member) -> int:
    """Return how many records a member that is gone had read and not committed: no more may be read twice.

    A query that is stopped does not finish its batch.
    """
    held = {(partition, offset) for partition, offset, *_ in gone.rows}
    return sum(offset >= gone.committed.get(partition, 0) for partition, offset in held)
