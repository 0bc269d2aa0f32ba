"""One round of a classic member: prepare, join, assign where it leads, sync, give up and take over.

Preparation runs once for each round and subscription, however many JoinGroup attempts that takes. What is left of an
old assignment when the new one comes is the strategy's arithmetic; between the two, partitions that stay are never
touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.assign.spec import TopicSpec
from kohort.assign.user_data import assignment_error, without_error
from kohort.member import effects, inputs
from kohort.member.classic_state import Standing
from kohort.member.classic_triggers import SUBSCRIPTION_CHANGED, lost_to_deletion, watch_metadata
from kohort.member.effects import Callback
from kohort.member.identity import NO_GENERATION, NOBODY, Identity
from kohort.member.member_state import MOVED, State
from kohort.member.rebalance_strategy import offer
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.reason import JoinReason

NOT_MATCHING = "received assignment does not match the current subscription"
SECOND_ROUND = "need to revoke partitions and re-join"


def prepare(member: Standing) -> None:
    """Run the callback that stands before JoinGroup, if there is one, else join."""
    cause = member.rejoin or ""
    if not member.identity.is_valid:
        if member.owned:
            _run_before_join(member, Callback.LOST, member.owned, cause)
            return
    elif lost := lost_to_deletion(member, is_joining=True):
        member.missing |= lost
        _run_before_join(member, Callback.LOST, lost, "they no longer exist")
        return
    else:
        revoked = member.strategy.revoked_before_join(member.owned, member.topics)
        # Prepared once, there is more only where the subscription has changed since.
        if revoked or (revoked is not None and not member.is_prepared):
            member.is_prepared = True
            _run_before_join(member, Callback.REVOKED, revoked, cause)
            return
    member.is_prepared = True
    _join(member)


def _run_before_join(member: Standing, callback: Callback, partitions: Partitions, cause: str) -> None:
    member.state = State.PREPARING
    member.run(callback, partitions, cause)


def _join(member: Standing) -> None:
    member.state = State.JOINING
    member.joined_topics = member.topics
    member.request = None
    member.session.rejoin_ms = None
    try:
        protocols = offer(member.assignors.values(), member.topics, member.owned, member.identity, member.config.rack)
    except Exception as error:  # an assignor may be anybody's code
        text = f"an assignor of this member could not make its user data: {type(error).__name__}: {error}"
        member.fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    else:
        member.do(effects.Join(member.identity, protocols, member.rejoin or ""))


def take_join(member: Standing, answer: inputs.JoinAnswered, now_ms: int) -> None:
    """JoinGroup was answered."""
    match answer.error:
        case ErrorCode.NONE:
            if not (answer.is_skip and answer.generation == member.identity.generation):
                # Else it is the leader of before, and what it has assigned from is still to be compared.
                member.snapshot = None
            member.identity = Identity(answer.generation, answer.member_id)
            member.protocol_name = answer.protocol_name
            member.is_leader = answer.leader == answer.member_id
            member.session.open(now_ms)
            if member.is_leader:
                member.state = State.ASSIGNING
                subscriptions = [each.subscription for each in answer.members.values()]
                member.group_topics = frozenset(topic for each in subscriptions for topic in each.topics)
                member.is_group_rack_aware = any(each.rack for each in subscriptions)
                member.do(effects.Compute(member.identity, answer.protocol_name, answer.members, answer.is_skip))
            else:
                _sync(member, {})
        case ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the same join again, for the same reason, now under the id that was given.
            member.identity = Identity(NO_GENERATION, answer.member_id)
            if member.owned:
                # A coordinator that gives a member of a generation a new id does not know what it owned.
                member.state = State.UNJOINED
            else:
                _join(member)
        case _:
            _retry_round(member, answer.error, now_ms, is_join=True)


def take_computed(member: Standing, event: inputs.Computed) -> None:
    """The leader's assignor has an answer."""
    member.metadata = event.snapshot
    if member.snapshot is None:
        member.snapshot = event.snapshot
    _sync(member, event.assignments)


def take_failure(member: Standing, event: inputs.ComputeFailed) -> None:
    """The leader's assignor has none: tell the group through SyncGroup where the broker passes that on, else leave."""
    if event.is_told:
        _sync(member, {}, failure=event.text)
        return
    member.leave("the leader could not assign")
    member.identity = NOBODY
    text = f"this member leads the group and could not assign: {event.text}"
    member.fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def _sync(member: Standing, assignments: Mapping[str, Assignment], failure: str | None = None) -> None:
    member.state = State.SYNCING
    member.session.retry_ms = None
    member.is_sync_repeated = False
    member.sync = effects.Sync(member.identity, member.protocol_name, assignments, failure)
    member.do(member.sync)


def sync_again(member: Standing) -> None:
    """Send the same SyncGroup again.

    Where the coordinator has stored the assignment, it answers with the member's part of it; where it has not, it takes
    the leader's assignment from this request.
    """
    assert member.sync is not None, "what is sent again was sent"
    member.session.retry_ms = None
    member.is_sync_repeated = True
    member.do(member.sync)


