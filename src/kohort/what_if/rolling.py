"""What each restart of a plan costs: all are played in a row, and each is charged with what it set off."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.group.explain.rebalance_report import Rebalance
from kohort.group.member_kinds import Cost
from kohort.group.migration.migration_plan import Restart
from kohort.what_if.change import Change, Restarts
from kohort.what_if.group_facts import Facts, Times, cast_of
from kohort.what_if.simulation import Advanced, Play


def costs_of(
    facts: Facts, times: Times, restarts: Sequence[Restart], vote: str | None, advanced: Advanced
) -> list[Cost]:
    """Return what each restart moves and costs; `vote` is the server-side assignor that native members ask for."""
    play = Play(facts, cast_of(facts.group), times, Change(), advanced)
    play.open()
    began: list[tuple[int, int]] = []
    for each in restarts:
        began.append((play.stage.now_ms, play.stage.scheduler.now_us))
        play.restart([each.member_id], Restarts(kind=each.kind, offers=each.offers, vote=vote))
    ends = [*began[1:], (play.stage.now_ms + 1, play.stage.scheduler.now_us)]
    rebalances = play.rebalances()
    return [
        Cost(
            sum(len(found.moved()) for found in _between(rebalances, from_ms, until_ms)),
            round(sum(found.unowned_partition_s for found in _between(rebalances, from_ms, until_ms)), 3),
            round(sum(gap.duration_s for gap in play.stage.reading.all_unread(from_us, until_us)), 3),
        )
        for (from_ms, from_us), (until_ms, until_us) in zip(began, ends, strict=True)
    ]


def _between(rebalances: Sequence[Rebalance], from_ms: int, until_ms: int) -> list[Rebalance]:
    return [each for each in rebalances if from_ms <= each.started_ms < until_ms]
