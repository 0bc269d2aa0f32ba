"""What differs between the two group protocols for a program that is a member: one driver class for each.

A driver has the member's state machine, carries out the effects that only its protocol knows, and tracks the metadata
of the topics that concern the member. It decides nothing about the group, and has no task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from uuid import UUID

from kohort.assign.spec import Assignor
from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.client.membership.coordinator_requests import ClassicRequests, ConsumerRequests, CoordinatorLink
from kohort.client.membership.leader import Leader
from kohort.client.membership.member_messages import topics_seen
from kohort.member import ClassicMember, ConsumerMember, Identity, MemberConfig, State, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, HurryHeartbeat, NameTopics
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.net.environment import randbytes

log = logging.getLogger("kohort.client.membership")

Response = Awaitable[inputs.Input]


def new_member_id() -> str:
    """Return an id as members of the consumer protocol make their own: a random UUID in Kafka's text form (KIP-848)."""
    while (text := topic_id_text(UUID(bytes=randbytes(16), version=4).bytes)).startswith("-"):
        pass  # command lines would take such a text for an option
    return text


class ClassicDriver:
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    name = "classic"

    def __init__(
        self, link: CoordinatorLink, config: MemberConfig, assignors: Sequence[Assignor], member_id: str
    ) -> None:
        self.member = ClassicMember(config, assignors, link.cluster.random, member_id)
        self._group_id = link.group_id
        self._requests = ClassicRequests(link, config)
        self._leader = Leader(link, assignors)

    def carry_out(self, effect: effects.Effect) -> Response | None:
        """Send a request, or compute the group's assignment."""
        match effect:
            case effects.Join(identity, _, reason):
                log.info("group %s: member %s joins: %s", self._group_id, identity.member_id, reason)
                return self._requests.join(effect)
            case effects.Sync():
                return self._requests.sync(effect)
            case effects.Heartbeat():
                return self._requests.heartbeat(effect)
            case effects.Leave(identity, reason):
                log.info("group %s: member %s leaves: %s", self._group_id, identity.member_id, reason)
                return self._requests.leave(effect)
            case effects.Compute():
                return self._leader.compute(effect, lambda: self._is_leading_as(effect.identity))
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh too."""
        self._leader.follow(topics)

    def topic_metadata(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return self._leader.topic_metadata()

    def commit_error(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what to raise: `RebalanceInProgress` where the user may try again, else `CommitFailed`."""
        state = self.member.state
        is_rejoining = self.member.identity != identity and state in (State.PREPARING, State.JOINING)
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
        return self.member.state is State.ASSIGNING and self.member.identity == identity


class ConsumerDriver:
    """A member of the consumer protocol: it sends heartbeats, and finds the names of the topics it is assigned."""

    name = "consumer"

    def __init__(self, link: CoordinatorLink, config: MemberConfig, member_id: str) -> None:
        self.member = ConsumerMember(config, member_id, link.cluster.random)
        self._group_id = link.group_id
        self._cluster = link.cluster
        self._requests = ConsumerRequests(link, config)
        self._known: dict[bytes, str] = {}

    def carry_out(self, effect: effects.Effect) -> Response | None:
        """Send a heartbeat, or ask the cluster for names."""
        match effect:
            case ConsumerHeartbeat(member_id=member_id, cause=cause):
                if effect.member_epoch == 0:
                    log.info("group %s: member %s joins: %s", self._group_id, member_id, cause or "it is new")
                elif effect.is_leave:
                    log.info("group %s: member %s leaves: %s", self._group_id, member_id, cause)
                return self._requests.heartbeat(effect)
            case HurryHeartbeat():
                return self._requests.hurry()
            case NameTopics(topic_ids):
                self._cluster.resolve_names(topic_ids)
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh too."""
        if self._cluster.track(topics):
            self._cluster.request_refresh()

    def topic_metadata(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return topics_seen(self._cluster.view, self._known)

    def commit_error(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what to raise: the epoch of the commit is over, and no newer one came that owns as much."""
        return _refused(error, identity)

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return the ids of what the member owns: offsets of a topic that was made anew are not taken for its own."""
        ids = self.member.topic_ids
        topics = {topic for topic, _ in offsets}
        return {topic: ids[topic] for topic in topics} if topics <= ids.keys() else {}


ProtocolDriver = ClassicDriver | ConsumerDriver


def new_driver(
    protocol: str, link: CoordinatorLink, config: MemberConfig, assignors: Sequence[Assignor], member_id: str
) -> ProtocolDriver:
    """Return the driver of a new member. Raises ValueError for assignors that do not go together.

    A classic member's id is the one that the group knows it by already, or empty: the coordinator makes it.
    """
    if protocol == "classic":
        return ClassicDriver(link, config, assignors, member_id)
    return ConsumerDriver(link, config, member_id)


class ActiveDriver:
    """The driver in force, which a switch of the protocol replaces; the inbox of its member; who waits for changes."""

    def __init__(self, driver: ProtocolDriver) -> None:
        self.driver = driver
        self.inbox: asyncio.Queue[inputs.Input] = asyncio.Queue()
        self.changed = BroadcastEvent()

    @property
    def member(self) -> ClassicMember | ConsumerMember:
        """The state machine in force."""
        return self.driver.member

    def put(self, event: inputs.Input) -> None:
        """Queue an input of the member."""
        self.inbox.put_nowait(event)


def _refused(error: KafkaError, identity: Identity) -> KafkaError:
    if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
        return error
    return CommitFailed(error.code, identity.member_id, identity.generation)
