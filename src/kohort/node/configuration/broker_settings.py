"""The settings of the broker, of a topic and of a group: Kafka's names, types, defaults, bounds and effects.

Each is defined once, as an attribute that has its value's type: `num_partitions` is Kafka's `num.partitions`. Where a
value comes from is not known here. The text of a setting that is accepted only so that tools can store it states so.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from kohort.model.setting import (
    BOOLEAN,
    DOUBLE,
    HOUR_MS,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    MINUTE_MS,
    PASSWORD,
    STRING,
    Names,
    Setting,
    Value,
    attributes,
)

DOUBLE_MAX = 1.7976931348623157e308
KAFKA_4_3 = "kafka-4.3"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

TimestampType = Literal["CreateTime", "LogAppendTime"]

_STORED = "Accepted and stored for tools; has no effect on one broker."
_CLEANUP = ("delete", "compact")
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMPS = get_args(TimestampType)
_PROTOCOLS = ("classic", "consumer", "streams")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The mechanisms of SASL that a broker can offer."""


def _int(
    default: int, doc: str, low: int, high: int = INT_MAX, *, is_dynamic: bool = False, compatible: int | None = None
) -> Setting[int]:
    return Setting(INT, default, doc, low, high, is_dynamic=is_dynamic, compatible=compatible)


def _long(default: int, doc: str, low: int, *, is_dynamic: bool = False) -> Setting[int]:
    return Setting(LONG, default, doc, low, LONG_MAX, is_dynamic=is_dynamic)


def _bool(default: bool, doc: str, *, is_dynamic: bool = False, compatible: bool | None = None) -> Setting[bool]:
    return Setting(BOOLEAN, default, doc, is_dynamic=is_dynamic, compatible=compatible)


