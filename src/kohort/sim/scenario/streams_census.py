"""What the streams group of a healed world still lacks, and how an administrator mends one whose topics do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kohort.group.streams.group import StreamsGroup, StreamsGroupState
from kohort.group.streams.topology import StatusCode
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import Task
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.scenario.simulated_cluster import SimulatedCluster
from kohort.sim.scenario.streams_slot import StreamsSlot


def missing_of_streams(cluster: SimulatedCluster, slots: Sequence[StreamsSlot]) -> str | None:
    """Return what a group lacks whose processes run in these slots, None if nothing."""
    application, node = slots[0].application, cluster.node_host.node
    assert node is not None, "a node runs"
    if (error := node.coordinator.load_error(application.group_id)) is not ErrorCode.NONE:
        return f"its coordinator answers {error.name}"
    threads = [thread for slot in slots if slot.process is not None for thread in slot.process.threads]
    for thread in threads:
        if not thread.is_settled:
            return f"{thread.name} is {thread.state}"
    group = node.coordinator.streams_group(application.group_id)
    if group is None:
        return "the coordinator does not know it"
    present = {thread.identity.member_id for thread in threads}
    if gone := sorted(group.members.keys() - present):
        return f"{gone[0]} is in it, and no thread has that id any more"
    lacking = [name for name in application.topics if name not in cluster.topics]
    if lacking:
        is_idle = not any(any(thread.owned) for thread in threads)
        return (
            None if is_idle and group.state is StreamsGroupState.NOT_READY else f"it is {group.state} without {lacking}"
        )
    if group.state is not StreamsGroupState.STABLE:
        return f"it is {group.state}"
    return _missing_tasks(cluster, slots, group)


def _missing_tasks(cluster: SimulatedCluster, slots: Sequence[StreamsSlot], group: StreamsGroup) -> str | None:
    application = slots[0].application
    processes = [slot.process for slot in slots if slot.process is not None]
    expected = application.tasks(max(cluster.topics[name] for name in application.topics))
    active: Counter[Task] = Counter()
    standby: Counter[Task] = Counter()
    for process in processes:
        for thread in process.threads:
            active.update(thread.owned.active)
            standby.update(thread.owned.standby)
            if thread.owned.warmup:
                return f"{thread.name} still warms up {sorted(thread.owned.warmup)}"
    if active != Counter(expected):
        return f"the active tasks are {sorted(active.elements())}, and should be {sorted(expected)}"
    copies = min(int(dict(group.assignment_settings)["num.standby.replicas"]), len(processes) - 1)
    wanted = Counter({task: copies for task in expected if copies and application.is_stateful(task)})
    if standby != wanted:
        return f"the standby copies are {sorted(standby.elements())}, and should be {sorted(wanted.elements())}"
    return None


def unfit_topics(cluster: SimulatedCluster, application: StreamsApplication) -> list[str]:
    """Return internal topics that have to be made anew, because source topics have grown since they were made."""
    node = cluster.node_host.node
    group = None if node is None else node.coordinator.streams_group(application.group_id)
    status = None if group is None or group.configured is None else group.configured.status
    if status is None or status.code is not StatusCode.INCORRECTLY_PARTITIONED_TOPICS:
        return []
    return [name for name in application.internal_topics if name in cluster.topics]
