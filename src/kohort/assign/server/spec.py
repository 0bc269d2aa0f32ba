"""What a server-side assignor is given and what it must return: the target assignment of a consumer group (KIP-848).

Topics go by id and partitions in their canonical form (`model.assignment`), so that a target of thousands of
members is compared and stored without a detour over names. Pure: the same group always gives the same target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kohort.model.assignment import NOTHING, IdPartitions

NO_METADATA: Mapping[str, tuple[int, bytes]] = MappingProxyType({})

StandbyLags = tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...]
"""How far a member's standby copies are behind: (topic id, ((partition, lag in records), …)), all sorted."""


class ServerTopic(NamedTuple):
    """One topic. `racks` are those of each partition's replicas, empty where none is known."""

    name: str
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class ServerMember(NamedTuple):
    """One member, as an assignor sees it.

    `topics` are the ids of the topics it subscribes to, by name or by expression: one frozenset for all members that
    subscribe alike saves time. `previous` is its last target, which may have what no longer exists or is no longer
    subscribed to; `metadata` is what a classic member's client-side assignors sent, by assignor: (version -1, user
    data) (KIP-848); `lags` and `reason` are what a member of ours sends of its standby copies, and why, and
    `acceptable_recovery_lag` is how many records one may be behind to count as caught up, None where none was sent.
    """

    topics: frozenset[bytes]
    previous: IdPartitions = NOTHING
    instance_id: str | None = None
    rack: str | None = None
    metadata: Mapping[str, tuple[int, bytes]] = NO_METADATA
    lags: StandbyLags = ()
    reason: str = ""
    acceptable_recovery_lag: int | None = None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The members by id, and every topic that exists and that one of them subscribes to, by topic id.

    `is_homogeneous`: all members subscribe to the same topics.
    """

    members: Mapping[str, ServerMember]
    topics: Mapping[bytes, ServerTopic]
    is_homogeneous: bool


class ServerAssignor(Protocol):
    """A strategy of the coordinator; members vote for one by name (`group.remote.assignor`)."""

    @property
    def name(self) -> str:
        """Return the name that members ask for, such as `uniform`."""

    def assign(self, group: ServerGroup) -> Mapping[str, IdPartitions]:
        """Return the target of every member. Raises whatever it likes: the target in force then stays."""
