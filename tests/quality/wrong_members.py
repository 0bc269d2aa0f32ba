"""Members as they were when they started rounds without need: each a context in which a group does not come to rest."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.quality.replacing import replaced

from kohort.member import inputs
from kohort.member.classic_member import ClassicMember
from kohort.member.effects import Callback
from kohort.member.member_state import Identity, State
from kohort.model.errors import ErrorCode

Mutation = AbstractContextManager[None]


def librdkafka_4059() -> Mutation:
    """A commit that is refused because of a round starts one more, although its sender is in that round."""
    right = ClassicMember._apply_identity_error

    def take_verdict(member: ClassicMember, error: ErrorCode, request: str) -> None:
        is_in_round = member.state in (State.JOINING, State.ASSIGNING, State.SYNCING)
        if is_in_round and request == "OFFSET_COMMIT" and error is ErrorCode.REBALANCE_IN_PROGRESS:
            member.request = "offset commit failed since group is already rebalancing"
        else:
            right(member, error, request)

    return replaced(ClassicMember, "_apply_identity_error", take_verdict)


def aiokafka_727() -> Mutation:
    """An answer to who the member was a generation ago takes its present generation away."""

    def counts(_member: ClassicMember, _asked_as: Identity) -> bool:
        return True

    return replaced(ClassicMember, "_counts", counts)


def close_in_a_round_loses() -> Mutation:
    """A member that is closed in a round takes its partitions for lost, and so commits nothing."""
    right = ClassicMember._close

    def close(member: ClassicMember, closing: inputs.CloseRequested, now_ms: int) -> None:
        if member.owned and member.state not in (State.STABLE, State.LEAVING):
            member.state = State.LEAVING
            member.run(Callback.LOST, member.owned, closing.reason)
        else:
            right(member, closing, now_ms)

    return replaced(ClassicMember, "_close", close)
