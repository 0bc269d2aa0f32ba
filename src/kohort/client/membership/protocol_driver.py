"""What differs between the two group protocols for a program that is a member: one driver class for each.

A driver has the member's state machine, sends the requests of its protocol to the coordinator (`member_messages` makes
them), and tracks the metadata of the topics that concern the member. While a classic member leads, its driver makes the
group's assignments (`Leader`). Whatever goes wrong on the way is an answer too: the error's code. It decides nothing
about the group, and has no task of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

from kohort.assign.cooperative import assign_group
from kohort.assign.spec import Assignor, GroupSpec
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.client.membership import member_messages as messages
from kohort.client.membership.coordinator_link import MemberLink, OpenConnection
from kohort.client.membership.member_messages import CONSUMER_PROTOCOL, EmbeddedProtocol, specs
from kohort.member import ClassicMember, ConsumerMember, Identity, MemberConfig, State, effects, inputs
from kohort.member.effects import ConsumerHeartbeat, ExpediteHeartbeat, NameTopics
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.net.api_versions import api_versions_request
from kohort.net.environment import randbytes
from kohort.wire.apis import Api
from kohort.wire.message import Request
from kohort.wire.messages import ConsumerGroupHeartbeatRequest
from kohort.wire.primitives import MalformedMessage

OLD_MEMBERS = (
    "group %s is cooperative and these members write an embedded protocol without the partitions they own: %s."
    " They are assigned nothing: upgrade them, or take them out of the group"
)


class Leader:
    """The assignments that one member makes."""

    def __init__(self, link: MemberLink, assignors: Iterable[Assignor]) -> None:
        self._link = link
        self._assignors = {assignor.name: assignor for assignor in assignors}

    async def compute(self, effect: effects.Compute, is_wanted: Callable[[], bool] = lambda: True) -> inputs.Input:
        """Run the assignor over the members, with metadata of now that covers all their topics.

        Where `is_wanted` returns False once the metadata is there, the round is over and no assignor is called.
        """
        group_id, name = self._link.group_id, effect.protocol_name
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        try:
            await self._link.refresh(topics, is_wanted)
        except KafkaError as error:
            return self._failed(effect, error.text)
        if not is_wanted():
            return inputs.ComputeFailed(effect.identity, "the round is over")
        snapshot = specs(self._link.view, topics)
        if missing := [topic for topic in topics if topic not in snapshot]:
            self._link.log.warning("group %s wants topics that do not exist: %s", group_id, ", ".join(missing))
        try:
            spec = GroupSpec(effect.members, snapshot)
            assignments = {} if effect.skip else assign_group(self._assignors, name, spec, self._warn)
        except Exception as error:  # an assignor may be a user's code
            return self._failed(effect, f"{type(error).__name__}: {error}")
        return inputs.Computed(effect.identity, assignments, snapshot)

    def _failed(self, effect: effects.Compute, text: str) -> inputs.Input:
        self._link.log.exception("group %s: no assignment by %s", self._link.group_id, effect.protocol_name)
        # Our brokers pass a leader's failure on to the other members.
        return inputs.ComputeFailed(effect.identity, text, is_passed_on=self._link.has_feature())

    def _warn(self, old: tuple[str, ...]) -> None:
        self._link.log.warning(OLD_MEMBERS, self._link.group_id, ", ".join(old))


Response = Coroutine[Any, Any, inputs.Input]
ResponseT = TypeVar("ResponseT")

LAGS_FEATURE = 2
"""The version of our brokers' feature that takes lags and reasons in heartbeats."""


def new_member_id() -> str:
    """Return an id as members of the consumer protocol make their own: a random UUID in Kafka's text form (KIP-848)."""
    while (text := topic_id_text(UUID(bytes=randbytes(16), version=4).bytes)).startswith("-"):
        pass  # command lines would take such a text for an option
    return text


