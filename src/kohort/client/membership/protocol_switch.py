"""When a member of `group_protocol="auto"` goes from one group protocol to the other: a state machine and its probe."""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from typing import Literal

from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.member import ClassicMember, ConsumerMember
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.apis import Api
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger(__name__)

GroupProtocol = Literal["classic", "consumer", "auto"]
PROTOCOLS = ("classic", "consumer", "auto")

REFUSALS_OF_CONSUMER = frozenset(
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

_FEATURE = "group.version"
"""The feature that a cluster switches the consumer protocol on by (KIP-848)."""

_REFUSED_MOVE_FACTOR = 10
"""How many times longer the probe waits between two looks at a group that refused a member which moved."""


class SwitchState(StrEnum):
    """Which protocol the member speaks, and whether it is about to speak the other."""

    FIXED = "fixed"
    CONSUMER = "consumer"
    REFUSED = "refused"
    CLASSIC = "classic"
    MOVABLE = "movable"
    MOVING = "moving"


class SwitchAction(StrEnum):
    """What the membership must do next."""

    JOIN_CLASSIC = "join_classic"
    CLOSE_CLASSIC = "close_classic"
    JOIN_CONSUMER = "join_consumer"


class ProtocolSwitch:
    """The state machine. It sends nothing and knows no time.

        state      event                                         next       what the membership does
        CONSUMER   the broker refuses the protocol or the group  REFUSED    waits until the member owns nothing
        REFUSED    nothing is owned, no callback runs            CLASSIC    joins with a classic member
        CLASSIC    the probe finds that the group could move     MOVABLE    waits until the member is stable
        MOVABLE    stable, and the user is not closing it        MOVING     closes the classic member without LeaveGroup
        MOVING     the classic member is closed                  CONSUMER   joins with a consumer member of the same id

    It begins in CONSUMER. A move is a rolling bounce of one member: what it owns is revoked, and it joins under the id
    it has, so that the broker reserves its partitions for it. A moved member that is refused returns under that id too:
    the group would wait for it until its session ended. The probe looks every `protocol_check_ms`; where a move ended
    in REFUSED, ten times as seldom. With a fixed protocol the state is FIXED for ever.
    """

    def __init__(self, protocol: GroupProtocol) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol={protocol!r} is not one of {', '.join(PROTOCOLS)}")
        self.state = SwitchState.CONSUMER if protocol == "auto" else SwitchState.FIXED
        self.first: Literal["classic", "consumer"] = "classic" if protocol == "classic" else "consumer"
        """The protocol to begin in."""
        self.member_id = ""
        """The id that the group knows a moved member by: it joins with it, and returns with it if it is refused."""

    def is_solved_by_switch(self, code: ErrorCode) -> bool:
        """Return whether a member that failed with `code` continues in the other protocol; False where it is final."""
        if self.state is not SwitchState.CONSUMER or code not in REFUSALS_OF_CONSUMER:
            return False
        self.state = SwitchState.REFUSED
        return True

    @property
    def probe_factor(self) -> int:
        """How many times `protocol_check_ms` lie between two looks at the group."""
        return _REFUSED_MOVE_FACTOR if self.member_id else 1

    def mark_movable(self) -> None:
        """The broker would convert the group of this classic member."""
        assert self.state is SwitchState.CLASSIC, "the probe runs while the member is classic"
        self.state = SwitchState.MOVABLE

    def advance(self, member: ClassicMember | ConsumerMember, *, is_closing: bool) -> SwitchAction | None:
        """Return what is due now that the member has taken a step, or None."""
        match self.state:
            case SwitchState.CONSUMER if member.is_stable:
                self.member_id = ""
            case SwitchState.REFUSED if not member.owned and member.running is None:
                self.state = SwitchState.CLASSIC
                return SwitchAction.JOIN_CLASSIC
            case SwitchState.MOVABLE if member.is_stable and not is_closing:
                self.state, self.member_id = SwitchState.MOVING, member.identity.member_id
                return SwitchAction.CLOSE_CLASSIC
            case SwitchState.MOVING if member.is_closed:
                self.state = SwitchState.CONSUMER
                return SwitchAction.JOIN_CONSUMER
        return None


async def wait_until_movable(link: CoordinatorLink, check_ms: int) -> None:
    """Look every `check_ms` at what DescribeGroups shows of the group; return once the broker would convert it."""
    while True:
        # Spread: the members of a group that was refused need not all look at once.
        await asyncio.sleep(check_ms * (0.5 + link.cluster.random()) / 1000)
        try:
            if await _is_movable(link):
                return
        except (KafkaError, MalformedMessage) as error:
            log.info("group %s: could not read whether it may move to the consumer protocol: %s", link.group_id, error)


async def _is_movable(link: CoordinatorLink) -> bool:
    connection = await link.open()
    # A broker that does not serve the protocol announces its requests all the same, and refuses them.
    versions = connection.versions
    if not versions.supports(Api.CONSUMER_GROUP_HEARTBEAT) or not versions.is_enabled(_FEATURE):
        return False
    request = DescribeGroupsRequest(groups=[link.group_id])
    answer = await connection.call(request, timeout_ms=link.cluster.request_timeout_ms)
    [group] = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
        return True  # this member is in it, so the group exists: it is a consumer group already
    return not group.error_code and group.group_state == "Stable" and all(map(is_member_movable, group.members))


def is_member_movable(member: DescribeGroupsResponse.Group.Member) -> bool:
    """Return whether a group with this classic member may be converted, by KIP-848's conditions."""
    version = int.from_bytes(member.member_metadata[:2], "big", signed=True)
    return version >= LOWEST_EMBEDDED_VERSION and not decode_assignment(member.member_assignment).user_data
