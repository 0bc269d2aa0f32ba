"""APIs and versions that pass where addresses are rewritten, and their list in the answer to ApiVersions.

A version that is not known here could have an address in a place that is not known either, as Produce v10 and Fetch v16
once did (KIP-951): it is not offered to clients, and not passed on. The versions are those of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct, error

from kohort.wire.codec import Buffer
from kohort.wire.message_schemas import Versions
from kohort.wire.primitives import MalformedMessage, read_length, skip_tags, varint

SASL_HANDSHAKE, API_VERSIONS = 17, 18


def _versions(text: str) -> dict[int, Versions]:
    passed = {}
    for row in text.split(","):
        key, _, versions = row.split()
        lowest, _, highest = versions.rpartition("-")
        passed[int(key)] = Versions(int(lowest or 0), int(highest))
    return passed


# Fetch v16 has addresses behind all records; what it brought is of use only with them (KIP-951). Later versions are for
# replicas. DescribeQuorum comes without the addresses of controllers (KIP-853).
PASSED_VERSIONS: Mapping[int, Versions] = _versions("""
    0 Produce 13, 1 Fetch 15, 2 ListOffsets 11, 3 Metadata 13, 8 OffsetCommit 10, 9 OffsetFetch 10,
    10 FindCoordinator 6, 11 JoinGroup 9, 12 Heartbeat 4, 13 LeaveGroup 5, 14 SyncGroup 5, 15 DescribeGroups 6,
    16 ListGroups 5, 17 SaslHandshake 1, 18 ApiVersions 5, 19 CreateTopics 7, 20 DeleteTopics 6, 21 DeleteRecords 2,
    22 InitProducerId 6, 23 OffsetForLeaderEpoch 4, 24 AddPartitionsToTxn 5, 25 AddOffsetsToTxn 4, 26 EndTxn 5,
    27 WriteTxnMarkers 2, 28 TxnOffsetCommit 6, 29 DescribeAcls 3, 30 CreateAcls 3, 31 DeleteAcls 3,
    32 DescribeConfigs 4, 33 AlterConfigs 2, 34 AlterReplicaLogDirs 2, 35 DescribeLogDirs 5, 36 SaslAuthenticate 2,
    37 CreatePartitions 3, 38 CreateDelegationToken 3, 39 RenewDelegationToken 2, 40 ExpireDelegationToken 2,
    41 DescribeDelegationToken 3, 42 DeleteGroups 3, 43 ElectLeaders 2, 44 IncrementalAlterConfigs 1,
    45 AlterPartitionReassignments 1, 46 ListPartitionReassignments 0, 47 OffsetDelete 0, 48 DescribeClientQuotas 1,
    49 AlterClientQuotas 1, 50 DescribeUserScramCredentials 0, 51 AlterUserScramCredentials 0, 55 DescribeQuorum 1,
    57 UpdateFeatures 2, 60 DescribeCluster 2, 61 DescribeProducers 0, 64 UnregisterBroker 0,
    65 DescribeTransactions 0, 66 ListTransactions 2, 68 ConsumerGroupHeartbeat 1, 69 ConsumerGroupDescribe 1,
    71 GetTelemetrySubscriptions 0, 72 PushTelemetry 0, 74 ListConfigResources 1, 75 DescribeTopicPartitions 0,
    76 ShareGroupHeartbeat 1, 77 ShareGroupDescribe 1, 78 ShareFetch 1-2, 79 ShareAcknowledge 1-2, 80 AddRaftVoter 1,
    81 RemoveRaftVoter 0, 83 InitializeShareGroupState 0, 84 ReadShareGroupState 0, 85 WriteShareGroupState 1,
    86 DeleteShareGroupState 0, 87 ReadShareGroupStateSummary 1, 88 StreamsGroupHeartbeat 1, 89 StreamsGroupDescribe 1,
    90 DescribeShareGroupOffsets 1, 91 AlterShareGroupOffsets 0, 92 DeleteShareGroupOffsets 0,
    93 StreamsGroupTopologyDescriptionUpdate 0, 94 UnregisterController 0
""")
"""By API key; a row has key, name, and the highest version or both. Versions with addresses are in the schemas."""

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
