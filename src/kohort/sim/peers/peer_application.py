"""The application of a simulated client: it polls, works on records, commits, and runs rebalance callbacks.

It is a correct application: it commits only what it is done with, and nothing is handed out while a callback runs or
after partitions were revoked. So whatever is produced reaches some application of the group at least once. Callbacks
run when the user is in poll, as in Java's client; one of a revocation that comes too late never runs (KIP-62).
"""

from __future__ import annotations

from enum import StrEnum

from kohort.member import effects, inputs
from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.scheduler import Due
from kohort.sim.kernel.world_observer import Offsets
from kohort.sim.peers.peer_commits import PeerCommits
from kohort.sim.peers.peer_fetcher import PeerFetcher
from kohort.sim.peers.peer_member import MemberUser, PeerMember


class Doing(StrEnum):
    """Where the user is."""

    POLLING = "polling"
    WORKING = "working"
    COMMITTING = "committing"


class PeerApplication(MemberUser):
    """The user of one peer; `begin` once the peer has begun to join."""

    def __init__(self, member: PeerMember, fetcher: PeerFetcher, commits: PeerCommits) -> None:
        self.doing = Doing.WORKING
        self._member = member
        self._fetcher = fetcher
        self._commits = commits
        self._host = member.host
        self._random = member.random
        member.user = self
        self._wanted: effects.RunCallback | None = None
        """The callback that is to begin when the user is in poll."""
        self._running: effects.RunCallback | None = None
        self._closing: inputs.CloseRequested | None = None
        self._is_close_reported = False
        self._commit_us = 0
        """When an automatic commit is due."""
        self._commit_alarm: Due | None = None

    @property
    def is_closing(self) -> bool:
        """Whether the user wants no more."""
        return self._closing is not None

    @property
    def is_settled(self) -> bool:
        """Whether no callback is under way, and it is known from where everything is read."""
        return self._wanted is None and self._running is None and self._fetcher.is_placed

    def begin(self) -> None:
        """Poll for the first time."""
        self._poll()

    def close(self, closing: inputs.CloseRequested) -> None:
        """Close the member, as soon as the user has finished what it does."""
        self._closing = self._closing or closing
        self.proceed()

    def partitions_revoked(self, partitions: Partitions) -> None:
        """Commit nothing for these any more."""
        self._commits.revoked(partitions)

    def member_changed(self) -> None:
        """Abandon a revocation that comes too late, and look for a newer epoch to commit with."""
        wanted = self._wanted
        if wanted is not None and wanted.callback is Callback.REVOKED and not self._member.identity.is_valid:
            self._wanted = None
            self._member.take(inputs.CallbackFinished(Callback.REVOKED, is_abandoned=True))
        self._commits.member_changed()

    # -- the loop

    def proceed(self) -> None:
        """Do what is next for a user in poll."""
        if self.doing is not Doing.POLLING or self._running is not None:
            return
        if self._wanted is not None:
            self._begin_callback(self._wanted)
        elif self._closing is not None:
            if not self._is_close_reported:
                self._is_close_reported = True
                self._member.observer.closing(self._member, self._fetcher.finished())
                self._member.take(self._closing)
        elif self._fetcher.entries:
            if self._member.config.commit == "auto":
                self._commit_if_due()
            if self._fetcher.has_ahead:
                self._hand_out()
            else:
                self._fetcher.proceed()

    def _poll(self) -> None:
        self.doing = Doing.POLLING
        self._member.take(inputs.PollEntered())
        self.proceed()

    def _hand_out(self) -> None:
        member, budget = self._member, self._member.config.max_poll_records
        handed: list[tuple[TopicPartition, int]] = []
        for entry in self._fetcher.entries.values():
            first, end = entry.position, entry.ahead
            if first is None or end is None or budget <= 0:
                continue
            stop = min(end, first + budget)
            budget -= stop - first
            entry.position = stop
            entry.ahead = None if stop == end else end
            handed.append((entry.partition, stop))
            member.observer.delivered(member, entry.partition, first, stop)
        self.doing = Doing.WORKING
        member.take(inputs.PollReturned())
        self._host.after_us(self._work_us(), self._worked, handed)

    def _work_us(self) -> int:
        config, random = self._member.config, self._random
        if config.overrun and random.random() < config.overrun:
            return int(config.max_poll_interval_ms * 1000 * (1.1 + random.random()))
        return int(config.work_us * random.random())

    def _worked(self, handed: list[tuple[TopicPartition, int]]) -> None:
        for partition, stop in handed:
            entry = self._fetcher.entries.get(partition)
            if entry is not None and entry.position == stop:
                entry.consumed = stop
        config = self._member.config
        if config.rejoins and self._random.random() < config.rejoins:
            self._member.take(inputs.RejoinRequested("the user wants it"))
        if config.commit == "sync":
            self.doing = Doing.COMMITTING
            self._commits.commit(self._fetcher.finished(), self._committed_and_polls, is_sync=True)
            return
        if config.commit == "async":
            self._commits.commit(self._fetcher.finished(), self._fetcher.committed, is_sync=False)
        self._poll()

    def _committed_and_polls(self, committed: Offsets) -> None:
        self._fetcher.committed(committed)
        self._poll()

    def _commit_if_due(self) -> None:
        now_us = self._host.scheduler.now_us
        if now_us < self._commit_us:
            if self._commit_alarm is None or not self._commit_alarm.is_pending:
                self._commit_alarm = self._host.at_us(self._commit_us, self.proceed)
            return
        if not self._commits.is_idle or not (offsets := self._fetcher.finished()):
            return
        self._commit_us = now_us + self._member.config.auto_commit_ms * 1000
        self._commits.commit(offsets, self._fetcher.committed, is_sync=False)

    # -- callbacks

    def run_callback(self, effect: effects.RunCallback) -> None:
        """Run a callback of the listener, when the user is in poll."""
        assert self._wanted is self._running is None, "callbacks run one at a time"
        self._wanted = effect
        self.proceed()

    def _begin_callback(self, effect: effects.RunCallback) -> None:
        self._wanted, self._running = None, effect
        member, config = self._member, self._member.config
        member.observer.callback_began(member, effect.callback, effect.partitions, effect.cause)
        error = None
        if config.raising and self._random.random() < config.raising:
            error = "the user's callback raised"
        wait_us = int(config.callback_us * self._random.random())
        if effect.callback is not Callback.REVOKED or error is not None:
            self._end_callback_after(wait_us, error)
            return

        def committed(offsets: Offsets) -> None:
            self._fetcher.committed(offsets)
            self._end_callback_after(wait_us, None)

        self._commits.commit(self._fetcher.finished(effect.partitions), committed, is_sync=True)

    def _end_callback_after(self, wait_us: int, error: str | None) -> None:
        if wait_us:
            self._host.after_us(wait_us, self._end_callback, error)
        else:
            self._end_callback(error)

    def _end_callback(self, error: str | None) -> None:
        effect, self._running = self._running, None
        assert effect is not None, "a callback ends once"
        member = self._member
        member.observer.callback_ended(member, effect.callback, effect.partitions, error)
        if effect.callback is Callback.ASSIGNED:
            self._fetcher.add(effect.partitions)
        else:
            self._fetcher.forget(effect.partitions)
        member.take(inputs.CallbackFinished(effect.callback))
        self.proceed()
