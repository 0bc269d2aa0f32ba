"""From an API key to the module that reads it, and how requests and answers of other instances are read."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.gateway.apis import (
    k08_offset_commit,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k18_api_versions,
    k36_sasl_authenticate,
    k68_consumer_group_heartbeat,
    k76_share_group_heartbeat,
    k88_streams_group_heartbeat,
)
from kohort.gateway.apis.api import ConnectionApi, GroupApi, OriginElsewhere
from kohort.gateway.apis.connection_state import Command
from kohort.gateway.observing.epoch_heartbeats import EpochResult
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.frame_cutter import LENGTH_BYTES
from kohort.gateway.relay.relay import RequestHead
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.codec import Buffer, decode
from kohort.wire.frames import decode_request_header, decode_response

GROUP_APIS: Mapping[int, GroupApi] = {
    Api.OFFSET_COMMIT: k08_offset_commit.API,
    Api.JOIN_GROUP: k11_join_group.API,
    Api.HEARTBEAT: k12_heartbeat.API,
    Api.LEAVE_GROUP: k13_leave_group.API,
    Api.SYNC_GROUP: k14_sync_group.API,
    Api.CONSUMER_GROUP_HEARTBEAT: k68_consumer_group_heartbeat.API,
    Api.SHARE_GROUP_HEARTBEAT: k76_share_group_heartbeat.API,
    Api.STREAMS_GROUP_HEARTBEAT: k88_streams_group_heartbeat.API,
}

APIS: Mapping[int, GroupApi | ConnectionApi] = {
    **GROUP_APIS,
    Api.API_VERSIONS: k18_api_versions.API,
    Api.SASL_AUTHENTICATE: k36_sasl_authenticate.API,
}
"""All that are read."""


def reads(head: RequestHead) -> bool:
    """Whether a request is about a group, and its version known to the codec."""
    return head.api_key in GROUP_APIS and head.api_version in VERSIONS[Api(head.api_key)]


def read_command(head: RequestHead, frame: Buffer, client_host: str, software: str) -> Command:
    """Return what a request that `reads` asks of its group. Raises MalformedMessage."""
    api = GROUP_APIS[head.api_key]
    body = memoryview(frame)[LENGTH_BYTES:]
    header, position = decode_request_header(body)
    message, _ = decode(api.request_type, head.api_version, body, position)
    origin = OriginElsewhere(client_host, software)
    return api.command_of(message, head.api_version, origin, header.client_id or "")


def observe_request(groups: ObservedGroups, head: RequestHead, command: Command, now_ms: int) -> None:
    """Have a request change the groups."""
    observe = GROUP_APIS[head.api_key].observe_request
    if observe is not None:
        observe(groups, command, now_ms)


def observe_answer(
    groups: ObservedGroups, head: RequestHead, command: Command, frame: Buffer, now_ms: int
) -> EpochResult | None:
    """Have an answer change the groups; return what one to a heartbeat with an epoch has. Raises MalformedMessage."""
    api = GROUP_APIS[head.api_key]
    _, message = decode_response(api.response_type, head.api_version, memoryview(frame)[LENGTH_BYTES:])
    found = None
    if api.observe_answer is not None:
        found = api.observe_answer(groups, command, message, head.api_version, now_ms)
    return found if isinstance(found, EpochResult) else None


def abandon_request(groups: ObservedGroups, head: RequestHead, command: object, now_ms: int) -> None:
    """Note that what a request was answered is not known, and will not be."""
    api = APIS[head.api_key]
    if command is not None and isinstance(api, GroupApi) and api.abandon is not None:
        api.abandon(groups, command, now_ms)
