"""The heartbeats of a member of the consumer protocol as messages, and the answers as inputs (KIP-848). Pure.

Lags and reasons are this project's extension, in tagged fields that other brokers ignore: only a broker that says it
understands them is sent any (`is_heard`).
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.member.effects import ConsumerHeartbeat, Lags
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import MemberConfig
from kohort.model.assignment import by_topic
from kohort.model.errors import error_for
from kohort.model.id_partitions import id_partitions
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

LEAVE_TIMEOUT_MS = 5_000
REGEX_VERSION = 1
"""The first version that takes an expression."""
SHORTEST_TIMEOUT_MS = 20_000
"""More than any interval of a group's (15 s at most), for which a broker may keep a heartbeat."""

TopicId = Callable[[str], bytes | None]
"""The id of a topic, None where the cluster has not shown it."""


def heartbeat_request(
    group_id: str, config: MemberConfig, effect: ConsumerHeartbeat, *, is_heard: bool, topic_id: TopicId
) -> ConsumerGroupHeartbeatRequest:
    """Return ConsumerGroupHeartbeat."""
    message = ConsumerGroupHeartbeatRequest
    return message(
        group_id=group_id,
        member_id=effect.member_id,
        member_epoch=effect.member_epoch,
        instance_id=config.instance_id,
        rack_id=effect.rack,
        rebalance_timeout_ms=effect.rebalance_timeout_ms,
        subscribed_topic_names=None if effect.topics is None else list(effect.topics),
        subscribed_topic_regex=effect.regex,
        server_assignor=effect.server_assignor,
        topic_partitions=None
        if effect.owned is None
        else [message.TopicPartition(topic_id=each, partitions=list(partitions)) for each, partitions in effect.owned],
        standby_lags=_lags(effect.lags, topic_id) if effect.lags is not None and is_heard else None,
        reason=effect.reason if effect.reason and is_heard else None,
        acceptable_recovery_lag=config.acceptable_recovery_lag if effect.lags is not None and is_heard else -1,
    )


def heartbeat_answered(effect: ConsumerHeartbeat, answer: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatAnswered:
    """Return what its answer says."""
    assignment = answer.assignment
    return ConsumerHeartbeatAnswered(
        effect.number,
        error_for(answer.error_code),
        answer.error_message,
        answer.member_epoch,
        answer.heartbeat_interval_ms,
        None
        if assignment is None
        else id_partitions((topic.topic_id, topic.partitions) for topic in assignment.topic_partitions),
    )


def _lags(lags: Lags, topic_id: TopicId) -> list[ConsumerGroupHeartbeatRequest.StandbyLag]:
    """Return the lags by topic id; those of topics that the cluster has not shown are left out."""
    topic, by_partition = ConsumerGroupHeartbeatRequest.StandbyLag, dict(lags)
    found = []
    for name, partitions in by_topic(by_partition).items():
        if (seen := topic_id(name)) is None:
            continue
        entries = [
            topic.Partition(partition_index=partition, lag=by_partition[name, partition])  # type: ignore[index]
            for partition in partitions
        ]
        found.append(topic(topic_id=seen, partitions=entries))
    return found
