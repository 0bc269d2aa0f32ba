"""Policies: for which groups, clients and protocols the gateway parks heartbeats, observes, or reads nothing.

A table has rows; the first that matches decides, and without a match a group is observed. A row that parks concerns
only software that bears it (`NOT_PARKED`), unless its own pattern of software or client ids lists the client. What
clients send is matched as text and never compiled.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from kohort.model.setting import STRING, SettingsError, check_fields, records, setting
from kohort.parking.client_software import STOPPED_BY_HEARTBEATS, UNKNOWN
from kohort.parking.limits import MOST_COMMIT_DELAY_MS

ANY = "*"

NOT_PARKED = STOPPED_BY_HEARTBEATS | {UNKNOWN, "kafka-go", "segmentio-kafka-go"}
"""Software for which a parked heartbeat costs something, or that cannot be distinguished from it."""

NO_INSTANCE, BY_CLIENT_ID = "none", "client_id"

LEAVE_DELAY_MS = 30_000
"""A process that is restarted is mostly back sooner, and no session timeout by default is shorter."""

MOST_LEAVE_DELAY_MS = 1_800_000
"""The longest session timeout that brokers allow by default."""


class Treatment(StrEnum):
    """What the gateway does with the traffic of a group's members."""

    OFF = "off"
    """Their requests are not read any further."""
    OBSERVE = "observe"
    """Their requests and answers are read, and pass unchanged and at once."""
    PARK = "park"
    """Heartbeats are parked, and answers withheld, until there is an update of the group."""


class GroupProtocol(StrEnum):
    """The protocol that a request of a member belongs to."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class PolicyClient:
    """Who sends a request: the software as ApiVersions names it, or `UNKNOWN`, and the client id."""

    software: str
    client_id: str


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One row: which members it is about, and what is done with their traffic."""

    groups: str = setting(ANY, "A pattern of groups with `*` and `?`, such as `billing-*`.", 1)
    software: str = setting(ANY, "A pattern of the clients' software, as ApiVersions names it.", 1)
    client_ids: str = setting(ANY, "A pattern of client ids.", 1)
    protocol: str = setting(ANY, "The protocol of the group, or `*`.", choices=(ANY, *GroupProtocol))
    treatment: Treatment = setting(MISSING,
        "park, observe or off: heartbeats are parked, requests are only observed, or not read.",
        kind=STRING, choices=tuple(Treatment))
    commit_delay_ms: int = setting(-1, "How long the answer to a commit of a classic member's timer is delayed behind"
        " its parked heartbeat, at most; -1: 3000 for clients whose close waits for no such answer (kafka-python), else"
        " 0.", -1, MOST_COMMIT_DELAY_MS)
    static_members: str = setting(NO_INSTANCE, "client_id: consumers of the classic protocol that have no "
        "group.instance.id get one, made of their client id, which must be theirs alone.",
        choices=(NO_INSTANCE, BY_CLIENT_ID))
    leave_delay_ms: int = setting(LEAVE_DELAY_MS, "With static_members: how long a member that has left may take to "
        "come back to its partitions; its session timeout, at most.", 0, MOST_LEAVE_DELAY_MS)
# fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        if self.commit_delay_ms > 0 and self.treatment is not Treatment.PARK:
            raise SettingsError(f"commit_delay_ms is of use with treatment = 'park' only, not with {self.treatment!s}")
        if self.makes_static and self.treatment is Treatment.OFF:
            raise SettingsError("static_members needs treatment = 'park' or 'observe': with 'off' no request is read")
        if self.leave_delay_ms != LEAVE_DELAY_MS and not self.makes_static:
            raise SettingsError(f"leave_delay_ms is of use with static_members = {BY_CLIENT_ID!r} only")

    def matches(self, group_id: str, client: PolicyClient, protocol: GroupProtocol) -> bool:
        """Whether this row is about a member of a group."""
        return (
            self.protocol in (ANY, protocol)
            and fnmatchcase(group_id, self.groups)
            and fnmatchcase(client.software, self.software)
            and fnmatchcase(client.client_id, self.client_ids)
        )

    @property
    def makes_static(self) -> bool:
        """Whether members without a group.instance.id get one."""
        return self.static_members == BY_CLIENT_ID

    @property
    def lists_clients(self) -> bool:
        """Whether the row singles clients out, so that it also parks those that are not parked otherwise."""
        return self.software != ANY or self.client_ids != ANY


_OBSERVED = Policy(treatment=Treatment.OBSERVE)


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """Rows in the order in which they are tried."""

    rows: tuple[Policy, ...] = ()

    def decide(self, group_id: str, client: PolicyClient, protocol: GroupProtocol) -> Policy:
        """Return what is done with a member of a group."""
        for row in self.rows:
            if row.matches(group_id, client, protocol):
                if row.treatment is Treatment.PARK and client.software in NOT_PARKED and not row.lists_clients:
                    return replace(row, treatment=Treatment.OBSERVE, commit_delay_ms=-1)
                return row
        return _OBSERVED

    @property
    def parks(self) -> bool:
        """Whether any row parks."""
        return any(row.treatment is Treatment.PARK for row in self.rows)


def read_policies(rows: object) -> PolicyTable:
    """Return the table of rows as a file has them: mappings with the columns' names. Raises SettingsError."""
    return PolicyTable(records("policies", Policy)(rows))


OBSERVED = PolicyTable()
"""Observes every group: what a gateway does until its operator decides otherwise."""

EVERYTHING_PARKED = PolicyTable((Policy(treatment=Treatment.PARK),))
"""Parks every group, but for software that is parked only where it is listed."""
