"""Who owned each partition of a group when, as its coordinator can know it: the rule behind every figure of `explain`.

A partition has one owner or none. It is **owned** from the moment its member's SyncGroup is answered with it. It is
released when its member joins again without claiming it: an eager member claims nothing, a cooperative one claims what
it was not asked for; a member that leaves or is evicted releases everything. It is **unowned** while the group has a
member and none of them owns it. The time that an evicted member sent nothing before its eviction is counted apart:
whether it still read then is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.model.ids import TopicPartition


class Gap(NamedTuple):
    """A partition without an owner, or with one that sent nothing. Times are epoch milliseconds.

    `before` is who owned it last, None when no member did; `after` who owns it next, None when no member does.
    """

    partition: TopicPartition
    from_ms: int
    until_ms: int
    before: str | None
    after: str | None

    @property
    def duration_ms(self) -> int:
        """How long it lasted."""
        return self.until_ms - self.from_ms


class Ownership:
    """The partitions of one group, carried forward in time. Times that go backwards are the caller's to straighten."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, tuple[str, int]] = {}
        """Who owns a partition, and since when."""
        self.unowned: dict[TopicPartition, tuple[str | None, int]] = {}
        """Who owned a partition last, and since when no member does."""
        self.gaps: list[Gap] = []
        """What ended since it was last taken away with `collect`."""
        self._owned: dict[str, set[TopicPartition]] = {}

    def owned_by(self, member_id: str) -> frozenset[TopicPartition]:
        """Return what a member owns."""
        return frozenset(self._owned.get(member_id, ()))

    def members(self) -> list[str]:
        """Return the members that own something, by id."""
        return sorted(member_id for member_id, owned in self._owned.items() if owned)

    def assign(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int, born_ms: int | None) -> None:
        """Let a member own these from now on; one never seen was unowned since `born_ms`, where that is known."""
        for partition in partitions:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] == member_id:
                continue
            before, since_ms = self.unowned.pop(partition, (None, born_ms))
            if owner is None and since_ms is not None and since_ms < at_ms:
                self.gaps.append(Gap(partition, since_ms, at_ms, before, member_id))
            if owner is not None:
                self._owned[owner[0]].discard(partition)
            self.owners[partition] = member_id, at_ms
            self._owned.setdefault(member_id, set()).add(partition)

    def claim(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> None:
        """Take a member's word that it owns these, except for what another member owns."""
        self.assign(member_id, [each for each in partitions if each not in self.owners], at_ms, None)

    def release(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> list[TopicPartition]:
        """Let a member own these no longer; return those that it did own."""
        given: list[TopicPartition] = []
        for partition in partitions:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] == member_id:
                del self.owners[partition]
                self._owned[member_id].discard(partition)
                self.unowned[partition] = member_id, at_ms
                given.append(partition)
        return given

    def owned_since(self, member_id: str) -> dict[TopicPartition, int]:
        """Return what a member owns, and since when."""
        return {partition: self.owners[partition][1] for partition in sorted(self._owned.get(member_id, ()))}

    def hand_over(self, old_id: str, new_id: str, at_ms: int | None = None) -> None:
        """Let a member that took another's place own what that owned: since `at_ms`, or as if it always had."""
        owned = self._owned.pop(old_id, set())
        for partition in owned:
            self.owners[partition] = new_id, self.owners[partition][1] if at_ms is None else at_ms
        self._owned.setdefault(new_id, set()).update(owned)

    def collect(self) -> list[Gap]:
        """Return the gaps that ended since the last time."""
        gaps, self.gaps = self.gaps, []
        return gaps

    def open_gaps(self, at_ms: int) -> list[Gap]:
        """Return the gaps that have not ended, as if they ended now."""
        return [
            Gap(partition, since_ms, max(at_ms, since_ms), before, None)
            for partition, (before, since_ms) in sorted(self.unowned.items())
        ]

    def close(self, at_ms: int) -> list[Gap]:
        """End every gap without a new owner, because the group has no member any more; return them."""
        gaps = [gap for gap in self.open_gaps(at_ms) if gap.duration_ms]
        self.unowned.clear()
        return gaps

    def forget_unassigned(self, assigned: set[TopicPartition]) -> None:
        """Forget the gaps of partitions that are no longer the group's: deleted, or of no interest to any member."""
        for partition in self.unowned.keys() - assigned:
            del self.unowned[partition]
