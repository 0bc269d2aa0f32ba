"""Members of a consumer group as the state machine of heartbeats drives them: what they own, and what they say.

A client is simple and honest: it stops owning before it says so, says everything after an error, and never repeats a
request on a connection on which an older one may still be read.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.assignment import IdPartitions, each, id_partitions
from kohort.model.errors import ErrorCode

MUST_JOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
"""Errors that a correct client gets after its eviction only; a lost message never fences it."""

TRY_AGAIN = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNRELEASED_INSTANCE_ID}
Owned = set[tuple[bytes, int]]


class Client:
    """One member. `owned` is what it reads, `assigned` the assignment of the last response."""

    def __init__(self, member_id: str, instance_id: str | None, names: tuple[str, ...], regex: str) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.names = names
        self.regex = regex
        self.is_superseded = False
        self.begin_again()

    def begin_again(self) -> None:
        """Own nothing and know nothing: the next heartbeat joins."""
        self.epoch = 0
        self.owned: Owned = set()
        self.assigned: Owned = set()
        self.must_say_owned = True
        self.must_say_all = True
        self.has_other_names = False

    @property
    def is_in(self) -> bool:
        return self.epoch > 0

    def ids(self) -> IdPartitions:
        return id_partitions((topic_id, (number,)) for topic_id, number in self.owned)

    def heartbeat(self) -> ConsumerHeartbeat:
        """Return the next heartbeat: what has changed, or everything after an error."""
        plain = ConsumerHeartbeat("g", self.member_id, self.epoch, self.instance_id)
        if not self.is_in or self.must_say_all:
            return replace(
                plain,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=self.names,
                subscribed_topic_regex=self.regex,
                owned=self.ids(),
            )
        return replace(
            plain,
            owned=self.ids() if self.must_say_owned else None,
            subscribed_topic_names=self.names if self.has_other_names else None,
        )

    def receives(self, result: ConsumerHeartbeatResult | None) -> None:
        """Take an answer; None is one that never came."""
        if result is None or result.error in TRY_AGAIN:
            self.must_say_all = True
        elif result.error is ErrorCode.FENCED_INSTANCE_ID:
            self.begin_again()
            self.is_superseded = True
        elif result.error in MUST_JOIN:
            self.begin_again()
        else:
            assert result.error is ErrorCode.NONE, result
            assert result.member_epoch >= self.epoch, "a member's epoch never goes back"
            self.epoch = result.member_epoch
            self.must_say_owned = self.must_say_all = self.has_other_names = False
            if result.assignment is not None:
                self.assigned = set(each(result.assignment))
            self.reconcile()

    def reconcile(self) -> None:
        """Stop owning what was taken, and own what was granted; say so with the next heartbeat."""
        if self.owned != self.assigned:
            self.owned = set(self.assigned)
            self.must_say_owned = True
