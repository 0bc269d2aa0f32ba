"""A member that lives in the background of an asyncio program: heartbeats, rebalances, callbacks, commits.

It drives `member.ClassicMember`: every answer, callback and deadline becomes an input, every effect a task of its
own, so nothing here decides anything about the group. All tasks end with `stop`. Works with any broker of Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kohort.assign.spec import Assignor
from kohort.client.cluster import Cluster
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.client.group_requests import GroupRequests
from kohort.client.leading import Leading
from kohort.client.listener import RebalanceListener
from kohort.client.offsets import REFUSALS, OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.pulse import Pulse
from kohort.client.user_calls import UserCalls
from kohort.client.view import ClusterView
from kohort.member import ClassicMember, Identity, MemberConfig, PollState, State, effects, inputs
from kohort.member.metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

CLOSING = "the consumer is being closed"
POLL_LATE = (
    "group %s: no poll for two thirds of max_poll_interval_ms=%s: in %d ms this member gives up its partitions;"
    " lower max_poll_records, or raise max_poll_interval_ms"
)
POLL_MISSED = "group %s: this member %s until the next poll: there was none for max_poll_interval_ms=%s"


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
        chosen = {assignor.name: assignor for assignor in assignors}
        self._topics = tuple(topics)
        self._matches = matches
        self._measured = metrics or RebalanceMetrics(max_poll_interval_ms)
        self._member = ClassicMember(config, assignors, cluster.random)
        self._requests = GroupRequests(cluster, group_id, config)
        self._leading = Leading(cluster, group_id, chosen, self._requests)
        self._calls = UserCalls(group_id, listener or RebalanceListener(), chosen, rebalance_timeout_ms)
        self._inbox: asyncio.Queue[inputs.Input] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._changed = Pulse()
        self._sleeping_until_ms: int | None = None
        self.on_change: Callable[[], None] | None = None

    # For the user

    async def start(self) -> None:
        """Begin to join; returns at once. `joined` waits for the first assignment."""
        self.begin()

    def begin(self) -> None:
        """Begin to join, from inside a running loop."""
        assert self._driver is None, "a membership starts once"
        self._leading.follow(self._topics)
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
    def poll_state(self) -> PollState:
        """Where the user is between two polls: here, away, late (two thirds of the interval are over), or missed."""
        return self._member.poll_state

    @property
    def assignment_error(self) -> ErrorCode | None:
        """What the leader said in the last assignment is wrong with the group (a member of an old version), or None."""
        return self._member.assignment_error

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
        """Raise what ended the membership; once, the exception of a callback or that the leader could not assign."""
        if self.failure is not None:
            raise self.failure
        self._calls.check(self.state)

    def subscribe(self, topics: Iterable[str], matches: Callable[[str], bool] | None = None) -> None:
        """Want other topics from now on; the group rebalances if they differ.

        `matches` says which topics are wanted too once the leader assigns them: it may have seen them first.
        """
        self._topics = tuple(topics)
        self._matches = matches
        self._leading.follow(self._topics)
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
        # The round that this member is in has formed the next generation: what it owned it keeps, or has given up.
        is_overtaken = error.code is ErrorCode.ILLEGAL_GENERATION and self.state in (
            State.JOINING,
            State.ASSIGNING,
            State.SYNCING,
        )
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS or is_rejoining or is_overtaken:
            return RebalanceInProgress(identity.member_id, identity.generation)
        if error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
            return error
        return CommitFailed(error.code, identity.member_id, identity.generation)

    async def _drive(self) -> None:
        try:
            while self._member.state is not State.CLOSED:
                self._step(await self._next_input())
        except Exception as error:
            self._stand_still(error)

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
                self._spawn(self._leading.compute(effect, lambda: self._is_leading_as(effect.identity)))
            case effects.RunCallback():
                self._spawn(self._run_callback(effect))
            case effects.OnAssignment():
                self._calls.tell_assignor(effect)
            case effects.Rediscover():
                self._requests.rediscover()
            case effects.TellUser():
                self._calls.tell_user(effect)
            case effects.PollLate(left_ms):
                log.warning(POLL_LATE, self.group_id, self._config.max_poll_interval_ms, left_ms)
            case effects.PollMissed(is_leaving):
                what = "leaves the group" if is_leaving else "sends no more heartbeats"
                log.warning(POLL_MISSED, self.group_id, what, self._config.max_poll_interval_ms)
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
            self._stand_still(error)

    def _stand_still(self, error: Exception) -> None:
        log.error("group %s: the member stands still", self.group_id, exc_info=error)
        self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect stopped the member: {error!r}")
        self._wake()

    def _is_leading_as(self, identity: Identity) -> bool:
        return self._member.state is State.ASSIGNING and self._member.identity == identity

    async def _run_callback(self, effect: effects.RunCallback) -> inputs.Input:
        self._leading.follow(partition.topic for partition in effect.partitions)
        return await self._calls.run(effect)

    def _take_view(self, view: ClusterView) -> None:
        del view
        self._inbox.put_nowait(self._leading.seen())

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
