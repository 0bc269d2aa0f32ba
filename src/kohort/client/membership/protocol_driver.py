"""What differs between the two group protocols for a program that is a member: one side for each, one driver for both.

A side has the member's state machine, carries out what only its protocol asks for, and follows the topics that concern
it. It decides nothing about the group, and has no task of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Protocol

from kohort.assign.spec import Assignor
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.client.membership.classic_requests import GroupRequests
from kohort.client.membership.consumer_requests import ConsumerRequests
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.leader import Leading
from kohort.client.membership.topic_metadata import topics_seen
from kohort.member import ClassicMember, ConsumerMember, Identity, MemberConfig, State, effects, inputs
from kohort.member.consumer_effects import ConsumerHeartbeat, HurryHeartbeat, NameTopics
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

Answer = Awaitable[inputs.Input]


class Side(Protocol):
    """One member of one group, in one of the protocols."""

    name: str

    @property
    def member(self) -> ClassicMember | ConsumerMember:
        """The state machine."""
        ...

    def carry_out(self, effect: effects.Effect) -> Answer | None:
        """Begin what an effect asks for; return what to wait for, and the input that answers it."""
        ...

    def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics' metadata too."""
        ...

    def seen(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        ...

    def refusal(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what the user is told of a commit that was refused to `identity`."""
        ...

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return the ids to commit these partitions by, none to commit them by name."""
        ...


class ClassicSide:
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    name = "classic"

    def __init__(self, link: CoordinatorLink, config: MemberConfig, assignors: Sequence[Assignor]) -> None:
        self._member = ClassicMember(config, assignors, link.cluster.random)
        self._requests = GroupRequests(link, config)
        chosen = {assignor.name: assignor for assignor in assignors}
        self._leading = Leading(link.cluster, link.group_id, chosen, self._requests)

    @property
    def member(self) -> ClassicMember:
        """The state machine."""
        return self._member

    def carry_out(self, effect: effects.Effect) -> Answer | None:
        """Send what is to be sent, or compute the group's assignment."""
        match effect:
            case effects.Join():
                return self._requests.join(effect)
            case effects.Sync():
                return self._requests.sync(effect)
            case effects.Heartbeat():
                return self._requests.heartbeat(effect)
            case effects.Leave():
                return self._requests.leave(effect)
            case effects.Compute():
                return self._leading.compute(effect, lambda: self._is_leading_as(effect.identity))
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics' metadata too."""
        self._leading.follow(topics)

    def seen(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return self._leading.seen()

    def refusal(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what the user is told: may it try again, or are the partitions gone?"""
        state = self._member.state
        is_rejoining = self._member.identity != identity and state in (State.PREPARING, State.JOINING)
        # The round that this member is in has formed the next generation: what it owned it keeps, or has given up.
        is_overtaken = error.code is ErrorCode.ILLEGAL_GENERATION and state in (
            State.JOINING,
            State.ASSIGNING,
            State.SYNCING,
        )
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS or is_rejoining or is_overtaken:
            return RebalanceInProgress(identity.member_id, identity.generation)
        return _refused(error, identity)

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return none: a classic group's offsets go by name."""
        del offsets
        return {}

    def _is_leading_as(self, identity: Identity) -> bool:
        return self._member.state is State.ASSIGNING and self._member.identity == identity


class ConsumerSide:
    """A member of the consumer protocol: it sends heartbeats, and finds the names of what it is assigned."""

    name = "consumer"

    def __init__(self, link: CoordinatorLink, config: MemberConfig, member_id: str) -> None:
        self._cluster = link.cluster
        self._member = ConsumerMember(config, member_id, link.cluster.random)
        self._requests = ConsumerRequests(link, config)
        self._known: dict[bytes, str] = {}

    @property
    def member(self) -> ConsumerMember:
        """The state machine."""
        return self._member

    def carry_out(self, effect: effects.Effect) -> Answer | None:
        """Send a heartbeat, or ask the cluster for names."""
        match effect:
            case ConsumerHeartbeat():
                return self._requests.heartbeat(effect)
            case HurryHeartbeat():
                return self._requests.hurry()
            case NameTopics(topic_ids):
                self._cluster.want_names(topic_ids)
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics' metadata too."""
        if self._cluster.track(topics):
            self._cluster.want_refresh()

    def seen(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return topics_seen(self._cluster.view, self._known)

    def refusal(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what the user is told: the epoch it showed is over, and no newer one came that owns as much."""
        return _refused(error, identity)

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return the ids of what the member owns: offsets of a topic that was made anew are not taken for its own."""
        ids = self._member.topic_ids
        topics = {topic for topic, _ in offsets}
        return {topic: ids[topic] for topic in topics} if topics <= ids.keys() else {}


def _refused(error: KafkaError, identity: Identity) -> KafkaError:
    if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
        return error
    return CommitFailed(error.code, identity.member_id, identity.generation)