class ClassicDriver:
    """A member of the classic protocol: it joins, leads, assigns and syncs."""

    name = "classic"

    def __init__(
        self,
        link: MemberLink,
        config: MemberConfig,
        assignors: Sequence[Assignor],
        member_id: str = "",
        embedded: EmbeddedProtocol = CONSUMER_PROTOCOL,
    ) -> None:
        self.member = ClassicMember(config, assignors, link.random, member_id)
        self._embedded = embedded
        self._link = link
        self._config = config
        self._leader = Leader(link, assignors)
        self._awaiting_others = 0

    def carry_out(self, effect: effects.Effect) -> Response | None:
        """Send a request, or compute the group's assignment."""
        log, group_id = self._link.log, self._link.group_id
        match effect:
            case effects.Join(identity, _, reason):
                log.info("group %s: member %s joins: %s", group_id, identity.member_id, reason)
                return self._join(effect)
            case effects.Sync():
                return self._sync(effect)
            case effects.Heartbeat():
                return self._heartbeat(effect)
            case effects.Leave(identity, reason):
                log.info("group %s: member %s leaves: %s", group_id, identity.member_id, reason)
                return self._leave(effect)
            case effects.Compute():
                return self._leader.compute(effect, lambda: self._is_leading_as(effect.identity))
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics too."""
        if self._embedded.has_topics:
            self._link.follow(topics)

    def topic_metadata(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return messages.metadata_seen(self._link.view, self._link.followed)

    def commit_error(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what to raise: `RebalanceInProgress` where the user may try again, else `CommitFailed`."""
        state = self.member.state
        is_rejoining = self.member.identity != identity and state in (State.PREPARING, State.JOINING)
        # The round that this member is in has formed the next generation: what it owned it still owns, or has revoked.
        is_overtaken = error.code is ErrorCode.ILLEGAL_GENERATION and state in (
            State.JOINING,
            State.ASSIGNING,
            State.SYNCING,
        )
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS or is_rejoining or is_overtaken:
            return RebalanceInProgress(identity)
        return _refused(error, identity)

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return none: a classic group's offsets go by name."""
        del offsets
        return {}

    def _is_leading_as(self, identity: Identity) -> bool:
        return self.member.state is State.ASSIGNING and self.member.identity == identity

    async def _join(self, effect: effects.Join) -> inputs.JoinAnswered:
        """Send JoinGroup; the answer may take as long as the group's rebalance."""
        request = messages.join_request(self._link.group_id, self._config, effect, self._embedded)
        try:
            return messages.join_answered(effect, await self._call_until_others_come(request), self._embedded)
        except (KafkaError, MalformedMessage) as error:
            return inputs.JoinAnswered(effect.identity, self._code(error))

    async def _sync(self, effect: effects.Sync) -> inputs.SyncAnswered:
        """Send SyncGroup; the answer waits for the leader's assignment."""
        request = messages.sync_request(self._link.group_id, self._config, effect, self._embedded)
        try:
            return messages.sync_answered(effect, await self._call_until_others_come(request), self._embedded)
        except (KafkaError, MalformedMessage) as error:
            return inputs.SyncAnswered(effect.identity, self._code(error))

    async def _heartbeat(self, effect: effects.Heartbeat) -> inputs.HeartbeatAnswered:
        request = messages.heartbeat_request(self._link.group_id, self._config, effect)
        timeout_ms = messages.heartbeat_ms(self._link.request_timeout_ms, self._config)
        try:
            answer = await (await self._link.open()).call(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            return inputs.HeartbeatAnswered(effect.identity, self._code(error))
        return inputs.HeartbeatAnswered(effect.identity, error_for(answer.error_code))

    async def _leave(self, effect: effects.Leave) -> inputs.LeaveAnswered:
        """Send LeaveGroup. Where JoinGroup is not answered yet, on a new connection: brokers answer in order."""
        if self._awaiting_others:
            self._link.drop()
        request = messages.leave_request(self._link.group_id, self._config, effect)
        try:
            async with self._link.within(messages.LEAVE_TIMEOUT_MS):
                answer = await (await self._link.open()).call(request, timeout_ms=messages.LEAVE_TIMEOUT_MS)
        except KafkaError as error:
            return inputs.LeaveAnswered(effect.identity, self._code(error))
        except TimeoutError:
            return inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
        return inputs.LeaveAnswered(effect.identity, error_for(answer.error_code))

    async def _call_until_others_come(self, request: Request[ResponseT]) -> ResponseT:
        """Call what the coordinator may answer only when other members have come."""
        connection = await self._link.open()
        self._awaiting_others += 1
        try:
            timeout_ms = messages.rebalance_answer_timeout_ms(self._link.request_timeout_ms, self._config)
            return await connection.call(request, timeout_ms=timeout_ms)
        finally:
            self._awaiting_others -= 1

    def _code(self, error: KafkaError | MalformedMessage) -> ErrorCode:
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"another member sent {error}")
        return self._link.code(error)


