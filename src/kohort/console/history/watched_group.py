"""One group of a cluster: what lists, descriptions, offsets and events have shown of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from kohort.client.admin.group_descriptions import EPOCH_GROUPS, GroupDescription, MemberDescription
from kohort.console.history.inferred_history import SETTLED, InferredHistory, unowned_since
from kohort.console.history.lag_samples import LagSample, LagSamples
from kohort.group.explain.explain import Explanation
from kohort.group.explain.explain_text import Names, duration, waits, why
from kohort.group.explain.partition_ownership import Gap
from kohort.group.explain.rebalance_report import EventFields, GroupReport, Rebalance
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag, group_lag, sum_known
from kohort.model.setting import HOUR_MS

REBALANCES = 50
"""Of each group, the last ones are stored."""

_REMEMBERED_EVENTS = 50

Offsets = Mapping[TopicPartition, int]


class CoordinatedGroup(NamedTuple):
    """A group as ListGroups shows it. `node_id` is the broker that lists it: its coordinator."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    node_id: int


class PartitionLag(NamedTuple):
    """One partition of a group. `committed` and `end` are None where they are not known, `lag` where either is not.

    `rate` is how many offsets a second were committed between the last two looks. `age_s` is how long the oldest
    unread record has been there, None where that is not known; `reason` is why, empty where it was not read.
    """

    partition: TopicPartition
    owner: str | None
    committed: int | None
    end: int | None
    lag: int | None
    rate: float | None
    age_s: float | None
    reason: str


class GroupSummary(NamedTuple):
    """A group as a row of the list. `lag` is None where it is not known; `unowned_s` is that of the last hour.

    `age_s` is the lag in seconds: that of the partition with the oldest unread record, None where it was not read. With
    `is_least` the lag of some partitions is unknown: there is at least so much.

    `running` is what a rebalance waits for, empty where none runs; `cause` is that of the last one.
    """

    group_id: str
    group_type: str
    state: str
    protocol: str
    members: int
    lag: int | None
    age_s: float | None
    is_least: bool
    unowned_s: float
    running: str
    cause: str
    changed_ms: int | None
    is_inferred: bool
    refused: int
    """Clients whose joins were refused, each for one reason."""


