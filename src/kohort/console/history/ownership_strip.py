"""Who owned which partition of a group when, from its rebalances: the drawing on the page of a group.

A rebalance has the gaps of partitions and their moves. From the owners of now, back in time, they give the owners of
any moment since the oldest rebalance that is stored.
"""

from __future__ import annotations

from kohort.drawing.display_text import TimeAxis
from kohort.drawing.ownership_drawing import DrawnEvent, Lane, LaneGroup, OwnedSpan, OwnershipDrawing
from kohort.group.explain.explain_text import Names, why
from kohort.group.explain.rebalance_report import GroupReport, Outcome
from kohort.group.explain.remedy import COST_S
from kohort.model.ids import TopicPartition

Intervals = list[tuple[float, float]]


def ownership_drawing(report: GroupReport, names: Names, from_ms: int, now_ms: int) -> OwnershipDrawing:
    """Return the drawing of the owners from `from_ms` to now, a line for each rebalance in it."""
    spans, gaps = owned_spans(report, from_ms, now_ms)
    empty = _times_without_members(report, from_ms, now_ms)
    by_topic: dict[str, list[Lane]] = {}
    for partition in sorted(spans.keys() | gaps.keys()):
        owned = [OwnedSpan(names(owner), start, end) for owner, start, end in spans.get(partition, ())]
        lane = Lane(str(partition), owned, gaps.get(partition, ()), empty)
        by_topic.setdefault(partition.topic, []).append(lane)
    events = [
        DrawnEvent(each.started_ms, why(each, names), "alarm" if each.unowned_partition_s >= COST_S else "")
        for each in [*report.rebalances, *([report.running] if report.running is not None else [])]
        if from_ms <= each.started_ms <= now_ms
    ]
    owners = list(dict.fromkeys(span.owner for lanes in by_topic.values() for lane in lanes for span in lane.spans))
    groups = [LaneGroup(topic, lanes) for topic, lanes in by_topic.items()]
    title = f"Owners of the partitions of {report.group_id}"
    return OwnershipDrawing(title, TimeAxis(from_ms, now_ms, is_clock=True), sorted(owners), groups, (), events)


def owned_spans(
    report: GroupReport, from_ms: int, now_ms: int
) -> tuple[dict[TopicPartition, list[tuple[str, float, float]]], dict[TopicPartition, Intervals]]:
    """Return (owner, from, until) of each partition within a time, and when it had no owner."""
    owners: dict[TopicPartition, str | None] = dict(report.owners)
    until: dict[TopicPartition, float] = {}
    spans: dict[TopicPartition, list[tuple[str, float, float]]] = {}
    gaps: dict[TopicPartition, Intervals] = {}

    def close(partition: TopicPartition, owner: str | None, start_ms: float) -> None:
        end_ms = until.get(partition, now_ms)
        if owner is not None and start_ms < end_ms and end_ms > from_ms:
            spans.setdefault(partition, []).insert(0, (owner, max(start_ms, from_ms), end_ms))
        until[partition] = min(start_ms, end_ms)

    rebalances = [*report.rebalances, *([report.running] if report.running is not None else [])]
    for rebalance in reversed(rebalances):
        had_gap = set()
        for gap in sorted(rebalance.gaps, key=lambda each: -each.until_ms):
            close(gap.partition, owners.get(gap.partition, gap.after), gap.until_ms)
            if gap.from_ms < gap.until_ms and gap.until_ms > from_ms:
                gaps.setdefault(gap.partition, []).insert(0, (max(gap.from_ms, from_ms), gap.until_ms))
            until[gap.partition] = min(gap.from_ms, until[gap.partition])
            owners[gap.partition] = gap.before
            had_gap.add(gap.partition)
        for move in rebalance.moves:
            if move.partition not in had_gap and rebalance.ended_ms is not None:
                close(move.partition, owners.get(move.partition, move.taker), rebalance.ended_ms)
                owners[move.partition] = move.giver
    for partition, owner in owners.items():
        close(partition, owner, from_ms)
    return spans, gaps


def _times_without_members(report: GroupReport, from_ms: int, now_ms: int) -> Intervals:
    """Return when the group had no members: from a rebalance to none until the next one begins."""
    times: Intervals = []
    starts = [each.started_ms for each in report.rebalances[1:]]
    starts.append(now_ms if report.running is None else report.running.started_ms)
    for rebalance, next_ms in zip(report.rebalances, starts, strict=False):
        if rebalance.outcome in (Outcome.EMPTY, Outcome.DELETED) and rebalance.ended_ms is not None:
            start_ms = max(rebalance.ended_ms, from_ms)
            times += [(start_ms, next_ms)] if start_ms < next_ms else []
    return times