class ConsumerDriver:
    """A member of the consumer protocol: it sends heartbeats, and finds the names of the topics it is assigned."""

    name = "consumer"

    def __init__(self, link: MemberLink, config: MemberConfig, member_id: str) -> None:
        self.member = ConsumerMember(config, member_id, link.random)
        self._link = link
        self._config = config
        self._known: dict[bytes, str] = {}
        self._interval_ms = 5_000

    def carry_out(self, effect: effects.Effect) -> Response | None:
        """Send a heartbeat, or ask the cluster for names."""
        log, group_id = self._link.log, self._link.group_id
        match effect:
            case ConsumerHeartbeat(member_id=member_id, cause=cause):
                if effect.member_epoch == 0:
                    log.info("group %s: member %s joins: %s", group_id, member_id, cause or "it is new")
                elif effect.is_leave:
                    log.info("group %s: member %s leaves: %s", group_id, member_id, cause)
                return self._heartbeat(effect)
            case ExpediteHeartbeat():
                return self._expedite()
            case NameTopics(topic_ids):
                self._link.resolve_names(topic_ids)
        return None

    def follow(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics too."""
        self._link.follow(topics)

    def topic_metadata(self) -> inputs.Input:
        """Return the topics as the cluster shows them now."""
        return messages.topics_seen(self._link.view, self._known)

    def commit_error(self, error: KafkaError, identity: Identity) -> KafkaError:
        """Return what to raise: the epoch of the commit is over, and no newer one came that owns as much."""
        return _refused(error, identity)

    def topic_ids(self, offsets: Iterable[TopicPartition]) -> Mapping[str, bytes]:
        """Return the ids of what the member owns: offsets of a topic that was made anew are not taken for its own."""
        ids = self.member.topic_ids
        topics = {topic for topic, _ in offsets}
        return {topic: ids[topic] for topic in topics} if topics <= ids.keys() else {}

    async def _heartbeat(self, effect: ConsumerHeartbeat) -> ConsumerHeartbeatAnswered:
        """Send ConsumerGroupHeartbeat; a leave is given five seconds."""
        longest_ms = max(messages.SHORTEST_TIMEOUT_MS, 3 * self._interval_ms)
        timeout_ms = min(self._link.request_timeout_ms, longest_ms)
        if effect.is_leave:
            timeout_ms = messages.LEAVE_TIMEOUT_MS
        try:
            async with self._link.within(2 * timeout_ms):
                connection = await self._link.open()
                request = self._request(effect, connection)
                response = await connection.call(request, timeout_ms=timeout_ms)
        except TimeoutError:
            return ConsumerHeartbeatAnswered(effect.number, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            return ConsumerHeartbeatAnswered(effect.number, self._link.code(error), error.text)
        answer = messages.consumer_heartbeat_answered(effect, response)
        if answer.error is ErrorCode.NONE and answer.interval_ms > 0:
            self._interval_ms = answer.interval_ms
        return answer

    async def _expedite(self) -> inputs.Tick:
        """Ask for anything: a broker that has parked the heartbeat answers it before any other request."""
        if self._link.has_feature():
            with suppress(KafkaError):  # the heartbeat under way learns of it too
                await (await self._link.open()).call(api_versions_request(), timeout_ms=messages.SHORTEST_TIMEOUT_MS)
        return inputs.Tick()

    def _request(self, effect: ConsumerHeartbeat, connection: OpenConnection) -> ConsumerGroupHeartbeatRequest:
        """Return the message. Raises UNSUPPORTED_VERSION where the broker cannot read its fields."""
        if effect.regex and self._link.newest(Api.CONSUMER_GROUP_HEARTBEAT) < messages.REGEX_VERSION:
            text = f"{connection.address} resolves no expressions: name the topics, or use Kafka 4.1 or newer"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        supports_lags = self._link.has_feature(LAGS_FEATURE)
        return messages.consumer_heartbeat_request(
            self._link.group_id, self._config, effect, self._link.view, supports_lags=supports_lags
        )


ProtocolDriver = ClassicDriver | ConsumerDriver


def _refused(error: KafkaError, identity: Identity) -> KafkaError:
    if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
        return error
    return CommitFailed(error.code, identity)
