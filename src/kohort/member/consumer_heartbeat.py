"""The heartbeats of a member of the consumer protocol: what each says, and what its answer means (KIP-848).

One is under way at a time. The first of an epoch, and each after one that failed, says everything; the others say what
has changed since. An acknowledgement of what was reconciled is a heartbeat that names what is owned.
"""

from __future__ import annotations

from itertools import chain

from kohort.member import effects
from kohort.member.consumer_effects import ConsumerHeartbeat, HurryHeartbeat
from kohort.member.consumer_exit import ACTIVE, fence, free_instance
from kohort.member.consumer_inputs import ConsumerHeartbeatAnswered
from kohort.member.consumer_standing import ConsumerStanding, Numbered, Said
from kohort.member.member_state import MOVED, ConsumerState
from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import NOTHING, IdPartitions, id_partitions

SPEAKING = ACTIVE | {ConsumerState.PREPARE_LEAVING}
SHORTEST_INTERVAL_MS = 5
"""A broker that names no interval, or none that can be meant, is not asked in a tight loop."""


def is_speaking(member: ConsumerStanding) -> bool:
    """Return whether heartbeats leave in this state."""
    return member.state in SPEAKING and (member.epoch > 0 or member.state is ConsumerState.JOINING)


def beat(member: ConsumerStanding, now_ms: int) -> None:
    """Send a heartbeat if one is due."""
    session = member.session
    if not is_speaking(member) or (session.retry_ms is not None and now_ms < session.retry_ms):
        return
    if member.in_flight is None and (member.is_urgent or session.is_heartbeat_due(now_ms)):
        _send(member, now_ms)
    # What came meanwhile is taken over when the claim under way was answered, and a broker may keep that.
    is_waiting = member.is_claiming and member.state is ConsumerState.RECONCILING and member.underway is None
    if member.in_flight is not None and (member.is_urgent or is_waiting) and not member.is_hurried:
        member.is_hurried = True
        member.do(HurryHeartbeat())


def _send(member: ConsumerStanding, now_ms: int) -> None:
    is_joining = member.state is ConsumerState.JOINING
    said, config = member.said, member.config
    is_full = said is None
    now_says = Said(tuple(sorted(member.topics)), member.regex, member.current)
    owned = None
    if is_joining:
        owned = NOTHING
    elif said is None or now_says.owned != said.owned:
        owned = _claimed(member)
    regex = None
    if said is None or now_says.regex != said.regex:
        regex = now_says.regex or ("" if member.is_regex_told else None)
    member.is_regex_told |= bool(regex)
    if member.lag_source is not None:
        member.take_lags(member.lag_source(), now_ms)
    has_reason = member.reason is not None and not is_joining
    lags = member.lags.lags
    member.number += 1
    member.do(
        ConsumerHeartbeat(
            member.number,
            member.member_id,
            member.epoch,
            topics=now_says.topics if said is None or now_says.topics != said.topics else None,
            regex=regex,
            rebalance_timeout_ms=config.rebalance_timeout_ms if is_full else -1,
            server_assignor=config.server_assignor if is_full else None,
            rack=config.rack if is_full else None,
            owned=owned,
            lags=lags if has_reason or (is_full and lags) else None,
            reason=member.reason or "" if has_reason else "",
            cause=_cause(member),
        )
    )
    member.in_flight, member.sent_ms = member.number, now_ms
    member.is_claiming = owned is not None
    member.said = now_says
    member.is_urgent = member.is_hurried = False
    member.reason_number = member.number if has_reason else member.reason_number
    member.session.heartbeat_ms = member.session.retry_ms = None
    if is_joining:
        member.reason = None
    elif member.state is ConsumerState.ACKNOWLEDGING:
        member.state = ConsumerState.STABLE if member.current == member.target else ConsumerState.RECONCILING


def _claimed(member: ConsumerStanding) -> IdPartitions:
    """Return what the member holds: also what it is giving up, and what it has been given and is taking over."""
    held = [each.partitions for each in (member.current, member.underway) if each is not None]
    if len(held) == 1 and member.underway is None:
        return held[0]
    return id_partitions(chain(member.owned_ids, *held))


def _cause(member: ConsumerStanding) -> str:
    if member.state is not ConsumerState.JOINING:
        return ""
    return "" if member.fenced_by is ErrorCode.NONE else f"it was put out by {member.fenced_by.name}"


def take_answer(member: ConsumerStanding, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
    """The heartbeat that is under way was answered."""
    member.in_flight = None
    if answer.error is ErrorCode.NONE:
        _take_success(member, answer, now_ms)
    else:
        _take_failure(member, answer, now_ms)


def _take_success(member: ConsumerStanding, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
    session = member.session
    member.is_claiming = False
    session.mark_heard(now_ms)
    session.heartbeat_ms = max(now_ms, member.sent_ms + max(answer.interval_ms, SHORTEST_INTERVAL_MS))
    member.epoch = answer.member_epoch
    member.is_join_unsure = False
    member.fenced_by = ErrorCode.NONE
    if member.reason is not None and member.reason_number == answer.number:
        member.reason = None
    if answer.text:
        # The group could not be given a new assignment; the one in force stays.
        member.do(effects.TellUser(ErrorCode.UNKNOWN_SERVER_ERROR, answer.text))
    assignment = answer.assignment
    if assignment is None and member.state is ConsumerState.JOINING:
        assignment = NOTHING
    if assignment is None or member.state is ConsumerState.PREPARE_LEAVING:
        return
    if member.target is None or member.target.partitions != assignment:
        member.target = Numbered(1 if member.target is None else member.target.number + 1, assignment)
    if member.current != member.target:
        member.state = ConsumerState.RECONCILING
    elif member.state in (ConsumerState.JOINING, ConsumerState.RECONCILING) and member.underway is None:
        member.state = ConsumerState.STABLE


def _take_failure(member: ConsumerStanding, answer: ConsumerHeartbeatAnswered, now_ms: int) -> None:
    error, session = answer.error, member.session
    is_joining = member.state is ConsumerState.JOINING
    # What the coordinator took of it is unknown, or nothing: the next one says everything.
    member.said = None
    session.heartbeat_ms = None
    match error:
        case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            session.wait_to_retry(now_ms)
        case _ if error in MOVED:
            member.is_join_unsure |= is_joining
            member.do(effects.Rediscover(error))
            session.wait_to_retry(now_ms)
        case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
            fence(member, error, now_ms)
            return
        case ErrorCode.UNRELEASED_INSTANCE_ID if is_joining and member.is_join_unsure:
            free_instance(member)
            session.wait_to_retry(now_ms)
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            # The member stays, and the right may be granted any time.
            member.do(effects.TellUser(error, answer.text or error.text))
            session.wait_to_retry(now_ms)
        case _:
            member.fail(error, answer.text)
            return
    session.heartbeat_ms = session.retry_ms
