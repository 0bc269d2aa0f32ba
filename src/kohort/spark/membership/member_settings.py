"""Settings of a Spark job as a member of its group, and its cluster and membership; names are the consumer's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, get_args

from kohort.assign.spec import Assignor
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.client.cluster.offset_specs import ISOLATION, RESET_FORMS, reset_timestamp
from kohort.client.consumer.consumer_settings import DEFAULT_ASSIGNORS, check_member
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.client.membership.membership import Membership, MembershipSettings
from kohort.client.membership.protocol_switch import PROTOCOLS, GroupProtocol
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.member import MemberConfig
from kohort.model.setting import BOOLEAN, OBJECT, STRING, check_fields, setting
from kohort.spark.options.member_options import METADATA_MAX_AGE_MS
from kohort.spark.rows.read_settings import Isolation, ReadSettings, security

if TYPE_CHECKING:
    from kohort.spark.options.source_options import SourceOptions


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Settings of a member, named as those of `Consumer`; a `pattern` of whole topic names replaces `topics`.

    Executors get the `properties`, too. Raises TypeError, ValueError for a wrong value, and for settings that do not go
    together.
    """

    # fmt: off
    bootstrap_servers: str = setting(MISSING, "Brokers to begin with: host:port, several with commas.", kind=OBJECT)
    group_id: str = setting(MISSING, "The group.", 1, kind=STRING, expected="the name of a group")
    topics: tuple[str, ...] = setting((), "Topics to read.")
    auto_offset_reset: str | None = setting(None, "Where reading begins without a committed offset: none raises "
        "instead, by_duration:PT1H begins an hour ago.", kind=STRING, expected=RESET_FORMS)
    fail_on_data_loss: bool | None = setting(None, "Whether offsets that are gone end the stream.", kind=BOOLEAN)
    client_id: str = setting("kohort", "The name of the client in the brokers' logs and quotas.")
    group_instance_id: str | None = setting(None, "The name of a static member (KIP-345).", kind=STRING)
    session_timeout_ms: int = setting(45_000, "A member without heartbeats for so long is evicted.", 1)
    heartbeat_interval_ms: int = setting(3_000, "How often heartbeats are sent.", 1)
    rebalance_timeout_ms: int = setting(300_000, "How long a rebalance waits for this member.", 1)
    assignors: tuple[Assignor, ...] = setting(DEFAULT_ASSIGNORS, "Assignors of the classic protocol, as objects.",
        kind=OBJECT)
    client_rack: str | None = setting(None, "The rack of this client: replicas of it are read.", kind=STRING)
    protocol: GroupProtocol = setting("classic", "Which protocol the member speaks.", choices=PROTOCOLS)
    assignor: str | None = setting(None, "The assignor that the broker is to use.", kind=STRING)
    pattern: str | None = setting(None, "Topics whose whole names match it, instead of topics.", kind=STRING)
    isolation_level: Isolation = setting("read_uncommitted", "Whether records of open and aborted transactions are "
        "read.", choices=get_args(Isolation))
    topics_must_exist: bool = setting(False, "Whether a topic that is missing is an error.")
    allow_auto_create_topics: bool = setting(False, "Whether the broker may create it.")
    metadata_max_age_ms: int = setting(METADATA_MAX_AGE_MS, "How often new partitions and topics are looked for.", 1)
    properties: Mapping[str, str] = setting({}, "Security in Kafka's names: security.protocol, sasl.…, ssl.….",
        cls=Mapping, expected="a dict of texts")
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        if self.auto_offset_reset is not None:
            reset_timestamp(self.auto_offset_reset, 0)
        check_member(self, self.protocol, self.assignor, ("protocol", "assignor"))

    @property
    def read_settings(self) -> ReadSettings:
        """How executors read ranges; they fail where records are gone, and the member decides what follows."""
        return ReadSettings(
            self.bootstrap_servers,
            isolation=self.isolation_level,
            client_id=self.client_id,
            client_rack=self.client_rack or "",
            properties=self.properties,
            group_id=self.group_id,
        )

    @property
    def isolation(self) -> int:
        """The isolation level as a number of the protocol."""
        return ISOLATION[self.isolation_level]

    def cluster(self) -> Cluster:
        """Return the cluster, not started."""
        return Cluster(
            self.bootstrap_servers,
            client_id=self.client_id,
            metadata_max_age_ms=self.metadata_max_age_ms,
            allow_auto_create_topics=self.allow_auto_create_topics,
            **security(self.properties),
        )

    def membership(self, cluster: Cluster, listener: RebalanceListener) -> Membership:
        """Return the member, not started; with a `pattern` its topics are those that the cluster's metadata has now."""
        return Membership(
            cluster,
            self.group_id,
            self._wanted.in_group(cluster.view),
            MembershipSettings(
                MemberConfig(
                    session_timeout_ms=self.session_timeout_ms,
                    rebalance_timeout_ms=self.rebalance_timeout_ms,
                    heartbeat_interval_ms=self.heartbeat_interval_ms,
                    instance_id=self.group_instance_id,
                    rack=self.client_rack,
                    server_assignor=self.assignor,
                ),
                self.assignors,
                self.protocol,
            ),
            listener=listener,
        )

    async def follow(self, cluster: Cluster) -> None:
        """Fetch the metadata of all topics, now and from now on, where a `pattern` needs it."""
        if self.pattern is not None:
            cluster.track_all()
            await cluster.refresh()

    def subscriber(self, membership: Membership) -> Callable[[ClusterView], None]:
        """Return a function of new metadata that subscribes a membership to the topics that `pattern` matches."""
        wanted = self._wanted

        def subscribe(view: ClusterView) -> None:
            if wanted.topics(view) != membership.topics:
                membership.subscribe(wanted.in_group(view))

        return subscribe

    @property
    def _wanted(self) -> TopicSubscription:
        return TopicSubscription(self.topics, (re.compile(self.pattern),) if self.pattern is not None else ())


def settings_from_options(options: SourceOptions, cores: float) -> MemberSettings:
    """Return a stream's options as the settings of its member; `cores` is its weight where the options have none."""
    member = options.member
    assert member is not None, "a stream is a member of a group"
    settings = MemberSettings(
        options.read.bootstrap_servers,
        member.group_id,
        options.topics,
        client_id=options.read.client_id,
        group_instance_id=member.instance_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_rack=options.read.client_rack or None,
        protocol=member.group_protocol,
        assignor=member.remote_assignor,
        pattern=options.pattern,
        topics_must_exist=options.read.fail_on_data_loss and not options.allow_auto_create_topics,
        allow_auto_create_topics=options.allow_auto_create_topics,
        metadata_max_age_ms=member.metadata_max_age_ms,
        isolation_level=options.read.isolation,
        properties=options.read.properties,
    )
    if member.protocol == "consumer":  # the broker has the other settings
        return settings
    return replace(
        settings,
        session_timeout_ms=member.session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms,
        assignors=member.assignors(cores),
    )
