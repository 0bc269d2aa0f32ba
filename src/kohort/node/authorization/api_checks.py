"""What each API checks, as Apache Kafka 4.3 does: the one table that handlers, routes and the documentation read.

A check is an operation on a resource. A guard is checked before the handler: where it fails, the whole request is
refused. The other checks are asked by the handlers, for one entry of a request, or of an answer, at a time: an entry
that was asked for has the error of its resource, one of a list is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kohort.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kohort.model.errors import ErrorCode
from kohort.wire.apis import Api

ALTER, ALTER_CONFIGS, CLUSTER_ACTION, CREATE, DELETE, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE, READ, WRITE = (
    AclOperation.ALTER,
    AclOperation.ALTER_CONFIGS,
    AclOperation.CLUSTER_ACTION,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
    AclOperation.READ,
    AclOperation.WRITE,
)
CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID = (
    ResourceType.CLUSTER,
    ResourceType.GROUP,
    ResourceType.TOPIC,
    ResourceType.TRANSACTIONAL_ID,
)

ERRORS = {
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

SUPPORTED = {
    TOPIC: (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    GROUP: (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE),
}
"""The operations that there are for a resource, as the fields of authorized operations report them (KIP-430)."""


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One operation on one type of resource. `is_some`: allowed on any resource of the type."""

    operation: AclOperation
    resource: ResourceType
    effect: str
    is_some: bool = False

    @property
    def error(self) -> ErrorCode:
        """The error of a request, or of an entry, that is refused."""
        return ERRORS[self.resource]

    def refusal(self, principal: object, host: str, name: str) -> str:
        """Return the sentence about a refusal."""
        return f"{principal} from {host} may not {self.operation.name} {self.resource.name} {name}."


