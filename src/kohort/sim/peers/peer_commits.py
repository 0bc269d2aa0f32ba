"""The commits of one peer: one after another, tried again where that can help.

The rules are those of `client.membership.member_commits`. A commit shows who the member was when it was asked for. Only
a member epoch that the group has left behind is replaced by the newest one, while the member still owns the partitions
(KIP-1251). Each request that leaves has a number of its own, for who watches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.client.cluster.committed_offsets import (
    NEWEST_BY_ID,
    NEWEST_BY_NAME,
    REFUSALS,
    OffsetAndMetadata,
    commit_errors,
    commit_request,
)
from kohort.member import ConsumerMember, inputs
from kohort.member.deadlines import Backoff
from kohort.member.member_state import MOVED, Identity
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import Errors, Offsets
from kohort.sim.peers.peer_member import PeerMember
from kohort.wire.apis import Api

Done = Callable[[Offsets], None]
"""Called with what was committed: nothing, a part or all."""

SYNC_US = 10_000_000
"""How long a synchronous commit is retried."""
EPOCH_US = 5_000_000
"""How long a newer member epoch is waited for."""


@dataclass(slots=True)
class _Commit:
    offsets: Offsets
    done: Done
    until_us: int | None
    """Until when it is retried; None for an asynchronous commit, which is tried once."""
    identity: Identity
    is_void: bool = False
    """Whether some of it was given up since: a commit of before could take another member's back."""


class PeerCommits:
    """Commits for one member."""

    def __init__(self, member: PeerMember) -> None:
        self._member = member
        self._queue: deque[_Commit] = deque()
        self._current: _Commit | None = None
        self._stale: _Commit | None = None
        """The commit that waits for a newer epoch."""
        self._number = 0
        self._waits = Backoff(member.random.random)

    @property
    def is_idle(self) -> bool:
        """Whether every commit is over."""
        return self._current is None and not self._queue

    def commit(self, offsets: Offsets, done: Done, *, is_sync: bool) -> None:
        """Commit; `done` is called once, perhaps at once."""
        now_us = self._member.host.scheduler.now_us
        until_us = now_us + SYNC_US if is_sync else None
        if not offsets:
            done({})
            return
        self._queue.append(_Commit(dict(offsets), done, until_us, self._member.identity))
        self._next()

    def gave_up(self, partitions: Iterable[TopicPartition]) -> None:
        """The member does not own these any more; if it gets them again, that is another time."""
        for commit in (*self._queue, *(() if self._current is None else (self._current,))):
            commit.is_void = commit.is_void or any(partition in commit.offsets for partition in partitions)

    def member_changed(self) -> None:
        """See whether a newer epoch has come."""
        commit = self._stale
        if commit is not None and self._member.identity != commit.identity:
            self._take_epoch(commit)

    # -- the inside

    def _next(self) -> None:
        while self._current is None and self._queue:
            commit = self._current = self._queue.popleft()
            if commit.identity.is_valid and not commit.is_void:
                self._send(commit)
            else:
                self._end(commit, {})

    def _end(self, commit: _Commit, committed: Offsets) -> None:
        self._current = None
        commit.done(committed)
        self._next()

    def _send(self, commit: _Commit) -> None:
        if commit is not self._current:
            return
        if commit.is_void:
            self._end(commit, {})
            return
        member = self._member
        number = self._number = self._number + 1
        ids = self._topic_ids(commit.offsets)
        request = commit_request(
            member.group_id,
            {partition: OffsetAndMetadata(offset) for partition, offset in commit.offsets.items()},
            identity=commit.identity,
            instance_id=member.instance_id,
            topic_ids=ids,
        )
        version = min(member.connections.version(Api.OFFSET_COMMIT), NEWEST_BY_ID if ids else NEWEST_BY_NAME)

        def answered(code: ErrorCode, answer: Any) -> None:
            errors = dict.fromkeys(commit.offsets, code) if answer is None else commit_errors(answer, ids)
            member.observer.commit_answered(member, number, commit.offsets, errors)
            self._take(commit, errors)

        if commit.identity != member.identity:
            member.observer.commit_shows(member, number, commit.identity)
        member.observer.commit_sent(member, number, commit.offsets)
        member.connections.send(member.connections.offsets, request, answered, version=version)

    def _topic_ids(self, offsets: Offsets) -> Mapping[str, bytes]:
        machine, version = self._member.machine, self._member.connections.version(Api.OFFSET_COMMIT)
        if not isinstance(machine, ConsumerMember) or version < NEWEST_BY_ID:
            return {}
        topics = sorted({topic for topic, _ in offsets})
        ids = machine.topic_ids
        return {topic: ids[topic] for topic in topics} if all(topic in ids for topic in topics) else {}

    def _take(self, commit: _Commit, errors: Errors) -> None:
        code = next(iter(errors.values()), ErrorCode.NONE)
        member = self._member
        if code in REFUSALS:
            member.take(inputs.CommitAnswered(commit.identity, code))
            if code is ErrorCode.STALE_MEMBER_EPOCH:
                self._wait_for_epoch(commit)
            else:
                self._end(commit, {})
            return
        if code in MOVED:
            member.connections.forget_coordinator()
        if code in MOVED or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or code.is_retriable:
            wait_us = self._waits.next_ms() * 1000
            if commit.until_us is not None and member.host.scheduler.now_us + wait_us < commit.until_us:
                member.host.after_us(wait_us, self._send, commit)
                return
        else:
            self._waits.reset()
        self._end(commit, {partition: at for partition, at in commit.offsets.items() if partition not in errors})

    def _wait_for_epoch(self, commit: _Commit) -> None:
        if self._member.identity != commit.identity:
            self._take_epoch(commit)
            return
        self._stale = commit
        self._member.host.after_us(EPOCH_US, self._give_up_epoch, commit, commit.identity)

    def _take_epoch(self, commit: _Commit) -> None:
        self._stale = None
        identity = self._member.identity
        if identity.is_valid and not commit.is_void and commit.offsets.keys() <= self._member.owned:
            commit.identity = identity
            self._send(commit)
        else:
            self._end(commit, {})

    def _give_up_epoch(self, commit: _Commit, identity: Identity) -> None:
        if self._stale is commit and commit.identity == identity:
            self._stale = None
            self._end(commit, {})
