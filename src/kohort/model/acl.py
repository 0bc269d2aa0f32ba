"""Access control lists: who may (not) do what to which resources, as Kafka's `kafka-acls` and APIs 29 to 31 name it.

A binding is one rule: a principal from a host is allowed or denied an operation on the resources that a pattern names.
A filter selects bindings. The numbers of all enumerations are those on the wire. A principal is who a client is after
its authentication, as authorizers and quotas name it (`User:alice`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """The type of a principal, nearly always `User`, and its name. Its text is Kafka's: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @staticmethod
    def parse(text: str) -> Principal:
        """Return the principal of a text such as `User:alice`. Raises ValueError."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is no principal: expected TYPE:NAME, such as User:alice")
        return Principal(kind, name)


ANONYMOUS = Principal("User", "ANONYMOUS")
"""A client that did not authenticate."""


WILDCARD = "*"
"""Any host; as the name of a literal resource, any name."""

ANY_PRINCIPAL = "User:*"
"""The principal of a rule for every principal."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class WireNumber(IntEnum):
    """A number on the wire, of which 0 stands for all that is not known."""

    @classmethod
    def of(cls, number: int) -> Self:
        """Return what a number stands for."""
        return cls(number if number in cls._value2member_map_ else 0)


class ResourceType(WireNumber):
    """What a rule protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(WireNumber):
    """How the name of a rule, or of a filter, is meant."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(WireNumber):
    """What a client does to a resource. Which API needs which is in `kohort.node.authorization.api_checks`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(WireNumber):
    """Whether a rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One rule. `principal` is a text such as `User:alice`, or `User:*`; `host` an address, or `*`."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        kind, pattern = self.resource_type.name, self.pattern_type.name
        verb = self.permission.name
        return f"{verb} {self.principal} from {self.host} {self.operation.name} on {kind}:{pattern}:{self.name}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects rules: None, and ANY, stand for everything.

    With the pattern type MATCH the name is that of a resource, and selects the rules that apply to it: literal ones of
    its name, those of any name, and prefixes of it.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Whether it selects a rule."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.LITERAL:
            return acl.name == WILDCARD
        return self.name.startswith(acl.name)

    @property
    def is_unknown(self) -> bool:
        """Whether one of its parts is of a kind that this version does not know."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)
