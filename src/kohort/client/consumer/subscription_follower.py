"""Updates what a consumer reads from its subscription and the cluster's metadata.

In a group the membership subscribes to the topics and is assigned partitions; without one all partitions of the topics
are read. Partitions that the program assigns itself exclude a subscription.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.offset_commits import OffsetCommits
from kohort.client.consumer.partition_births import PartitionBirths
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.rebalance_callbacks import RebalanceCallbacks
from kohort.client.consumer.topic_subscription import TopicSubscription
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)


@dataclass(eq=False)
class SubscriptionFollower:
    """`subscription` is the program's, `topics` the names it stands for now, `assigned` what the program assigned."""

    subscription: TopicSubscription
    _cluster: Cluster
    _config: ConsumerConfig
    _partitions: PartitionTable
    _group: ConsumerMembership
    _commits: OffsetCommits
    _callbacks: RebalanceCallbacks
    _births: PartitionBirths
    _unwatch: Callable[[], None] | None = None
    _warn_at_s: float = math.inf

    def __post_init__(self) -> None:
        self.change(self.subscription)

    def change(self, subscription: TopicSubscription) -> None:
        """Take another subscription, for the next `apply`. Raises ValueError for one that cannot be resolved."""
        self._config.check_subscription(subscription)
        self.subscription = subscription
        self.topics = subscription.names
        self.assigned: Partitions = frozenset()

    def assign(self, partitions: Partitions) -> None:
        """Take partitions that the program assigns itself. Raises RuntimeError where it has subscribed."""
        if self.subscription:
            raise RuntimeError("assign and subscribe exclude each other: unsubscribe first")
        self.assigned = partitions

    def topic_names(self) -> frozenset[str]:
        """Return the topics that are read now: those that were named and those that match an expression."""
        by_broker = (state.partition.topic for state in self._partitions if self.subscription.for_broker)
        return frozenset(self.topics).union(by_broker)

    async def apply(self) -> None:
        """Read what was subscribed to or assigned: join the group, or change its subscription; or read without one.

        Raises `UnknownTopic` for a name where there is no group to wait in.
        """
        if not self.subscription:
            self.read_assigned()
            return
        if self._group.membership is None:
            self._partitions.clear()
        wanted = self.subscription
        has_patterns = bool(wanted.patterns or (wanted.for_broker and self._config.group_protocol == "auto"))
        self._cluster.track_all(is_wanted=has_patterns)
        if has_patterns:
            await self._cluster.refresh()
        self.topics = wanted.topics(self._cluster.view)
        if wanted.patterns and not self.topics:
            shown = ", ".join(each.pattern for each in wanted.patterns)
            log.warning("%s reads nothing yet: no topic's whole name matches %s", self._config.client_id, shown)
        if self._group.group_id is None:
            for topic in wanted.names:
                await self._cluster.topic(topic)
        else:
            self._group.subscribe(wanted, self._callbacks, self._commits.commit_before_join)
        self._births.see(self._cluster.view, self.topics)
        self._follow(self._cluster.view)
        self._unwatch = self._unwatch or self._cluster.watch(self._follow)

    def read_assigned(self) -> None:
        """Read the assigned partitions, and no others."""
        self._partitions.retain(self.assigned)
        self._cluster.track({partition.topic for partition in self.assigned})
        self._cluster.request_refresh()
        self._partitions.position_wanted.set()
        self._unwatch = self._unwatch or self._cluster.watch(self._follow)

    def _follow(self, view: ClusterView) -> None:
        """Follow topics that begin or cease to match an expression; without a group, new partitions too."""
        self._warn_of_missing(view)
        if not self.subscription:
            self._births.see(view, {partition.topic for partition in self.assigned})
            return
        before, self.topics = self.topics, self.subscription.topics(view)
        self._births.see(view, self.topic_names(), set(self.topics).difference(before))
        if self._group.group_id is None:
            there = {
                TopicPartition(topic, number)
                for topic in self.topics
                for number in (view.topics[topic].partitions if topic in view.topics else ())
            }
            # A partition that is missing in the metadata is read on: only a topic that is not subscribed to goes.
            self._partitions.retain(there | {each for each in self._partitions.partitions if each.topic in self.topics})
        elif self._group.membership is not None and self.topics != before:
            self._group.subscribe(self.subscription, self._callbacks, self._commits.commit_before_join)

    def _warn_of_missing(self, view: ClusterView) -> None:
        """Log what is missing in the cluster after five seconds, and then every minute: nothing is read from it."""
        missing = [name for name in self.subscription.names if view.is_gone(name)]
        for partition in sorted(self._partitions.partitions):
            found = view.topics.get(partition.topic)
            if found is None or not found.partitions:
                is_missing = partition.topic not in missing and view.is_gone(partition.topic)
            else:
                is_missing = partition.partition not in found.partitions
            missing += [str(partition)] if is_missing else []
        now_s = asyncio.get_running_loop().time()
        if not missing:
            self._warn_at_s = math.inf
        elif self._warn_at_s == math.inf:
            self._warn_at_s = now_s + 5
        elif now_s >= self._warn_at_s:
            self._warn_at_s = now_s + 60
            text = "%s wants what does not exist, and reads nothing from it: %s: create it, or check its name"
            log.warning(text, self._config.client_id, ", ".join(missing))
