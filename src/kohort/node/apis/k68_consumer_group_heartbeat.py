"""ConsumerGroupHeartbeat: join, leave, stay in and acknowledge, all in one (KIP-848).

v1 adds SubscribedTopicRegex, and has clients make their member ids. Tagged fields 27500 to 27502 are ours: the lags of
a member's standby copies, why it sends this heartbeat, and the lag it accepts; other brokers and clients ignore them.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode

from kohort.assign.server.spec import StandbyLags
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult, Result
from kohort.model.assignment import id_partitions
from kohort.model.cause import MAX_REASON_LENGTH
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.parking.limits import EPOCH_MARGIN_MS, OTHERS_MARGIN_MS
from kohort.parking.parked_heartbeat import Follower
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_Assignment = ConsumerGroupHeartbeatResponse.Assignment


def consumer_group_heartbeat(
    context: ApiContext, request: Request, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | None:
    """Pass the heartbeat to the member's group, where it may be parked."""
    if "consumer" not in context.config.group_coordinator_rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_ENABLED)
    command = heartbeat_command(
        message,
        request.api_version,
        request.client_id or "",
        request.peer_host,
        request.connection.client_software.name,
    )
    if not message.member_id:
        command.new_member_id = _new_id(context.random_bytes(16))
    if message.standby_lags is not None:
        command.lags = _lags_of(message)
    if message.reason is not None:
        command.reason = message.reason[:MAX_REASON_LENGTH]
    if message.acceptable_recovery_lag >= 0:
        command.acceptable_recovery_lag = message.acceptable_recovery_lag

    if context.access.authorizer is not None:
        has_expression = bool(message.subscribed_topic_regex)
        context.coordinator.note_sender(message.group_id, request.connection, has_expression=has_expression)

    def ticket(result: Result) -> None:
        assert isinstance(result, ConsumerHeartbeatResult), "a heartbeat is answered by a heartbeat's result"
        request.reply(_response(result))

    parked = context.coordinator.epoch_heartbeat(command, ticket)
    if parked is not None:
        request.park(lambda _, now_ms: parked.followed(Follower.OTHER, now_ms), parked.drop)
    return None


def heartbeat_command(
    message: ConsumerGroupHeartbeatRequest, version: int, client_id: str, peer_host: str, software: str
) -> ConsumerHeartbeat:
    """Return what a heartbeat requests of its group, without our own fields and without a new member's id."""
    names, owned = message.subscribed_topic_names, message.topic_partitions
    return ConsumerHeartbeat(
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.instance_id,
        message.rack_id,
        message.rebalance_timeout_ms,
        None if names is None else tuple(sorted(set(names))),
        message.subscribed_topic_regex,
        message.server_assignor,
        None if owned is None else id_partitions((each.topic_id, each.partitions) for each in owned),
        client_id,
        f"/{peer_host}",
        api_version=version,
        margin_ms=EPOCH_MARGIN_MS.get(software, OTHERS_MARGIN_MS),
    )


_NOT_ENABLED = "The consumer protocol is not enabled here: `consumer` is not in group.coordinator.rebalance.protocols."


def _response(result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
    )
    if result.assignment is not None:
        topic = _Assignment.TopicPartition
        response.assignment = _Assignment(
            topic_partitions=[topic(topic_id=each, partitions=list(numbers)) for each, numbers in result.assignment]
        )
    return response


def _lags_of(message: ConsumerGroupHeartbeatRequest) -> StandbyLags:
    """Return the lags of a message in order; of a partition that is named twice, the last counts."""
    found: dict[bytes, dict[int, int]] = {}
    for topic in message.standby_lags or ():
        partitions = found.setdefault(topic.topic_id, {})
        partitions.update((each.partition_index, each.lag) for each in topic.partitions)
    return tuple((topic_id, tuple(sorted(found[topic_id].items()))) for topic_id in sorted(found))


def _new_id(random: bytes) -> str:
    """Return a member id as Kafka makes one: a UUID in base64."""
    return urlsafe_b64encode(random).decode().rstrip("=")
