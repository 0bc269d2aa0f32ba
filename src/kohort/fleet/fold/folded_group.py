"""One group as the records of its log have told so far: what the folds of each kind of group change.

WHAT A REBALANCE IS is what `group/explain` says: the whole move from one stable assignment to the next. The log knows
less than a coordinator's own events: of a classic group it has the moment a generation formed and the moment its
assignment was stored, but no JoinGroup; so a rebalance of a classic group is counted from the forming, and what was
unowned before that is not seen. Of the other kinds it has every step.

The clock never goes back, unless by more than an hour: then it had been set wrong, and goes on from there. What a
clock was set by, that way or by a month at once, is no time that passed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.fleet.fold.hours import HOUR_MS, JUMP_MS, Hours, Standing
from kohort.fleet.fold.ownership_intervals import Intervals
from kohort.model.ids import TopicPartition

Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()
STREAMS = "streams"
_to_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
LOG_BEGINS = "log_begins"
"""The cause of what is seen first because the log before it is gone, and not because it happened."""


class Record(NamedTuple):
    """One record of a group that is no commit, or (type `COMMITS`) what an hour of its commits came to."""

    partition: int
    offset: int
    at_ms: int
    record_type: int
    tombstone: bool
    member: str | None
    fields: str | None
    commits: int = 0
    deletions: int = 0


class Told(NamedTuple):
    """One event of silver, without what all events of a record have."""

    at_ms: int
    event: str
    epoch: int | None
    member: str | None
    instance: str | None
    client_id: str | None
    host: str | None
    partitions: list[str] | None
    protocol: str | None
    strategy: str | None
    cause: str | None
    detail: str | None


@dataclass(slots=True)
class Member:
    """One member as its records say it."""

    member_id: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    protocols: tuple[str, ...] = ()
    version: int | None = None
    """The version of the embedded protocol that it speaks, where it speaks one."""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    state: int = 0
    state_ms: int = 0
    """Since when it is in that state."""
    target: Partitions = NOTHING
    pending: Partitions = NOTHING
    is_told: bool = True
    """Whether its own record was read, and not only what it has: a cleaned log may have that first."""


@dataclass(slots=True)
class Rebalancing:
    """The rebalance that runs."""

    since_ms: int
    before: dict[TopicPartition, str] = field(default_factory=dict)
    """Who owned what has changed hands since; nobody ("") of what is new."""
    failed: int = 0
    target_ms: int = 0
    slowest: str | None = None


class Group:
    """One group of one source, carried forward record by record."""

    def __init__(self, source: str, group: str) -> None:
        self.source, self.group = source, group
        self.kind = ""
        self.epoch = self.target_epoch = 0
        self.strategy: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.awaits_sync = False
        self.has_user_data = False
        self.is_deleted = False
        self.has_commits = False
        self.members: dict[str, Member] = {}
        self.departed: dict[str, Member] = {}
        """Members whose tombstone was read and of whom the next record tells why they went."""
        self.departed_ms = 0
        self.unsettled: set[str] = set()
        self.ownership = Intervals()
        self.running: Rebalancing | None = None
        self.rebalances = 0
        self.clock_ms = 0
        self.first_seen_ms = self.last_seen_ms = 0
        self.emptied_ms: int | None = None
        self.records = 0
        self.partition = -1
        self.last_offset = -1
        self.newcomers: list[str] = []
        """Members of whom it is not known yet whether they came or were there before the log begins."""
        self.strangers: list[str] = []
        """Members that were there before the log begins, and of whom it is not known yet what they have."""
        self.static_members = 0
        self.protocols: Counter[str] = Counter()
        self.versions: Counter[int] = Counter()
        self.hours = Hours()
        self.told: list[Told] = []
        self.name_of: Callable[[str], str] = str
        """Names a topic id."""

    # -- time

    def pass_time(self, at_ms: int) -> int:
        """Let time go on to a record's, add up what was unowned until then, and return the time it is now."""
        if not self.clock_ms:
            self.clock_ms = self.first_seen_ms = at_ms
        elif at_ms > self.clock_ms:
            if self.members and self.ownership.unowned:
                self.hours.add_unowned(self.clock_ms, at_ms, len(self.ownership.unowned), self.standing())
            if at_ms - self.clock_ms > JUMP_MS:
                self._begin_later_by(at_ms - self.clock_ms)
            self.clock_ms = at_ms
        elif self.clock_ms - at_ms > HOUR_MS:
            self._begin_later_by(at_ms - self.clock_ms)
            self.clock_ms = at_ms
        self.last_seen_ms = max(self.last_seen_ms, at_ms)
        return self.clock_ms

    def _begin_later_by(self, span_ms: int) -> None:
        """Let a step of the clock be no part of the rebalance that runs: it was set."""
        if self.running is not None:
            self.running.since_ms += span_ms
            self.running.target_ms += span_ms if self.running.target_ms else 0

    def standing(self) -> Standing:
        """Return what the group is now, for its hours."""
        return Standing(
            self.kind or "classic",
            self.strategy,
            len(self.members),
            self.static_members,
            len(self.ownership.owners) + len(self.ownership.unowned),
            frozenset(self.protocols),
            frozenset(self.versions),
        )

    # -- members

    def add_member(self, member: Member) -> None:
        """Take a member up, in place of what was known of it."""
        self.drop_member(member.member_id)
        self.members[member.member_id] = member
        self.static_members += member.instance is not None
        self.protocols.update(member.protocols)
        if member.version is not None:
            self.versions[member.version] += 1
        self.emptied_ms = None

    def welcome(self, members: Iterable[Member], at_ms: int, *, is_new: bool) -> None:
        """Tell that members are there: they came, or they are what the log begins with."""
        for member in members:
            cause = None if is_new else LOG_BEGINS
            patience_ms = member.rebalance_timeout_ms if member.rebalance_timeout_ms > 0 else None
            self.tell(
                "joined", at_ms=at_ms, epoch=self.epoch, member=member, cause=cause, rebalance_timeout_ms=patience_ms
            )
            self.hours.at(at_ms).joined += is_new
            if not is_new and not member.state_ms:
                self.strangers.append(member.member_id)

    def knew_nothing_of(self, member_id: str) -> bool:
        """Return whether this is the first that is told of what a member has that was there before the log begins."""
        if member_id in self.strangers:
            self.strangers.remove(member_id)
            return True
        return False

    def drop_member(self, member_id: str) -> Member | None:
        """Forget a member and return what was known of it, or None."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.static_members -= member.instance is not None
        for name in member.protocols:
            _take_one(self.protocols, name)
        if member.version is not None:
            _take_one(self.versions, member.version)
        self.unsettled.discard(member_id)
        return member

    # -- events

    def tell(
        self,
        event: str,
        *,
        at_ms: int | None = None,
        epoch: int | None = None,
        member: Member | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        cause: str | None = None,
        **detail: Any,
    ) -> None:
        """Note one event of silver."""
        said = {name: value for name, value in detail.items() if value is not None} if detail else None
        texts = None if partitions is None else [self.text_of(each) for each in sorted(partitions)]
        who = (None, None, None, None)
        if member is not None:
            who = (member.member_id, member.instance, member.client_id, member.host)  # type: ignore[assignment]
        self.told.append(
            Told(
                self.clock_ms if at_ms is None else at_ms,
                event,
                epoch,
                *who,
                texts,
                self.protocol,
                self.strategy,
                cause,
                _to_json(said) if said else None,
            )
        )

    def text_of(self, partition: TopicPartition) -> str:
        """Return how a partition, or a task of a streams group, is written."""
        return f"{partition[0]}{'_' if self.kind == STREAMS else '-'}{partition[1]}"

    # -- the rebalance

    def begin(self, at_ms: int) -> Rebalancing:
        """Return the rebalance that runs; it begins now if none does."""
        if self.running is None:
            self.running = Rebalancing(at_ms)
        return self.running

    def own(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Let a member own these; what nobody ever owned was unowned since the rebalance that runs began."""
        taken = list(partitions)
        if self.running is not None:
            born = 0
            for partition in taken:
                owner = self.ownership.owners.get(partition)
                if owner is not None:
                    self.running.before.setdefault(partition, owner[0])
                elif partition not in self.ownership.unowned:
                    born += self.running.before.setdefault(partition, "") == ""
            self.hours.add_unowned(self.running.since_ms, at_ms, born, None)
        self.ownership.take(member_id, taken, at_ms, None)

    def disown(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> list[TopicPartition]:
        """Let a member own these no longer; return those that it did own."""
        given = self.ownership.give_up(member_id, partitions, at_ms)
        if self.running is not None:
            for partition in given:
                self.running.before.setdefault(partition, member_id)
        return given

    def replace(self, old_id: str, new_id: str, at_ms: int) -> None:
        """Let a static member's new id go on with what its old one owned; nothing has moved."""
        self.ownership.replace_member(old_id, new_id, at_ms)
        if self.running is not None:
            for partition, owner in self.running.before.items():
                if owner == old_id:
                    self.running.before[partition] = new_id

    def settle(self) -> None:
        """End the rebalance that runs: count it in this hour and tell it."""
        running, self.running = self.running, None
        if running is None:
            return
        self.rebalances += 1
        owners = self.ownership.owners
        self.ownership.unowned.clear()  # what is left is nobody's any more
        changed = {partition: owners[partition][0] for partition in running.before if partition in owners}
        moved = sum(running.before[each] not in ("", owner) for each, owner in changed.items())
        kept = len(owners) - sum(running.before[each] != owner for each, owner in changed.items())
        took_ms = max(0, self.clock_ms - running.since_ms)
        hour = self.hours.at(self.clock_ms)
        hour.rebalances += 1
        hour.rebalances_failed += running.failed
        hour.rebalance_ms_total += took_ms
        hour.rebalance_ms_max = max(hour.rebalance_ms_max, took_ms)
        hour.partitions_moved += moved
        hour.partitions_kept += kept
        if running.slowest is not None and took_ms > hour.slowest_ms:
            hour.slowest_member, hour.slowest_ms = running.slowest, took_ms
        self.tell("settled", epoch=self.epoch, ms=took_ms, moved=moved, kept=kept, failed=running.failed or None)

    # -- who goes

    def part(self, member: Member, event: str, cause: str | None, *, at_ms: int) -> None:
        """Tell that a member is gone, and let go what it owned."""
        owned = self.ownership.owned_by(member.member_id)
        self.disown(member.member_id, sorted(owned), at_ms)
        self.tell(event, at_ms=at_ms, epoch=self.epoch, member=member, cause=cause)
        if owned:
            self.tell("lost", at_ms=at_ms, epoch=self.epoch, member=member, partitions=owned, cause=event)
        hour = self.hours.at(self.clock_ms)
        if event == "evicted":
            hour.evicted += 1
        else:
            hour.left += 1

    def forget(self, at_ms: int) -> None:
        """Know of nobody and nothing any more: the name is that of another group now."""
        for member_id in self.ownership.members():
            self.ownership.give_up(member_id, sorted(self.ownership.owned_by(member_id)), at_ms)
        for member_id in list(self.members):
            self.drop_member(member_id)
        self.departed.clear()
        self.unsettled.clear()
        self.newcomers.clear()
        self.strangers.clear()
        self.ownership.unowned.clear()
        self.running = None
        self.epoch = self.target_epoch = 0
        self.awaits_sync, self.leader, self.strategy = False, None, None

    def empty(self, at_ms: int) -> None:
        """Tell that nobody is there any more; a rebalance that runs is over."""
        if self.emptied_ms is None:
            self.emptied_ms = at_ms
            self.tell("emptied", at_ms=at_ms, epoch=self.epoch)
        self.settle()
        self.ownership.unowned.clear()


def _take_one(counts: Counter[Any], key: Any) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        counts.pop(key, None)
