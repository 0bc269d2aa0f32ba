"""Kafka's error codes: numbers, names, whether a retry can help, and what each means.

The one table of errors: brokers answer with these codes and clients raise them. It knows
nothing of any API. Source: Kafka's protocol guide, error codes, up to Kafka 4.4.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code as it travels in a response (int16)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later without any change."""
        return self in _RETRIABLE

    @property
    def text(self) -> str:
        """One sentence that says what the error means."""
        return _TEXTS[self]


class KafkaError(Exception):
    """A request was answered, or must be answered, with an error code.

    `code` is the `ErrorCode`; `text` says what happened, or the code's general meaning.
    """

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        self.code = code
        self.text = text or code.text
        super().__init__(f"{code.name}: {self.text}")


def error_for(code: int) -> ErrorCode:
    """Return the `ErrorCode` of a number; one we do not know is UNKNOWN_SERVER_ERROR, as Java clients read it."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

_TEXTS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.NONE: "No error.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is outside the range of offsets held for the partition.",
    ErrorCode.CORRUPT_MESSAGE: "A record batch failed its CRC, has an invalid size, or is otherwise corrupt.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker does not host this topic-partition.",
    ErrorCode.INVALID_FETCH_SIZE: "The requested fetch size is invalid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker is neither leader nor follower of the partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available for the topic-partition.",
    ErrorCode.MESSAGE_TOO_LARGE: "The record batch is larger than the largest the broker accepts.",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The controller has moved to another broker.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of the offset commit is too large.",
    ErrorCode.NETWORK_EXCEPTION: "The connection was lost before a response arrived.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and cannot process requests yet.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This broker is not the coordinator of the group.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name or the operation on it is invalid.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The record batch is larger than the segment size.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer in-sync replicas than required.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were written to fewer in-sync replicas than required.",
    ErrorCode.INVALID_REQUIRED_ACKS: "The required acks value is invalid.",
    ErrorCode.ILLEGAL_GENERATION: "The generation of the request is not the group's generation.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The group does not support the protocol type or any of the protocols.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator does not know this member.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is outside the range that the broker allows.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing, so a rejoin is needed.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The offset commit is too large.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_TIMESTAMP: "The timestamp of a record is out of the accepted range.",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The broker does not support the SASL mechanism.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request is not valid in the current SASL state.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of the API is not supported.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic with this name already exists.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is invalid.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below one or above the number of brokers.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is invalid.",
    ErrorCode.INVALID_CONFIG: "The configuration is invalid.",
    ErrorCode.NOT_CONTROLLER: "This is not the controller of the cluster.",
    ErrorCode.INVALID_REQUEST: "The request is malformed or breaks a rule of the protocol.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The message format does not support the request.",
    ErrorCode.POLICY_VIOLATION: "The request parameters do not satisfy the configured policy.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The broker received an out-of-order sequence number.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The broker received a duplicate sequence number.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch has been superseded.",
    ErrorCode.INVALID_TXN_STATE: "The producer attempted a transactional operation in an invalid state.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id is not the one assigned to the transactional id.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is larger than the broker allows.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "The producer attempted an update while another one was under way.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator has been superseded.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional id authorization failed.",
    ErrorCode.SECURITY_DISABLED: "Security features are disabled.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "The broker did not attempt the operation.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The disk failed when the log was accessed.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The log directory is not found.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The producer id is not known for the partition.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "A partition reassignment is in progress.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "The delegation token is not found.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The principal is not the owner of the delegation token.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation token requests are not allowed on this connection.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The principal type is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "The fetch session is not found.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session epoch is invalid.",
    ErrorCode.LISTENER_NOT_FOUND: "The leader has no listener that matches the one of the request.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than the one of the broker.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch of the request is newer than the one of the broker.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The compression type is not supported by the requesting client.",
    ErrorCode.STALE_BROKER_EPOCH: "The broker epoch has changed.",
    ErrorCode.OFFSET_NOT_AVAILABLE: "The high watermark of the leader has not caught up yet.",
    ErrorCode.MEMBER_ID_REQUIRED: "The member must join again with the id in this response.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has reached its maximum size.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member uses the same group instance id.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible partition leaders are not available.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition needs no leader election.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic, so its offsets cannot be deleted.",
    ErrorCode.INVALID_RECORD: "A record failed the validation of the broker.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "There are unstable offsets that need to be cleared.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The throttling quota has been exceeded.",
    ErrorCode.PRODUCER_FENCED: "A newer producer with the same transactional id exists.",
    ErrorCode.RESOURCE_NOT_FOUND: "The request names a resource that does not exist.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names a resource twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not satisfy the policy.",
    ErrorCode.INCONSISTENT_VOTER_SET: "The voter set is not consistent.",
    ErrorCode.INVALID_UPDATE_VERSION: "The update version is invalid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "The feature update failed.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The principal could not be deserialized.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "The snapshot is not found.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position is outside the snapshot.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker does not host a topic with this id.",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "The broker id is already in use.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "The broker id is not registered.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id of the log is not the one of the request.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id is not the one of this cluster.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactional id is not found.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session met inconsistent topic ids.",
    ErrorCode.INELIGIBLE_REPLICA: "The replica is not eligible for the in-sync set.",
    ErrorCode.NEW_LEADER_ELECTED: "The partition has elected a new leader.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset has moved to tiered storage.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The coordinator has fenced the member because of its epoch.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The instance id is still used by another member.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The assignor is not supported by the coordinator.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member epoch is stale: retry with the newest one.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request was sent to an endpoint of the wrong type.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "The endpoint type is not supported.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "The controller id is not known.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription id is not valid.",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry push is too large.",
    ErrorCode.INVALID_REGISTRATION: "The registration is invalid.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction can only be aborted.",
    ErrorCode.INVALID_RECORD_STATE: "The record state is invalid.",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "The share session is not found.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session epoch is invalid.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the state epoch.",
    ErrorCode.INVALID_VOTER_KEY: "The voter key does not match.",
    ErrorCode.DUPLICATE_VOTER: "The voter is already in the set.",
    ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid.",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client must bootstrap again: cluster or node is not the one it asked for.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The topology is invalid.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The topology epoch is invalid.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The topology epoch is outdated.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "The limit of share sessions is reached.",
    ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted.",
}
