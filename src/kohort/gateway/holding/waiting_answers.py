"""Answers that wait and whose requests are repeated: the coordinator's newer answer takes the place of the old one.

When a round is predicted, a request goes to the coordinator once more, so that no client gets REBALANCE_IN_PROGRESS
without a round. A coordinator that has not seen the round yet is asked again a little later.

Answers to SyncGroup of members that need not revoke are withheld until those that must have joined again (KIP-429): the
coordinator's own answer to the repeated request has them join the second round at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange, encode_answer
from kohort.group.commands import Sync
from kohort.model.errors import ErrorCode
from kohort.node.timers import NodeClock, Timers
from kohort.parking.limits import FIRST_REPEAT_MS, REPEATS_MS
from kohort.parking.parked_heartbeat import Follower
from kohort.wire.codec import Buffer
from kohort.wire.messages import SyncGroupResponse


@dataclass(frozen=True, slots=True)
class RequestRepeats:
    """When requests of classic members are repeated."""

    groups: ObservedGroups
    timers: Timers
    clock: NodeClock

    def is_gathering(self, group_id: str) -> bool:
        """Whether a round of a group gathers its members, as far as it is seen."""
        group = self.groups.group(group_id)
        return group is not None and group.is_gathering


class WaitingAnswer:
    """An answer that waits on its connection, and whose request may be repeated."""

    def __init__(self, repeats: RequestRepeats, exchange: Exchange, group_id: str, frame: Buffer) -> None:
        self.exchange = exchange
        self.frame = frame
        self.group_id = group_id
        self._repeats = repeats
        self._count = 0

    @property
    def is_repeated(self) -> bool:
        """Whether the coordinator is asked again: its answer takes the place of this one."""
        return self._repeats.timers.deadline_ms(self) is not None or self._count > 0

    def repeat_soon(self) -> None:
        """Ask the coordinator again in a moment."""
        timers, clock = self._repeats.timers, self._repeats.clock
        timers.arm(self, clock.now_ms + FIRST_REPEAT_MS, self._repeat)

    def _repeat(self, now_ms: int) -> None:
        del now_ms
        self._count += 1
        self.exchange.repeat()

    def answered_again(self, frame: Buffer, error: ErrorCode, now_ms: int) -> Buffer | None:
        """Take the answer to a request that was repeated; return what the client gets, None to ask again."""
        is_due = self._repeats.is_gathering(self.group_id) and self._count <= len(REPEATS_MS)
        if error is ErrorCode.NONE and is_due:
            self.frame = frame
            self._repeats.timers.arm(self, now_ms + REPEATS_MS[self._count - 1], self._repeat)
            return None
        return frame

    def answer_now(self) -> None:
        """Send the answer that waits. If there is an update, the coordinator sends it with its next answer."""
        self.drop()
        self.exchange.answer(self.frame)

    def drop(self) -> None:
        """Forget it: the connection has ended."""
        self._repeats.timers.disarm(self)


IsAwaited = Callable[[str, int], bool]
"""Takes a member and the time; whether a program waits for the answer to a commit that it sends now."""


class WithheldSync(WaitingAnswer):
    """The withheld answer to one SyncGroup."""

    def __init__(
        self, repeats: RequestRepeats, exchange: Exchange, command: Sync, frame: Buffer, is_awaited: IsAwaited
    ) -> None:
        super().__init__(repeats, exchange, command.group_id, frame)
        self.command = command
        self._is_awaited = is_awaited

    def end(self, error: ErrorCode) -> None:
        """Send the assignment, or the coordinator's own answer once the round has begun there."""
        if error is ErrorCode.NONE:
            self.answer_now()
        elif not self.exchange.frame:  # it was too long to be repeated
            self.exchange.answer(encode_answer(self.exchange.head, SyncGroupResponse(error_code=error)))
        else:
            self.repeat_soon()

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: return whether it stays withheld. For another than a commit it ends.

        A program that waits for its commit is not to wait for members that would revoke later.
        """
        if follower is not Follower.COMMIT:
            self.answer_now()
        elif self._is_awaited(self.command.member_id, now_ms):
            self._repeats.groups.revoke_now(self.group_id, now_ms)
        return not self.exchange.is_answered


class WithheldSyncs:
    """The withheld answers of all groups."""

    def __init__(self, repeats: RequestRepeats) -> None:
        self.is_awaited: IsAwaited = _is_never_awaited
        self._repeats = repeats
        self._syncs: dict[tuple[str, str], WithheldSync] = {}

    def withhold(
        self, exchange: Exchange, command: Sync, frame: Buffer, now_ms: int, *, is_overtaken: bool
    ) -> WithheldSync | None:
        """Withhold the answer to a SyncGroup; None where it is to be sent now.

        With `is_overtaken` answers to commits go ahead of it, so that no program waits.
        """
        self._repeats.clock.advance(now_ms)
        is_awaited = _is_never_awaited if is_overtaken else self.is_awaited
        withheld = WithheldSync(self._repeats, exchange, command, frame, is_awaited)
        if not self._repeats.is_gathering(command.group_id):
            self._syncs[command.group_id, command.member_id] = withheld
        elif exchange.frame:
            withheld.repeat_soon()
        else:
            return None
        return withheld

    def release(self, group_id: str, member_id: str, error: ErrorCode, now_ms: int) -> None:
        """End the wait of an answer: with `error` its member is to join a round that has begun."""
        self._repeats.clock.advance(now_ms)
        withheld = self._syncs.pop((group_id, member_id), None)
        if withheld is not None:
            withheld.end(error)


def _is_never_awaited(_member_id: str, _now_ms: int) -> bool:
    return False