class WatchedGroup:
    """The history of one group, from events once there are any, else inferred from descriptions."""

    def __init__(self, listed: CoordinatedGroup) -> None:
        self.listed = listed
        self.missing_ms: int | None = None
        """Since when no broker lists it, None where one does."""
        self.described: GroupDescription | None = None
        self.samples = LagSamples()
        self._history: Explanation | InferredHistory = InferredHistory(listed.group_id, REBALANCES)
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._rates: dict[TopicPartition, float] = {}
        self._lags: Mapping[TopicPartition, Lag] = {}
        self._lags_ms: int | None = None
        """When they were read; None where offsets have moved since."""
        self._offsets_ms: int | None = None
        self.lag: int | None = None
        """How many records lie behind its committed offsets, None where that is unknown."""
        self.is_least = False
        """Whether that of some partitions is unknown, so that there are at least so many."""
        self._row: GroupSummary | None = None
        """What `summary` has returned, until something changes: there are ten thousand rows."""
        self._gaps: list[Gap] = []
        """Those of that row, of the last hour or older."""

    @property
    def is_inferred(self) -> bool:
        """Whether its rebalances are inferred from looks."""
        return isinstance(self._history, InferredHistory)

    @property
    def is_shared(self) -> bool:
        """Whether it is a share group: its members read partitions together, so that none has an owner."""
        return self.listed.group_type == "share"

    @property
    def is_describable(self) -> bool:
        """Whether its members can be read: a later Kafka may have types of groups that are not known here."""
        return self.listed.group_type in ("", "classic", *EPOCH_GROUPS)

    @property
    def is_settled(self) -> bool:
        """Whether no rebalance seems to run."""
        return self.listed.state in SETTLED or not self.listed.state

    def fold_event(self, event: EventFields) -> Rebalance | None:
        """Take an event of the group; from the first one on its history is that of its events."""
        if isinstance(self._history, InferredHistory):
            self._history = Explanation(
                self.listed.group_id, last=REBALANCES, keeps_events=False, remembered=_REMEMBERED_EVENTS
            )
        self._row = None
        return self._history.fold(event)

    def fold_listing(self, listed: CoordinatedGroup) -> bool:
        """Take how it is listed; return whether that is different."""
        if listed == self.listed and self.missing_ms is None:
            return False
        self.listed, self.missing_ms, self._row = listed, None, None
        return True

    def fold_missing(self, at_ms: int) -> int:
        """Note that no broker lists it; return for how long in milliseconds."""
        self.missing_ms = at_ms if self.missing_ms is None else self.missing_ms
        return at_ms - self.missing_ms

    def fold_description(self, at_ms: int, described: GroupDescription | None) -> Rebalance | None:
        """Take a description; return the rebalance that is over by it, where rebalances are inferred."""
        if described != self.described:
            self.described, self._row = described, None
            self._add_up()
        if not isinstance(self._history, InferredHistory):
            return None
        if described is not None and self.is_shared:
            members = tuple(replace(each, assignment=frozenset()) for each in described.members)
            described = replace(described, members=members)
        return self._history.fold(at_ms, described)

    def fold_offsets(self, at_ms: int, committed: Offsets, ends: Offsets) -> bool:
        """Take the committed offsets of all its partitions, and where their logs and others end, as far as known.

        Return whether anything is different.
        """
        before = self._committed, self._ends
        took_ms, rates = at_ms - (self._offsets_ms or at_ms), self._rates
        if took_ms > 0:
            self._rates = {
                partition: max(0, offset - self._committed[partition]) * 1000 / took_ms
                for partition, offset in committed.items()
                if partition in self._committed
            }
        self._committed, self._offsets_ms = dict(committed), at_ms
        self._ends = {each: ends[each] for each in committed.keys() | self.owners.keys() if each in ends}
        is_same = before == (self._committed, self._ends)
        if not is_same:
            self._row = self._lags_ms = None
            self._add_up()
        if self.lag is not None:
            self.samples.add(LagSample(at_ms, self.lag, sum(committed.values())))
        return not is_same or rates != self._rates

    def fold_lags(self, at_ms: int, lags: Mapping[TopicPartition, Lag]) -> bool:
        """Take what was read of the unread records of its partitions; return whether anything is different."""
        is_same = lags == self._lags
        self._lags, self._lags_ms, self._row = lags, at_ms, None
        return not is_same

    def has_lags(self, since_ms: int) -> bool:
        """Return whether its unread records were read since a time, and no offset has moved."""
        return self._lags_ms is not None and self._lags_ms >= since_ms

    def _age_s(self, seconds: float | None, now_ms: int) -> float | None:
        """Return a lag in seconds as it is by now: a record that is not read gets older."""
        return seconds + max(0, now_ms - self._lags_ms) / 1000 if seconds and self._lags_ms is not None else seconds

    @property
    def owners(self) -> dict[TopicPartition, MemberDescription]:
        """The member that each partition is assigned to, as it was described last."""
        return {} if self.described is None else self.described.owners

    def _add_up(self) -> None:
        lags = [self._lag_in(partition) for partition in self._committed.keys() | self.owners.keys()]
        self.lag, self.is_least = sum_known(lags), None in lags

    def _lag_in(self, partition: TopicPartition) -> int | None:
        end, committed = self._ends.get(partition), self._committed.get(partition)
        if end == 0:
            return 0  # also where nothing is committed
        return None if end is None or committed is None else max(0, end - committed)

    def report(self, now_ms: int) -> GroupReport:
        """Return its history, the running rebalance as it is at `now_ms`."""
        return self._history.report(now_ms)

    def partitions(self, now_ms: int) -> list[PartitionLag]:
        """Return its partitions, committed or assigned, by topic and number."""
        owners = self.owners
        return [
            PartitionLag(
                partition,
                owners[partition].member_id if partition in owners else None,
                self._committed.get(partition),
                self._ends.get(partition),
                self._lag_in(partition),
                self._rates.get(partition),
                None if (read := self._lags.get(partition)) is None else self._age_s(read.seconds, now_ms),
                "" if read is None or read.reason is None else read.reason.text,
            )
            for partition in sorted(self._assigned() | self._committed.keys())
        ]

    def reading(self) -> dict[str, tuple[int, int | None]]:
        """Return by topic how many partitions it has committed or owns, and the lag in those where it is known."""
        found: dict[str, tuple[int, int | None]] = {}
        for each in self._assigned() | self._committed.keys():
            (count, sum_before), lag = found.get(each.topic, (0, None)), self._lag_in(each)
            found[each.topic] = count + 1, sum_before if lag is None else (sum_before or 0) + lag
        return found

    def _assigned(self) -> set[TopicPartition]:
        members = () if self.described is None else self.described.members
        return {partition for member in members for partition in member.assignment}

    def known(self, now_ms: int) -> tuple[GroupReport, Names]:
        """Return its history and the names of its members."""
        report = self.report(now_ms)
        return report, Names(report.identities)

    def summary(self, now_ms: int) -> GroupSummary:
        """Return its row; where no rebalance runs, only durations change by themselves."""
        if self._row is None or self._row.running:
            self._row = self._summary(now_ms)
        if not self._gaps and not self._row.age_s:
            return self._row
        unowned_s = unowned_since(self._gaps, now_ms - HOUR_MS, now_ms)
        return self._row._replace(unowned_s=unowned_s, age_s=self._age_s(self._row.age_s, now_ms))

    def _summary(self, now_ms: int) -> GroupSummary:
        report, names = self.known(now_ms)
        running, described = report.running, self.described
        self._gaps = [gap for each in report.rebalances if (each.ended_ms or 0) > now_ms - HOUR_MS for gap in each.gaps]
        awaited = ""
        if running is not None:
            self._gaps += running.gaps
            awaited = f"rebalancing for {duration(running.duration_ms(now_ms))}{waits(running, names)}"
        shown = running or (report.rebalances[-1] if report.rebalances else None)
        return GroupSummary(
            self.listed.group_id,
            self.listed.group_type or ("classic" if described is None else described.group_type),
            self.listed.state or ("" if described is None else described.state),
            "" if described is None else described.protocol,
            report.members if described is None else len(described.members),
            self.lag,
            group_lag(self._lags.values()).seconds,
            self.is_least,
            0.0,
            awaited,
            "" if shown is None else why(shown, names),
            None if shown is None else shown.ended_ms or shown.started_ms,
            self.is_inferred,
            len(report.refused),
        )


def task_words(member: MemberDescription) -> str:
    """Return how many tasks of Kafka Streams a member has, and how far its warm-ups are; nothing of other members."""
    given = None if member.streams is None else member.streams[1]
    if given is None:
        return ""
    words = [f"{len(given.active)} active"]
    words += [f"{len(given.standby)} standby"] if given.standby else []
    if member.warmups:
        lags = [member.task_lags[task] for task in member.warmups if task in member.task_lags]
        words.append(f"{len(member.warmups)} warming up" + (f" (up to {max(lags):,} behind)" if lags else ""))
    return f"tasks: {', '.join(words)}"
