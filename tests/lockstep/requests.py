"""One step as the request that Kafka reads and the command that ours decides; and both answers in one form."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.lockstep.apache import Answered, text
from tests.lockstep.cases import SYNCED

from kohort.group.commands import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    Join,
    Leave,
    Leaving,
    OffsetToCommit,
    Sync,
)
from kohort.group.results import (
    CommitResult,
    ConsumerHeartbeatResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    Result,
    SyncResult,
)
from kohort.model.assignment import Assignment, IdPartitions, id_partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import parse_topic_id, topic_id_text
from kohort.wire.consumer_protocol import decode_assignment

HOST = "localhost/127.0.0.1"
"""How Kafka writes the address of the sender into its records."""

Answer = tuple[Any, ...]
"""A response in the form that is compared: the error first, then the fields of a response without one."""


class Asked(NamedTuple):
    """A request for both sides. `theirs` is what Kafka reads, `ours` the command; its argument is a new member's id."""

    op: str
    group_id: str
    version: int
    client_id: str
    theirs: dict[str, Any]
    ours: Callable[[str], Any]
    makes_id: bool = False


def join(
    group_id: str,
    client_id: str,
    version: int,
    member_id: str,
    instance_id: str | None,
    timeouts: tuple[int, int],
    protocol_type: str,
    protocols: tuple[tuple[str, bytes], ...],
    reason: str,
) -> Asked:
    """Return a JoinGroup."""
    session_ms, rebalance_ms = timeouts
    instance_id = instance_id if version >= 5 else None
    theirs: dict[str, Any] = {
        "groupId": group_id,
        "sessionTimeoutMs": session_ms,
        "rebalanceTimeoutMs": rebalance_ms,
        "memberId": member_id,
        "protocolType": protocol_type,
        "protocols": [{"name": name, "metadata": text(metadata)} for name, metadata in protocols],
    }
    if version >= 5:
        theirs["groupInstanceId"] = instance_id
    if version >= 8:
        theirs["reason"] = reason

    def ours(new_member_id: str) -> Join:
        return Join(
            group_id,
            member_id,
            instance_id,
            client_id,
            HOST,
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols,
            "" if member_id else new_member_id,
            reason if version >= 8 else "",
            is_two_step=version >= 4,
            can_skip_assignment=version >= 9,
        )

    return Asked("join", group_id, version, client_id, theirs, ours, makes_id=not member_id)


def sync(
    group_id: str,
    client_id: str,
    member_id: str,
    instance_id: str | None,
    generations: list[int],
    protocol: tuple[str, str],
    assignments: tuple[tuple[str, bytes], ...],
) -> Asked:
    """Return a SyncGroup."""
    theirs = {
        "groupId": group_id,
        "generationId": generations[0],
        "memberId": member_id,
        "groupInstanceId": instance_id,
        "protocolType": protocol[0],
        "protocolName": protocol[1],
        "assignments": [{"memberId": each, "assignment": text(assignment)} for each, assignment in assignments],
    }
    command = Sync(group_id, member_id, instance_id, generations[1], *protocol, assignments)
    return Asked("sync", group_id, 5, client_id, theirs, lambda _: command)


def heartbeat(group_id: str, client_id: str, member_id: str, instance_id: str | None, generations: list[int]) -> Asked:
    """Return a Heartbeat."""
    theirs = {
        "groupId": group_id,
        "generationId": generations[0],
        "memberId": member_id,
        "groupInstanceId": instance_id,
    }
    command = Heartbeat(group_id, member_id, instance_id, generations[1])
    return Asked("heartbeat", group_id, 4, client_id, theirs, lambda _: command)


def leave(group_id: str, members: list[tuple[str, str | None]]) -> Asked:
    """Return a LeaveGroup."""
    listed = [{"memberId": member, "groupInstanceId": instance, "reason": ""} for member, instance in members]
    command = Leave(group_id, tuple(Leaving(member, instance) for member, instance in members))
    return Asked("leave", group_id, 5, "admin", {"groupId": group_id, "members": listed}, lambda _: command)


