"""The administrator of a world: changes topics, resets offsets, deletes groups, with the requests of real tools.

Each request is sent once, on a connection of its own; without a response it may have had its effect or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, End, Network
from kohort.sim.peers.client_kinds import ASSIGNORS
from kohort.wire.apis import Api, response_class
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.frames import FrameSplitter, decode_response, gather_request
from kohort.wire.message import Message, Value
from kohort.wire.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)

GROUP_RESOURCE = 32
SET = 0
LIMIT = 1 << 20
TIMEOUT_MS = 10_000

Answered = Callable[[str], None]
"""Called with the name of the error code, or with why there is no answer."""


@dataclass(eq=False)
class Operator:
    """One person with the admin tools. `where` answers the address of the node that lives."""

    host: Host
    network: Network
    where: Callable[[], Address | None]

    # -- what is asked

    def create_topic(self, name: str, partitions: int, answered: Answered) -> None:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
        self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7, answered)

    def grow_topic(self, name: str, partitions: int, answered: Answered) -> None:
        """Give a topic more partitions."""
        topic = CreatePartitionsRequest.Topic(name=name, count=partitions, assignments=None)
        self._ask(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 3, answered)

    def delete_topic(self, name: str, answered: Answered) -> None:
        self._ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS), 5, answered)

    def delete_offsets(self, group: str, topic: str, partitions: int, answered: Answered) -> None:
        """Delete what a group has committed of a topic."""
        parts = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in range(partitions)]
        topics = [OffsetDeleteRequest.Topic(name=topic, partitions=parts)]
        self._ask(OffsetDeleteRequest(group_id=group, topics=topics), 0, answered)

    def delete_group(self, group: str, answered: Answered) -> None:
        self._ask(DeleteGroupsRequest(groups_names=[group]), 2, answered)

    def reset_offsets(self, group: str, topic: str, partitions: int, answered: Answered) -> None:
        """Have a group read a topic from its beginning; a group with members refuses that."""
        parts = [
            OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=0)
            for index in range(partitions)
        ]
        topics = [OffsetCommitRequest.Topic(name=topic, partitions=parts)]
        self._ask(OffsetCommitRequest(group_id=group, topics=topics), 8, answered)

    def configure_group(self, group: str, name: str, value: str, answered: Answered) -> None:
        """Set one of a group's own settings."""
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=GROUP_RESOURCE,
            resource_name=group,
            configs=[IncrementalAlterConfigsRequest.Resource.Config(name=name, config_operation=SET, value=value)],
        )
        self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, answered)

    def expel(self, group: str, member_id: str, instance_id: str | None, answered: Answered) -> None:
        """Remove a member from its group, as an admin client does."""
        member = LeaveGroupRequest.Member(
            member_id="" if instance_id is not None else member_id,
            group_instance_id=instance_id,
            reason="removed by the operator",
        )
        self._ask(LeaveGroupRequest(group_id=group, members=[member]), 5, answered)

    def impersonate(self, group: str, member_id: str, topics: Sequence[str], answered: Answered) -> None:
        """Join under the id of a member as an instance that it is not: no tool does that, another program may."""
        metadata = encode_subscription(Subscription(tuple(topics)))
        protocols = [JoinGroupRequest.Protocol(name=name, metadata=metadata) for name in ASSIGNORS]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            group_instance_id="stranger",
            protocol_type="consumer",
            protocols=protocols,
        )
        self._ask(request, 5, answered)

    # -- how

    def _ask(self, request: Message, version: int, answered: Answered) -> None:
        address = self.where()
        if address is None:
            answered("no node")
            return
        splitter = FrameSplitter(LIMIT)
        kind = response_class(Api(request.API_KEY))

        def opened(end: End) -> None:
            def take(chunk: bytes) -> None:
                for frame in splitter.feed(chunk):
                    _, answer = decode_response(kind, version, frame)
                    end.close()
                    answered(ErrorCode(_first_error(answer)).name)

            end.on_bytes = take
            end.on_closed = answered
            end.send(b"".join(gather_request(request, version, 1, "admin")))

        self.network.connect(self.host, address, opened, answered)


def _first_error(answer: Any) -> int:
    """Return the error code of a response; where that is 0 or missing, of its first topic, group or partition."""
    code = getattr(answer, "error_code", 0)
    parts = (getattr(answer, name) for name in answer.__slots__)
    first = next((part[0] for part in parts if isinstance(part, list) and part), None)
    return code if code or not isinstance(first, Value) else _first_error(first)
