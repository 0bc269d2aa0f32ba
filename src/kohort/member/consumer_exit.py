"""How a member of the consumer protocol goes: it is put out, its user stays away, or closes it (KIP-848)."""

from __future__ import annotations

from kohort.member import effects, inputs
from kohort.member.consumer_standing import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerStanding
from kohort.member.effects import Callback
from kohort.member.member_state import POLL_EXPIRED, ConsumerState
from kohort.model.errors import ErrorCode

ACTIVE = frozenset(
    {
        ConsumerState.JOINING,
        ConsumerState.RECONCILING,
        ConsumerState.ACKNOWLEDGING,
        ConsumerState.STABLE,
    }
)
"""In its group, or on the way there."""


def fence(member: ConsumerStanding, error: ErrorCode, now_ms: int) -> None:
    """The coordinator does not know the member, or not in this epoch: all is lost, and it joins again."""
    was_joining = member.state is ConsumerState.JOINING
    member.failed_rebalances += member.underway is not None or was_joining
    member.fenced_by = error
    member.forget_epoch()
    if was_joining:
        if error is ErrorCode.FENCED_MEMBER_EPOCH:
            # Brokers of before KAFKA-19233 refuse a join under an id that is still a member's: that one goes first.
            member.leave("it joins again", LEAVE_EPOCH)
        member.join()
        member.session.wait_to_retry(now_ms)
    elif member.state is not ConsumerState.PREPARE_LEAVING:
        member.state = ConsumerState.FENCED


def free_instance(member: ConsumerStanding) -> None:
    """Take leave for a while as who this member may be already, where its join was answered and nobody heard.

    A coordinator refuses a join under an instance id that is taken, also by the same member (kafka#23542). If another
    member has it, that one is refused leave under this member's id, and the next join says so.
    """
    member.is_join_unsure = False
    member.leave("its join was not answered", LEAVE_STATIC_EPOCH)
    member.speak(is_full=True)


def put_away(member: ConsumerStanding) -> None:
    """Report as lost what a member still holds that is out of its group; after that it may join again."""
    if member.owned:
        why = "it was put out of its group" if member.fenced_by is ErrorCode.NONE else member.fenced_by.name
        member.run(Callback.LOST, member.owned, POLL_EXPIRED if member.state is ConsumerState.STALE else why)
    elif member.state is ConsumerState.FATAL:
        return
    elif member.topics or member.regex:
        member.join()
    else:
        member.state = ConsumerState.UNSUBSCRIBED


def expire_poll(member: ConsumerStanding) -> None:
    """The user did not come back: leave, so that others may read on, and say nothing until it does."""
    session = member.session
    session.mark_poll_entered()
    if member.state is ConsumerState.FENCED:
        member.is_away = True
    if member.state not in ACTIVE:
        return
    member.do(effects.PollMissed(is_leaving=True))
    if _is_in_group(member):
        is_static = member.config.instance_id is not None
        member.leave(POLL_EXPIRED, LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH)
    member.forget_epoch()
    member.in_flight = None
    session.heartbeat_ms = session.retry_ms = None
    member.fenced_by = ErrorCode.NONE
    member.state = ConsumerState.STALE
    member.is_away = True


def close(member: ConsumerStanding, closing: inputs.CloseRequested) -> None:
    """Give up what is owned, then leave the group, then end: one of these for each call."""
    if member.is_leave_sent:
        return
    if member.owned:
        is_known = member.epoch > 0
        if member.state is not ConsumerState.FATAL:
            member.state = ConsumerState.PREPARE_LEAVING
        member.discard()
        member.run(Callback.REVOKED if is_known else Callback.LOST, member.owned, closing.reason)
        return
    epoch = _leave_epoch(member, closing.leave)
    if epoch is None or not _is_in_group(member):
        end(member)
        return
    member.state = ConsumerState.LEAVING
    member.is_leave_sent = True
    member.in_flight = member.leave(closing.reason, epoch)


def end(member: ConsumerStanding) -> None:
    """Be gone: nothing follows."""
    member.forget_epoch()
    member.state = ConsumerState.UNSUBSCRIBED
    member.is_closed = True
    member.in_flight = None
    member.session.end()
    member.session.retry_ms = None
    member.session.mark_poll_entered()
    member.do(effects.Ended())


def _is_in_group(member: ConsumerStanding) -> bool:
    """Return whether the coordinator may take this for a member: also where a join is still to be answered."""
    is_asked = member.in_flight is not None or member.is_join_unsure
    return member.epoch > 0 or (member.state is ConsumerState.JOINING and is_asked)


def _leave_epoch(member: ConsumerStanding, leave: bool | None) -> int | None:
    """Return the epoch that says how to leave (KIP-1092), or None to stay until the session ends."""
    if member.config.instance_id is None:
        return None if leave is False else LEAVE_EPOCH
    return LEAVE_EPOCH if leave else LEAVE_STATIC_EPOCH
