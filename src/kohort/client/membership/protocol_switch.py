"""When a member of `group_protocol="auto"` goes from one group protocol to the other.

It begins in the consumer protocol. Where the broker does not serve that, or does not take this member there, it goes on
in the classic one, and looks from time to time whether it would be taken by now. It moves then as in a rolling bounce
of one member: what it owns is revoked, and it joins under the id it has, so that its partitions are kept for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.apis import Api
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse

log = logging.getLogger(__name__)

GroupProtocol = Literal["classic", "consumer", "auto"]
PROTOCOLS = ("classic", "consumer", "auto")

REFUSED_NATIVE = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    }
)
"""The broker does not serve the consumer protocol, or not to this group as it is."""

LOWEST_EMBEDDED_VERSION = 3
"""A group moves when all its members write this version of the embedded protocol, or a newer one (KIP-792)."""

_PATIENCE = 10


class Switching:
    """One member's protocol, and what has been tried."""

    def __init__(self, protocol: GroupProtocol, link: CoordinatorLink, check_ms: int) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol={protocol!r} is not one of {', '.join(PROTOCOLS)}")
        self.protocol = protocol
        self._link = link
        self._check_ms = check_ms
        self._refused: set[str] = set()

    @property
    def first(self) -> str:
        """The protocol to begin in."""
        return "classic" if self.protocol == "classic" else "consumer"

    @property
    def is_auto(self) -> bool:
        """Whether there is a choice at all."""
        return self.protocol == "auto"

    def instead(self, name: str, code: ErrorCode) -> str | None:
        """Return the protocol to go on in where `code` ended the member in this one; None where that is final."""
        if not self.is_auto or name in self._refused:
            return None
        if name == "consumer" and code in REFUSED_NATIVE:
            self._refused.add(name)
            return "classic"
        if name == "classic" and code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and "consumer" not in self._refused:
            self._refused.add(name)
            return "consumer"
        return None

    def settled(self, name: str) -> None:
        """Say that the member is taken in this protocol: what was refused before may be tried again."""
        if name == "consumer":
            self._refused.clear()

    def retry_native(self) -> None:
        """Say that the consumer protocol is to be tried again, once."""
        self._refused.discard("consumer")

    async def wait_for_native(self, *, was_refused: bool) -> None:
        """Return once the broker would take the group, as far as it can be seen from here."""
        waits_ms = self._check_ms * (_PATIENCE if was_refused else 1)
        while True:
            # Spread: the members of a group that was refused need not all come at once.
            await asyncio.sleep(waits_ms * (0.5 + self._link.cluster.random()) / 1000)
            try:
                if await self._is_native_welcome():
                    return
            except (KafkaError, MalformedMessage) as error:
                log.info("group %s: whether it may move to the consumer protocol: %s", self._link.group_id, error)

    async def _is_native_welcome(self) -> bool:
        connection = await self._link.open()
        if not connection.speaks(Api.CONSUMER_GROUP_HEARTBEAT):
            return False
        request = DescribeGroupsRequest(groups=[self._link.group_id])
        answer = await connection.call(request, timeout_ms=self._link.cluster.request_timeout_ms)
        [group] = answer.groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
            return True  # it is there, with this member in it: a group of the new type already
        return not group.error_code and group.group_state == "Stable" and all(map(_may_move, group.members))


def _may_move(member: DescribeGroupsResponse.Group.Member) -> bool:
    """Return whether a group with this classic member may be moved, by KIP-848's conditions."""
    version = int.from_bytes(member.member_metadata[:2], "big", signed=True)
    return version >= LOWEST_EMBEDDED_VERSION and not decode_assignment(member.member_assignment).user_data
