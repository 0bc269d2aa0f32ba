"""A coordinator with classic and native members of one group, whose clients are small and follow each response.

`Mixed` is the world of `tests.unit.group.world` with topics, real metadata and server-side assignors. A client takes
one step at a time: it acts on the last response, then sends the next request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.group.consumer_world import read_as_kafka
from tests.unit.group.fixed_topics import FixedTopics
from tests.unit.group.world import REBALANCE_MS, Answer, World

from kohort.assign import CooperativeStickyAssignor, GroupSpec, MemberSpec, RangeAssignor, TopicSpec
from kohort.assign.server.catalog import server_assignors
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Heartbeat, Leaving, Protocols
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.effects import Effect, Then
from kohort.group.events import ClassicPhase
from kohort.group.results import ConsumerHeartbeatResult, JoinResult, SyncResult
from kohort.model.assignment import IdPartitions, each, id_partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription

T, U = b"T" * 16, b"U" * 16
TOPICS = {"t": ImageTopic("t", T, 6), "u": ImageTopic("u", U, 2)}
ASSIGNORS = {"range": RangeAssignor(), "cooperative-sticky": CooperativeStickyAssignor()}
Owned = set[tuple[bytes, int]]


class Crashed(Exception):
    """The coordinator is lost in the middle of what it was doing."""


class Mixed(World):
    """The world, with topics `t` (six partitions) and `u` (two). It crashes once it has gone on `crashes_in` times."""

    crashes_in = -1

    def __init__(self, **settings: Any) -> None:
        read = group_settings(Config(), FixedTopics(TOPICS.values()), server_assignors(["uniform", "range"]))
        names = (
            "topics_of",
            "version_of",
            "owned_of",
            "assigned_of",
            "offer_of",
            "compared_metadata_of",
            "subscription_of",
            "assignment_of",
        )
        readers = {name: getattr(read, name) for name in (*names, "encode_assignment_of", "image", "assignors")}
        super().__init__(**{**readers, **settings})

    def _check(self) -> None:
        super()._check()
        read_as_kafka(record for records in self.log for record in records)

    def _answer(self, effect: Effect, answer: Answer | None) -> None:
        if isinstance(effect, Then) and self.crashes_in >= 0:
            self.crashes_in -= 1
            if self.crashes_in < 0:
                raise Crashed
        super()._answer(effect, answer)

    @property
    def is_consumer(self) -> bool:
        return isinstance(self.shard.groups.get("g"), ConsumerGroup)

    def consumers(self) -> ConsumerGroup:
        """The group, which must be a consumer group."""
        group = self.shard.groups["g"]
        assert isinstance(group, ConsumerGroup), "the group is a consumer group"
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.consumers().members[member_id]

    def phase(self, member_id: str) -> ClassicPhase:
        return self.member(member_id).classic_phase

    def native(self, member_id: str, epoch: int, **changes: Any) -> ConsumerHeartbeatResult:
        """Send one heartbeat of a native member; one of epoch 0 says what a joiner must."""
        beat = ConsumerHeartbeat("g", member_id, epoch)
        if epoch == 0:
            beat = replace(beat, rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("t",), owned=())
        result = self.submit(replace(beat, **changes)).result
        assert isinstance(result, ConsumerHeartbeatResult)
        return result

    def beat(self, member_id: str, epoch: int | None = None, instance_id: str | None = None) -> ErrorCode:
        """Send one heartbeat of a classic member in a consumer group."""
        at = self.member(member_id).epoch if epoch is None else epoch
        return self.submit(Heartbeat("g", member_id, instance_id, at)).error


def offer(
    *topics: str,
    owned: Owned | frozenset[TopicPartition] = frozenset(),
    generation: int = -1,
    names: tuple[str, ...] = ("range",),
    version: int = 3,
    user_data: bytes | None = None,
) -> Protocols:
    """Return what a classic member offers: one subscription under each name."""
    held = tuple(TopicPartition({T: "t", U: "u"}.get(topic, topic), number) for topic, number in sorted(owned))  # type: ignore[call-overload]
    content = Subscription(topics or ("t",), user_data, held, generation, None, version)
    return tuple((name, encode_subscription(content)) for name in names)


def ids(partitions: frozenset[TopicPartition]) -> Owned:
    """Return partitions by topic id."""
    return {(TOPICS[topic].topic_id, number) for topic, number in partitions}


class ClassicClient:
    """A classic member, eager or cooperative, as Java's behaves: the leader of a classic group assigns."""

    def __init__(
        self,
        world: Mixed,
        *,
        names: tuple[str, ...] = ("range",),
        topics: tuple[str, ...] = ("t",),
        instance_id: str | None = None,
        version: int = 3,
    ) -> None:
        self.world, self.names, self.topics = world, names, topics
        self.instance_id, self.version = instance_id, version
        self.is_cooperative = names == ("cooperative-sticky",)
        self.member_id = ""
        self.owned: Owned = set()
        self.revoked: list[Owned] = []
        """What it gave up, each time that it gave something up."""
        self.lost: list[Owned] = []
        """What it found that it had lost."""
        self.error: ErrorCode | None = None
        """Why it ended."""
        self.forget()

    def forget(self) -> None:
        self.generation = -1
        self.is_synced = False
        self.leads: JoinResult | None = None
        self.asked: Answer | None = None
        """The JoinGroup or SyncGroup that has no response yet."""

    @property
    def is_waiting(self) -> bool:
        return self.asked is not None and self.asked.is_waiting

    @property
    def is_settled(self) -> bool:
        return self.is_synced and self.asked is None

    def step(self) -> ErrorCode | None:
        """Do what comes next; return the answer to a heartbeat if it was that."""
        if self.error is not None or self.is_waiting:
            return None
        if self.asked is not None:
            self.listen()
        elif self.is_synced:
            return self.heartbeat()
        elif self.leads is not None:
            self.sync()
        else:
            self.join()
        return None

    def join(self) -> None:
        """Give up what the protocol asks for, and send JoinGroup."""
        if not self.is_cooperative and self.owned:
            self.revoked.append(set(self.owned))
            self.owned.clear()
        self.is_synced, self.leads = False, None
        protocols = offer(
            *self.topics, owned=self.owned, generation=self.generation, names=self.names, version=self.version
        )
        self.asked = self.world.join(self.member_id, protocols=protocols, instance_id=self.instance_id)
        self.listen()

    def sync(self) -> None:
        """Send SyncGroup, with the assignments if it is the leader."""
        assert self.leads is not None, "a sync follows a join"
        self.asked = self.world.sync(
            self.member_id,
            self.generation,
            instance_id=self.instance_id,
            assignments=self.assignments(),
            protocol_type="consumer",
            protocol_name=self.leads.protocol_name,
        )
        self.listen()

    def listen(self) -> None:
        """Take the response that has come, if it has."""
        if self.asked is None or self.asked.is_waiting:
            return
        result, self.asked = self.asked.result, None
        if isinstance(result, SyncResult) and not result.error:
            self.own(ids(decode_assignment(result.assignment).partitions))
        elif isinstance(result, JoinResult) and not result.error:
            self.member_id, self.generation, self.leads = result.member_id, result.generation, result
        elif result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        else:
            self._receive_error(result.error)

    def lose_connection(self) -> None:
        """Lose the outstanding response; the request is sent again."""
        if isinstance(self.asked, Answer):
            self.asked = None

    def own(self, assigned: Owned) -> None:
        """Take an assignment; a cooperative member that had to give something up joins again."""
        gone = self.owned - assigned
        self.owned, self.is_synced = set(assigned), True
        if gone and self.is_cooperative:
            self.revoked.append(gone)
            self.join()

    def assignments(self) -> tuple[tuple[str, bytes], ...]:
        """Return what the member assigns if it leads."""
        result = self.leads
        if result is None or result.leader != self.member_id or not result.members:
            return ()
        members = {
            one.member_id: MemberSpec(decode_subscription(one.metadata), one.instance_id) for one in result.members
        }
        topics = {name: TopicSpec(topic.partitions) for name, topic in TOPICS.items()}
        made = ASSIGNORS[result.protocol_name or ""].assign(GroupSpec(members, topics))
        return tuple((member_id, encode_assignment(assignment)) for member_id, assignment in sorted(made.items()))

    def heartbeat(self) -> ErrorCode:
        beat = Heartbeat("g", self.member_id, self.instance_id, self.generation)
        error: ErrorCode = self.world.submit(beat).error
        if error:
            self._receive_error(error)
        return error

    def _receive_error(self, error: ErrorCode) -> None:
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.is_synced, self.leads = False, None
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                if self.owned:
                    self.lost.append(set(self.owned))
                self.owned.clear()
                self.forget()
                if error is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.KAFKA_STORAGE_ERROR:
                self.is_synced, self.leads = False, None
            case _:
                self.error = error
                self.owned.clear()

    def leave(self) -> None:
        content = Leaving(self.member_id, self.instance_id)
        # Whether or not the coordinator lives to receive it, this process owns nothing and is no member from here on.
        self.owned.clear()
        self.member_id = ""
        self.forget()
        self.world.leave(content)


