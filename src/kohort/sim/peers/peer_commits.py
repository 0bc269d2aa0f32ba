"""The commits of one peer: one after another, tried again where that can help.

The rules are those of `client.membership.member_commits`. A commit shows who the member was when it was asked for. Only
a member epoch that the group has left behind is replaced by the newest one, while the member still owns the partitions
(KIP-1251). Each request that leaves has a number of its own, for who watches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

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
from kohort.sim.kernel.scheduler import Resume, outcome_of, run
from kohort.sim.kernel.world_observer import Errors, Offsets
from kohort.sim.peers.peer_member import PeerMember
from kohort.wire.apis import Api

Done = Callable[[Offsets], None]
"""Called with what was committed: nothing, a part or all."""

SYNC_US = 10_000_000
"""How long a synchronous commit is retried."""
EPOCH_US = 5_000_000
"""How long a newer member epoch is waited for."""


@dataclass(slots=True, eq=False)
class _Commit:
    offsets: Offsets
    until_us: int | None
    """Until when it is retried; None for an asynchronous commit, which is tried once."""
    identity: Identity
    is_void: bool = False
    """Whether some of it was revoked since: a commit of before could take another member's back."""


class PeerCommits:
    """Commits for one member."""

    def __init__(self, member: PeerMember) -> None:
        self._member = member
        self._queue: deque[tuple[_Commit, Done]] = deque()
        self._current: _Commit | None = None
        self._stale: tuple[Identity, Resume] | None = None
        """The identity in place of which the current commit waits for a newer one, and what continues it."""
        self._number = 0
        self._waits = Backoff(member.random.random)

    @property
    def is_idle(self) -> bool:
        """Whether every commit is over."""
        return self._current is None and not self._queue

    def commit(self, offsets: Offsets, done: Done, *, is_sync: bool) -> None:
        """Commit; `done` is called once, perhaps at once."""
        if not offsets:
            done({})
            return
        until_us = self._member.host.scheduler.now_us + SYNC_US if is_sync else None
        self._queue.append((_Commit(dict(offsets), until_us, self._member.identity), done))
        self._next()

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """The member does not own these any more; if it gets them again, that is another time."""
        waiting = [commit for commit, _ in self._queue]
        for commit in waiting if self._current is None else [*waiting, self._current]:
            commit.is_void = commit.is_void or any(partition in commit.offsets for partition in partitions)

    def member_changed(self) -> None:
        """See whether a newer epoch has come."""
        if self._stale is not None and self._member.identity != self._stale[0]:
            self._end_wait(self._stale)

    # -- the inside

    def _next(self) -> None:
        while self._current is None and self._queue:
            self._current, done = self._queue.popleft()
            run(self._committed(self._current), partial(self._end, done))

    def _end(self, done: Done, committed: Offsets) -> None:
        self._current = None
        done(committed)
        self._next()

    async def _committed(self, commit: _Commit) -> Offsets:
        """Send a commit, again where that can help; return what was committed."""
        member = self._member
        while commit.identity.is_valid and not commit.is_void:
            errors = await self._send(commit)
            code = next(iter(errors.values()), ErrorCode.NONE)
            if code in REFUSALS:
                member.take(inputs.CommitAnswered(commit.identity, code))
                if code is ErrorCode.STALE_MEMBER_EPOCH and await self._has_newer_epoch(commit):
                    continue
                break
            if code in MOVED:
                member.connections.forget_coordinator()
            if code in MOVED or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or code.is_retriable:
                wait_us = self._waits.next_ms() * 1000
                if commit.until_us is not None and member.host.scheduler.now_us + wait_us < commit.until_us:
                    await outcome_of(partial(member.host.after_us, wait_us))
                    continue
            else:
                self._waits.reset()
            return {partition: at for partition, at in commit.offsets.items() if partition not in errors}
        return {}

    async def _send(self, commit: _Commit) -> Errors:
        """Send a commit once; return the errors of its partitions."""
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
        connections = member.connections
        version = min(connections.version(Api.OFFSET_COMMIT), NEWEST_BY_ID if ids else NEWEST_BY_NAME)
        if commit.identity != member.identity:
            member.observer.commit_shows(member, number, commit.identity)
        member.observer.commit_sent(member, number, commit.offsets)
        code, answer = await outcome_of(
            lambda answered: connections.send(connections.offsets, request, answered, version=version)
        )
        errors = dict.fromkeys(commit.offsets, code) if answer is None else commit_errors(answer, ids)
        member.observer.commit_answered(member, number, commit.offsets, errors)
        return errors

    def _topic_ids(self, offsets: Offsets) -> Mapping[str, bytes]:
        machine, version = self._member.machine, self._member.connections.version(Api.OFFSET_COMMIT)
        if not isinstance(machine, ConsumerMember) or version < NEWEST_BY_ID:
            return {}
        topics = sorted({topic for topic, _ in offsets})
        ids = machine.topic_ids
        return {topic: ids[topic] for topic in topics} if all(topic in ids for topic in topics) else {}

    async def _has_newer_epoch(self, commit: _Commit) -> bool:
        """Wait for a newer epoch, in which the member still owns everything: the commit gets it."""
        member = self._member
        if member.identity == commit.identity:
            await outcome_of(partial(self._wait_for_epoch, commit.identity))
        identity = member.identity
        if identity == commit.identity or not identity.is_valid or not commit.offsets.keys() <= member.owned:
            return False
        commit.identity = identity
        return True

    def _wait_for_epoch(self, identity: Identity, resume: Resume) -> None:
        self._stale = (identity, resume)
        self._member.host.after_us(EPOCH_US, self._end_wait, self._stale)

    def _end_wait(self, stale: tuple[Identity, Resume]) -> None:
        if self._stale is stale:
            self._stale = None
            stale[1]()
