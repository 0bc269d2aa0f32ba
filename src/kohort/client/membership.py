"""A member that lives in the background of an asyncio program: heartbeats, rebalances, callbacks, commits.

It drives `member.ClassicMember`: every answer, callback and deadline becomes an input, every effect a task of its
own, so nothing here decides anything about the group. All tasks end with `stop`. Works with any broker of Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kohort.assign.spec import Assignor, GroupSpec, TopicSpec
from kohort.client.cluster import Cluster
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.client.group_requests import GroupRequests
from kohort.client.listener import CallbackAbandoned, RebalanceListener, finished
from kohort.client.offsets import REFUSALS, OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.pulse import Pulse
from kohort.client.retry import retry
from kohort.client.view import ClusterView
from kohort.member import ClassicMember, Identity, MemberConfig, State, effects, inputs
from kohort.member.effects import Callback
from kohort.member.metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

CLOSING = "the consumer is being closed"


class Membership:
    """One membership in one classic group; `start` it once and `stop` it once.

    Timings are milliseconds. `rebalance_timeout_ms` bounds how long a callback may hold the group up;
    `max_poll_interval_ms` asks for `enter_poll`/`return_poll` at that pace and is off by default. `clock_ms` is any
    monotonic clock. Raises ValueError for assignors that do not go together.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        topics: Iterable[str],
        assignors: Sequence[Assignor],
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int | None = None,
        group_instance_id: str | None = None,
        listener: RebalanceListener | None = None,
        client_rack: str | None = None,
        matches: Callable[[str], bool] | None = None,
        metrics: RebalanceMetrics | None = None,
    ) -> None:
        config = MemberConfig(
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            instance_id=group_instance_id,
            rack=client_rack,
        )
        self.group_id = group_id
        self.failure: KafkaError | None = None
        self._cluster = cluster
        self._config = config
        self._listener = listener or RebalanceListener()
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._topics = tuple(topics)
        self._matches = matches
        self._measured = metrics or RebalanceMetrics(max_poll_interval_ms)
        self._member = ClassicMember(config, assignors, cluster.random)
        self._requests = GroupRequests(cluster, group_id, config)
        self._inbox: asyncio.Queue[inputs.Input] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._watched: frozenset[str] = frozenset()
        self._changed = Pulse()
        self._sleeping_until_ms: int | None = None
        self.on_change: Callable[[], None] | None = None
        self._callback_error: Exception | None = None

    # For the user

    async def start(self) -> None:
        """Begin to join; returns at once. `joined` waits for the first assignment."""
        self.begin()

    def begin(self) -> None:
        """Begin to join, from inside a running loop."""
        assert self._driver is None, "a membership starts once"
        self._watch(self._topics)
        self._unwatch = self._cluster.watch(self._take_view)
        self._inbox.put_nowait(inputs.Subscribed(self._topics, self._matches))
        self._driver = asyncio.create_task(self._drive(), name=f"kohort member of {self.group_id}")

    async def stop(self, reason: str = CLOSING, *, leave: bool | None = None) -> None:
        """Give the partitions back through the listener, leave the group, and end every task.

        A static member stays in the group until its session ends, unless `leave` is True; `leave=False` makes any
        member stay. The leave request is given five seconds.
        """
        if self._driver is None:
            return
        self._inbox.put_nowait(inputs.CloseRequested(reason, leave))
        try:
            await asyncio.shield(self._driver)
        finally:
            await self._end()

    @property
    def assignment(self) -> Partitions:
        """The partitions that this member owns; until a revocation's callback has finished, its partitions too."""
        return self._member.owned

    @property
    def generation(self) -> int:
        """The group's generation, or -1."""
        return self._member.identity.generation

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, or an empty string."""
        return self._member.identity.member_id

    @property
    def group_instance_id(self) -> str | None:
        """The name that makes this a static member, or None."""
        return self._config.instance_id

    @property
    def state(self) -> State:
        """Where the member is between two assignments."""
        return self._member.state

    @property
    def is_leader(self) -> bool:
        """Whether this member computes the group's assignments."""
        return self._member.is_leader

    @property
    def rebalances(self) -> int:
        """How many rebalances this member has completed."""
        return self._member.rebalances

    def metrics(self) -> dict[str, float]:
        """Return what this membership measured, by the names of docs/metrics.md."""
        return self._measured.values(_now_ms())

    async def joined(self, *, timeout_ms: int | None = None) -> Partitions:
        """Wait until the member is stable; return what it owns. Raises `KafkaError` where it failed, TimeoutError."""
        await self.wait_for(lambda: self.state is State.STABLE, timeout_ms=timeout_ms)
        return self.assignment

    async def wait_for(self, condition: Callable[[], bool], *, timeout_ms: int | None = None) -> None:
        """Wait until `condition()` holds, looking whenever the member changed. Raises as `joined` does."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                self.check()
                if condition():
                    return
                await self._changed.wait()

    def check(self) -> None:
        """Raise what ended the membership, or the exception of a callback, once."""
        if self.failure is not None:
            raise self.failure
        if self._callback_error is not None:
            error, self._callback_error = self._callback_error, None
            raise error

    def subscribe(self, topics: Iterable[str], matches: Callable[[str], bool] | None = None) -> None:
        """Want other topics from now on; the group rebalances if they differ.

        `matches` says which topics are wanted too once the leader assigns them: it may have seen them first.
        """
        self._topics = tuple(topics)
        self._matches = matches
        self._watch(self._topics)
        self._inbox.put_nowait(inputs.Subscribed(self._topics, self._matches))

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance."""
        self._inbox.put_nowait(inputs.RejoinRequested(reason))

    def enter_poll(self) -> None:
        """Say that the user came for records."""
        self._step_now(inputs.PollEntered())

    def return_poll(self) -> None:
        """Say that the user went off with records and must be back within the poll interval."""
        self._step_now(inputs.PollReturned())

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int | None = None
    ) -> None:
        """Commit offsets with the member's generation.

        Raises `CommitFailed` where the group no longer takes them from this member (`RebalanceInProgress` where it may
        later), `PartitionErrors`, or the `KafkaError` of a coordinator that could not be reached.
        """
        identity = self._member.identity
        if not identity.is_valid:
            raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, identity.member_id, identity.generation)
        try:
            await commit_offsets(
                self._cluster,
                self.group_id,
                offsets,
                identity=identity,
                instance_id=self._config.instance_id,
                timeout_ms=timeout_ms,
            )
        except KafkaError as error:
            if error.code not in REFUSALS:
                raise
            self._inbox.put_nowait(inputs.CommitAnswered(identity, error.code))
            raise self._refusal(error, identity) from None

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        return await fetch_committed(self._cluster, self.group_id, partitions, timeout_ms=timeout_ms)

    # The inside

    def _refusal(self, error: KafkaError, identity: Identity) -> KafkaError:
        is_rejoining = self._member.identity != identity and self.state in (State.PREPARING, State.JOINING)
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS or is_rejoining:
            return RebalanceInProgress(identity.member_id, identity.generation)
        if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
            return error
        return CommitFailed(error.code, identity.member_id, identity.generation)

    async def _drive(self) -> None:
        while self._member.state is not State.CLOSED:
            self._step(await self._next_input())

    def _step(self, event: inputs.Input) -> None:
        before, now_ms = self._member.state, _now_ms()
        asked = self._member.step(event, now_ms)
        self._measured.observe(event, asked, before, self._member.state, now_ms)
        for effect in asked:
            self._carry_out(effect)
        self._wake()

    def _step_now(self, event: inputs.Input) -> None:
        """Take what happens for every batch without the way through the inbox."""
        if self._driver is None:
            return
        self._step(event)
        deadline_ms = self._member.next_deadline_ms()
        if deadline_ms is not None and (self._sleeping_until_ms is None or deadline_ms < self._sleeping_until_ms):
            self._inbox.put_nowait(inputs.Tick())

    def _wake(self) -> None:
        self._changed.beat()
        if self.on_change is not None:
            self.on_change()

    async def _next_input(self) -> inputs.Input:
        deadline_ms = self._sleeping_until_ms = self._member.next_deadline_ms()
        if deadline_ms is None:
            return await self._inbox.get()
        try:
            async with asyncio.timeout(max(0, deadline_ms - _now_ms()) / 1000):
                return await self._inbox.get()
        except TimeoutError:
            return inputs.Tick()

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Join():
                log.info("group %s: member %s joins: %s", self.group_id, effect.identity.member_id, effect.reason)
                self._spawn(self._requests.join(effect))
            case effects.Sync():
                self._spawn(self._requests.sync(effect))
            case effects.Heartbeat():
                self._spawn(self._requests.heartbeat(effect))
            case effects.Leave():
                log.info("group %s: member %s leaves: %s", self.group_id, effect.identity.member_id, effect.reason)
                self._spawn(self._requests.leave(effect))
            case effects.Compute():
                self._spawn(self._compute(effect))
            case effects.RunCallback():
                self._spawn(self._run_callback(effect))
            case effects.Rediscover():
                self._requests.rediscover()
            case effects.Fail(code, text):
                complaint = self._requests.complaint
                self.failure = complaint if complaint and complaint.code is code else KafkaError(code, text)
                log.error("group %s: %s", self.group_id, self.failure)
            case effects.Ended():
                pass

    def _spawn(self, work: Awaitable[inputs.Input]) -> None:
        task = asyncio.create_task(self._answer(work), name=f"kohort member of {self.group_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, work: Awaitable[inputs.Input]) -> None:
        try:
            self._inbox.put_nowait(await work)
        except Exception as error:
            log.exception("group %s: the member stands still", self.group_id)
            self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect stopped the member: {error!r}")
            self._wake()

    async def _compute(self, effect: effects.Compute) -> inputs.Input:
        """Run the assignor over the members, with metadata that covers all their topics."""
        topics = sorted({topic for member in effect.members.values() for topic in member.subscription.topics})
        try:
            if self._watch(topics) or any(topic not in self._cluster.view.topics for topic in topics):
                waits = self._cluster.waits()
                await retry(self._cluster.refresh, waits=waits, timeout_ms=self._cluster.request_timeout_ms)
            snapshot = self._specs(topics)
            if missing := [topic for topic in topics if topic not in snapshot]:
                log.warning("group %s subscribes to topics that do not exist: %s", self.group_id, ", ".join(missing))
            if effect.skip:
                return inputs.Computed(effect.identity, {}, snapshot)
            assignments = self._assignors[effect.protocol_name].assign(GroupSpec(effect.members, snapshot))
        except Exception as error:
            log.exception("group %s: no assignment by %s", self.group_id, effect.protocol_name)
            return inputs.ComputeFailed(effect.identity, f"{type(error).__name__}: {error}")
        return inputs.Computed(effect.identity, assignments, snapshot)

    async def _run_callback(self, effect: effects.RunCallback) -> inputs.Input:
        callback, partitions = effect.callback, effect.partitions
        names = ", ".join(map(str, sorted(partitions))) or "nothing"
        log.info("group %s: %s %s: %s", self.group_id, callback, names, effect.cause)
        self._watch(partition.topic for partition in partitions)
        run = {
            Callback.REVOKED: self._listener.on_partitions_revoked,
            Callback.ASSIGNED: self._listener.on_partitions_assigned,
            Callback.LOST: self._listener.on_partitions_lost,
        }[callback]
        try:
            async with asyncio.timeout(self._config.rebalance_timeout_ms / 1000):
                await finished(run(partitions))
        except CallbackAbandoned:
            return inputs.CallbackFinished(callback, is_abandoned=True)
        except Exception as error:
            log.exception("group %s: on_partitions_%s failed", self.group_id, callback)
            self._callback_error = self._callback_error or error
        return inputs.CallbackFinished(callback)

    def _watch(self, topics: Iterable[str]) -> bool:
        """Follow these topics' metadata too; return whether any of them was not followed before."""
        topics = frozenset(topics)
        self._watched |= topics
        is_new = self._cluster.track(topics)
        if is_new:
            # A follower never computes an assignment, and still has to find the leaders of what it is given.
            self._cluster.want_refresh()
        return is_new

    def _specs(self, topics: Iterable[str]) -> dict[str, TopicSpec]:
        view = self._cluster.view
        return {topic: spec for topic in topics if (spec := view.spec(topic)) is not None}

    def _take_view(self, view: ClusterView) -> None:
        del view
        self._inbox.put_nowait(inputs.MetadataChanged(self._specs(self._watched)))

    async def _end(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        tasks = [*self._tasks, *([self._driver] if self._driver else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._driver = None
        self._requests.drop()


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


__all__ = ["CLOSING", "Membership"]
