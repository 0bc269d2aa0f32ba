"""Policies: for which groups, clients and protocols the gateway parks heartbeats, observes, or reads nothing.

A table has rows; the first that matches decides, and without a match a group is observed. A row that parks concerns
only software that bears it (`NOT_PARKED`), unless its own pattern of software or client ids lists the client. What
clients send is matched as text and never compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase

from kohort.parking.client_software import STOPPED_BY_HEARTBEATS
from kohort.parking.limits import MOST_COMMIT_HOLD_MS

ANY = "*"

UNKNOWN_SOFTWARE = "unknown"
"""How Kafka names a client that does not name itself (KIP-511). kafkajs, kafka-go and aiokafka are among these."""

NOT_PARKED = STOPPED_BY_HEARTBEATS | {UNKNOWN_SOFTWARE, "kafka-go", "segmentio-kafka-go", "aiokafka"}
"""Software for which a parked heartbeat costs something, or that cannot be distinguished from it."""


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


class PolicyError(ValueError):
    """A policy cannot be meant as it is; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a request: the software as ApiVersions names it, or `UNKNOWN_SOFTWARE`, and the client id."""

    software: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One row: patterns of group, software and client id with `*` and `?`, a protocol or `*`, and the treatment.

    Where it parks, the answer to a commit of a classic member's timer waits behind its heartbeat for `commit_hold_ms`.
    """

    groups: str = ANY
    software: str = ANY
    client_ids: str = ANY
    protocol: str = ANY
    treatment: Treatment = Treatment.OBSERVE
    commit_hold_ms: int = 0

    def __post_init__(self) -> None:
        for name in ("groups", "software", "client_ids"):
            pattern = getattr(self, name)
            if not isinstance(pattern, str) or not pattern:
                raise PolicyError(
                    f"{name} = {pattern!r} is no pattern: give a text such as 'billing-*', or '*' for all"
                )
        if self.protocol not in (ANY, *GroupProtocol):
            raise PolicyError(f"protocol = {self.protocol!r} is not one of {', '.join(GroupProtocol)} and '*'")
        if self.treatment not in tuple(Treatment):
            raise PolicyError(f"treatment = {self.treatment!r} is not one of {', '.join(Treatment)}")
        hold_ms = self.commit_hold_ms
        if isinstance(hold_ms, bool) or not isinstance(hold_ms, int) or not 0 <= hold_ms <= MOST_COMMIT_HOLD_MS:
            raise PolicyError(f"commit_hold_ms = {hold_ms!r}: expected a whole number from 0 to {MOST_COMMIT_HOLD_MS}")
        if hold_ms and self.treatment is not Treatment.PARK:
            raise PolicyError(f"commit_hold_ms is of use with treatment = 'park' only, not with {self.treatment!s}")

    def matches(self, group_id: str, client: Client, protocol: GroupProtocol) -> bool:
        """Whether this row is about a member of a group."""
        return (
            self.protocol in (ANY, protocol)
            and fnmatchcase(group_id, self.groups)
            and fnmatchcase(client.software, self.software)
            and fnmatchcase(client.client_id, self.client_ids)
        )

    @property
    def lists_clients(self) -> bool:
        """Whether the row singles clients out, so that it also parks those that are not parked otherwise."""
        return self.software != ANY or self.client_ids != ANY


_OBSERVED = Policy()


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """Rows in the order in which they are tried."""

    rows: tuple[Policy, ...] = ()

    def decide(self, group_id: str, client: Client, protocol: GroupProtocol) -> Policy:
        """Return what is done with a member of a group."""
        for row in self.rows:
            if row.matches(group_id, client, protocol):
                if row.treatment is Treatment.PARK and client.software in NOT_PARKED and not row.lists_clients:
                    return _OBSERVED
                return row
        return _OBSERVED

    @property
    def parks(self) -> bool:
        """Whether any row parks."""
        return any(row.treatment is Treatment.PARK for row in self.rows)


_COLUMNS = tuple(field.name for field in fields(Policy))


def read_policies(rows: object) -> PolicyTable:
    """Return the table of rows as a file has them: mappings with the columns' names. Raises PolicyError."""
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise PolicyError("policies are a list of tables: write [[policies]] above each")
    return PolicyTable(tuple(_row(number, row) for number, row in enumerate(rows, 1)))


def _row(number: int, row: object) -> Policy:
    if not isinstance(row, Mapping):
        raise PolicyError(f"policy {number} is no table: write [[policies]] above its columns")
    columns = {str(name): value for name, value in row.items()}
    if unknown := sorted(columns.keys() - set(_COLUMNS)):
        raise PolicyError(f"policy {number} has no column {unknown[0]!r}: there are {', '.join(_COLUMNS)}")
    if "treatment" not in columns:
        raise PolicyError(f"policy {number} lacks its treatment: off, observe or park")
    try:
        treatment = Treatment(columns.pop("treatment"))
    except ValueError as error:
        raise PolicyError(f"policy {number}: treatment is not one of {', '.join(Treatment)}: {error}") from None
    try:
        return Policy(**columns, treatment=treatment)
    except PolicyError as error:
        raise PolicyError(f"policy {number}: {error}") from None


OBSERVED = PolicyTable()
"""Observes every group: what a gateway does until its operator decides otherwise."""

EVERYTHING_PARKED = PolicyTable((Policy(treatment=Treatment.PARK),))
"""Parks every group, but for software that is parked only where it is listed."""
