"""OffsetCommit: of a classic member it shows at which pace the member commits; its answer passes."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import CommitOffsets
from kohort.wire.messages import OffsetCommitRequest, OffsetCommitResponse


def command_of(message: OffsetCommitRequest, _version: int, _origin: RequestOrigin, _client_id: str) -> CommitOffsets:
    """Return what is of interest of a commit: who sends it."""
    generation = message.generation_id_or_member_epoch
    return CommitOffsets(message.group_id, message.member_id, message.group_instance_id, generation, [])


def request(connection: Connection, _exchange: Exchange, command: CommitOffsets, now_ms: int) -> bool:
    """Note the commit; it passes."""
    if (answers := connection.rooms.parked_answers) is not None:
        answers.committed(command, now_ms)
    return True


API = GroupApi(
    request_type=OffsetCommitRequest, response_type=OffsetCommitResponse, command_of=command_of, request=request
)
