"""What a decision answers: group-level values, which `node/apis` turns into the replies of each API version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kohort.model.assignment import IdPartitions
from kohort.model.errors import ErrorCode


class JoinedMember(NamedTuple):
    """One member as the leader sees it: its metadata is that of the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True)
class Result:
    """The answer to a command of a client."""

    error: ErrorCode


@dataclass(slots=True)
class JoinResult(Result):
    """Answer to `Join`. Only the leader gets `members`, sorted by id; the protocol is None with an error."""

    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(slots=True)
class SyncResult(Result):
    """Answer to `Sync`: the member's assignment as the leader wrote it, or why there is none."""

    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    error_message: str | None = None


@dataclass(slots=True)
class HeartbeatResult(Result):
    """Answer to `Heartbeat`. `is_quiet`: it has nothing new, and will have nothing new until the group's next event."""

    is_quiet: bool = False


class LeftMember(NamedTuple):
    """What became of one entry of a LeaveGroup batch."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(slots=True)
class LeaveResult(Result):
    """Answer to `Leave`: one error for the request, one for each entry in the order of the request."""

    members: tuple[LeftMember, ...] = ()


@dataclass(slots=True)
class CommitResult(Result):
    """Answer to `CommitOffsets`: `error` is for every partition, `too_large` lists those with too much metadata."""

    too_large: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class DeleteOffsetsResult(Result):
    """Answer to `DeleteOffsets`: `subscribed` are the topics whose offsets stay because a member reads them."""

    subscribed: frozenset[str] = frozenset()


@dataclass(slots=True)
class DeleteGroupResult(Result):
    """Answer to `DeleteGroup`."""


@dataclass(slots=True)
class EpochHeartbeatResult(Result):
    """Answer to a heartbeat with a member epoch, of a consumer group or of a streams group.

    `is_quiet`: it has nothing new, and will have nothing new until the member is woken. `is_settling`: the member has
    something to do or to wait for, so its next heartbeat should come soon. `can_wait`: an answer that is quiet may be
    parked, since nothing that the member does would change it. `is_warming`: it has copies that catch up, and reports
    that. `target_due_ms`: when a delayed first target is due. `heartbeat_interval_ms` is the group's.
    """

    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    is_quiet: bool = False
    is_settling: bool = False
    can_wait: bool = True
    is_warming: bool = False
    target_due_ms: int = 0

    @property
    def keeps_interval(self) -> bool:
        """Whether its client takes the interval for more than the time of its next heartbeat."""
        return False


@dataclass(slots=True)
class ConsumerHeartbeatResult(EpochHeartbeatResult):
    """Answer to `ConsumerHeartbeat`. `assignment` is None when it is what the member knows already."""

    assignment: IdPartitions | None = None


def refused(error: ErrorCode, message: str) -> ConsumerHeartbeatResult:
    """Return the answer with the reason why a heartbeat did nothing."""
    return ConsumerHeartbeatResult(error, message)
