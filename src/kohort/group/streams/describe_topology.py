"""StreamsGroupTopologyDescriptionUpdate (KIP-1331): a member uploads the description that a heartbeat asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.group.commands import GroupCommand
from kohort.group.effects import Effects, Note, Reply
from kohort.group.results import Result
from kohort.group.streams.description import KnownDescription
from kohort.group.streams.events import TopologyDescribed
from kohort.group.streams.group import StreamsGroup
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.topology_description import TopologyDescription


@dataclass(slots=True)
class DescribeTopology(GroupCommand):
    """The upload of a description; `refusal` is why its node does not take it."""

    member_id: str
    topology_epoch: int
    graph: TopologyDescription
    refusal: str = ""


@dataclass(slots=True)
class DescribeTopologyResult(Result):
    """Answer to `DescribeTopology`."""

    error_message: str | None = None


def decide_description(group: StreamsGroup, command: DescribeTopology, now_ms: int) -> Effects:
    """Take the description of the group's topology from one of its members. What is refused is not asked for again."""
    member_id = command.member_id
    if group.is_dead:
        yield Reply(DescribeTopologyResult(ErrorCode.NOT_COORDINATOR))
    elif member_id not in group.members:
        text = f"Member {member_id} is not a member of group {command.group_id}."
        yield Reply(DescribeTopologyResult(ErrorCode.UNKNOWN_MEMBER_ID, text))
    elif group.topology is None or command.topology_epoch != group.topology.epoch:
        known = "none" if group.topology is None else group.topology.epoch
        text = f"Topology epoch {command.topology_epoch} was described, the epoch of the group's topology is {known}."
        yield Reply(DescribeTopologyResult(ErrorCode.INVALID_REQUEST, text))
    else:
        is_refused = bool(command.refusal)
        found = KnownDescription(None if is_refused else command.graph, is_refused)
        yield Note(TopologyDescribed(group.group_id, found, Cause(CauseKind.TOPOLOGY_DESCRIBED, now_ms, member_id)))
        error = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED if is_refused else ErrorCode.NONE
        yield Reply(DescribeTopologyResult(error, command.refusal or None))
