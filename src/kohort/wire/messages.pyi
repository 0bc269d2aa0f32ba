"""Kafka's messages. Made from wire/schema by `make gen`; do not edit.

Arrays are lists; a uuid is 16 bytes; `records` decode as a view and encode from any buffer or a list of buffers. A
tagged struct that was not sent is None. "from 3", "2 to 4" and "only 2" are versions: in all others the field is not
written, and has its default after reading.
"""

from kohort.wire.message import Message, Request, Response, Value

Records = bytes | bytearray | memoryview | list[bytes | bytearray | memoryview]

class DescribeAclsRequest(Request[DescribeAclsResponse]):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

class DescribeAclsResponse(Response):
    class Resource(Value):
        class Acl(Value):
            principal: str = ""
            host: str = ""
            operation: int = 0
            permission_type: int = 0

        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        acls: list[Acl] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[Resource] = ...

class CreateAclsRequest(Request[CreateAclsResponse]):
    class Creation(Value):
        resource_type: int = 0
        resource_name: str = ""
        resource_pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

    creations: list[Creation] = ...

class CreateAclsResponse(Response):
    class Result(Value):
        error_code: int = 0
        error_message: str | None = ""

    throttle_time_ms: int = 0
    results: list[Result] = ...

class DeleteAclsRequest(Request[DeleteAclsResponse]):
    class Filter(Value):
        resource_type_filter: int = 0
        resource_name_filter: str | None = ""
        pattern_type_filter: int = 3
        principal_filter: str | None = ""
        host_filter: str | None = ""
        operation: int = 0
        permission_type: int = 0

    filters: list[Filter] = ...

class DeleteAclsResponse(Response):
    class FilterResult(Value):
        class MatchingAcl(Value):
            error_code: int = 0
            error_message: str | None = ""
            resource_type: int = 0
            resource_name: str = ""
            pattern_type: int = 3
            principal: str = ""
            host: str = ""
            operation: int = 0
            permission_type: int = 0

        error_code: int = 0
        error_message: str | None = ""
        matching_acls: list[MatchingAcl] = ...

    throttle_time_ms: int = 0
    filter_results: list[FilterResult] = ...

class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    class Resource(Value):
        resource_type: int = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = ...

    resources: list[Resource] = ...
    include_synonyms: bool = False
    include_documentation: bool = False  # from 3

class DescribeConfigsResponse(Response):
    class Result(Value):
        class Config(Value):
            class Synonym(Value):
                name: str = ""
                value: str | None = ""
                source: int = 0

            name: str = ""
            value: str | None = ""
            read_only: bool = False
            config_source: int = -1
            is_sensitive: bool = False
            synonyms: list[Synonym] = ...
            config_type: int = 0  # from 3
            documentation: str | None = ""  # from 3

        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        configs: list[Config] = ...

    throttle_time_ms: int = 0
    results: list[Result] = ...

class AlterConfigsRequest(Request[AlterConfigsResponse]):
    class Resource(Value):
        class Config(Value):
            name: str = ""
            value: str | None = ""

        resource_type: int = 0
        resource_name: str = ""
        configs: list[Config] = ...

    resources: list[Resource] = ...
    validate_only: bool = False

class AlterConfigsResponse(Response):
    class Response(Value):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

    throttle_time_ms: int = 0
    responses: list[Response] = ...

class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    class Resource(Value):
        class Config(Value):
            name: str = ""
            config_operation: int = 0
            value: str | None = ""

        resource_type: int = 0
        resource_name: str = ""
        configs: list[Config] = ...

    resources: list[Resource] = ...
    validate_only: bool = False

class IncrementalAlterConfigsResponse(Response):
    class Response(Value):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

    throttle_time_ms: int = 0
    responses: list[Response] = ...

class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    class DescribableLogDirTopic(Value):
        topic: str = ""
        partitions: list[int] = ...

    topics: list[DescribableLogDirTopic] | None = ...

class DescribeLogDirsResponse(Response):
    class Result(Value):
        class Topic(Value):
            class Partition(Value):
                partition_index: int = 0
                partition_size: int = 0
                offset_lag: int = 0
                is_future_key: bool = False

            name: str = ""
            partitions: list[Partition] = ...

        error_code: int = 0
        log_dir: str = ""
        topics: list[Topic] = ...
        total_bytes: int = -1  # from 4
        usable_bytes: int = -1  # from 4
        is_cordoned: bool = False  # from 5

    throttle_time_ms: int = 0
    error_code: int = 0  # from 3
    results: list[Result] = ...

class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    resource_types: list[int] = ...  # from 1

class ListConfigResourcesResponse(Response):
    class ConfigResource(Value):
        resource_name: str = ""
        resource_type: int = 16  # from 1

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = ...

class DescribeClusterRequest(Request[DescribeClusterResponse]):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # from 1
    include_fenced_brokers: bool = False  # from 2

class DescribeClusterResponse(Response):
    class Broker(Value):
        broker_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None
        is_fenced: bool = False  # from 2

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # from 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[Broker] = ...
    cluster_authorized_operations: int = -2147483648

class ConsumerProtocolSubscription(Message):
    class OwnedPartition(Value):
        topic: str = ""
        partitions: list[int] = ...

    topics: list[str] = ...
    user_data: bytes | None = None
    owned_partitions: list[OwnedPartition] = ...  # from 1
    generation_id: int = -1  # from 2
    rack_id: str | None = None  # from 3

class ConsumerProtocolAssignment(Message):
    class AssignedPartition(Value):
        topic: str = ""
        partitions: list[int] = ...

    assigned_partitions: list[AssignedPartition] = ...
    user_data: bytes | None = None

class SubscriptionInfoData(Message):
    class PrevTask(Value):
        topic_group_id: int = 0
        partition: int = 0

    class StandbyTask(Value):
        topic_group_id: int = 0
        partition: int = 0

    class TaskOffsetSum(Value):
        class PartitionToOffsetSum(Value):
            partition: int = 0
            offset_sum: int = 0

        topic_group_id: int = 0
        partition: int = 0  # from 10
        offset_sum: int = 0  # from 10
        named_topology: str | None = ""  # from 10
        partition_to_offset_sum: list[PartitionToOffsetSum] = ...  # 7 to 9

    class ClientTag(Value):
        key: bytes = b""
        value: bytes = b""

    version: int = 0
    latest_supported_version: int = -1  # from 3
    process_id: bytes = ...
    prev_tasks: list[PrevTask] = ...  # 1 to 6
    standby_tasks: list[StandbyTask] = ...  # 1 to 6
    user_end_point: bytes = b""  # from 2
    task_offset_sums: list[TaskOffsetSum] = ...  # from 7
    unique_field: int = 0  # from 8
    error_code: int = 0  # from 9
    client_tags: list[ClientTag] = ...  # from 11

