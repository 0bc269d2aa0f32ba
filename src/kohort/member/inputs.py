"""What happens to a member: its user's wishes, the coordinator's answers, callbacks that finished, time passing.

Plain values. An answer names the identity it was asked with (`asked_as`), because only an answer to the present
identity may change anything. A request that got no answer is answered NETWORK_EXCEPTION or REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kohort.assign.spec import MemberSpec, TopicSpec
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Assignment, IdPartitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswered:
    """The answer to the heartbeat of that number. `assignment` is None where it is what the member knows already."""

    number: int
    error: ErrorCode
    text: str | None = None
    member_epoch: int = 0
    interval_ms: int = 5_000
    assignment: IdPartitions | None = None


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The cluster's topics by id, as far as they concern the member; `gone` are ids that it reports not to exist."""

    names: Mapping[bytes, str] = field(default_factory=dict)
    gone: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class LagsReported:
    """The user reports how far each of its standby copies is behind."""

    lags: Mapping[TopicPartition, int]


ConsumerInput = ConsumerHeartbeatAnswered | TopicsSeen | LagsReported


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The user wants these topics from now on; with `matches`, any other topic too that it accepts (a pattern).

    `regex` is an expression that the broker of the consumer protocol resolves, where it can; `topics` are then those
    the client resolves it to, and `names` those that were wanted by name.
    """

    topics: tuple[str, ...]
    matches: Callable[[str], bool] | None = None
    regex: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PollEntered:
    """The user came for records: it is alive for as long as it waits here."""


@dataclass(frozen=True, slots=True)
class PollReturned:
    """The user went off with records and must be back within `max.poll.interval.ms`."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The user wants a rebalance, and gives the reason (`enforceRebalance`)."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The user is done. `leave` is whether to send LeaveGroup; None leaves unless the member is static."""

    reason: str
    leave: bool | None = None


@dataclass(frozen=True, slots=True)
class JoinAnswered:
    """JoinGroup's answer; `members` are there for the leader only."""

    asked_as: Identity
    error: ErrorCode
    generation: int = -1
    member_id: str = ""
    leader: str = ""
    protocol_name: str = ""
    members: Mapping[str, MemberSpec] = field(default_factory=dict)
    is_skip: bool = False


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    """SyncGroup's answer; `error_message` is there where the leader could not assign."""

    asked_as: Identity
    error: ErrorCode
    assignment: Assignment = field(default_factory=Assignment)
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """Heartbeat's answer."""

    asked_as: Identity
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """OffsetCommit's answer: a commit learns of a rebalance or a fencing as a heartbeat does."""

    asked_as: Identity
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswered:
    """LeaveGroup's answer, or the end of waiting for it."""

    asked_as: Identity
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Computed:
    """The leader's assignment, and the metadata of the group's topics that it was made from."""

    asked_as: Identity
    assignments: Mapping[str, Assignment]
    snapshot: Mapping[str, TopicSpec]


@dataclass(frozen=True, slots=True)
class ComputeFailed:
    """The leader could not make an assignment. `is_passed_on`: the broker passes the text on to the group."""

    asked_as: Identity
    text: str
    is_passed_on: bool = False


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The cluster's metadata is now this, for the topics asked about; `gone` are those it reports not to exist."""

    topics: Mapping[str, TopicSpec]
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CallbackFinished:
    """A callback returned or raised. `is_abandoned`: it never ran, so the partitions count as still owned."""

    callback: Callback
    is_abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; nothing else happened."""


Input = (
    Subscribed
    | PollEntered
    | PollReturned
    | RejoinRequested
    | CloseRequested
    | JoinAnswered
    | SyncAnswered
    | HeartbeatAnswered
    | CommitAnswered
    | LeaveAnswered
    | Computed
    | ComputeFailed
    | MetadataChanged
    | CallbackFinished
    | Tick
    | ConsumerInput
)
