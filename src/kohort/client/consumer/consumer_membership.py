"""A consumer's place in its group: at most one membership at a time.

There is none without a `group_id`, before the first subscription, with partitions assigned by hand, and after the
consumer has unsubscribed; then it is a `NonMember`, which only commits and reads offsets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    PartitionOffsets,
    commit_offsets,
    fetch_committed,
)
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.client.errors import CommitFailed
from kohort.client.membership.membership import Membership, MembershipSettings
from kohort.client.membership.protocol_driver import new_member_id
from kohort.client.membership.user_callbacks import Lags, RebalanceListener
from kohort.client.synchronization import BroadcastEvent
from kohort.member import MemberConfig
from kohort.member.effects import Callback
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class NonMember:
    """A consumer that is in no group now, with the methods of a `Membership` that a consumer calls."""

    def __init__(self, cluster: Cluster, group_id: str | None) -> None:
        self._cluster = cluster
        self._group_id = group_id

    def require_id(self) -> str:
        """Return the group's id. Raises RuntimeError without a group."""
        if self._group_id is None:
            raise RuntimeError("this consumer has no group: pass group_id to commit offsets")
        return self._group_id

    def check(self) -> None:
        """Do nothing: no membership has ended. There is no poll interval either."""

    enter_poll = return_poll = check

    def rejoin(self, _reason: str) -> None:
        """Raise RuntimeError."""
        raise RuntimeError("this consumer is in no group that could rebalance: give a group_id and subscribe")

    def watch_ownership(self, _partitions: Iterable[TopicPartition]) -> None:
        """Return None: partitions that the program assigns go to no other."""

    async def commit(self, offsets: PartitionOffsets, *, since: object = None) -> None:
        """Commit offsets as no member. Raises as `commit_offsets`."""
        del since
        await commit_offsets(self._cluster, self.require_id(), offsets)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets. Raises `KafkaError`, RuntimeError without a group."""
        return await fetch_committed(self._cluster, self.require_id(), partitions)


class ConsumerMembership:
    """The membership of a consumer, while it has one. `changed` is notified after each step of it."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, metrics: RebalanceMetrics, changed: BroadcastEvent
    ) -> None:
        self.group_id = config.group_id
        self.membership: Membership | None = None
        self._non_member = NonMember(cluster, config.group_id)
        self._cluster = cluster
        self._config = config
        self._metrics = metrics
        self._changed = changed
        self._member_id = new_member_id()
        self._lags: Lags | Callable[[], Lags] | None = None

    def require_id(self) -> str:
        """Return the group's id. Raises RuntimeError without a group."""
        return self._non_member.require_id()

    @property
    def current(self) -> Membership | NonMember:
        """The membership, or what stands for none."""
        return self.membership or self._non_member

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows the member, as far as it has answered."""
        return self.membership is not None and self.membership.member.is_known

    @property
    def has_joined(self) -> bool:
        """Whether offsets can be committed: as a member in some generation or epoch, or as no member at all."""
        return self.membership is None or self.membership.generation >= 0

    def subscribe(
        self, wanted: TopicSubscription, listener: RebalanceListener, before_join: Callable[[], Awaitable[None]]
    ) -> None:
        """Subscribe to these topics, as far as the metadata shows them now; the first call begins to join."""
        subscription = wanted.in_group(self._cluster.view)
        if self.membership is not None:
            self.membership.subscribe(subscription)
            return
        config = self._config
        self.membership = membership = Membership(
            self._cluster,
            self.require_id(),
            subscription,
            MembershipSettings(
                MemberConfig(
                    session_timeout_ms=config.session_timeout_ms,
                    rebalance_timeout_ms=config.max_poll_interval_ms,
                    heartbeat_interval_ms=config.heartbeat_interval_ms,
                    max_poll_interval_ms=config.max_poll_interval_ms,
                    instance_id=config.group_instance_id,
                    rack=config.client_rack,
                    server_assignor=config.group_remote_assignor,
                    acceptable_recovery_lag=config.acceptable_recovery_lag,
                    lag_growth_ms=config.lag_growth_ms,
                ),
                tuple(config.assignors),
                config.group_protocol,
                self._member_id,
                config.protocol_check_ms,
            ),
            listener=listener,
            metrics=self._metrics,
            on_change=self._changed.notify,
            before_join=before_join,
        )
        if self._lags is not None:
            membership.report_lags(self._lags)
        membership.begin()

    async def leave(self, reason: str) -> None:
        """Give the partitions back and leave the group; another `subscribe` joins again."""
        if self.membership is not None:
            await self.membership.stop(reason)
            self.membership = None

    def report_lags(self, lags: Lags | Callable[[], Lags]) -> None:
        """Report how far standby copies are behind, now and in each later membership."""
        self._lags = lags
        if self.membership is not None:
            self.membership.report_lags(lags)

    def metadata(self) -> GroupMetadata:
        """Return who the consumer is in its group now. Raises RuntimeError without a group."""
        group_id, member = self.require_id(), self.membership
        if member is None:
            return GroupMetadata(group_id)
        return GroupMetadata(group_id, member.generation, member.member_id, member.config.instance_id)

    # Offsets

    def metadata_for(self, offsets: Iterable[TopicPartition]) -> GroupMetadata:
        """Return who commits offsets of these partitions. Raises `CommitFailed` where the member does not own them.

        A coordinator takes offsets of a transaction from anyone who names no member.
        """
        metadata, member = self.metadata(), self.membership
        if member is not None and not (metadata.generation >= 0 and member.assignment.issuperset(offsets)):
            raise CommitFailed(ErrorCode.ILLEGAL_GENERATION, member.identity)
        return metadata

    # Reports to the client's observer

    def note_position(self, partition: TopicPartition, offset: int, why: str) -> None:
        """Report from where a partition is read."""
        if (membership := self.membership) is not None:
            membership.observer.position_set(membership, partition, offset, why)

    def note_delivered(self, partition: TopicPartition, first: int, next_offset: int) -> None:
        """Report that the records of these offsets are returned, if there are any."""
        if (membership := self.membership) is not None:
            membership.observer.records_delivered(membership, partition, first, next_offset)

    def note_callback(self, callback: Callback, partitions: Partitions) -> None:
        """Report that the user's own callback begins."""
        if (membership := self.membership) is not None:
            membership.observer.callback_began(membership, callback, partitions)

    def note_callback_end(self, callback: Callback, partitions: Partitions, error: BaseException | None) -> None:
        """Report that it has ended, and what it raised."""
        if (membership := self.membership) is not None:
            membership.observer.callback_ended(membership, callback, partitions, error)
