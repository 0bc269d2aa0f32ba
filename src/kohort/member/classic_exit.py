"""How a classic member goes: its user does not come back in time, or closes it."""

from __future__ import annotations

from kohort.member import effects, inputs
from kohort.member.classic_state import Standing
from kohort.member.effects import Callback
from kohort.member.identity import NOBODY
from kohort.member.member_state import ENDING, POLL_EXPIRED, State
from kohort.model.errors import ErrorCode


def expire_poll(member: Standing) -> None:
    """The user did not come back: leave, so that others may read on, and say nothing until it does (KIP-62)."""
    member.session.mark_poll_entered()
    if member.state in ENDING:
        return
    is_leaving = member.config.instance_id is None
    member.do(effects.PollMissed(is_leaving))
    if is_leaving:
        member.leave(POLL_EXPIRED)
    member.forget(ErrorCode.UNKNOWN_MEMBER_ID)
    member.is_away = True
    member.rejoin, member.is_rejoin_forced = POLL_EXPIRED, False
    if member.running is None:
        member.state = State.UNJOINED


def close(member: Standing, closing: inputs.CloseRequested) -> None:
    """Give up what is owned, then leave the group, then end: one of these for each call.

    A member with a generation *revokes*, in the middle of a round too: the coordinator takes its commits until the
    round forms the next generation, and again once the leader has synced. So a leader that owns partitions syncs first.
    """
    if member.owned:
        if member.state is State.ASSIGNING:
            return
        is_known = member.identity.is_valid and member.state is not State.FATAL
        member.state = State.LEAVING
        member.run(Callback.REVOKED if is_known else Callback.LOST, member.owned, closing.reason)
    elif member.is_leave_sent:
        return
    else:
        is_leaving = member.config.instance_id is None if closing.leave is None else closing.leave
        member.state = State.LEAVING
        if is_leaving and member.leave(closing.reason):
            member.is_leave_sent = True
        else:
            end(member)


def end(member: Standing) -> None:
    """Be gone: nothing follows."""
    member.state = State.CLOSED
    member.identity = NOBODY
    member.session.end()
    member.session.mark_poll_entered()
    member.do(effects.Ended())
