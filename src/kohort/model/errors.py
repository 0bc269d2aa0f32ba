"""Kafka's error codes: numbers, names, whether a retry can help, and what each means.

The one table of errors: brokers answer with these codes and clients raise them. It knows
nothing of any API. Source: Kafka's protocol guide, error codes, up to Kafka 4.4.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

_RETRIABLE = True


class ErrorCode(IntEnum):
    """An error code as it travels in a response (int16).

    `text` is one sentence about what the error means; `is_retriable`: the same request may succeed later without
    any change.
    """

    text: str
    is_retriable: bool

    def __new__(cls, code: int, text: str = "", is_retriable: bool = False) -> Self:
        error = int.__new__(cls, code)
        error._value_ = code
        error.text = text
        error.is_retriable = is_retriable
        return error

    UNKNOWN_SERVER_ERROR = -1, "The server experienced an unexpected error when processing the request."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The requested offset is outside the range of offsets held for the partition."
    CORRUPT_MESSAGE = 2, "A record batch failed its CRC, has an invalid size, or is otherwise corrupt.", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not host this topic-partition.", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "The requested fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "This broker is neither leader nor follower of the partition.", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "The request timed out.", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available for the topic-partition.", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than the largest the broker accepts."
    STALE_CONTROLLER_EPOCH = 11, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of the offset commit is too large."
    NETWORK_EXCEPTION = 13, "The connection was lost before a response arrived.", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is loading and cannot process requests yet.", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", _RETRIABLE
    NOT_COORDINATOR = 16, "This broker is not the coordinator of the group.", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "The topic name or the operation on it is invalid."
    RECORD_LIST_TOO_LARGE = 18, "The record batch is larger than the segment size."
    NOT_ENOUGH_REPLICAS = 19, "Fewer in-sync replicas than required.", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written to fewer in-sync replicas than required.",
        _RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "The required acks value is invalid."
    ILLEGAL_GENERATION = 22, "The generation of the request is not the group's generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The group does not support the protocol type or any of the protocols."
    INVALID_GROUP_ID = 24, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, so a rejoin is needed."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offset commit is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "The timestamp of a record is out of the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support the SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is not valid in the current SASL state."
    UNSUPPORTED_VERSION = 35, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below one or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is invalid."
    INVALID_CONFIG = 40, "The configuration is invalid."
    NOT_CONTROLLER = 41, "This is not the controller of the cluster.", _RETRIABLE
    INVALID_REQUEST = 42, "The request is malformed or breaks a rule of the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The message format does not support the request."
    POLICY_VIOLATION = 44, "The request parameters do not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The broker received an out-of-order sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker received a duplicate sequence number."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch has been superseded."
    INVALID_TXN_STATE = 48, "The producer attempted a transactional operation in an invalid state."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one assigned to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is larger than the broker allows."
    CONCURRENT_TRANSACTIONS = 51, "The producer attempted an update while another one was under way.", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "The transaction coordinator has been superseded."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "The broker did not attempt the operation."
    KAFKA_STORAGE_ERROR = 56, "The disk failed when the log was accessed.", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The log directory is not found."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The producer id is not known for the partition."
    REASSIGNMENT_IN_PROGRESS = 60, "A partition reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The delegation token is not found."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is not the owner of the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation token requests are not allowed on this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session is not found.", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is invalid.", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener that matches the one of the request.", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, "The leader epoch of the request is older than the one of the broker.", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch of the request is newer than the one of the broker.", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The compression type is not supported by the requesting client."
    STALE_BROKER_EPOCH = 77, "The broker epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, "The high watermark of the leader has not caught up yet.", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "The member must join again with the id in this response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = 82, "Another member uses the same group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "Eligible partition leaders are not available.", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition needs no leader election.", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, "A record failed the validation of the broker."
    UNSTABLE_OFFSET_COMMIT = 88, "There are unstable offsets that need to be cleared.", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The throttling quota has been exceeded.", _RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id exists."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not satisfy the policy."
    INCONSISTENT_VOTER_SET = 94, "The voter set is not consistent."
    INVALID_UPDATE_VERSION = 95, "The update version is invalid."
    FEATURE_UPDATE_FAILED = 96, "The feature update failed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal could not be deserialized."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot is not found."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not host a topic with this id.", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "The broker id is already in use."
    BROKER_ID_NOT_REGISTERED = 102, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id of the log is not the one of the request.", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id is not the one of this cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id is not found."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session met inconsistent topic ids.", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "The replica is not eligible for the in-sync set."
    NEW_LEADER_ELECTED = 108, "The partition has elected a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The coordinator has fenced the member because of its epoch."
    UNRELEASED_INSTANCE_ID = 111, "The instance id is still used by another member."
    UNSUPPORTED_ASSIGNOR = 112, "The assignor is not supported by the coordinator."
    STALE_MEMBER_EPOCH = 113, "The member epoch is stale: retry with the newest one."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to an endpoint of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription id is not valid."
    TELEMETRY_TOO_LARGE = 118, "The telemetry push is too large."
    INVALID_REGISTRATION = 119, "The registration is invalid."
    TRANSACTION_ABORTABLE = 120, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, "The record state is invalid."
    SHARE_SESSION_NOT_FOUND = 122, "The share session is not found.", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is invalid.", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "The share coordinator rejected the state epoch."
    INVALID_VOTER_KEY = 125, "The voter key does not match."
    DUPLICATE_VOTER = 126, "The voter is already in the set."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The client must bootstrap again: cluster or node is not the one it asked for."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, "The limit of share sessions is reached.", _RETRIABLE
    GROUP_DELETION_FAILED = 134, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, "The description of the topology could not be stored."


class KafkaError(Exception):
    """A request was answered, or must be answered, with an error code.

    `code` is the `ErrorCode`; `text` is what happened, or the code's general meaning.
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
