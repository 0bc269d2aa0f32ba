"""What can be wrong with a heartbeat of the consumer protocol, whatever its group is (KIP-848)."""

from __future__ import annotations

from kohort.group.consumer.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerHeartbeat
from kohort.group.consumer.group import ConsumerMember
from kohort.group.consumer.reconcile import is_within
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import ErrorCode


def refused(error: ErrorCode, message: str) -> ConsumerHeartbeatResult:
    """Return the answer that says why a heartbeat did nothing."""
    return ConsumerHeartbeatResult(error, message)


def request_refusal(command: ConsumerHeartbeat, settings: GroupSettings) -> ConsumerHeartbeatResult | None:
    """Return the answer to a heartbeat that no group could take, or None."""
    wrong = _wrong_name(command) or _wrong_epoch(command)
    if wrong is not None:
        return refused(ErrorCode.INVALID_REQUEST, wrong)
    assignor = command.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        known = ", ".join(settings.assignors) or "none"
        return refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"assignor {assignor} is not known here; there are: {known}")
    return None


def _wrong_name(command: ConsumerHeartbeat) -> str | None:
    needs_member_id = command.api_version >= 1 or command.member_epoch != 0
    if not command.member_id and needs_member_id:
        return "the member id is empty"
    for name, value in (
        ("group id", command.group_id),
        ("instance id", command.instance_id),
        ("rack id", command.rack_id),
    ):
        if value == "":
            return f"the {name} is empty"
    return None


def _wrong_epoch(command: ConsumerHeartbeat) -> str | None:
    epoch = command.member_epoch
    if epoch < LEAVE_STATIC_EPOCH:
        return f"member epoch {epoch} means nothing"
    if epoch == LEAVE_STATIC_EPOCH and command.instance_id is None:
        return "a member that leaves for a while (epoch -2) must say its instance id"
    if epoch == 0:
        if command.rebalance_timeout_ms == -1:
            return "a member that joins (epoch 0) must say its rebalance timeout"
        if command.owned is None or command.owned:
            return "a member that joins (epoch 0) must say that it owns no partitions"
        if command.subscribed_topic_names is None and command.subscribed_topic_regex is None:
            return "a member that joins (epoch 0) must say what it subscribes to"
    return None


def is_leaving(command: ConsumerHeartbeat) -> bool:
    """Whether the sender goes, for good or for a while."""
    return command.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH)


def is_full(command: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat says everything, so that its sender may know nothing: it is told its whole assignment."""
    if command.member_epoch == 0:
        return True
    has_subscription = command.subscribed_topic_names is not None or command.subscribed_topic_regex is not None
    return command.rebalance_timeout_ms != -1 and has_subscription and command.owned is not None


def epoch_refusal(member: ConsumerMember, command: ConsumerHeartbeat) -> ConsumerHeartbeatResult | None:
    """Return the answer to a member that shows an epoch it cannot have, or None.

    The epoch before the member's own is good unless the sender owns more than it was granted: then the answer that
    told it the newer one was lost. Kafka fences who does not say what it owns; but whoever reached the newer epoch had
    given back what it had to, and is only told again.
    """
    shown, known = command.member_epoch, member.epoch
    if shown == known:
        return None
    is_possible = command.owned is None or is_within(command.owned, member.assigned)
    if shown < known and shown == member.previous_epoch and is_possible:
        return None
    text = f"member {member.member_id} shows epoch {shown} and has {known}: it must give up everything and join again"
    return refused(ErrorCode.FENCED_MEMBER_EPOCH, text)