def commit(
    group_id: str,
    client_id: str,
    version: int,
    member_id: str,
    instance_id: str | None,
    epochs: list[int],
    offsets: list[OffsetToCommit],
    retention_ms: int,
) -> Asked:
    """Return an OffsetCommit."""
    theirs = {
        "groupId": group_id,
        "memberId": member_id,
        "instanceId": instance_id,
        "epoch": epochs[0],
        "retentionMs": retention_ms,
        "offsets": [
            [each.topic, topic_id_text(each.topic_id), each.partition, each.offset, each.leader_epoch, each.metadata]
            for each in offsets
        ],
    }
    command = CommitOffsets(group_id, member_id, instance_id, epochs[1], offsets, retention_ms, version >= 9)
    return Asked("commit", group_id, version, client_id, theirs, lambda _: command)


def delete_offsets(group_id: str, partitions: list[tuple[str, int]]) -> Asked:
    """Return an OffsetDelete."""
    topics = [{"name": name, "partitions": [{"partitionIndex": index}]} for name, index in partitions]
    command = DeleteOffsets(group_id, tuple(partitions))
    return Asked("delete-offsets", group_id, 0, "admin", {"groupId": group_id, "topics": topics}, lambda _: command)


def delete_group(group_id: str) -> Asked:
    """Return a DeleteGroups of one group."""
    return Asked("delete-group", group_id, 2, "admin", {}, lambda _: DeleteGroup(group_id))


def consumer(
    group_id: str,
    client_id: str,
    member_id: str,
    epochs: list[int],
    given: dict[str, Any],
    owned: list[IdPartitions] | None,
    version: int = 1,
) -> Asked:
    """Return a ConsumerGroupHeartbeat; `given` holds further fields, by the names of our command."""
    theirs: dict[str, Any] = {
        "groupId": group_id,
        "memberId": member_id,
        "memberEpoch": epochs[0],
        "instanceId": given.get("instance_id"),
        "rackId": given.get("rack_id"),
        "rebalanceTimeoutMs": given.get("rebalance_timeout_ms", -1),
        "subscribedTopicNames": given.get("subscribed_topic_names"),
        "subscribedTopicRegex": given.get("subscribed_topic_regex"),
        "serverAssignor": given.get("server_assignor"),
        "topicPartitions": None
        if owned is None
        else [{"topicId": topic_id_text(topic_id), "partitions": list(numbers)} for topic_id, numbers in owned[0]],
    }
    if version == 0:
        del theirs["subscribedTopicRegex"]
    names = given.get("subscribed_topic_names")
    fields = {**given, "subscribed_topic_names": None if names is None else tuple(sorted(set(names)))}

    def ours(new_member_id: str) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            group_id,
            member_id,
            epochs[1],
            **fields,
            owned=None if owned is None else owned[1],
            client_id=client_id,
            client_host=HOST,
            new_member_id="" if member_id else new_member_id,
            api_version=version,
        )

    return Asked("consumer", group_id, version, client_id, theirs, ours, makes_id=not member_id)


# -- answers in one form


