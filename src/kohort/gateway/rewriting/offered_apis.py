"""APIs and versions that pass where addresses are rewritten, and their list in the answer to ApiVersions.

A version that is not known here could hold an address in a place that is not known either, as Produce v10 and Fetch v16
once did (KIP-951): it is not offered to clients, and not passed on. The versions are those of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, error

from kohort.wire.codec import Buffer
from kohort.wire.message_schemas import Versions
from kohort.wire.primitives import MalformedMessage, read_length, skip_tags, varint

SASL_HANDSHAKE, API_VERSIONS = 17, 18

PASSED_VERSIONS: Mapping[int, Versions] = {
    0: Versions(0, 13),  # Produce
    # Fetch v16 has addresses behind all records; what it brought is of use only with them (KIP-951). Later versions
    # are for replicas.
    1: Versions(0, 15),
    2: Versions(0, 11),  # ListOffsets
    3: Versions(0, 13),  # Metadata
    8: Versions(0, 10),  # OffsetCommit
    9: Versions(0, 10),  # OffsetFetch
    10: Versions(0, 6),  # FindCoordinator
    11: Versions(0, 9),  # JoinGroup
    12: Versions(0, 4),  # Heartbeat
    13: Versions(0, 5),  # LeaveGroup
    14: Versions(0, 5),  # SyncGroup
    15: Versions(0, 6),  # DescribeGroups
    16: Versions(0, 5),  # ListGroups
    SASL_HANDSHAKE: Versions(0, 1),
    API_VERSIONS: Versions(0, 5),
    19: Versions(0, 7),  # CreateTopics
    20: Versions(0, 6),  # DeleteTopics
    21: Versions(0, 2),  # DeleteRecords
    22: Versions(0, 6),  # InitProducerId
    23: Versions(0, 4),  # OffsetForLeaderEpoch
    24: Versions(0, 5),  # AddPartitionsToTxn
    25: Versions(0, 4),  # AddOffsetsToTxn
    26: Versions(0, 5),  # EndTxn
    27: Versions(0, 2),  # WriteTxnMarkers
    28: Versions(0, 6),  # TxnOffsetCommit
    29: Versions(0, 3),  # DescribeAcls
    30: Versions(0, 3),  # CreateAcls
    31: Versions(0, 3),  # DeleteAcls
    32: Versions(0, 4),  # DescribeConfigs
    33: Versions(0, 2),  # AlterConfigs
    34: Versions(0, 2),  # AlterReplicaLogDirs
    35: Versions(0, 5),  # DescribeLogDirs
    36: Versions(0, 2),  # SaslAuthenticate
    37: Versions(0, 3),  # CreatePartitions
    38: Versions(0, 3),  # CreateDelegationToken
    39: Versions(0, 2),  # RenewDelegationToken
    40: Versions(0, 2),  # ExpireDelegationToken
    41: Versions(0, 3),  # DescribeDelegationToken
    42: Versions(0, 3),  # DeleteGroups
    43: Versions(0, 2),  # ElectLeaders
    44: Versions(0, 1),  # IncrementalAlterConfigs
    45: Versions(0, 1),  # AlterPartitionReassignments
    46: Versions(0, 0),  # ListPartitionReassignments
    47: Versions(0, 0),  # OffsetDelete
    48: Versions(0, 1),  # DescribeClientQuotas
    49: Versions(0, 1),  # AlterClientQuotas
    50: Versions(0, 0),  # DescribeUserScramCredentials
    51: Versions(0, 0),  # AlterUserScramCredentials
    55: Versions(0, 1),  # DescribeQuorum, without the addresses of controllers (KIP-853)
    57: Versions(0, 2),  # UpdateFeatures
    60: Versions(0, 2),  # DescribeCluster
    61: Versions(0, 0),  # DescribeProducers
    64: Versions(0, 0),  # UnregisterBroker
    65: Versions(0, 0),  # DescribeTransactions
    66: Versions(0, 2),  # ListTransactions
    68: Versions(0, 1),  # ConsumerGroupHeartbeat
    69: Versions(0, 1),  # ConsumerGroupDescribe
    71: Versions(0, 0),  # GetTelemetrySubscriptions
    72: Versions(0, 0),  # PushTelemetry
    74: Versions(0, 1),  # ListConfigResources
    75: Versions(0, 0),  # DescribeTopicPartitions
    76: Versions(0, 1),  # ShareGroupHeartbeat
    77: Versions(0, 1),  # ShareGroupDescribe
    78: Versions(1, 2),  # ShareFetch
    79: Versions(1, 2),  # ShareAcknowledge
    80: Versions(0, 1),  # AddRaftVoter
    81: Versions(0, 0),  # RemoveRaftVoter
    83: Versions(0, 0),  # InitializeShareGroupState
    84: Versions(0, 0),  # ReadShareGroupState
    85: Versions(0, 1),  # WriteShareGroupState
    86: Versions(0, 0),  # DeleteShareGroupState
    87: Versions(0, 1),  # ReadShareGroupStateSummary
    88: Versions(0, 1),  # StreamsGroupHeartbeat
    89: Versions(0, 1),  # StreamsGroupDescribe
    90: Versions(0, 1),  # DescribeShareGroupOffsets
    91: Versions(0, 0),  # AlterShareGroupOffsets
    92: Versions(0, 0),  # DeleteShareGroupOffsets
    93: Versions(0, 0),  # StreamsGroupTopologyDescriptionUpdate
    94: Versions(0, 0),  # UnregisterController
}
"""By API key. A version of an API with addresses that is in here is also in the schemas."""

_UNSUPPORTED_VERSION = 35
_FLEXIBLE_FROM = 3
_ERROR, _COUNT, _RANGE = Struct(">h"), Struct(">i"), Struct(">hhh")


def is_passed(api_key: int, version: int) -> bool:
    """Whether requests of this version may pass."""
    return api_key in PASSED_VERSIONS and version in PASSED_VERSIONS[api_key]


def with_passed_versions(frame: bytes, position: int, version: int) -> list[Buffer]:
    """Return the answer to ApiVersions, whose body begins at `position`, with the APIs and versions that pass.

    Everything else is as it came, finalized features and unknown tagged fields too. The frame's length is not
    corrected. Raises `MalformedMessage`.
    """
    try:
        (code,) = _ERROR.unpack_from(frame, position)
        array_at = position + _ERROR.size
        # A broker that does not know the version of the request answers in version 0 (KIP-511).
        is_flexible = version >= _FLEXIBLE_FROM and code != _UNSUPPORTED_VERSION
        if is_flexible:
            count, position = read_length(frame, array_at + 1, "ApiVersionsResponse.ApiKeys")
            count -= 1
        else:
            (count,) = _COUNT.unpack_from(frame, array_at)
            position = array_at + _COUNT.size
        entries: list[bytes] = []
        for _ in range(count):
            entry, position = _entry(frame, position, is_flexible=is_flexible)
            if entry is not None:
                entries.append(entry)
    except (IndexError, error) as cause:
        raise MalformedMessage(f"ApiVersionsResponse v{version}: {cause}") from cause
    if position > len(frame):
        raise MalformedMessage(f"ApiVersionsResponse v{version} is cut short")
    head = varint(len(entries) + 1) if is_flexible else _COUNT.pack(len(entries))
    return [memoryview(frame)[:array_at], head, *entries, memoryview(frame)[position:]]


def _entry(frame: bytes, position: int, *, is_flexible: bool) -> tuple[bytes | None, int]:
    """Return an entry of the list as it passes, None where it does not, and the position after it."""
    api_key, lowest, highest = _RANGE.unpack_from(frame, position)
    end = position + _RANGE.size
    tags = b""
    if is_flexible:
        after = skip_tags(frame, end + 1, frame[end])
        tags, end = frame[end:after], after
    passed = PASSED_VERSIONS.get(api_key)
    if passed is None or highest < passed.lowest or lowest > passed.highest:
        return None, end
    return _RANGE.pack(api_key, max(lowest, passed.lowest), min(highest, passed.highest)) + tags, end
