"""What `groups describe` shows of workers of Kafka Connect and threads of Kafka Streams: lines, columns and JSON."""

from __future__ import annotations

from typing import Any

from kohort.cli.terminal.output import Cell
from kohort.cli.terminal.record_lines import iso_time
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.wire.connect_protocol import CONNECTOR, ConnectAssignment, ConnectWorker, Tasks, task_names
from kohort.wire.streams_protocol import RUNNING, UNKNOWN, StreamsAssignment, StreamsSubscription, StreamsTask


def lines(group: GroupDescription) -> list[str]:
    """Return what all members share."""
    return [line for line in (_connect_line(group), _streams_line(group)) if line is not None]


def columns(member: MemberDescription) -> dict[str, Cell] | None:
    """Return a member's columns besides those that every member has; None of a consumer."""
    if member.connect is not None:
        worker, runs = member.connect
        role = "leads" if runs.leader == member.member_id else None
        return {"url": worker.url, "role": role, "runs": _tasks_text(worker.running(runs))}
    if member.streams is None:
        return None
    sent, given = member.streams
    return {
        "process": (sent.process_id[:8] if sent is not None else "") or None,
        "endpoint": (sent.endpoint if sent is not None else "") or None,
        "active": _names(given.active) if given is not None else None,
        "standby": _names(given.standby) if given is not None else None,
    }


def to_json(member: MemberDescription) -> dict[str, Any]:
    """Return a member's documented fields besides those that every member has."""
    if member.connect is not None:
        return {"connect": _connect_json(*member.connect)}
    return {} if member.streams is None else {"streams": _streams_json(*member.streams)}


def _connect_line(group: GroupDescription) -> str | None:
    """Return what all workers of a Connect cluster share: the newest configuration that they run, and the delay."""
    runs = [member.connect[1] for member in group.members if member.connect is not None]
    if not runs:
        return None
    newest = max(runs, key=lambda each: each.config_offset)
    waits = max(each.delay_ms for each in runs)
    delay = f", tasks of a worker that is gone wait {waits / 1000:g} s for its return" if waits else ""
    return f"Kafka Connect: leader {newest.leader_url}, configuration up to offset {newest.config_offset}{delay}"


def _tasks_text(tasks: Tasks) -> str | None:
    return ", ".join(task_names(tasks)) or None


def _connect_json(worker: ConnectWorker, runs: ConnectAssignment) -> dict[str, Any]:
    return {
        "url": worker.url,
        "config_offset": worker.config_offset,
        "leader": runs.leader,
        "leader_url": runs.leader_url,
        "delay_ms": runs.delay_ms,
        **{
            name: {
                "connectors": sorted(connector for connector, number in tasks if number == CONNECTOR),
                "tasks": [f"{connector}-{number}" for connector, number in sorted(tasks) if number != CONNECTOR],
            }
            for name, tasks in (("running", worker.running(runs)), ("revoked", runs.revoked))
        },
    }


def _streams_line(group: GroupDescription) -> str | None:
    """Return how many processes an application has, in which version, and which rebalance its leader has scheduled."""
    known = [member.streams for member in group.members if member.streams is not None]
    if not known:
        return None
    processes = {sent.process_id for sent, _ in known if sent is not None and sent.process_id}
    newest = {sent.latest_version for sent, _ in known if sent is not None}
    versions = f", metadata up to version {' and '.join(map(str, sorted(newest)))}" if newest else ""
    due = [given.next_rebalance_ms for _, given in known if given is not None and given.next_rebalance_ms is not None]
    follows = ""
    if due:
        at = iso_time(min(due)) if min(due) > 0 else "now"
        follows = f", next probing rebalance {at}"
    return f"Kafka Streams: {len(processes)} process{'es' * (len(processes) != 1)}{versions}{follows}"


def _streams_json(sent: StreamsSubscription | None, given: StreamsAssignment | None) -> dict[str, Any]:
    document: dict[str, Any] = {"process": None, "endpoint": None, "latest_version": None, "tags": {}}
    if sent is not None:
        document = {
            "process": sent.process_id or None,
            "endpoint": sent.endpoint or None,
            "latest_version": sent.latest_version,
            "tags": dict(sent.tags),
        }
    copies = [] if sent is None else [(task, offset) for task, offset in sent.offset_sums if offset != RUNNING]
    return {
        **document,
        "active": [] if given is None else list(map(str, sorted(given.active))),
        "standby": [] if given is None else list(map(str, sorted(given.standby))),
        "running_at_join": [] if sent is None else list(map(str, sorted(sent.running))),
        "offsets_at_join": {str(task): None if offset == UNKNOWN else offset for task, offset in sorted(copies)},
        "next_rebalance_ms": None if given is None else given.next_rebalance_ms,
        "error": 0 if given is None else given.error,
    }


def _names(tasks: tuple[StreamsTask, ...]) -> str | None:
    return ", ".join(map(str, sorted(tasks))) or None