class AssignmentInfo(Message):
    class ActiveTask(Value):
        topic_group_id: int = 0
        partition: int = 0
        named_topology: list[int] = ...  # from 10

    class StandbyTask(Value):
        class TopicPartition(Value):
            topic: str = ""
            partition: int = 0

        topic_group_id: int = 0
        partition: int = 0
        named_topology: list[int] = ...  # from 10
        partitions: list[TopicPartition] = ...

    class TopicNumber(Value):
        number: int = 0
        topic: str = ""

    class Host(Value):
        class HostPartition(Value):
            topic: str = ""  # 2 to 4
            topic_number: int = 0  # from 5
            partition: int = 0

        name: str = ""
        port: int = 0
        partitions: list[HostPartition] = ...

    class StandbyHost(Value):
        class StandbyHostPartition(Value):
            topic_number: int = 0
            partition: int = 0

        name: str = ""
        port: int = 0
        partitions: list[StandbyHostPartition] = ...

    version: int = 0
    latest_supported_version: int = -1  # from 3
    active_tasks: list[ActiveTask] = ...
    standby_tasks: list[StandbyTask] = ...
    topic_numbers: list[TopicNumber] = ...  # from 5
    hosts: list[Host] = ...  # from 2
    standby_hosts: list[StandbyHost] = ...  # from 6
    error_code: int = 0  # from 4
    next_rebalance_ms: int = 9223372036854775807  # from 7

class ConnectWorkerState(Message):
    version: int = 0
    url: str = ""
    config_offset: int = 0
    allocation: bytes | None = None  # from 1

class ConnectAssignmentInfo(Message):
    class Assigned(Value):
        connector: str = ""
        tasks: list[int] | None = ...

    class Revoked(Value):
        connector: str = ""
        tasks: list[int] | None = ...

    version: int = 0
    error: int = 0
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: list[Assigned] | None = ...
    revoked: list[Revoked] | None = ...  # from 1
    delay_ms: int = 0  # from 1

class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    key: str = ""  # 0 to 3
    key_type: int = 0  # from 1
    coordinator_keys: list[str] = ...  # from 4

class FindCoordinatorResponse(Response):
    class Coordinator(Value):
        key: str = ""
        node_id: int = 0
        host: str = ""
        port: int = 0
        error_code: int = 0
        error_message: str | None = ""

    throttle_time_ms: int = 0  # from 1
    error_code: int = 0  # 0 to 3
    error_message: str | None = ""  # 1 to 3
    node_id: int = 0  # 0 to 3
    host: str = ""  # 0 to 3
    port: int = 0  # 0 to 3
    coordinators: list[Coordinator] = ...  # from 4

class JoinGroupRequest(Request[JoinGroupResponse]):
    class Protocol(Value):
        name: str = ""
        metadata: bytes = b""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # from 1
    member_id: str = ""
    group_instance_id: str | None = None  # from 5
    protocol_type: str = ""
    protocols: list[Protocol] = ...
    reason: str | None = None  # from 8

class JoinGroupResponse(Response):
    class Member(Value):
        member_id: str = ""
        group_instance_id: str | None = None  # from 5
        metadata: bytes = b""

    throttle_time_ms: int = 0  # from 2
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None  # from 7
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # from 9
    member_id: str = ""
    members: list[Member] = ...

class SyncGroupRequest(Request[SyncGroupResponse]):
    class Assignment(Value):
        member_id: str = ""
        assignment: bytes = b""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # from 3
    protocol_type: str | None = None  # from 5
    protocol_name: str | None = None  # from 5
    assignments: list[Assignment] = ...
    assignment_error: str | None = None  # from 4

class SyncGroupResponse(Response):
    throttle_time_ms: int = 0  # from 1
    error_code: int = 0
    protocol_type: str | None = None  # from 5
    protocol_name: str | None = None  # from 5
    assignment: bytes = b""
    error_message: str | None = None  # from 4

class HeartbeatRequest(Request[HeartbeatResponse]):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # from 3

class HeartbeatResponse(Response):
    throttle_time_ms: int = 0  # from 1
    error_code: int = 0

class LeaveGroupRequest(Request[LeaveGroupResponse]):
    class Member(Value):
        member_id: str = ""
        group_instance_id: str | None = None
        reason: str | None = None  # from 5

    group_id: str = ""
    member_id: str = ""  # 0 to 2
    members: list[Member] = ...  # from 3

class LeaveGroupResponse(Response):
    class Member(Value):
        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: int = 0

    throttle_time_ms: int = 0  # from 1
    error_code: int = 0
    members: list[Member] = ...  # from 3

class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    groups: list[str] = ...
    include_authorized_operations: bool = False  # from 3

class DescribeGroupsResponse(Response):
    class Group(Value):
        class Member(Value):
            member_id: str = ""
            group_instance_id: str | None = None  # from 4
            client_id: str = ""
            client_host: str = ""
            member_metadata: bytes = b""
            member_assignment: bytes = b""

        error_code: int = 0
        error_message: str | None = None  # from 6
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[Member] = ...
        authorized_operations: int = -2147483648  # from 3

    throttle_time_ms: int = 0  # from 1
    groups: list[Group] = ...

class ListGroupsRequest(Request[ListGroupsResponse]):
    states_filter: list[str] = ...  # from 4
    types_filter: list[str] = ...  # from 5

class ListGroupsResponse(Response):
    class Group(Value):
        group_id: str = ""
        protocol_type: str = ""
        group_state: str = ""  # from 4
        group_type: str = ""  # from 5

    throttle_time_ms: int = 0  # from 1
    error_code: int = 0
    groups: list[Group] = ...

class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    groups_names: list[str] = ...

class DeleteGroupsResponse(Response):
    class Result(Value):
        group_id: str = ""
        error_code: int = 0
        error_message: str | None = None  # from 3

    throttle_time_ms: int = 0
    results: list[Result] = ...

