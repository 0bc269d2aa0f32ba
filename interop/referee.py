"""Watches a group under load through changes of its members, and says in the end what was wrong with it.

Of each change it sees who goes on reading: a member that gives up only what it must, by the consumer protocol or by a
cooperative assignor, keeps the rest without a break and reads it without a pause. In the end it accounts for every
record read, every commit and every span of ownership.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from interop.group import Group, Member, Pair, Position
from interop.ownership import check_repeats, check_single_owner, kept, longest_pause_s
from interop.producers import Load

LONGEST_PAUSE_S = 6.0  # beside other tests, and beyond the longest time without anything to read


class Referee:
    """Judges one group whose topic is written to all the time."""

    def __init__(
        self,
        group: Group,
        load: Load,
        *,
        still_s: float = 0.7,
        timeout_s: float = 60,
        longest_pause_s: float = LONGEST_PAUSE_S,
    ) -> None:
        self.group = group
        self._load = load
        self._still_s = still_s
        self._longest_pause_s = longest_pause_s
        self._timeout_s = timeout_s

    @contextmanager
    def change(self, *changed: Member) -> Iterator[None]:
        """Let some members change, wait until the group is calm, and see that no other stopped where it need not."""
        others = [each for each in self.group.members if each not in changed and each.is_incremental]
        before = [(each, set(each.owned), len(each.changes)) for each in others]
        start_s = time.monotonic()
        yield
        self.group.calm(self._still_s, self._timeout_s)
        for each, held, since in before:
            stayed = held & each.owned
            stopped = stayed - kept(each, held, since)
            assert not stopped, f"{each.name} stopped reading {stopped}, which it keeps: {self.group.state()}"
            allowed_s = self._longest_pause_s + self._load.longest_gap_s(start_s)
            for partition in stayed:
                pause_s = longest_pause_s(each, partition, start_s, time.monotonic())
                assert pause_s < allowed_s, f"{each.name} read nothing of {partition} for {pause_s:.1f} s"

    def bounce(self, member: Member, **settings: str) -> Member:
        """Stop one member and start it anew with other settings."""
        with self.change(member):
            self.group.leave(member)
            self.group.start(member.library, **settings)
        return self.group.members[-1]

    def turn(self, member: Member) -> None:
        """Let one member go on with the other protocol, as the same process."""
        is_native = member.is_native
        with self.change(member):
            member.turn()
            self.group.await_(lambda: member.is_native != is_native, "it has closed its consumer", 30)

    def verdict(self) -> int:
        """End the load and judge the whole; return how many records were read again."""
        return verdict(self.group, self._load.stop())

    @property
    def refusals(self) -> list[str]:
        """Commits that the group refused, by member: what such a commit held may be read again."""
        return [f"{each.name}: {error}" for each in self.group.gone + self.group.members for error in each.refusals]


def verdict(group: Group, written: Mapping[Position, Pair], *, may_lose: Sequence[Member] = ()) -> int:
    """Check that nothing is lost, never had two owners, and was not read again once it had been committed.

    Returns how many records were read again.
    """
    everyone = group.gone + group.members
    group.drain(written)
    group.check_read(written)
    check_single_owner(everyone, may_lose=may_lose)
    return check_repeats(everyone)
