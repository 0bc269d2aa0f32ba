"""Answers to SyncGroup of members that need not revoke, withheld until those that must have joined again (KIP-429).

Then their requests are repeated: the coordinator's own answer has them join the second round at once.
"""

from __future__ import annotations

from kohort.gateway.holding.request_repeats import RequestRepeats, WaitingAnswer
from kohort.gateway.relay.relay import Exchange, encode_answer
from kohort.group.commands import Sync
from kohort.model.errors import ErrorCode
from kohort.parking.parked_heartbeat import Follower
from kohort.wire.codec import Buffer
from kohort.wire.messages import SyncGroupResponse


class WithheldSync(WaitingAnswer):
    """The withheld answer to one SyncGroup."""

    def end(self, error: ErrorCode) -> None:
        """Send the assignment, or the coordinator's own answer once the round has begun there."""
        if error is ErrorCode.NONE:
            self.answer_now()
        elif not self.exchange.frame:  # it was too long to be repeated
            self.exchange.answer(encode_answer(self.exchange.head, SyncGroupResponse(error_code=error)))
        else:
            self.repeat_soon()

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """A request arrived behind it: the member gets its assignment."""
        del follower, now_ms
        self.answer_now()
        return False


class WithheldSyncs:
    """The withheld answers of all groups."""

    def __init__(self, repeats: RequestRepeats) -> None:
        self._repeats = repeats
        self._syncs: dict[tuple[str, str], WithheldSync] = {}

    def withhold(self, exchange: Exchange, command: Sync, frame: Buffer, now_ms: int) -> WithheldSync | None:
        """Withhold the answer to a SyncGroup; None where it is to be sent now."""
        self._repeats.clock.advance(now_ms)
        withheld = WithheldSync(self._repeats, exchange, command.group_id, frame)
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