class NativeClient:
    """A native member: it revokes what its assignment leaves out, and reports that in its next heartbeat."""

    def __init__(
        self, world: Mixed, member_id: str, *, topics: tuple[str, ...] = ("t",), instance_id: str | None = None
    ) -> None:
        self.world, self.member_id, self.topics, self.instance_id = world, member_id, topics, instance_id
        self.epoch = 0
        self.has_lost_an_answer = False
        self.owned: Owned = set()
        self.error: ErrorCode | None = None
        self.message: str | None = None

    def step(self) -> ConsumerHeartbeatResult:
        changes: dict[str, Any] = {"instance_id": self.instance_id}
        if self.epoch == 0 or self.has_lost_an_answer:
            # A member that lost a response sends a full heartbeat, and receives a full response.
            changes |= {"subscribed_topic_names": self.topics, "rebalance_timeout_ms": REBALANCE_MS}
        if self.epoch > 0:
            changes["owned"] = canonical(self.owned)
        self.has_lost_an_answer = False
        result = self.world.native(self.member_id, self.epoch, **changes)
        if result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.owned.clear()
            self.epoch = 0
        elif result.error in (ErrorCode.NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR):
            self.has_lost_an_answer = True
        elif result.error:
            self.error, self.message = result.error, result.error_message
            self.owned.clear()
        else:
            self.epoch = result.member_epoch
            if result.assignment is not None:
                self.owned = set(each(result.assignment))
        return result

    def leave(self, epoch: int = -1) -> None:
        self.world.native(self.member_id, epoch, instance_id=self.instance_id)
        self.owned.clear()
        self.epoch = 0


def canonical(owned: Owned) -> IdPartitions:
    """Return partitions as requests say them."""
    return id_partitions((topic_id, (number,)) for topic_id, number in owned)


Client = ClassicClient | NativeClient


def one_owner_each(*clients: Client) -> Owned:
    """Check that no partition is owned twice by those who act on it; return what is owned."""
    found: Owned = set()
    for client in clients:
        assert not (twice := found & client.owned), f"{sorted(twice)} owned twice"
        found |= client.owned
    return found


def rounds(*clients: Client, times: int = 12) -> None:
    """Let each member do its next step, in turn, and check that no partition is ever owned twice."""
    for _ in range(times):
        for client in clients:
            client.step()
            one_owner_each(*clients)


def classic_members(world: Mixed, count: int = 2, **kind: Any) -> list[ClassicClient]:
    """Bring `count` classic members into a stable classic group that owns all of `t`."""
    clients = [ClassicClient(world, **kind) for _ in range(count)]
    for _ in range(8):
        for client in clients:
            client.step()
        world.advance(0)
        for client in clients:
            client.step()
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    assert one_owner_each(*clients) == {(T, number) for number in range(6)}
    return clients
