"""Two Spark jobs and a consumer of another library in one group, which are killed and restarted under load."""

from __future__ import annotations

import pytest
from interop.brokers import Broker
from interop.group import Group, Member
from interop.producers import Load
from interop.referee import Referee
from interop.spark_cluster import SparkCluster
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(500), pytest.mark.spark]
START_S = 120  # for an application of Spark on a busy machine
PAUSE_S = 30  # the first round of an application of Spark, beside others on few cores
COOPERATIVE = {"assignor": "cooperative-sticky"}


@pytest.mark.parametrize("job", ["group_stream"])
@pytest.mark.capability("kohort.spark.GroupStream", "two jobs on a cluster and librdkafka, killed and restarted")
def test_jobs_and_a_consumer_share_a_group_through_kills(
    job: str, broker: Broker, group: Group, spark_cluster: SparkCluster
) -> None:
    need("librdkafka")
    where = {"master": spark_cluster.address, "rows_on_driver": "0"}
    with Load(broker.bootstrap, group.topic) as load:
        referee = Referee(group, load, timeout_s=START_S, longest_pause_s=PAUSE_S)
        group.start("librdkafka", **COOPERATIVE)
        jobs = [group.start(job, **COOPERATIVE, **where) for _ in range(2)]
        group.calm(1, START_S)
        for victim in jobs:
            await_open_rows(group, victim)
            with referee.change(victim):
                group.kill(victim)
            with referee.change():
                group.start(job, **COOPERATIVE, **where)
        referee.verdict()


def await_open_rows(group: Group, member: Member) -> None:
    """Wait until a member reads and commits."""
    group.await_(lambda: bool(member.rows) and bool(member.committed), f"{member.name} reads", 60)