# fmt: off
class ListenerSettings:
    """The settings that a listener may have of its own: `listener.name.NAME.SETTING` goes before `SETTING`.

    Those of SASL may also be given for one mechanism of it, as `listener.name.NAME.MECHANISM.SETTING`.
    """

    ssl_keystore_type = Setting[str](STRING, "PEM", "The format of the broker's certificate and key.", choices=("PEM",))
    ssl_keystore_location = Setting[str | None](STRING, None,
        "A file with the broker's private key, its certificate and the certificates of authorities between; it is read "
        "again when it changes.")
    ssl_keystore_certificate_chain = Setting[str | None](PASSWORD, None,
        "The same certificates as text, instead of a file.")
    ssl_keystore_key = Setting[str | None](PASSWORD, None, "The private key as text, instead of a file.")
    ssl_key_password = Setting[str | None](PASSWORD, None, "The password of the private key.")
    ssl_truststore_type = Setting[str](STRING, "PEM", "The format of the trusted certificates.", choices=("PEM",))
    ssl_truststore_location = Setting[str | None](STRING, None,
        "A file with the certificates of the authorities that sign clients' certificates; it is read again when it "
        "changes.")
    ssl_truststore_certificates = Setting[str | None](PASSWORD, None,
        "The same certificates as text, instead of a file.")
    ssl_client_auth = Setting[str](STRING, "none",
        "Whether clients must show a certificate, may, or are not asked for one. A SASL_SSL listener asks for one only "
        "by a setting of its own, as in Kafka.", choices=("none", "requested", "required"))
    ssl_enabled_protocols = Setting[Names](LIST, ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that clients may speak.", choices=("TLSv1.2", "TLSv1.3"))
    ssl_principal_mapping_rules = Setting[str](STRING, "DEFAULT",
        "RULE:PATTERN/REPLACEMENT/[L|U], DEFAULT, …: how the name in a client's certificate becomes its user name.")
    sasl_enabled_mechanisms = Setting[Names | None](LIST, None,
        "The mechanisms by which clients log in; when not set, SCRAM, and those that there are users or keys for.",
        choices=MECHANISMS)
    sasl_jaas_config = Setting[str | None](PASSWORD, None,
        'PlainLoginModule required user_NAME="PASSWORD" …; for the mechanism PLAIN of one listener.')
    connections_max_reauth_ms = _long(0,
        "How long a client stays logged in before it must log in again (KIP-368); 0: as long as it is connected.", 0)
    sasl_oauthbearer_jwks_endpoint_url = Setting[str | None](STRING, None,
        "Where the public keys are that sign tokens: a URL, or file:///PATH of a file that is read again when it "
        "changes.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = _long(3_600_000, "How often the keys of a URL are fetched.", 1)
    sasl_oauthbearer_expected_audience = Setting[Names | None](LIST, None,
        "A token must name one of these audiences; any will do when not set.")
    sasl_oauthbearer_expected_issuer = Setting[str | None](STRING, None,
        "A token must come from this issuer; any will do when not set.")
    sasl_oauthbearer_clock_skew_seconds = _int(30, "By how much the clocks of issuer and broker may differ.", 0)
    sasl_oauthbearer_sub_claim_name = Setting[str](STRING, "sub", "The claim of a token that is the user's name.")


class BrokerSettings(ListenerSettings):
    """The settings of the broker."""

    # -- this broker

    node_id = _int(1, "The number of this broker in Metadata and DescribeCluster.", 0)
    broker_rack = Setting[str | None](STRING, None, "The rack that Metadata reports for this broker.")
    listeners = Setting[Names](LIST, ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen: NAME://HOST:PORT, …, with PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, or names of your own.")
    advertised_listeners = Setting[Names | None](LIST, None,
        "Where clients of each listener shall connect to, NAME://HOST:PORT, …; the listener itself when not set.")
    listener_security_protocol_map = Setting[Names | None](LIST, None,
        "NAME:PROTOCOL, …: the security protocols of listeners with names of your own.")
    inter_broker_listener_name = Setting[str | None](STRING, None, _STORED)
    sasl_mechanism_inter_broker_protocol = Setting[str | None](STRING, None, _STORED)
    kohort_compatible = Setting[str | None](STRING, None,
        "Behave as that version of Apache Kafka: what improves on it is off, unless its own setting turns it on.",
        choices=(KAFKA_4_3,))
    kohort_sasl_plain_users = Setting[str | None](PASSWORD, None,
        "NAME:PASSWORD,…: users of the mechanism PLAIN. Where no listener has SASL, all have with it.")
    kohort_sasl_scram_users = Setting[str | None](PASSWORD, None,
        "NAME:PASSWORD,…: users of SCRAM that a start creates where they are missing; a stored password stays.")

    # -- what clients may do

    authorizer_class_name = Setting[str](STRING, "",
        "Which authorizer checks what clients may do; empty for none: then every client may do everything.",
        choices=("", STANDARD_AUTHORIZER))
    super_users = Setting[str | None](STRING, None,
        "Principals that may do everything, such as User:admin, separated by semicolons; for an authorizer.")
    allow_everyone_if_no_acl_found = _bool(False,
        "Whether the authorizer allows everything on a resource that no ACL names.")

    # -- topics

    auto_create_topics_enable = _bool(True, "Whether Metadata creates topics that clients ask for.")
    kohort_partitions_max = _int(100_000,
        "How many partitions all topics may have together; a topic beyond it gets POLICY_VIOLATION.",
        1, is_dynamic=True, compatible=INT_MAX)
    kohort_auto_create_topics_max = _int(2000,
        "How many topics there may be for Metadata to create another one; CreateTopics always may.",
        0, is_dynamic=True, compatible=INT_MAX)
    delete_topic_enable = _bool(True, "Whether DeleteTopics may delete.")
    num_partitions = _int(1, "Partitions of a topic that is created without a number.", 1, 100_000, is_dynamic=True)
    default_replication_factor = _int(1, "Replication factor of created topics; one broker holds one.", 1, 1)
    min_insync_replicas = _int(1, _STORED, 1, is_dynamic=True)
    compression_type = Setting[str](STRING, "producer",
        "Stored; batches stay as their producer compressed them.", choices=_CODECS, is_dynamic=True)
    message_max_bytes = _int(1_048_588, "The largest record batch that Produce takes.", 0, is_dynamic=True)

    kohort_produce_check_records = _bool(False,
        "Whether the records of every produced batch are checked, as in Kafka; else those of compacted topics, and "
        "elsewhere the batch's header and CRC.", is_dynamic=True, compatible=True)
    kohort_produce_max_unpacked_bytes = _int(67_108_864,
        "How many bytes the records of a produced batch may have without compression, where they are checked.",
        1_048_576, 134_217_728, is_dynamic=True, compatible=134_217_728)

    # -- logs

    log_segment_bytes = _int(1_073_741_824, "A segment is closed when it reaches this size.", 1024, is_dynamic=True)
    log_roll_ms = Setting[int | None](LONG, None,
        "A segment is closed at this age; log.roll.hours when not set.", 1, LONG_MAX, is_dynamic=True)
    log_roll_hours = _int(168, "A segment is closed at this age.", 1)
    log_retention_ms = Setting[int | None](LONG, None,
        "How long records are kept, -1 for ever; else log.retention.minutes.", -1, LONG_MAX, is_dynamic=True)
    log_retention_minutes = Setting[int | None](INT, None,
        "How long records are kept; else log.retention.hours.", -1, INT_MAX)
    log_retention_hours = _int(168, "How long records are kept.", -1)
    log_retention_bytes = _long(-1, "How much a partition keeps, -1 without limit.", -1, is_dynamic=True)
    log_retention_check_interval_ms = _long(300_000, "How often retention is enforced.", 1)
    log_index_interval_bytes = _int(4096, "Bytes between two index entries.", 0, is_dynamic=True)
    log_index_size_max_bytes = _int(10_485_760, _STORED, 4, is_dynamic=True)
    log_cleanup_policy = Setting[Names](LIST, ("delete",),
        "delete what is old or too much, compact to the last record of each key, or both.",
        choices=_CLEANUP, is_dynamic=True)
    log_segment_delete_delay_ms = _long(60_000, _STORED, 0, is_dynamic=True)
    log_preallocate = _bool(False, _STORED, is_dynamic=True)
    unclean_leader_election_enable = _bool(False, _STORED, is_dynamic=True)
    log_flush_interval_messages = _long(LONG_MAX,
        "Below its default, a reply waits for fsync; else the system decides.", 1, is_dynamic=True)
    log_flush_interval_ms = Setting[int | None](LONG, None, _STORED, 0, LONG_MAX, is_dynamic=True)
    log_message_timestamp_type = Setting[TimestampType](STRING, "CreateTime",
        "Whose time records carry.", choices=_TIMESTAMPS, is_dynamic=True)
    log_message_timestamp_before_max_ms = _long(LONG_MAX, "How old a batch may be when it arrives.", 0, is_dynamic=True)
    log_message_timestamp_after_max_ms = _long(3_600_000,
        "How far ahead of our clock a batch may be.", 0, is_dynamic=True)

    # -- the log cleaner

    log_cleaner_enable = _bool(True, "Whether logs with the policy compact are compacted.")
    log_cleaner_backoff_ms = _long(15_000,
        "How often the cleaner looks for work when there was none.", 0, is_dynamic=True)
    log_cleaner_min_cleanable_ratio = Setting[float](DOUBLE, 0.5,
        "A log is cleaned when more than this part of what may be cleaned is dirty.", 0, 1, is_dynamic=True)
    log_cleaner_min_compaction_lag_ms = _long(0,
        "How young a record may be for the cleaner to touch it.", 0, is_dynamic=True)
    log_cleaner_max_compaction_lag_ms = _long(LONG_MAX,
        "How old a record may get before it is cleaned, whatever the ratio.", 1, is_dynamic=True)
    log_cleaner_delete_retention_ms = _long(86_400_000,
        "How long a tombstone stays once what it deletes is gone.", 0, is_dynamic=True)
    log_cleaner_dedupe_buffer_size = _long(134_217_728,
        "Memory for the keys of one cleaning; more keys take more cleanings.", 1_048_576, is_dynamic=True)
    log_cleaner_io_max_bytes_per_second = Setting[float](DOUBLE, DOUBLE_MAX,
        "How much the cleaner reads in a second at most.", 1, is_dynamic=True)
    log_cleaner_threads = _int(1, _STORED, 0, is_dynamic=True)

    # -- requests

    socket_request_max_bytes = _int(104_857_600, "The largest request; a larger one closes its connection.", 1)
    queued_max_request_bytes = Setting[int](LONG, 134_217_728,
        "How much memory requests that are not whole, wait, or are worked on take on all connections together, shared "
        "fairly: a connection that holds more than is left is not read until there is more, and one large request at a "
        "time is let through. -1: no limit.", -1, LONG_MAX, compatible=-1)
    sasl_server_max_receive_size = _int(524_288,
        "The largest request before the login, where there is one; a larger one closes its connection.", 1)
    kohort_request_max_entries = _int(20_000,
        "How many entries the lists of one request may have together; a request with more closes its connection.",
        4096, compatible=INT_MAX)
    connections_max_idle_ms = _long(600_000, "A connection that is idle for so long is closed.", 1)
    kohort_authentication_timeout_ms = _int(30_000,
        "How long a client may take for the TLS handshake, and again for its login, before it is disconnected.", 1)
    connection_failed_authentication_delay_ms = _int(100,
        "How long a client whose login failed waits for the answer.", 0)
    max_connections = _int(INT_MAX,
        "How many connections are open at once, no more than the limit of open files leaves; others are closed.",
        0, is_dynamic=True)
    max_connections_per_ip = _int(INT_MAX,
        "How many connections are open at once from one address; others are closed.", 0, is_dynamic=True)
    max_connections_per_ip_overrides = Setting[Names](LIST, (),
        "ADDRESS:NUMBER,…: the same for single addresses.", is_dynamic=True, pattern=r".+:\d{1,9}",
        expected="ADDRESS:NUMBER, …")
    max_connection_creation_rate = _int(INT_MAX,
        "How many connections are accepted in a second; others wait.", 1, is_dynamic=True)
    fetch_max_bytes = _int(57_671_680, "The most that one Fetch answers, its first batch excepted.", 1024)
    max_incremental_fetch_session_cache_slots = _int(1000, "Fetch sessions (KIP-227) kept at most.", 0)
    max_request_partition_size_limit = _int(2000, "Partitions in one DescribeTopicPartitions answer.", 1)
    producer_id_expiration_ms = _int(86_400_000,
        "How long an idle producer's sequence is remembered.", 1, is_dynamic=True)

    # -- groups

    group_coordinator_rebalance_protocols = Setting[Names](LIST, ("classic", "consumer", "streams"),
        "The group protocols in force.", choices=_PROTOCOLS)
    group_min_session_timeout_ms = _int(6000, "The shortest session timeout a classic member may ask for.", 1)
    group_max_session_timeout_ms = _int(1_800_000, "The longest session timeout a classic member may ask for.", 1)
    group_initial_rebalance_delay_ms = _int(3000, "How long an empty group waits for more members.", 0)
    kohort_group_initial_quiet_ms = _int(100,
        "An empty group waits no longer once no join came for so long; -1: always the whole delay.", -1, compatible=-1)
    kohort_group_heartbeat_park = _bool(True,
        "Whether a heartbeat waits for news, up to its sender's interval, and eager members learn of a rebalance "
        "together; false answers each at once.", compatible=False)
    kohort_group_commit_delay_ms = _int(-1,
        "How long the answer to a commit that its member's timer sends (auto-commit) is delayed behind the member's "
        "parked heartbeat, at most: it then learns of each rebalance at once. All other commits are answered at once, "
        "and so are all of them with 0. -1: 3000 for clients whose close waits for no such answer (kafka-python), "
        "else 0.", -1)
    kohort_group_requests_overtake = _bool(True,
        "Whether a member's commit and leave are carried out on arrival while its own JoinGroup or SyncGroup waits on "
        "the connection; false has them wait, as in Kafka.", compatible=False)
    kohort_group_added_partitions_from_start = _bool(True,
        "Whether groups that read a topic get the committed offset 0 for partitions that are added to it, so that none "
        "begins at their end (KIP-1327).", compatible=False)
    kohort_group_join_reasons = _bool(True,
        "Whether the reasons `blind` and `topic_metadata_change` of a JoinGroup act.", compatible=False)
    kohort_group_leader_by_version = _bool(True,
        "Whether a member of a consumer group whose metadata does not hold what it owns leads only where no other can.",
        compatible=False)
    kohort_group_events = _bool(True,
        "Whether what happens to groups is written to __kohort_group_events, from which `kohort explain` reads.",
        compatible=False)
    kohort_group_events_retention_bytes = _long(268_435_456,
        "How many bytes of events are kept: retention.bytes of __kohort_group_events, when it is created.", -1)
    kohort_extensions = _bool(True,
        "Whether fields of ours are offered and sent in Kafka's messages, as tagged fields that others skip.",
        compatible=False)
    kohort_group_sync_hold_ms = _int(1000,
        "How long members wait for their assignment while others must revoke and rejoin; 0 never lets them wait.",
        0, compatible=0)
    kohort_groups_max = _int(100_000,
        "How many groups there may be; a member or a commit of another one gets POLICY_VIOLATION.",
        1, is_dynamic=True, compatible=INT_MAX)
    kohort_group_member_max_bytes = _int(1_048_576,
        "How many bytes a member may send about itself, the metadata of all its protocols together or the names of its "
        "topics; one that sends more gets POLICY_VIOLATION.", 1024, is_dynamic=True, compatible=INT_MAX)
    group_max_size = _int(INT_MAX, "How many members a classic group may have.", 1)
    group_consumer_session_timeout_ms = _int(45_000,
        "A member of a consumer group that sends no heartbeat for so long is evicted; a group's own setting goes "
        "before it.", 1)
    group_consumer_min_session_timeout_ms = _int(45_000,
        "The shortest session timeout that a group may set for itself.", 1)
    group_consumer_max_session_timeout_ms = _int(60_000,
        "The longest session timeout that a group may set for itself.", 1)
    group_consumer_heartbeat_interval_ms = _int(5000,
        "How often members of consumer groups send heartbeats; a group's own setting goes before it.", 1)
    group_consumer_min_heartbeat_interval_ms = _int(5000,
        "The shortest heartbeat interval that a group may set for itself.", 1)
    group_consumer_max_heartbeat_interval_ms = _int(15_000,
        "The longest heartbeat interval that a group may set for itself.", 1)
    group_consumer_assignment_interval_ms = _int(1000,
        "How long after a target assignment the next is computed at the latest; sooner where that is cheap.", 0, 15_000)
    group_consumer_min_assignment_interval_ms = _int(0,
        "The shortest assignment interval that a group may set for itself.", 0)
    group_consumer_max_assignment_interval_ms = _int(15_000,
        "The longest assignment interval that a group may set for itself.", 0)
    group_consumer_max_size = _int(INT_MAX, "How many members a consumer group may have.", 1)
    group_consumer_assignors = Setting[Names](LIST, ("uniform", "range"),
        "The assignors that members may name; the first is that of members that name none.")
    group_consumer_migration_policy = Setting[str](STRING, "bidirectional",
        "Which conversions of groups with members are made: none, to the consumer protocol, from it, or both.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"))
    group_consumer_regex_refresh_interval_ms = _int(600_000,
        "Accepted for tools; expressions are matched again whenever topics change.", 10_000)
    group_streams_session_timeout_ms = _int(45_000,
        "A member of a streams group that sends no heartbeat for so long is evicted; a group's own setting goes "
        "before it.", 1)
    group_streams_min_session_timeout_ms = _int(45_000,
        "The shortest session timeout that a streams group may set for itself.", 1)
    group_streams_max_session_timeout_ms = _int(60_000,
        "The longest session timeout that a streams group may set for itself.", 1)
    group_streams_heartbeat_interval_ms = _int(5000,
        "How often members of streams groups send heartbeats; a group's own setting goes before it.", 1)
    group_streams_min_heartbeat_interval_ms = _int(5000,
        "The shortest heartbeat interval that a streams group may set for itself.", 1)
    group_streams_max_heartbeat_interval_ms = _int(15_000,
        "The longest heartbeat interval that a streams group may set for itself.", 1)
    group_streams_assignment_interval_ms = _int(1000,
        "How long after a streams group's target the next is computed at the latest; sooner where that is cheap.",
        0, 15_000)
    group_streams_min_assignment_interval_ms = _int(0,
        "The shortest assignment interval that a streams group may set for itself.", 0)
    group_streams_max_assignment_interval_ms = _int(15_000,
        "The longest assignment interval that a streams group may set for itself.", 0)
    group_streams_max_size = _int(INT_MAX, "How many members a streams group may have.", 1)
    group_streams_num_standby_replicas = _int(0, "How many standby copies a task with state has.", 0)
    group_streams_max_standby_replicas = _int(2, "How many standby copies a streams group may set for itself.", 0)
    kohort_group_streams_topology_descriptions = _bool(True,
        "Whether members of streams groups are asked for the description of their topology (KIP-1331), which "
        "StreamsGroupDescribe returns. It is in memory only, and at most `kohort.group.member.max.bytes` large.",
        compatible=False)
    group_streams_initial_rebalance_delay_ms = _int(3000,
        "How long a streams group that was empty waits for more members before its first target.", 0)
    group_streams_num_warmup_replicas = _int(2,
        "How many tasks of a streams group warm up at a time before they move; with 0 moves wait for no copy.", 0)
    group_streams_max_warmup_replicas = _int(20, "The largest such number that a streams group may set for itself.", 0)
    group_streams_acceptable_recovery_lag = _int(10_000,
        "How many records a copy may be behind to count as caught up.", 0)
    group_streams_rack_aware_assignment_tags = Setting[Names](LIST, (),
        "Keys of client tags (`client.tag.KEY` of Kafka Streams) by which standby tasks are placed: each where these "
        "tags differ from those of the processes that have the task (KIP-708). A member that lacks some has a warning.")
    group_streams_task_offset_interval_ms = _int(60_000,
        "How often members of streams groups report how far their copies are.", 1)
    group_streams_min_task_offset_interval_ms = _int(15_000,
        "The shortest such interval that a streams group may set for itself.", 1)
    kohort_group_migration_min_embedded_version = _int(3,
        "The oldest version of embedded metadata whose members a group may take into the consumer protocol.",
        0, 3, compatible=0)
    kohort_group_migration_ignore_echoed_data = _bool(False,
        "Whether a group is converted whose assignments carry user data that is nothing but what their members sent "
        "themselves, or the generation of cooperative-sticky. Kafka converts no group with user data in assignments.")
    kohort_group_migration_replacement_leads = _bool(True,
        "Whether a static classic member in the place of the last native one leads the classic group, or waits in the "
        "round that its other topics need; false answers it at once, without a leader.", compatible=False)
    kohort_group_consumer_regex_at_once = _bool(True,
        "Whether an expression is resolved with the heartbeat that contains it; false resolves it after the response, "
        "ten seconds after the last one at the earliest, and assigns its topics with a later one.", compatible=False)
    kohort_group_consumer_assignment_early = _bool(True,
        "Whether a target is computed before the assignment interval is over where that is cheap.", compatible=False)
    kohort_group_consumer_heartbeat_settling_ms = _int(500,
        "The heartbeat interval requested of a member that has something to do or to wait for, where no heartbeat is "
        "parked; 0: the group's own.", 0, compatible=0)
    kohort_group_consumer_heartbeat_park_ms = _int(1000,
        "How long a heartbeat in a consumer or streams group may be parked until there is an update for its sender; 0 "
        "answers it at once.",
        0, compatible=0)
    kohort_group_consumer_heartbeat_park_stable_ms = _int(3000,
        "The same for a member without news for half a minute.", 0)
    offsets_topic_num_partitions = _int(50, "Partitions of __consumer_offsets, when it is created.", 1)
    offsets_topic_segment_bytes = _int(104_857_600, "Segment size of __consumer_offsets.", 1)
    offsets_topic_replication_factor = _int(1, "Replication factor of __consumer_offsets; one broker holds one.", 1, 1)
    kohort_offsets_load_ignore = Setting[Names](LIST, (),
        "PARTITION@OFFSET,…: records of __consumer_offsets that a load leaves out where they cannot be read.",
        pattern=r"\d+@\d+", expected="PARTITION@OFFSET, …")
    transaction_state_log_num_partitions = _int(50, "Partitions of __transaction_state, when it is created.", 1)
    transaction_state_log_segment_bytes = _int(104_857_600, "Segment size of __transaction_state.", 1)
    transaction_state_log_replication_factor = _int(1,
        "Replication factor of __transaction_state; one broker holds one.", 1, 1)
    transaction_state_log_min_isr = _int(1, "Replicas that a transaction's record needs; one broker holds one.", 1, 1)
    transaction_max_timeout_ms = _int(900_000, "The longest timeout that a transactional producer may ask for.", 1)
    transactional_id_expiration_ms = _int(604_800_000,
        "How long a transactional id is remembered after its last change.", 1)
    transaction_remove_expired_transaction_cleanup_interval_ms = _int(3_600_000,
        "How often expired transactional ids are looked for.", 1)
    offset_metadata_max_bytes = _int(4096, "The longest metadata text of a committed offset.", 0)
    offsets_retention_minutes = _int(10_080, "How long the offsets of an empty group are kept.", 1)
    offsets_retention_check_interval_ms = _long(600_000, "How often expired offsets are looked for.", 1)
# fmt: on


def _default_from(*settings: Setting[Any], default: Value = None) -> Setting[Any]:
    """Return a setting like the first of these of the broker, whose default is the first of them that is set."""
    like, names = settings[0], tuple(setting.name for setting in settings)
    return Setting(
        like.kind, default or like.default, like.doc, like.low, like.high,
        choices=like.choices, is_dynamic=True, broker_names=names,
    )  # fmt: skip


class TopicSettings:
    """The settings of a topic."""

    cleanup_policy: Setting[Names] = _default_from(BrokerSettings.log_cleanup_policy)
    compression_type: Setting[str] = _default_from(BrokerSettings.compression_type)
    delete_retention_ms: Setting[int] = _default_from(BrokerSettings.log_cleaner_delete_retention_ms)
    file_delete_delay_ms: Setting[int] = _default_from(BrokerSettings.log_segment_delete_delay_ms)
    flush_messages: Setting[int] = _default_from(BrokerSettings.log_flush_interval_messages)
    flush_ms: Setting[int] = _default_from(BrokerSettings.log_flush_interval_ms, default=LONG_MAX)
    index_interval_bytes: Setting[int] = _default_from(BrokerSettings.log_index_interval_bytes)
    max_compaction_lag_ms: Setting[int] = _default_from(BrokerSettings.log_cleaner_max_compaction_lag_ms)
    max_message_bytes: Setting[int] = _default_from(BrokerSettings.message_max_bytes)
    message_timestamp_after_max_ms: Setting[int] = _default_from(BrokerSettings.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms: Setting[int] = _default_from(BrokerSettings.log_message_timestamp_before_max_ms)
    message_timestamp_type: Setting[TimestampType] = _default_from(BrokerSettings.log_message_timestamp_type)
    min_cleanable_dirty_ratio: Setting[float] = _default_from(BrokerSettings.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms: Setting[int] = _default_from(BrokerSettings.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas: Setting[int] = _default_from(BrokerSettings.min_insync_replicas)
    preallocate: Setting[bool] = _default_from(BrokerSettings.log_preallocate)
    retention_bytes: Setting[int] = _default_from(BrokerSettings.log_retention_bytes)
    retention_ms: Setting[int] = _default_from(
        BrokerSettings.log_retention_ms, BrokerSettings.log_retention_minutes, BrokerSettings.log_retention_hours
    )
    segment_bytes: Setting[int] = _default_from(BrokerSettings.log_segment_bytes)
    segment_index_bytes: Setting[int] = _default_from(BrokerSettings.log_index_size_max_bytes)
    segment_ms: Setting[int] = _default_from(BrokerSettings.log_roll_ms, BrokerSettings.log_roll_hours)
    unclean_leader_election_enable: Setting[bool] = _default_from(BrokerSettings.unclean_leader_election_enable)


class GroupResourceSettings:
    """The settings of a group. A value outside the broker's bounds is stored, and works as the bound."""

    consumer_assignment_interval_ms: Setting[int] = _default_from(BrokerSettings.group_consumer_assignment_interval_ms)
    consumer_heartbeat_interval_ms: Setting[int] = _default_from(BrokerSettings.group_consumer_heartbeat_interval_ms)
    consumer_session_timeout_ms: Setting[int] = _default_from(BrokerSettings.group_consumer_session_timeout_ms)
    streams_acceptable_recovery_lag: Setting[int] = _default_from(BrokerSettings.group_streams_acceptable_recovery_lag)
    streams_assignment_interval_ms: Setting[int] = _default_from(BrokerSettings.group_streams_assignment_interval_ms)
    streams_heartbeat_interval_ms: Setting[int] = _default_from(BrokerSettings.group_streams_heartbeat_interval_ms)
    streams_initial_rebalance_delay_ms: Setting[int] = _default_from(
        BrokerSettings.group_streams_initial_rebalance_delay_ms
    )
    streams_num_standby_replicas: Setting[int] = _default_from(BrokerSettings.group_streams_num_standby_replicas)
    streams_num_warmup_replicas: Setting[int] = _default_from(BrokerSettings.group_streams_num_warmup_replicas)
    streams_rack_aware_assignment_tags: Setting[Names] = _default_from(
        BrokerSettings.group_streams_rack_aware_assignment_tags
    )
    streams_session_timeout_ms: Setting[int] = _default_from(BrokerSettings.group_streams_session_timeout_ms)
    streams_task_offset_interval_ms: Setting[int] = _default_from(BrokerSettings.group_streams_task_offset_interval_ms)


LISTENER = attributes("a listener", ListenerSettings)
BROKER = attributes("the broker", BrokerSettings)
TOPIC = attributes("a topic", TopicSettings)
GROUP = attributes("a group", GroupResourceSettings)

COMPATIBLE = {name: setting.compatible for name, setting in BROKER.items() if setting.compatible is not None}
"""The defaults where `kohort.compatible` names Apache Kafka 4.3, of the settings that have another one there."""

NEWEST_VERSIONS: dict[int, int] = {18: 4, 42: 2, 88: 0, 89: 0, 93: -1}
"""The newest version of APIs, by key, that came before Apache Kafka 4.4; -1: it has the first."""

UNIT_MS = {"hours": HOUR_MS, "minutes": MINUTE_MS, "ms": 1}
"""What the last word of a broker setting's name is worth in milliseconds, where a setting comes in several units."""