def their_answer(asked: Asked, answered: Answered) -> Answer:
    """Return what Kafka answered."""
    response, thrown = answered
    if thrown is not None and asked.op == "leave":
        # What the shard throws the service says of each member.
        return (0, tuple((each.member_id, each.instance_id, thrown) for each in asked.ours("").members))
    if thrown is not None:
        return (thrown,)
    error = response.get("errorCode", 0)
    match asked.op:
        case "join":
            members = sorted(
                (each["memberId"], each.get("groupInstanceId"), each["metadata"]) for each in response["members"]
            )
            head = (error, response["memberId"])
            rest = (
                response["generationId"],
                response.get("protocolType"),
                response["protocolName"] or None,
                response["leader"],
                tuple(members),
                response.get("skipAssignment", False),
            )
            return head if error else head + rest
        case "sync":
            return (
                (error,)
                if error
                else (error, response["protocolType"], response["protocolName"], response["assignment"])
            )
        case "leave":
            return (
                error,
                tuple((each["memberId"], each["groupInstanceId"], each["errorCode"]) for each in response["members"]),
            )
        case "commit":
            return _whole(
                [(t["name"], p["partitionIndex"], p["errorCode"]) for t in response["topics"] for p in t["partitions"]]
            )
        case "delete-offsets":
            errors = [
                (t["name"], p["partitionIndex"], p["errorCode"]) for t in response["topics"] for p in t["partitions"]
            ]
            return (error, tuple(sorted(errors)))
        case "delete-group":
            return (response["results"][0]["errorCode"],)
        case "consumer":
            assignment = response["assignment"]
            held = None
            if assignment is not None:
                topics = assignment["topicPartitions"]
                held = id_partitions((parse_topic_id(each["topicId"]), each["partitions"]) for each in topics)
            return (error, response["memberId"], response["memberEpoch"], response["heartbeatIntervalMs"], held)
        case "fetch":
            return (error, tuple(sorted(map(tuple, response["offsets"]))))
        case _:
            return (error,)


def _whole(errors: list[tuple[str, int, int]]) -> Answer:
    return (0, tuple(sorted(errors)))


def our_answer(asked: Asked, result: Result) -> Answer:
    """Return what ours answered."""
    error = int(result.error)
    match result:
        case JoinResult():
            members = tuple(sorted((each.member_id, each.instance_id, text(each.metadata)) for each in result.members))
            if asked.version < 5:
                members = tuple((member_id, None, metadata) for member_id, _, metadata in members)
            head = (error, result.member_id)
            rest = (
                result.generation,
                result.protocol_type if asked.version >= 7 else None,
                result.protocol_name or None,
                result.leader,
                members,
                result.skip_assignment if asked.version >= 9 else False,
            )
            return head if error else head + rest
        case SyncResult():
            return (error,) if error else (error, result.protocol_type, result.protocol_name, text(result.assignment))
        case LeaveResult():
            return (error, tuple((each.member_id, each.instance_id, int(each.error)) for each in result.members))
        case CommitResult() if error == ErrorCode.GROUP_ID_NOT_FOUND and asked.version < 9:
            return (int(ErrorCode.ILLEGAL_GENERATION),)  # as node/apis says it to those versions
        case CommitResult() if error:
            return (error,)
        case CommitResult():
            command = asked.ours("")
            assert isinstance(command, CommitOffsets)
            return _whole(
                [
                    (each.topic, each.partition, 12 if (each.topic, each.partition) in result.too_large else 0)
                    for each in command.offsets
                ]
            )
        case DeleteOffsetsResult() if error:
            return (error,)
        case DeleteOffsetsResult():
            partitions = asked.ours("").partitions
            return (
                0,
                tuple(sorted((topic, index, 86 if topic in result.subscribed else 0) for topic, index in partitions)),
            )
        case ConsumerHeartbeatResult():
            if error:
                return (error,)
            return (error, result.member_id, result.member_epoch, result.heartbeat_interval_ms, result.assignment)
        case HeartbeatResult() | DeleteGroupResult():
            return (error,)
        case _:
            raise AssertionError(result)


def are_alike(theirs: Answer | None, ours_: Answer | None) -> bool:
    """Whether two answers are the same. What Kafka throws has no fields beside the error."""
    if theirs is not None and ours_ is not None and len(theirs) == 1 and theirs[0]:
        return bool(theirs[0] == ours_[0])
    if theirs != ours_ and theirs is not None and ours_ is not None and len(theirs) == len(ours_) == SYNCED:
        # Kafka leaves the order of topics in an assignment to a hash map.
        return theirs[:3] == ours_[:3] and bool(_assigned(theirs) == _assigned(ours_))
    return theirs == ours_


def _assigned(synced: Answer) -> Assignment:
    return decode_assignment(base64.b64decode(synced[3]))