class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    class TopicPartition(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...

    class StandbyLag(Value):
        class Partition(Value):
            partition_index: int = 0
            lag: int = 0

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None  # from 1
    server_assignor: str | None = None
    topic_partitions: list[TopicPartition] | None = None
    standby_lags: list[StandbyLag] | None = None
    reason: str | None = None
    acceptable_recovery_lag: int = -1

class ConsumerGroupHeartbeatResponse(Response):
    class Assignment(Value):
        class TopicPartition(Value):
            topic_id: bytes = ...
            partitions: list[int] = ...

        topic_partitions: list[TopicPartition] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    group_ids: list[str] = ...
    include_authorized_operations: bool = False

class ConsumerGroupDescribeResponse(Response):
    class Group(Value):
        class Member(Value):
            class Assignment(Value):
                class TopicPartition(Value):
                    topic_id: bytes = ...
                    topic_name: str = ""
                    partitions: list[int] = ...

                topic_partitions: list[TopicPartition] = ...

            class TargetAssignment(Value):
                class TopicPartition(Value):
                    topic_id: bytes = ...
                    topic_name: str = ""
                    partitions: list[int] = ...

                topic_partitions: list[TopicPartition] = ...

            member_id: str = ""
            instance_id: str | None = None
            rack_id: str | None = None
            member_epoch: int = 0
            client_id: str = ""
            client_host: str = ""
            subscribed_topic_names: list[str] = ...
            subscribed_topic_regex: str | None = None
            assignment: Assignment = ...
            target_assignment: TargetAssignment = ...
            member_type: int = -1  # from 1
            phase: str | None = None

        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[Member] = ...
        authorized_operations: int = -2147483648

    throttle_time_ms: int = 0
    groups: list[Group] = ...

class OffsetCommitRequest(Request[OffsetCommitResponse]):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1  # from 6
            committed_metadata: str | None = ""

        name: str = ""  # 0 to 9
        topic_id: bytes = ...  # from 10
        partitions: list[Partition] = ...

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # from 7
    retention_time_ms: int = -1  # 2 to 4
    topics: list[Topic] = ...

class OffsetCommitResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            error_code: int = 0

        name: str = ""  # 0 to 9
        topic_id: bytes = ...  # from 10
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0  # from 3
    topics: list[Topic] = ...

class OffsetFetchRequest(Request[OffsetFetchResponse]):
    class Topic(Value):
        name: str = ""
        partition_indexes: list[int] = ...

    class Group(Value):
        class Topic(Value):
            name: str = ""  # 8 to 9
            topic_id: bytes = ...  # from 10
            partition_indexes: list[int] = ...

        group_id: str = ""
        member_id: str | None = None  # from 9
        member_epoch: int = -1  # from 9
        topics: list[Topic] | None = ...

    group_id: str = ""  # 0 to 7
    topics: list[Topic] | None = ...  # 0 to 7
    groups: list[Group] = ...  # from 8
    require_stable: bool = False  # from 7

class OffsetFetchResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1  # 5 to 7
            metadata: str | None = ""
            error_code: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    class Group(Value):
        class Topic(Value):
            class Partition(Value):
                partition_index: int = 0
                committed_offset: int = 0
                committed_leader_epoch: int = -1
                metadata: str | None = ""
                error_code: int = 0

            name: str = ""  # 8 to 9
            topic_id: bytes = ...  # from 10
            partitions: list[Partition] = ...

        group_id: str = ""
        topics: list[Topic] = ...
        error_code: int = 0

    throttle_time_ms: int = 0  # from 3
    topics: list[Topic] = ...  # 0 to 7
    error_code: int = 0  # 2 to 7
    groups: list[Group] = ...  # from 8

class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    group_id: str = ""
    topics: list[Topic] = ...

class OffsetDeleteResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            error_code: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class LegacyOffsetCommitKey(Message):
    group: str = ""
    topic: str = ""
    partition: int = 0

class LegacyOffsetCommitValue(Message):
    offset: int = 0
    metadata: str = ""
    commit_timestamp: int = 0

class OffsetCommitKey(Message):
    group: str = ""
    topic: str = ""
    partition: int = 0

class OffsetCommitValue(Message):
    offset: int = 0
    leader_epoch: int = -1  # from 3
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1  # only 1
    topic_id: bytes = ...  # from 4

class GroupMetadataKey(Message):
    group: str = ""

class GroupMetadataValue(Message):
    class Member(Value):
        member_id: str = ""
        group_instance_id: str | None = None  # from 3
        client_id: str = ""
        client_host: str = ""
        rebalance_timeout: int = -1  # from 1
        session_timeout: int = 0
        subscription: bytes = b""
        assignment: bytes = b""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1  # from 2
    members: list[Member] = ...
    awaits_sync: bool = False  # from 4

class ConsumerGroupMetadataKey(Message):
    group_id: str = ""

class ConsumerGroupMetadataValue(Message):
    epoch: int = 0
    metadata_hash: int = 0

class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = ""

class ConsumerGroupPartitionMetadataValue(Message):
    class Topic(Value):
        class PartitionMetadata(Value):
            partition: int = 0
            racks: list[str] = ...

        topic_id: bytes = ...
        topic_name: str = ""
        num_partitions: int = 0
        partition_metadata: list[PartitionMetadata] = ...

    topics: list[Topic] = ...

class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""

class ConsumerGroupMemberMetadataValue(Message):
    class ClassicMemberMetadata(Value):
        class SupportedProtocol(Value):
            name: str = ""
            metadata: bytes = b""

        session_timeout_ms: int = 0
        supported_protocols: list[SupportedProtocol] = ...

    class StandbyLag(Value):
        class Partition(Value):
            partition_index: int = 0
            lag: int = 0

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = ...
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = ...
    standby_lags: list[StandbyLag] = ...
    acceptable_recovery_lag: int = -1

class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""

class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""

class ConsumerGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...

    topic_partitions: list[TopicPartition] = ...

class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""

class ConsumerGroupCurrentMemberAssignmentValue(Message):
    class AssignedPartition(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class PartitionPendingRevocation(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedPartition] = ...
    partitions_pending_revocation: list[PartitionPendingRevocation] = ...
    classic_phase: int = 0

class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = ""
    regular_expression: str = ""

class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = ...
    version: int = 0
    timestamp: int = 0

class ShareGroupMetadataKey(Message):
    group_id: str = ""

class ShareGroupMetadataValue(Message):
    epoch: int = 0
    metadata_hash: int = 0

class ShareGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""

class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = ...

class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""

class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""

class ShareGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...

    topic_partitions: list[TopicPartition] = ...

class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""

class ShareGroupCurrentMemberAssignmentValue(Message):
    class AssignedPartition(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedPartition] = ...

class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = ""

class ShareGroupStatePartitionMetadataValue(Message):
    class InitializingTopic(Value):
        topic_id: bytes = ...
        topic_name: str = ""
        partitions: list[int] = ...

    class InitializedTopic(Value):
        topic_id: bytes = ...
        topic_name: str = ""
        partitions: list[int] = ...

    class DeletingTopic(Value):
        topic_id: bytes = ...
        topic_name: str = ""

    initializing_topics: list[InitializingTopic] = ...
    initialized_topics: list[InitializedTopic] = ...
    deleting_topics: list[DeletingTopic] = ...

class StreamsGroupMetadataKey(Message):
    group_id: str = ""

class StreamsGroupMetadataValue(Message):
    class LastAssignmentConfig(Value):
        key: str = ""
        value: str = ""

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: list[LastAssignmentConfig] | None = ...
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1

class StreamsGroupMemberMetadataKey(Message):
    group_id: str = ""
    member_id: str = ""

class StreamsGroupMemberMetadataValue(Message):
    class UserEndpoint(Value):
        host: str = ""
        port: int = 0

    class ClientTag(Value):
        key: str = ""
        value: str = ""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: list[ClientTag] = ...

class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = ""

class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0

class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = ""
    member_id: str = ""

class StreamsGroupTargetAssignmentMemberValue(Message):
    class ActiveTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class StandbyTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class WarmupTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    active_tasks: list[ActiveTask] = ...
    standby_tasks: list[StandbyTask] = ...
    warmup_tasks: list[WarmupTask] = ...

class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = ""
    member_id: str = ""

class StreamsGroupCurrentMemberAssignmentValue(Message):
    class ActiveTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class StandbyTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class WarmupTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class ActiveTaskPendingRevocation(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class StandbyTaskPendingRevocation(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    class WarmupTaskPendingRevocation(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...
        assignment_epochs: list[int] | None = ...

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: list[ActiveTask] = ...
    standby_tasks: list[StandbyTask] = ...
    warmup_tasks: list[WarmupTask] = ...
    active_tasks_pending_revocation: list[ActiveTaskPendingRevocation] = ...
    standby_tasks_pending_revocation: list[StandbyTaskPendingRevocation] = ...
    warmup_tasks_pending_revocation: list[WarmupTaskPendingRevocation] = ...

class StreamsGroupTopologyKey(Message):
    group_id: str = ""

class StreamsGroupTopologyValue(Message):
    class Subtopology(Value):
        class StateChangelogTopic(Value):
            class TopicConfig(Value):
                key: str = ""
                value: str = ""

            name: str = ""
            partitions: int = 0
            replication_factor: int = 0
            topic_configs: list[TopicConfig] = ...

        class RepartitionSourceTopic(Value):
            class TopicConfig(Value):
                key: str = ""
                value: str = ""

            name: str = ""
            partitions: int = 0
            replication_factor: int = 0
            topic_configs: list[TopicConfig] = ...

        class CopartitionGroup(Value):
            source_topics: list[int] = ...
            source_topic_regex: list[int] = ...
            repartition_source_topics: list[int] = ...

        subtopology_id: str = ""
        source_topics: list[str] = ...
        source_topic_regex: list[str] = ...
        state_changelog_topics: list[StateChangelogTopic] = ...
        repartition_sink_topics: list[str] = ...
        repartition_source_topics: list[RepartitionSourceTopic] = ...
        copartition_groups: list[CopartitionGroup] = ...

    epoch: int = 0
    subtopologies: list[Subtopology] = ...

class ProduceRequest(Request[ProduceResponse]):
    class TopicData(Value):
        class PartitionData(Value):
            index: int = 0
            records: memoryview | None = None
            def __init__(
                self,
                *,
                index: int = 0,
                records: Records | None = None,
            ) -> None: ...

        name: str = ""  # 0 to 12
        topic_id: bytes = ...  # from 13
        partition_data: list[PartitionData] = ...

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicData] = ...

class ProduceResponse(Response):
    class Response(Value):
        class PartitionResponse(Value):
            class RecordError(Value):
                batch_index: int = 0
                batch_index_error_message: str | None = None

            class CurrentLeader(Value):
                leader_id: int = -1
                leader_epoch: int = -1

            index: int = 0
            error_code: int = 0
            base_offset: int = 0
            log_append_time_ms: int = -1
            log_start_offset: int = -1  # from 5
            record_errors: list[RecordError] = ...  # from 8
            error_message: str | None = None  # from 8
            current_leader: CurrentLeader | None = None  # from 10

        name: str = ""  # 0 to 12
        topic_id: bytes = ...  # from 13
        partition_responses: list[PartitionResponse] = ...

    class NodeEndpoint(Value):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

    responses: list[Response] = ...
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = ...  # from 10

class FetchRequest(Request[FetchResponse]):
    class ReplicaState(Value):
        replica_id: int = -1
        replica_epoch: int = -1

    class Topic(Value):
        class Partition(Value):
            partition: int = 0
            current_leader_epoch: int = -1  # from 9
            fetch_offset: int = 0
            last_fetched_epoch: int = -1  # from 12
            log_start_offset: int = -1  # from 5
            partition_max_bytes: int = 0
            replica_directory_id: bytes = ...  # from 17
            high_watermark: int = 9223372036854775807  # from 18

        topic: str = ""  # 0 to 12
        topic_id: bytes = ...  # from 13
        partitions: list[Partition] = ...

    class ForgottenTopic(Value):
        topic: str = ""  # 7 to 12
        topic_id: bytes = ...  # from 13
        partitions: list[int] = ...

    cluster_id: str | None = None  # from 12
    replica_id: int = -1  # 0 to 14
    replica_state: ReplicaState | None = None  # from 15
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0  # from 7
    session_epoch: int = -1  # from 7
    topics: list[Topic] = ...
    forgotten_topics_data: list[ForgottenTopic] = ...  # from 7
    rack_id: str = ""  # from 11

class FetchResponse(Response):
    class Response(Value):
        class Partition(Value):
            class DivergingEpoch(Value):
                epoch: int = -1
                end_offset: int = -1

            class CurrentLeader(Value):
                leader_id: int = -1
                leader_epoch: int = -1

            class SnapshotId(Value):
                end_offset: int = -1
                epoch: int = -1

            class AbortedTransaction(Value):
                producer_id: int = 0
                first_offset: int = 0

            partition_index: int = 0
            error_code: int = 0
            high_watermark: int = 0
            last_stable_offset: int = -1
            log_start_offset: int = -1  # from 5
            diverging_epoch: DivergingEpoch | None = None  # from 12
            current_leader: CurrentLeader | None = None  # from 12
            snapshot_id: SnapshotId | None = None  # from 12
            aborted_transactions: list[AbortedTransaction] | None = ...
            preferred_read_replica: int = -1  # from 11
            records: memoryview | None = None
            def __init__(
                self,
                *,
                partition_index: int = 0,
                error_code: int = 0,
                high_watermark: int = 0,
                last_stable_offset: int = -1,
                log_start_offset: int = -1,
                diverging_epoch: DivergingEpoch | None = None,
                current_leader: CurrentLeader | None = None,
                snapshot_id: SnapshotId | None = None,
                aborted_transactions: list[AbortedTransaction] | None = ...,
                preferred_read_replica: int = -1,
                records: Records | None = None,
            ) -> None: ...

        topic: str = ""  # 0 to 12
        topic_id: bytes = ...  # from 13
        partitions: list[Partition] = ...

    class NodeEndpoint(Value):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

    throttle_time_ms: int = 0
    error_code: int = 0  # from 7
    session_id: int = 0  # from 7
    responses: list[Response] = ...
    node_endpoints: list[NodeEndpoint] = ...  # from 16

class ListOffsetsRequest(Request[ListOffsetsResponse]):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            current_leader_epoch: int = -1  # from 4
            timestamp: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    replica_id: int = 0
    isolation_level: int = 0  # from 2
    topics: list[Topic] = ...
    timeout_ms: int = 0  # from 10

class ListOffsetsResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            error_code: int = 0
            timestamp: int = -1
            offset: int = -1
            leader_epoch: int = -1  # from 4

        name: str = ""
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0  # from 2
    topics: list[Topic] = ...

class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            offset: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    topics: list[Topic] = ...
    timeout_ms: int = 0

class DeleteRecordsResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            low_watermark: int = 0
            error_code: int = 0

        name: str = ""
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    class Topic(Value):
        class Partition(Value):
            partition: int = 0
            current_leader_epoch: int = -1
            leader_epoch: int = 0

        topic: str = ""
        partitions: list[Partition] = ...

    replica_id: int = -2  # from 3
    topics: list[Topic] = ...

class OffsetForLeaderEpochResponse(Response):
    class Topic(Value):
        class Partition(Value):
            error_code: int = 0
            partition: int = 0
            leader_epoch: int = -1
            end_offset: int = -1

        topic: str = ""
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class RequestHeader(Message):
    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""

class ResponseHeader(Message):
    correlation_id: int = 0

class ApiVersionsRequest(Request[ApiVersionsResponse]):
    client_software_name: str = ""  # from 3
    client_software_version: str = ""  # from 3
    cluster_id: str | None = None  # from 5
    node_id: int = -1  # from 5

class ApiVersionsResponse(Response):
    class ApiKey(Value):
        api_key: int = 0
        min_version: int = 0
        max_version: int = 0

    class SupportedFeature(Value):
        name: str = ""
        min_version: int = 0
        max_version: int = 0

    class FinalizedFeature(Value):
        name: str = ""
        max_version_level: int = 0
        min_version_level: int = 0

    error_code: int = 0
    api_keys: list[ApiKey] = ...
    throttle_time_ms: int = 0  # from 1
    supported_features: list[SupportedFeature] = ...  # from 3
    finalized_features_epoch: int = -1  # from 3
    finalized_features: list[FinalizedFeature] = ...  # from 3
    zk_migration_ready: bool = False  # from 3

class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    mechanism: str = ""

class SaslHandshakeResponse(Response):
    error_code: int = 0
    mechanisms: list[str] = ...

class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    auth_bytes: bytes = b""

class SaslAuthenticateResponse(Response):
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # from 1

class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    class Component(Value):
        entity_type: str = ""
        match_type: int = 0
        match: str | None = ""

    components: list[Component] = ...
    strict: bool = False

class DescribeClientQuotasResponse(Response):
    class Entry(Value):
        class Entity(Value):
            entity_type: str = ""
            entity_name: str | None = ""

        class Value(Value):
            key: str = ""
            value: float = 0.0

        entity: list[Entity] = ...
        values: list[Value] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[Entry] | None = ...

class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    class UserName(Value):
        name: str = ""

    users: list[UserName] | None = ...

class DescribeUserScramCredentialsResponse(Response):
    class Result(Value):
        class CredentialInfo(Value):
            mechanism: int = 0
            iterations: int = 0

        user: str = ""
        error_code: int = 0
        error_message: str | None = ""
        credential_infos: list[CredentialInfo] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[Result] = ...

class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    class Deletion(Value):
        name: str = ""
        mechanism: int = 0

    class Upsertion(Value):
        name: str = ""
        mechanism: int = 0
        iterations: int = 0
        salt: bytes = b""
        salted_password: bytes = b""

    deletions: list[Deletion] = ...
    upsertions: list[Upsertion] = ...

class AlterUserScramCredentialsResponse(Response):
    class Result(Value):
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""

    throttle_time_ms: int = 0
    results: list[Result] = ...

class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None

class ShareGroupHeartbeatResponse(Response):
    class Assignment(Value):
        class TopicPartition(Value):
            topic_id: bytes = ...
            partitions: list[int] = ...

        topic_partitions: list[TopicPartition] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    group_ids: list[str] = ...
    include_authorized_operations: bool = False

class ShareGroupDescribeResponse(Response):
    class Group(Value):
        class Member(Value):
            class Assignment(Value):
                class TopicPartition(Value):
                    topic_id: bytes = ...
                    topic_name: str = ""
                    partitions: list[int] = ...

                topic_partitions: list[TopicPartition] = ...

            member_id: str = ""
            rack_id: str | None = None
            member_epoch: int = 0
            client_id: str = ""
            client_host: str = ""
            subscribed_topic_names: list[str] = ...
            assignment: Assignment = ...

        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[Member] = ...
        authorized_operations: int = -2147483648

    throttle_time_ms: int = 0
    groups: list[Group] = ...

class ShareFetchRequest(Request[ShareFetchResponse]):
    class Topic(Value):
        class Partition(Value):
            class AcknowledgementBatch(Value):
                first_offset: int = 0
                last_offset: int = 0
                acknowledge_types: list[int] = ...

            partition_index: int = 0
            acknowledgement_batches: list[AcknowledgementBatch] = ...

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    class ForgottenTopic(Value):
        topic_id: bytes = ...
        partitions: list[int] = ...

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0  # from 2
    is_renew_ack: bool = False  # from 2
    topics: list[Topic] = ...
    forgotten_topics_data: list[ForgottenTopic] = ...

class ShareFetchResponse(Response):
    class Response(Value):
        class Partition(Value):
            class CurrentLeader(Value):
                leader_id: int = 0
                leader_epoch: int = 0

            class AcquiredRecords(Value):
                first_offset: int = 0
                last_offset: int = 0
                delivery_count: int = 0

            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = None
            acknowledge_error_code: int = 0
            acknowledge_error_message: str | None = None
            current_leader: CurrentLeader = ...
            records: memoryview | None = None
            acquired_records: list[AcquiredRecords] = ...
            def __init__(
                self,
                *,
                partition_index: int = 0,
                error_code: int = 0,
                error_message: str | None = None,
                acknowledge_error_code: int = 0,
                acknowledge_error_message: str | None = None,
                current_leader: CurrentLeader = ...,
                records: Records | None = None,
                acquired_records: list[AcquiredRecords] = ...,
            ) -> None: ...

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    class NodeEndpoint(Value):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[Response] = ...
    node_endpoints: list[NodeEndpoint] = ...

class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    class Topic(Value):
        class Partition(Value):
            class AcknowledgementBatch(Value):
                first_offset: int = 0
                last_offset: int = 0
                acknowledge_types: list[int] = ...

            partition_index: int = 0
            acknowledgement_batches: list[AcknowledgementBatch] = ...

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False  # from 2
    topics: list[Topic] = ...

class ShareAcknowledgeResponse(Response):
    class Response(Value):
        class Partition(Value):
            class CurrentLeader(Value):
                leader_id: int = 0
                leader_epoch: int = 0

            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = None
            current_leader: CurrentLeader = ...

        topic_id: bytes = ...
        partitions: list[Partition] = ...

    class NodeEndpoint(Value):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0  # from 2
    responses: list[Response] = ...
    node_endpoints: list[NodeEndpoint] = ...

class StreamsGroupHeartbeatRequest(Request[StreamsGroupHeartbeatResponse]):
    class Topology(Value):
        class Subtopology(Value):
            class ChangelogTopic(Value):
                class TopicConfig(Value):
                    key: str = ""
                    value: str = ""

                name: str = ""
                partitions: int = 0
                replication_factor: int = 0
                topic_configs: list[TopicConfig] = ...

            class RepartitionTopic(Value):
                class TopicConfig(Value):
                    key: str = ""
                    value: str = ""

                name: str = ""
                partitions: int = 0
                replication_factor: int = 0
                topic_configs: list[TopicConfig] = ...

            class CopartitionGroup(Value):
                source_topics: list[int] = ...
                source_topic_regex: list[int] = ...
                repartition_source_topics: list[int] = ...

            subtopology_id: str = ""
            source_topics: list[str] = ...
            source_topic_regex: list[str] = ...
            state_changelog_topics: list[ChangelogTopic] = ...
            repartition_sink_topics: list[str] = ...
            repartition_source_topics: list[RepartitionTopic] = ...
            copartition_groups: list[CopartitionGroup] = ...

        epoch: int = 0
        subtopologies: list[Subtopology] = ...

    class ActiveTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class StandbyTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class WarmupTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class UserEndpoint(Value):
        host: str = ""
        port: int = 0

    class ClientTag(Value):
        key: str = ""
        value: str = ""

    class TaskOffset(Value):
        subtopology_id: str = ""
        partition: int = 0
        offset: int = 0

    class TaskEndOffset(Value):
        subtopology_id: str = ""
        partition: int = 0
        offset: int = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: list[ActiveTask] | None = None
    standby_tasks: list[StandbyTask] | None = None
    warmup_tasks: list[WarmupTask] | None = None
    process_id: str | None = None
    user_endpoint: UserEndpoint | None = None
    client_tags: list[ClientTag] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskEndOffset] | None = None
    shutdown_application: bool = False

class StreamsGroupHeartbeatResponse(Response):
    class Status(Value):
        status_code: int = 0
        status_detail: str = ""

    class ActiveTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class StandbyTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class WarmupTask(Value):
        subtopology_id: str = ""
        partitions: list[int] = ...

    class EndpointPartitions(Value):
        class UserEndpoint(Value):
            host: str = ""
            port: int = 0

        class ActivePartition(Value):
            topic: str = ""
            partitions: list[int] = ...

        class StandbyPartition(Value):
            topic: str = ""
            partitions: list[int] = ...

        user_endpoint: UserEndpoint = ...
        active_partitions: list[ActivePartition] = ...
        standby_partitions: list[StandbyPartition] = ...

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag_legacy: int = 0  # only 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1  # from 1
    status: list[Status] | None = ...
    active_tasks: list[ActiveTask] | None = None
    standby_tasks: list[StandbyTask] | None = None
    warmup_tasks: list[WarmupTask] | None = None
    topology_description_required: bool = False  # from 1
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[EndpointPartitions] | None = None

class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse]):
    group_ids: list[str] = ...
    include_authorized_operations: bool = False
    include_topology_description: bool = False  # from 1

class StreamsGroupDescribeResponse(Response):
    class Group(Value):
        class Topology(Value):
            class Subtopology(Value):
                class ChangelogTopic(Value):
                    class TopicConfig(Value):
                        key: str = ""
                        value: str = ""

                    name: str = ""
                    partitions: int = 0
                    replication_factor: int = 0
                    topic_configs: list[TopicConfig] = ...

                class RepartitionTopic(Value):
                    class TopicConfig(Value):
                        key: str = ""
                        value: str = ""

                    name: str = ""
                    partitions: int = 0
                    replication_factor: int = 0
                    topic_configs: list[TopicConfig] = ...

                subtopology_id: str = ""
                source_topics: list[str] = ...
                repartition_sink_topics: list[str] = ...
                state_changelog_topics: list[ChangelogTopic] = ...
                repartition_source_topics: list[RepartitionTopic] = ...

            epoch: int = 0
            subtopologies: list[Subtopology] | None = None

        class Member(Value):
            class Endpoint(Value):
                host: str = ""
                port: int = 0

            class ClientTag(Value):
                key: str = ""
                value: str = ""

            class TaskOffset(Value):
                subtopology_id: str = ""
                partition: int = 0
                offset: int = 0

            class TaskEndOffset(Value):
                subtopology_id: str = ""
                partition: int = 0
                offset: int = 0

            class Assignment(Value):
                class ActiveTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                class StandbyTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                class WarmupTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                active_tasks: list[ActiveTask] = ...
                standby_tasks: list[StandbyTask] = ...
                warmup_tasks: list[WarmupTask] = ...

            class TargetAssignment(Value):
                class ActiveTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                class StandbyTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                class WarmupTask(Value):
                    subtopology_id: str = ""
                    partitions: list[int] = ...

                active_tasks: list[ActiveTask] = ...
                standby_tasks: list[StandbyTask] = ...
                warmup_tasks: list[WarmupTask] = ...

            member_id: str = ""
            member_epoch: int = 0
            instance_id: str | None = None
            rack_id: str | None = None
            client_id: str = ""
            client_host: str = ""
            topology_epoch: int = 0
            process_id: str = ""
            user_endpoint: Endpoint | None = None
            client_tags: list[ClientTag] = ...
            task_offsets: list[TaskOffset] = ...
            task_end_offsets: list[TaskEndOffset] = ...
            assignment: Assignment = ...
            target_assignment: TargetAssignment = ...
            is_classic: bool = False

        class TopologyDescription(Value):
            class DescribedSubtopology(Value):
                class Node(Value):
                    name: str = ""
                    node_type: int = 0
                    source_topics: list[str] = ...
                    sink_topic: str | None = None
                    stores: list[str] = ...
                    successors: list[str] = ...

                subtopology_id: str = ""
                nodes: list[Node] = ...

            class GlobalStore(Value):
                class Source(Value):
                    name: str = ""
                    node_type: int = 0
                    source_topics: list[str] = ...
                    sink_topic: str | None = None
                    stores: list[str] = ...
                    successors: list[str] = ...

                class Processor(Value):
                    name: str = ""
                    node_type: int = 0
                    source_topics: list[str] = ...
                    sink_topic: str | None = None
                    stores: list[str] = ...
                    successors: list[str] = ...

                source: Source = ...
                processor: Processor = ...

            subtopologies: list[DescribedSubtopology] = ...
            global_stores: list[GlobalStore] = ...

        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        topology: Topology | None = None
        members: list[Member] = ...
        authorized_operations: int = -2147483648
        topology_description: TopologyDescription | None = None  # from 1
        topology_description_status: int = 0  # from 1
        assignor_name: str | None = None  # from 1

    throttle_time_ms: int = 0
    groups: list[Group] = ...

class StreamsGroupTopologyDescriptionUpdateRequest(Request[StreamsGroupTopologyDescriptionUpdateResponse]):
    class TopologyDescription(Value):
        class DescribedSubtopology(Value):
            class Node(Value):
                name: str = ""
                node_type: int = 0
                source_topics: list[str] = ...
                sink_topic: str | None = None
                stores: list[str] = ...
                successors: list[str] = ...

            subtopology_id: str = ""
            nodes: list[Node] = ...

        class GlobalStore(Value):
            class Source(Value):
                name: str = ""
                node_type: int = 0
                source_topics: list[str] = ...
                sink_topic: str | None = None
                stores: list[str] = ...
                successors: list[str] = ...

            class Processor(Value):
                name: str = ""
                node_type: int = 0
                source_topics: list[str] = ...
                sink_topic: str | None = None
                stores: list[str] = ...
                successors: list[str] = ...

            source: Source = ...
            processor: Processor = ...

        subtopologies: list[DescribedSubtopology] = ...
        global_stores: list[GlobalStore] = ...

    group_id: str = ""
    member_id: str = ""
    topology_epoch: int = 0
    topology_description: TopologyDescription = ...

class StreamsGroupTopologyDescriptionUpdateResponse(Response):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None

class MetadataRequest(Request[MetadataResponse]):
    class Topic(Value):
        topic_id: bytes = ...  # from 10
        name: str | None = ""

    topics: list[Topic] | None = ...
    allow_auto_topic_creation: bool = True  # from 4
    include_cluster_authorized_operations: bool = False  # 8 to 10
    include_topic_authorized_operations: bool = False  # from 8

class MetadataResponse(Response):
    class Broker(Value):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None  # from 1

    class Topic(Value):
        class Partition(Value):
            error_code: int = 0
            partition_index: int = 0
            leader_id: int = 0
            leader_epoch: int = -1  # from 7
            replica_nodes: list[int] = ...
            isr_nodes: list[int] = ...
            offline_replicas: list[int] = ...  # from 5

        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...  # from 10
        is_internal: bool = False  # from 1
        partitions: list[Partition] = ...
        topic_authorized_operations: int = -2147483648  # from 8

    throttle_time_ms: int = 0  # from 3
    brokers: list[Broker] = ...
    cluster_id: str | None = None  # from 2
    controller_id: int = -1  # from 1
    topics: list[Topic] = ...
    cluster_authorized_operations: int = -2147483648  # 8 to 10
    error_code: int = 0  # from 13

class CreateTopicsRequest(Request[CreateTopicsResponse]):
    class Topic(Value):
        class Assignment(Value):
            partition_index: int = 0
            broker_ids: list[int] = ...

        class Config(Value):
            name: str = ""
            value: str | None = ""

        name: str = ""
        num_partitions: int = 0
        replication_factor: int = 0
        assignments: list[Assignment] = ...
        configs: list[Config] = ...

    topics: list[Topic] = ...
    timeout_ms: int = 60000
    validate_only: bool = False

class CreateTopicsResponse(Response):
    class Topic(Value):
        class Config(Value):
            name: str = ""
            value: str | None = ""
            read_only: bool = False
            config_source: int = -1
            is_sensitive: bool = False

        name: str = ""
        topic_id: bytes = ...  # from 7
        error_code: int = 0
        error_message: str | None = ""
        topic_config_error_code: int = 0  # from 5
        num_partitions: int = -1  # from 5
        replication_factor: int = -1  # from 5
        configs: list[Config] | None = ...  # from 5

    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    class Topic(Value):
        name: str | None = None
        topic_id: bytes = ...

    topics: list[Topic] = ...  # from 6
    topic_names: list[str] = ...  # 0 to 5
    timeout_ms: int = 0

class DeleteTopicsResponse(Response):
    class Response(Value):
        name: str | None = ""
        topic_id: bytes = ...  # from 6
        error_code: int = 0
        error_message: str | None = None  # from 5

    throttle_time_ms: int = 0
    responses: list[Response] = ...

class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    class Topic(Value):
        class Assignment(Value):
            broker_ids: list[int] = ...

        name: str = ""
        count: int = 0
        assignments: list[Assignment] | None = ...

    topics: list[Topic] = ...
    timeout_ms: int = 0
    validate_only: bool = False

class CreatePartitionsResponse(Response):
    class Result(Value):
        name: str = ""
        error_code: int = 0
        error_message: str | None = None

    throttle_time_ms: int = 0
    results: list[Result] = ...

class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    class Topic(Value):
        name: str = ""

    class Cursor(Value):
        topic_name: str = ""
        partition_index: int = 0

    topics: list[Topic] = ...
    response_partition_limit: int = 2000
    cursor: Cursor | None = None

class DescribeTopicPartitionsResponse(Response):
    class Topic(Value):
        class Partition(Value):
            error_code: int = 0
            partition_index: int = 0
            leader_id: int = 0
            leader_epoch: int = -1
            replica_nodes: list[int] = ...
            isr_nodes: list[int] = ...
            eligible_leader_replicas: list[int] | None = None
            last_known_elr: list[int] | None = None
            offline_replicas: list[int] = ...

        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...
        is_internal: bool = False
        partitions: list[Partition] = ...
        topic_authorized_operations: int = -2147483648

    class NextCursor(Value):
        topic_name: str = ""
        partition_index: int = 0

    throttle_time_ms: int = 0
    topics: list[Topic] = ...
    next_cursor: NextCursor | None = None

class TransactionLogKey(Message):
    transactional_id: str = ""

class TransactionLogValue(Message):
    class TransactionPartition(Value):
        topic: str = ""
        partition_ids: list[int] = ...

    producer_id: int = 0
    previous_producer_id: int = -1  # from 1
    next_producer_id: int = -1  # from 1
    producer_epoch: int = 0
    next_producer_epoch: int = -1  # from 1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[TransactionPartition] | None = ...
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0  # from 1

class InitProducerIdRequest(Request[InitProducerIdResponse]):
    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # from 3
    producer_epoch: int = -1  # from 3
    enable2_pc: bool = False  # from 6
    keep_prepared_txn: bool = False  # from 6

class InitProducerIdResponse(Response):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1  # from 6
    ongoing_txn_producer_epoch: int = -1  # from 6

class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    class Transaction(Value):
        class Topic(Value):
            name: str = ""
            partitions: list[int] = ...

        transactional_id: str = ""
        producer_id: int = 0
        producer_epoch: int = 0
        verify_only: bool = False
        topics: list[Topic] = ...

    class V3AndBelowTopic(Value):
        name: str = ""
        partitions: list[int] = ...

    transactions: list[Transaction] = ...  # from 4
    v3_and_below_transactional_id: str = ""  # 0 to 3
    v3_and_below_producer_id: int = 0  # 0 to 3
    v3_and_below_producer_epoch: int = 0  # 0 to 3
    v3_and_below_topics: list[V3AndBelowTopic] = ...  # 0 to 3

class AddPartitionsToTxnResponse(Response):
    class ResultByTransaction(Value):
        class TopicResult(Value):
            class ResultByPartition(Value):
                partition_index: int = 0
                partition_error_code: int = 0

            name: str = ""
            results_by_partition: list[ResultByPartition] = ...

        transactional_id: str = ""
        topic_results: list[TopicResult] = ...

    class ResultByTopicV3AndBelow(Value):
        class ResultByPartition(Value):
            partition_index: int = 0
            partition_error_code: int = 0

        name: str = ""
        results_by_partition: list[ResultByPartition] = ...

    throttle_time_ms: int = 0
    error_code: int = 0  # from 4
    results_by_transaction: list[ResultByTransaction] = ...  # from 4
    results_by_topic_v3_and_below: list[ResultByTopicV3AndBelow] = ...  # 0 to 3

class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = 0
    error_code: int = 0

class EndTxnRequest(Request[EndTxnResponse]):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False

class EndTxnResponse(Response):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1  # from 5
    producer_epoch: int = -1  # from 5

class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    class Marker(Value):
        class Topic(Value):
            name: str = ""
            partition_indexes: list[int] = ...

        producer_id: int = 0
        producer_epoch: int = 0
        transaction_result: bool = False
        topics: list[Topic] = ...
        coordinator_epoch: int = 0
        transaction_version: int = 0  # from 2

    markers: list[Marker] = ...

class WriteTxnMarkersResponse(Response):
    class Marker(Value):
        class Topic(Value):
            class Partition(Value):
                partition_index: int = 0
                error_code: int = 0

            name: str = ""
            partitions: list[Partition] = ...

        producer_id: int = 0
        topics: list[Topic] = ...

    markers: list[Marker] = ...

class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1  # from 2
            committed_metadata: str | None = ""

        name: str = ""  # 0 to 5
        topic_id: bytes = ...  # from 6
        partitions: list[Partition] = ...

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id_or_member_epoch: int = -1  # from 3
    member_id: str = ""  # from 3
    group_instance_id: str | None = None  # from 3
    topics: list[Topic] = ...

class TxnOffsetCommitResponse(Response):
    class Topic(Value):
        class Partition(Value):
            partition_index: int = 0
            error_code: int = 0

        name: str = ""  # 0 to 5
        topic_id: bytes = ...  # from 6
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class DescribeProducersRequest(Request[DescribeProducersResponse]):
    class Topic(Value):
        name: str = ""
        partition_indexes: list[int] = ...

    topics: list[Topic] = ...

class DescribeProducersResponse(Response):
    class Topic(Value):
        class Partition(Value):
            class ActiveProducer(Value):
                producer_id: int = 0
                producer_epoch: int = 0
                last_sequence: int = -1
                last_timestamp: int = -1
                coordinator_epoch: int = 0
                current_txn_start_offset: int = -1

            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = None
            active_producers: list[ActiveProducer] = ...

        name: str = ""
        partitions: list[Partition] = ...

    throttle_time_ms: int = 0
    topics: list[Topic] = ...

class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    transactional_ids: list[str] = ...

class DescribeTransactionsResponse(Response):
    class TransactionState(Value):
        class Topic(Value):
            topic: str = ""
            partitions: list[int] = ...

        error_code: int = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        transaction_start_time_ms: int = 0
        producer_id: int = 0
        producer_epoch: int = 0
        topics: list[Topic] = ...

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = ...

class ListTransactionsRequest(Request[ListTransactionsResponse]):
    state_filters: list[str] = ...
    producer_id_filters: list[int] = ...
    duration_filter: int = -1  # from 1
    transactional_id_pattern: str | None = None  # from 2

class ListTransactionsResponse(Response):
    class TransactionState(Value):
        transactional_id: str = ""
        producer_id: int = 0
        transaction_state: str = ""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = ...
    transaction_states: list[TransactionState] = ...
