"""Kafka's APIs by key: names, versions, flexible versions, and the classes of their messages.

`VERSIONS` are those that the codec supports and that may be advertised, without unstable ones. Source: the schemas.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from kohort.wire import messages
from kohort.wire.message import Request, Response
from kohort.wire.message_schemas import Versions, headlines


class Api(IntEnum):
    """An API by its key (int16)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93


_REQUESTS = {head.api_key: head for name, head in headlines().items() if name.endswith("Request")}


def _advertised(api: Api) -> Versions:
    head = _REQUESTS[api]
    highest = head.versions.highest if head.unstable is None else head.unstable - 1
    return Versions(head.versions.lowest, highest)


VERSIONS: dict[Api, Versions] = {api: _advertised(api) for api in Api}
"""The versions of each API that may be advertised, both ends included."""


def flexible_from(api: Api) -> int:
    """Return the first flexible version of an API: its highest version plus one where none is."""
    head = _REQUESTS[api]
    return head.flexible.lowest if head.flexible else head.versions.highest + 1


def request_class(api: Api) -> type[Request[Any]]:
    """Return the class of an API's request."""
    found: type[Request[Any]] = getattr(messages, _REQUESTS[api].name)
    return found


def response_class(api: Api) -> type[Response]:
    """Return the class of an API's response."""
    found: type[Response] = getattr(messages, _REQUESTS[api].name.removesuffix("Request") + "Response")
    return found