def take_sync(member: Standing, answer: inputs.SyncAnswered, now_ms: int) -> None:
    """SyncGroup was answered."""
    if answer.error in MOVED or answer.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Whether the coordinator took the assignment before it failed is for the next SyncGroup to find out.
        if answer.error in MOVED:
            member.do(effects.Rediscover(answer.error))
        member.session.wait_to_retry(now_ms)
        return
    if answer.error is ErrorCode.ILLEGAL_GENERATION and member.is_sync_repeated:
        # It has forgotten the generation with the assignment, and not the member: nothing was given to others.
        member.failed_rebalances += 1
        member.state = State.UNJOINED
        member.session.end()
        member.rejoin, member.is_rejoin_forced = JoinReason.BLIND, False
        return
    if answer.error is not ErrorCode.NONE:
        if answer.error_message is not None:
            _take_failed_assignment(member, answer, now_ms)
        else:
            _retry_round(member, answer.error, now_ms)
        return
    session = member.session
    session.mark_heard(now_ms)
    session.retry_ms = None
    member.rejoin, member.is_rejoin_forced, member.is_prepared = None, False, False
    member.rebalances += 1
    _take_error(member, answer.assignment, now_ms)
    if not _is_wanted(member, answer.assignment.partitions):
        settle(member, NOT_MATCHING)
        return
    transition = member.strategy.transition(member.owned, answer.assignment.partitions)
    member.received = Assignment(answer.assignment.partitions, without_error(answer.assignment.user_data))
    member.is_second_round_due = transition.is_rejoin
    # This round was joined without them, so whoever leads has dealt with them; asking again would never end.
    member.missing = frozenset()
    member.state = State.COMPLETING
    if transition.revoked:
        member.run(Callback.REVOKED, transition.revoked, "the new assignment gives them to another member")
    else:
        _take_over(member)


def _is_wanted(member: Standing, assigned: Partitions) -> bool:
    """Return whether the assignment is about topics that the user wants."""
    others = tuple(sorted({topic for topic, _ in assigned} - set(member.topics)))
    if others and member.matches is not None and all(map(member.matches, others)):
        # The leader has seen topics that match the pattern and that this member has not met yet.
        member.topics += others
        member.joined_topics += others
        return True
    return not others


def _take_error(member: Standing, assignment: Assignment, now_ms: int) -> None:
    """Note what the leader says about this group, and look again some time later whether it still says so."""
    member.assignment_error = assignment_error(assignment.user_data)
    if member.assignment_error is None:
        member.session.end_bad_rounds()
    else:
        member.session.rejoin_ms = member.session.wait_after_bad_round(now_ms)


def _take_failed_assignment(member: Standing, answer: inputs.SyncAnswered, now_ms: int) -> None:
    """The leader could not assign and everybody is told: say so, and join the next round a little later."""
    member.failed_rebalances += 1
    member.state = State.UNJOINED
    member.rejoin, member.is_rejoin_forced = "the leader could not assign", False
    member.session.end()
    member.session.retry_ms = member.session.wait_after_bad_round(now_ms)
    member.do(effects.TellUser(answer.error, answer.error_message or ""))


def _retry_round(member: Standing, error: ErrorCode, now_ms: int, *, is_join: bool = False) -> None:
    """JoinGroup or SyncGroup failed: the round starts again, at once or later, or the member ends here."""
    member.failed_rebalances += 1
    member.state = State.UNJOINED
    member.session.end()
    if not (is_join and member.is_rejoin_forced and error is not ErrorCode.UNKNOWN_MEMBER_ID):
        # Whether the coordinator took what it did not answer is unknown, and nothing has changed here since.
        member.rejoin = JoinReason.BLIND if error in MOVED else f"rebalance failed due to {error.name}"
        member.is_rejoin_forced = False
    if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        member.forget(error)
    elif error in MOVED:
        member.do(effects.Rediscover(error))
    elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        member.fail(error)
        return
    is_waiting = error in MOVED or error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    member.session.wait_to_retry(now_ms, is_first_at_once=not is_waiting)


def finish_callback(member: Standing, callback: Callback, is_abandoned: bool, now_ms: int) -> None:
    """A callback is over; go on where it stood in the way."""
    del now_ms
    if member.running is None or member.running[0] is not callback:
        return
    partitions = member.running[1]
    member.running = None
    if callback is not Callback.ASSIGNED and not is_abandoned:
        member.owned -= partitions
    match member.state:
        case State.PREPARING:
            member.is_prepared = member.is_prepared and not is_abandoned
            member.state = State.UNJOINED
            member.session.retry_ms = None
        case State.COMPLETING | State.STABLE if not member.identity.is_valid:
            member.state = State.UNJOINED
        case State.COMPLETING if member.closing is not None:
            pass  # nothing new is taken over by a member that gives all up
        case State.COMPLETING if callback is Callback.REVOKED:
            _take_over(member)
        case State.COMPLETING:
            settle(member, SECOND_ROUND if member.is_second_round_due else None)
        case State.STABLE:
            settle(member, None)
        case _:
            pass  # leaving goes on with what is still owned


def _take_over(member: Standing) -> None:
    member.do(effects.OnAssignment(member.protocol_name, member.received, member.identity.generation))
    added = member.received.partitions - member.owned
    member.owned |= added
    _believe_leader(member, added)
    member.run(Callback.ASSIGNED, added, f"generation {member.identity.generation}")


def _believe_leader(member: Standing, added: Partitions) -> None:
    """The leader has seen these partitions; only what is heard from now on can say that they are no more."""
    topics = {topic for topic, _ in added}
    member.absent_topics -= topics
    member.gone_topics -= topics
    grown: dict[str, TopicSpec] = {}
    for topic, partition in sorted(added):
        spec = grown.get(topic) or member.metadata.get(topic)
        if spec is not None and partition >= spec.partitions:
            grown[topic] = TopicSpec(partition + 1)
    if grown:
        member.metadata = {**member.metadata, **grown}


def settle(member: Standing, rejoin: str | None) -> None:
    """The round is over; see whether the next one is due already."""
    member.state = State.STABLE
    if rejoin is not None:
        member.want(rejoin)
    if member.is_subscription_new:
        member.want(SUBSCRIPTION_CHANGED)
    if member.request is not None:
        member.want(member.request, is_forced=True)
    watch_metadata(member)
