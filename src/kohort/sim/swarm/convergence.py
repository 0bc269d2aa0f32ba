"""Whether a healed world has converged: what is still missing, in a sentence, or None.

It uses the census of members and the coordinator's descriptions of its groups. A group without a live member has
converged.
"""

from __future__ import annotations

import re

from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.scenario.member_census import MemberCensus
from kohort.sim.scenario.simulated_cluster import Seat, SimulatedCluster
from kohort.sim.trace import show_partitions


def missing(cluster: SimulatedCluster, census: MemberCensus) -> str | None:
    """Return what a healed world still lacks, or None when it has converged."""
    node = cluster.node_host.node
    if node is None:
        return f"{cluster.place} does not run: {cluster.node_host.failure}"
    for seat in cluster.seats.values():
        if seat.is_running and seat.is_closing:
            return f"{seat.name} is still on its way out"
    for group in cluster.plan.groups:
        live = [
            seat for seat in cluster.seats.values() if seat.group == group and seat.is_running and not seat.is_closing
        ]
        if live and (lack := _missing_of_group(cluster, census, group, live)):
            return f"group {group}: {lack}"
    return None


def _missing_of_group(cluster: SimulatedCluster, census: MemberCensus, group: str, live: list[Seat]) -> str | None:
    node = cluster.node_host.node
    assert node is not None, "a node runs"
    if (error := node.coordinator.load_error(group)) is not ErrorCode.NONE:
        return f"its coordinator answers {error.name}"
    for seat in live:
        if not wanted_by(seat, cluster.topics):
            continue
        if (state := census.states[seat.name]) != "stable":
            return f"{seat.name} is {state}"
        if seat.peer is not None and not seat.peer.is_settled:
            return f"{seat.name} does not read yet, or wants another round"
    if lack := _unowned(cluster, census, live):
        return lack
    described = node.coordinator.describe(group) or node.coordinator.describe_consumer(group)
    if described is None:
        return "the coordinator does not know it" if any(wanted_by(seat, cluster.topics) for seat in live) else None
    if described.state.value.lower() not in ("stable", "empty"):
        return f"it is {described.state.value}"
    present = {seat.peer.identity.member_id: seat.name for seat in live if seat.peer is not None}
    for member in described.members:
        if member.member_id not in present:
            return f"{member.member_id} is in it, and no process has that id any more"
    return _unread(cluster, census, group, live)


def _unowned(cluster: SimulatedCluster, census: MemberCensus, live: list[Seat]) -> str | None:
    owners: dict[TopicPartition, str] = {}
    for seat in live:
        for partition in sorted(census.owned[seat.name]):
            if partition in owners:
                return f"{seat.name} and {owners[partition]} both own {partition}"
            owners[partition] = seat.name
            if partition.topic not in wanted_by(seat, cluster.topics):
                return f"{seat.name} owns {partition}, of a topic that it does not want or that is gone"
    wanted = {topic for seat in live for topic in wanted_by(seat, cluster.topics)}
    unowned = [partition for partition in cluster.partitions() if partition.topic in wanted and partition not in owners]
    if unowned:
        return f"no member owns {show_partitions(unowned)}"
    strange = [partition for partition in owners if partition.partition >= cluster.topics[partition.topic]]
    return f"{owners[strange[0]]} owns {strange[0]}, which does not exist" if strange else None


def _unread(cluster: SimulatedCluster, census: MemberCensus, group: str, live: list[Seat]) -> str | None:
    """Return which records are not read and committed yet."""
    node = cluster.node_host.node
    assert node is not None, "a node runs"
    if not cluster.feeder.is_idle:
        return "not everything that is to be written is acknowledged"
    for seat in live:
        for partition in sorted(census.owned[seat.name]):
            hosted = node.topics.partition(partition.topic, partition.partition)
            end = 0 if hosted is None else hosted.log.log_end_offset
            topic = node.topics.get(partition.topic)
            if not end or hosted is None or topic is None:
                continue
            if census.read.get((seat.name, partition), 0) < end and seat.plan.config.commit == "revoked":
                return f"{seat.name} has not read all {end} records of {partition}"
            if seat.plan.config.commit == "revoked":
                continue
            committed = node.coordinator.offset(group, partition.topic, partition.partition, topic.topic_id)
            if committed is None or committed.offset < end:
                shown = "nothing" if committed is None else f"{committed.offset}"
                return f"{seat.name} has committed {shown} of the {end} records of {partition}"
    return None


def wanted_by(seat: Seat, topics: dict[str, int]) -> tuple[str, ...]:
    """Return which of the topics that exist a member wants."""
    names, pattern = seat.plan.config.topics, seat.plan.config.pattern
    return tuple(topic for topic in topics if topic in names or (pattern is not None and re.fullmatch(pattern, topic)))