Names = Callable[[Any, int], Iterable[str]]
"""Takes a request and its version, and returns the names of the resources that must be allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """What a request needs as a whole: one of the checks, on every resource that it names."""

    any_of: tuple[Check, ...]
    names: Names


GUARDS: dict[Api, tuple[Guard, ...]] = {}
"""By API, in the order in which they are checked."""

CHECKS: dict[Api, tuple[Check, ...]] = {}
"""What the handlers ask, by API."""

NOTHING_CHECKED = frozenset({Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})
"""APIs that every client may use."""


_REQUEST = "the request is refused"
_ENTRY = "its entry has the error"
_HIDDEN = "left out"


def _guard(api: Api, operation: AclOperation, resource: ResourceType, names: Names) -> None:
    _guards(api, Guard((Check(operation, resource, _REQUEST),), names))


def _guards(api: Api, *guards: Guard) -> None:
    GUARDS[api] = (*GUARDS.get(api, ()), *guards)


def _check(api: Api, operation: AclOperation, resource: ResourceType, effect: str = _ENTRY) -> Check:
    check = Check(operation, resource, effect)
    CHECKS[api] = (*CHECKS.get(api, ()), check)
    return check


def _the_cluster(_message: Any, _version: int) -> Iterable[str]:
    return (CLUSTER_NAME,)


def _group(message: Any, _version: int) -> Iterable[str]:
    return (message.group_id,)


def _transactional_id(message: Any, _version: int) -> Iterable[str]:
    return () if message.transactional_id is None else (message.transactional_id,)


# -- records

_guard(Api.PRODUCE, WRITE, TRANSACTIONAL_ID, _transactional_id)
PRODUCE_TOPIC = _check(Api.PRODUCE, WRITE, TOPIC)
FETCH_TOPIC = _check(Api.FETCH, READ, TOPIC)
LIST_OFFSETS_TOPIC = _check(Api.LIST_OFFSETS, DESCRIBE, TOPIC)
DELETE_RECORDS_TOPIC = _check(Api.DELETE_RECORDS, DELETE, TOPIC)
EPOCH_CLUSTER = _check(Api.OFFSET_FOR_LEADER_EPOCH, CLUSTER_ACTION, CLUSTER, "else DESCRIBE of each topic")
EPOCH_TOPIC = _check(Api.OFFSET_FOR_LEADER_EPOCH, DESCRIBE, TOPIC)
PRODUCERS_TOPIC = _check(Api.DESCRIBE_PRODUCERS, READ, TOPIC)

# -- topics and the cluster

METADATA_TOPIC = _check(Api.METADATA, DESCRIBE, TOPIC, f"{_ENTRY}; {_HIDDEN} where all topics are asked for")
AUTO_CREATE_CLUSTER = _check(Api.METADATA, CREATE, CLUSTER, "an unknown topic needs CREATE of itself")
AUTO_CREATE_TOPIC = _check(Api.METADATA, CREATE, TOPIC, f"{_ENTRY}, of an unknown topic")
METADATA_CLUSTER = _check(Api.METADATA, DESCRIBE, CLUSTER, "no authorized operations of the cluster")
DESCRIBE_CLUSTER = _check(Api.DESCRIBE_CLUSTER, DESCRIBE, CLUSTER, "no authorized operations of the cluster")
PARTITIONS_TOPIC = _check(
    Api.DESCRIBE_TOPIC_PARTITIONS, DESCRIBE, TOPIC, f"{_ENTRY}; {_HIDDEN} where all topics are asked for"
)
CREATE_TOPICS_CLUSTER = _check(Api.CREATE_TOPICS, CREATE, CLUSTER, "each topic needs CREATE of itself")
CREATE_TOPICS_TOPIC = _check(Api.CREATE_TOPICS, CREATE, TOPIC)
CREATE_TOPICS_CONFIGS = _check(Api.CREATE_TOPICS, DESCRIBE_CONFIGS, TOPIC, "no settings in the answer")
DELETE_TOPICS_CLUSTER = _check(Api.DELETE_TOPICS, DELETE, CLUSTER, "each topic needs DELETE of itself")
DELETE_TOPICS_DESCRIBE = _check(Api.DELETE_TOPICS, DESCRIBE, TOPIC, f"{_ENTRY}, and no name where an id was given")
DELETE_TOPICS_TOPIC = _check(Api.DELETE_TOPICS, DELETE, TOPIC)
CREATE_PARTITIONS_TOPIC = _check(Api.CREATE_PARTITIONS, ALTER, TOPIC)
_guard(Api.DESCRIBE_LOG_DIRS, DESCRIBE, CLUSTER, _the_cluster)

# -- settings: each resource by its type

DESCRIBE_CONFIGS_OF = {kind: _check(Api.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS, kind) for kind in (TOPIC, GROUP, CLUSTER)}
ALTER_CONFIGS_OF = {kind: _check(Api.ALTER_CONFIGS, ALTER_CONFIGS, kind) for kind in (TOPIC, GROUP, CLUSTER)}
CHECKS[Api.INCREMENTAL_ALTER_CONFIGS] = CHECKS[Api.ALTER_CONFIGS]
_guard(Api.LIST_CONFIG_RESOURCES, DESCRIBE_CONFIGS, CLUSTER, _the_cluster)

# -- groups

for _api in (Api.JOIN_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP, Api.SYNC_GROUP, Api.OFFSET_COMMIT):
    _guard(_api, READ, GROUP, _group)
COMMIT_TOPIC = _check(Api.OFFSET_COMMIT, READ, TOPIC)
OFFSETS_GROUP = _check(Api.OFFSET_FETCH, DESCRIBE, GROUP)
OFFSETS_TOPIC = _check(Api.OFFSET_FETCH, DESCRIBE, TOPIC, f"{_ENTRY}; {_HIDDEN} where all topics are asked for")
FIND_GROUP = _check(Api.FIND_COORDINATOR, DESCRIBE, GROUP)
FIND_TRANSACTIONAL_ID = _check(Api.FIND_COORDINATOR, DESCRIBE, TRANSACTIONAL_ID)
DESCRIBE_GROUP = _check(Api.DESCRIBE_GROUPS, DESCRIBE, GROUP)
LIST_GROUPS_CLUSTER = _check(Api.LIST_GROUPS, DESCRIBE, CLUSTER, "else DESCRIBE of each group")
LIST_GROUPS_GROUP = _check(Api.LIST_GROUPS, DESCRIBE, GROUP, _HIDDEN)
DELETE_GROUP = _check(Api.DELETE_GROUPS, DELETE, GROUP)
_guard(Api.OFFSET_DELETE, DELETE, GROUP, _group)
DELETE_OFFSETS_TOPIC = _check(Api.OFFSET_DELETE, READ, TOPIC)
_guard(Api.CONSUMER_GROUP_HEARTBEAT, READ, GROUP, _group)
_guard(Api.CONSUMER_GROUP_HEARTBEAT, DESCRIBE, TOPIC, lambda message, _: message.subscribed_topic_names or ())
MATCHED_TOPIC = _check(Api.CONSUMER_GROUP_HEARTBEAT, DESCRIBE, TOPIC, "an expression does not match it")
DESCRIBE_CONSUMER_GROUP = _check(Api.CONSUMER_GROUP_DESCRIBE, DESCRIBE, GROUP)
ASSIGNED_TOPIC = _check(Api.CONSUMER_GROUP_DESCRIBE, DESCRIBE, TOPIC, "the group's entry has the error")
_guard(Api.STREAMS_GROUP_HEARTBEAT, READ, GROUP, _group)
TOPOLOGY_TOPIC = _check(Api.STREAMS_GROUP_HEARTBEAT, DESCRIBE, TOPIC, _REQUEST)
INTERNAL_TOPICS_CLUSTER = _check(Api.STREAMS_GROUP_HEARTBEAT, CREATE, CLUSTER, "a missing topic needs CREATE of itself")
INTERNAL_TOPIC = _check(Api.STREAMS_GROUP_HEARTBEAT, CREATE, TOPIC, "a missing internal topic is not made")
_guard(Api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, READ, GROUP, _group)
DESCRIBE_STREAMS_GROUP = _check(Api.STREAMS_GROUP_DESCRIBE, DESCRIBE, GROUP)
DESCRIBED_TOPOLOGY_TOPIC = _check(Api.STREAMS_GROUP_DESCRIBE, DESCRIBE, TOPIC, "the group's entry has the error")

# -- transactions

_guard(Api.INIT_PRODUCER_ID, WRITE, TRANSACTIONAL_ID, _transactional_id)
_guards(
    Api.INIT_PRODUCER_ID,
    Guard(
        (Check(IDEMPOTENT_WRITE, CLUSTER, _REQUEST), Check(WRITE, TOPIC, "the same, of any topic", is_some=True)),
        lambda message, _: () if message.transactional_id is not None else (CLUSTER_NAME,),
    ),
)
_guard(
    Api.ADD_PARTITIONS_TO_TXN,
    WRITE,
    TRANSACTIONAL_ID,
    lambda message, version: (message.v3_and_below_transactional_id,) if version < 4 else (),
)
_guard(Api.ADD_PARTITIONS_TO_TXN, CLUSTER_ACTION, CLUSTER, lambda _, version: () if version < 4 else (CLUSTER_NAME,))
ADD_PARTITIONS_TOPIC = _check(Api.ADD_PARTITIONS_TO_TXN, WRITE, TOPIC, f"{_ENTRY}, below version 4")
_guard(Api.ADD_OFFSETS_TO_TXN, WRITE, TRANSACTIONAL_ID, _transactional_id)
_guard(Api.ADD_OFFSETS_TO_TXN, READ, GROUP, _group)
_guard(Api.END_TXN, WRITE, TRANSACTIONAL_ID, _transactional_id)
_guard(Api.TXN_OFFSET_COMMIT, WRITE, TRANSACTIONAL_ID, _transactional_id)
_guard(Api.TXN_OFFSET_COMMIT, READ, GROUP, _group)
TXN_COMMIT_TOPIC = _check(Api.TXN_OFFSET_COMMIT, READ, TOPIC)
_guards(
    Api.WRITE_TXN_MARKERS,
    Guard((Check(ALTER, CLUSTER, _REQUEST), Check(CLUSTER_ACTION, CLUSTER, "the same")), _the_cluster),
)
DESCRIBE_TRANSACTION = _check(Api.DESCRIBE_TRANSACTIONS, DESCRIBE, TRANSACTIONAL_ID)
TRANSACTION_TOPIC = _check(Api.DESCRIBE_TRANSACTIONS, DESCRIBE, TOPIC, _HIDDEN)
LISTED_TRANSACTION = _check(Api.LIST_TRANSACTIONS, DESCRIBE, TRANSACTIONAL_ID, _HIDDEN)

# -- ACLs

_guard(Api.DESCRIBE_ACLS, DESCRIBE, CLUSTER, _the_cluster)
_guard(Api.CREATE_ACLS, ALTER, CLUSTER, _the_cluster)
_guard(Api.DELETE_ACLS, ALTER, CLUSTER, _the_cluster)

# -- users

_guard(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, DESCRIBE, CLUSTER, _the_cluster)
_guard(Api.ALTER_USER_SCRAM_CREDENTIALS, ALTER, CLUSTER, _the_cluster)
_guard(Api.DESCRIBE_CLIENT_QUOTAS, DESCRIBE_CONFIGS, CLUSTER, _the_cluster)
