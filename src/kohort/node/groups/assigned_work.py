"""What members of Kafka Connect and Kafka Streams run, as a field of the event that stores their assignment.

Connectors and tasks are no partitions: they stand in the metadata and assignments that these protocols embed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kohort.group.events import GroupStored, StoredMember
from kohort.wire.connect_protocol import decode_connect_assignment, decode_connect_worker, task_names
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.primitives import MalformedMessage
from kohort.wire.streams_protocol import (
    RUNNING,
    STREAMS_ASSIGNOR,
    StreamsAssignment,
    StreamsSubscription,
    StreamsTask,
    decode_streams_assignment,
    decode_streams_subscription,
)

CONNECT_PROTOCOL_TYPE = "connect"

Work = dict[str, Any]


def assigned_work(event: GroupStored) -> Work | None:
    """Return what each member runs and what the leader has scheduled; None where the group is another or unreadable."""
    try:
        if event.protocol_type == CONNECT_PROTOCOL_TYPE:
            return _connect(event.members)
        if event.protocol_type == CONSUMER_PROTOCOL_TYPE and event.protocol_name == STREAMS_ASSIGNOR:
            return _streams(event.members)
    except MalformedMessage:
        return None
    return None


def _connect(members: Iterable[StoredMember]) -> Work:
    each: Work = {}
    found: Work = {"members": each, "leader_url": "", "config_offset": -1, "delay_ms": 0}
    for member in members:
        worker, given = decode_connect_worker(member.subscription), decode_connect_assignment(member.assignment)
        each[member.member_id] = {
            "url": worker.url,
            "runs": task_names(worker.running(given)),
            "gives_up": task_names(given.revoked),
        }
        if given.config_offset >= found["config_offset"]:
            found |= {"leader_url": given.leader_url, "config_offset": given.config_offset}
        found["delay_ms"] = max(found["delay_ms"], given.delay_ms)
    return found


def _streams(members: Iterable[StoredMember]) -> Work:
    each: Work = {}
    due: list[int] = []
    for member in members:
        sent_data = decode_subscription(member.subscription).user_data
        given_data = decode_assignment(member.assignment).user_data
        sent = decode_streams_subscription(sent_data) if sent_data else StreamsSubscription(0)
        given = decode_streams_assignment(given_data) if given_data else StreamsAssignment(0)
        each[member.member_id] = {
            "process": sent.process_id,
            "runs": _names(given.active),
            "copies": _names(given.standby),
            "ran": _names(sent.running),
            "offsets": {str(task): offset for task, offset in sorted(sent.offset_sums) if offset != RUNNING},
        }
        due += [] if given.next_rebalance_ms is None else [given.next_rebalance_ms]
    return {"members": each, "next_rebalance_ms": min(due, default=None)}


def _names(tasks: Iterable[StreamsTask]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
