"""A member that lives in the background of an asyncio program: heartbeats, rebalances, callbacks, commits.

It drives a state machine of `kohort.member`: each response, finished callback and deadline is an input of the member,
each effect a task, so nothing here decides anything about the group. Its parts: `protocol_driver` (what differs between
the protocols), `protocol_switch` (when to go from one to the other), `member_commits`, `user_callbacks`,
`coordinator_link`. All tasks end with `stop`. Works with any broker that speaks Kafka's protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kohort.assign.spec import Assignor
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, PartitionOffsets
from kohort.client.cluster.metadata import ClusterView
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.member_commits import ActiveDriver, MemberCommits, OwnershipWatch
from kohort.client.membership.member_messages import CONSUMER_PROTOCOL, EmbeddedProtocol
from kohort.client.membership.protocol_driver import (
    ClassicDriver,
    ConsumerDriver,
    ProtocolDriver,
    Response,
    new_member_id,
)
from kohort.client.membership.protocol_switch import GroupProtocol, ProtocolSwitch, SwitchAction, wait_until_movable
from kohort.client.membership.user_callbacks import Lags, RebalanceListener, StandbyLags, UserCallbacks
from kohort.client.observer import client_observer
from kohort.client.synchronization import BackgroundTasks
from kohort.member import (
    ClassicMember,
    ConsumerMember,
    ConsumerState,
    Identity,
    MemberConfig,
    PollState,
    State,
    effects,
    inputs,
)
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

MOVING = "it moves to the consumer protocol"
_DEFAULTS = MemberConfig()

_POLL_LATE = (
    "group %s: no poll for two thirds of max_poll_interval_ms=%s: in %d ms this member loses its partitions;"
    " lower max_poll_records, or raise max_poll_interval_ms"
)
_ERROR_STAYS = (
    "group %s: the leader's assignments carry the error %s, after each of several rebalances: this member requests no"
    " other one. A member of the group writes version 0 of the embedded protocol and offers a cooperative assignor, and"
    " owns nothing: upgrade it"
)
_POLL_MISSED = "group %s: this member %s until the next poll: there was none for max_poll_interval_ms=%s"


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """Which protocol a membership uses, with which assignors and timings.

    `rebalance_timeout_ms` of `member` bounds how long a callback may delay the group; `max_poll_interval_ms` asks for
    `enter_poll`/`return_poll` at that pace and is off by default. `assignors` and `embedded` are the classic
    protocol's, `member_id` is the other's. `protocol_check_ms` is how often "auto" looks whether it can move.
    """

    member: MemberConfig = _DEFAULTS
    assignors: Sequence[Assignor] = ()
    protocol: GroupProtocol = "classic"
    member_id: str | None = None
    protocol_check_ms: int = 60_000
    embedded: EmbeddedProtocol = CONSUMER_PROTOCOL


class Membership:
    """One membership in one group; `start` it once and `stop` it once.

    `on_change` is called after each step of the member; `before_join` is awaited before JoinGroup while the member owns
    partitions, so that what is finished can be committed.
    Raises ValueError for assignors that do not go together.

    More than 20 attributes: the parts that it drives, and what its tasks share.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        subscription: inputs.Subscribed,
        settings: MembershipSettings,
        *,
        listener: RebalanceListener | None = None,
        metrics: RebalanceMetrics | None = None,
        on_change: Callable[[], None] | None = None,
        before_join: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.group_id = group_id
        self.config = config = settings.member
        self.failure: KafkaError | None = None
        """What ended the membership, if anything did."""
        self.observer = client_observer()
        self._cluster = cluster
        self._on_change = on_change
        self._before_join = before_join
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in settings.assignors}
        self._metrics = metrics or RebalanceMetrics(config.max_poll_interval_ms)
        self._subscription = subscription
        self._link = CoordinatorLink(cluster, group_id)
        self._switch = ProtocolSwitch(settings.protocol)
        own_id = (settings.member_id or new_member_id()) if self._switch.first == "consumer" else ""
        self._active = ActiveDriver(self._new_driver(self._switch.first, own_id))
        self._commits = MemberCommits(cluster, group_id, config.instance_id, self._active)
        self._callbacks = UserCallbacks(
            group_id, listener or RebalanceListener(), self._assignors, config.rebalance_timeout_ms
        )
        self._lags = StandbyLags(group_id)
        self._tasks = BackgroundTasks(f"kohort member of {group_id}")
        self._loop_task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._sleeping_until_ms: int | None = None
        self._closing: inputs.CloseRequested | None = None

    # What the program asks for

    async def start(self) -> None:
        """Begin to join; returns at once. `joined` waits for the first assignment."""
        self.begin()

    def begin(self) -> None:
        """Begin to join, from inside a running loop."""
        assert self._loop_task is None, "a membership starts once"
        driver = self._active.driver
        driver.follow(self._subscription.topics)
        self._unwatch = self._cluster.watch(self._queue_metadata)
        self._active.put(driver.topic_metadata())
        self._active.put(self._subscription)
        self._loop_task = self._tasks.spawn(self._run())

    async def stop(self, reason: str = "the consumer is being closed", *, leave: bool | None = None) -> None:
        """Give the partitions back through the listener, leave the group, and end every task.

        A static member stays in the group until its session ends, unless `leave` is True; `leave=False` makes any
        member stay. The leave request is given five seconds.
        """
        if self._loop_task is None:
            return
        self._closing = inputs.CloseRequested(reason, leave)
        self._active.put(self._closing)
        try:
            await asyncio.shield(self._loop_task)
        finally:
            await self._end()

    @property
    def rebalances(self) -> int:
        """How many rebalances have ended for this member; other threads may ask."""
        return self._metrics.rebalances.count

    async def joined(self, *, timeout_ms: int | None = None) -> Partitions:
        """Wait until the member is stable; return what it owns. Raises `KafkaError` where it failed, TimeoutError."""
        await self.wait_for(lambda: self.is_stable, timeout_ms=timeout_ms)
        return self.assignment

    async def wait_for(self, condition: Callable[[], bool], *, timeout_ms: int | None = None) -> None:
        """Wait until `condition()` is true; it is evaluated whenever the member changed. Raises as `joined` does."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                self.check()
                if condition():
                    return
                await self._active.changed.wait()

    def check(self) -> None:
        """Raise what ended the membership; once, the exception of a callback or that the leader could not assign."""
        if self.failure is not None:
            raise self.failure
        self._callbacks.check(is_between=self._active.member.is_between)

    def subscribe(self, subscription: inputs.Subscribed) -> None:
        """Replace the subscription; the group rebalances if the topics differ."""
        self._subscription = subscription
        self._active.driver.follow(subscription.topics)
        self._active.put(subscription)

    def report_lags(self, lags: Lags | Callable[[], Lags]) -> None:
        """Report how far each standby copy is behind, or a function that returns it, called now and for each heartbeat.

        The coordinator is sent the lags with a join, and when they matter.
        """
        self._lags.report(lags)
        self._active.put(self._lags.attach(self._active.member))

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance."""
        self._active.put(inputs.RejoinRequested(reason))

    def enter_poll(self) -> None:
        """Report that the user is in `poll`: no poll deadline runs."""
        self._step_now(inputs.PollEntered())

    def return_poll(self) -> None:
        """Report that the user left `poll` with records; it must be back within the poll interval."""
        self._step_now(inputs.PollReturned())

    # Offsets of the group, as this member

    def watch_ownership(self, partitions: Iterable[TopicPartition]) -> OwnershipWatch:
        """Record from now on whether this member owns partitions without interruption."""
        return self._commits.watch_ownership(partitions)

    async def commit(self, offsets: PartitionOffsets, *, since: OwnershipWatch | None = None) -> None:
        """Commit offsets with the member's generation or epoch; it must have owned the partitions since `since`.

        Raises `CommitFailed` where the group no longer takes them from this member (`RebalanceInProgress` where it may
        later), `PartitionErrors`, or the `KafkaError` of a coordinator that could not be reached.
        """
        report = partial(self.observer.commit_sent, self)
        await self._commits.commit(offsets, since or self.watch_ownership(offsets), report)

    def commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """The group refused offsets that a transaction committed as this member: it joins again if it has to."""
        self._commits.refused(identity, code)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        return await self._commits.committed(partitions)

    # The member as it is now

    @property
    def protocol(self) -> str:
        """The group protocol that this member speaks now: classic or consumer."""
        return self._active.driver.name

    @property
    def member(self) -> ClassicMember | ConsumerMember:
        """The state machine in force, to read from."""
        return self._active.member

    @property
    def assignment(self) -> Partitions:
        """The partitions that this member owns; until a revocation's callback has finished, its partitions too."""
        return self._active.member.owned

    @property
    def identity(self) -> Identity:
        """The generation or epoch, and the member id, that this member's requests carry now."""
        return self._active.member.identity

    @property
    def generation(self) -> int:
        """The group's generation, in the consumer protocol this member's epoch, or -1."""
        return self.identity.generation

    @property
    def member_id(self) -> str:
        """The id that the coordinator knows this member by, or an empty string."""
        return self.identity.member_id

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription, as far as their names are known."""
        return self._subscription.topics

    @property
    def state(self) -> State | ConsumerState:
        """Where the member is between two assignments, in the words of its protocol."""
        return self._active.member.state

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no rebalance is under way for it."""
        return self._active.member.is_stable

    # The loop: an input, a step of the member, its effects

    async def _run(self) -> None:
        try:
            while not self._active.member.is_closed:
                self._step(await self._next_input())
        except Exception as error:
            self._stop_on_defect(error)

    async def _next_input(self) -> inputs.Input:
        deadline_ms = self._sleeping_until_ms = self._active.member.next_deadline_ms()
        if deadline_ms is None:
            return await self._active.inbox.get()
        try:
            async with asyncio.timeout(max(0, deadline_ms - _now_ms()) / 1000):
                return await self._active.inbox.get()
        except TimeoutError:
            return inputs.Tick()

    def _step_now(self, event: inputs.Input) -> None:
        """Take an input that comes with every batch without the way through the inbox."""
        if self._loop_task is None:
            return
        self._step(event)
        deadline_ms = self._active.member.next_deadline_ms()
        if deadline_ms is not None and (self._sleeping_until_ms is None or deadline_ms < self._sleeping_until_ms):
            self._active.put(inputs.Tick())

    def _step(self, event: inputs.Input) -> None:
        member, now_ms = self._active.member, _now_ms()
        before = member.state
        self.observer.input_received(self, event)
        requested = member.step(event, now_ms)
        self._metrics.observe(event, requested, before, member.state, now_ms)
        self.observer.input_processed(self, event, requested)
        self._commits.update_ownership()
        for effect in requested:
            self._carry_out(effect)
        if (action := self._switch.advance(member, is_closing=self._closing is not None)) is not None:
            self._switch_protocol(action)
        self._notify()

    def _notify(self) -> None:
        self._active.changed.notify()
        if self._on_change is not None:
            self._on_change()

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.RunCallback():
                self._spawn(self._run_callback(effect))
            case effects.OnAssignment():
                self._callbacks.call_on_assignment(effect)
            case effects.Rediscover():
                self._link.rediscover()
            case effects.RaiseInPoll():
                self._callbacks.raise_in_poll(effect)
            case effects.Fail(code, text):
                self._fail(code, text)
            case effects.PollLate(left_ms):
                log.warning(_POLL_LATE, self.group_id, self.config.max_poll_interval_ms, left_ms)
            case effects.AssignmentErrorStays(error):
                log.warning(_ERROR_STAYS, self.group_id, error.name)
            case effects.PollMissed(is_leaving):
                what = "leaves the group" if is_leaving else "sends no more heartbeats"
                log.warning(_POLL_MISSED, self.group_id, what, self.config.max_poll_interval_ms)
            case effects.Ended():
                pass
            case effects.Join() if self._active.member.owned and self._before_join is not None:
                self._spawn(self._join_after(self._before_join, effect, self._active.driver))
            case _:
                if (response := self._active.driver.carry_out(effect)) is not None:
                    self._spawn(response)

    async def _run_callback(self, effect: effects.RunCallback) -> inputs.Input:
        self._active.driver.follow({partition.topic for partition in effect.partitions})
        return await self._callbacks.run(effect)

    async def _join_after(
        self, before_join: Callable[[], Awaitable[None]], effect: effects.Join, driver: ProtocolDriver
    ) -> inputs.Input:
        await before_join()
        member = driver.member
        if member.state is not State.JOINING or member.identity != effect.identity:
            return inputs.Tick()  # closed, or evicted meanwhile: the member no longer waits for this join
        response = driver.carry_out(effect)
        assert response is not None, "a join is answered"
        return await response

    def _fail(self, code: ErrorCode, text: str) -> None:
        if self._switch.is_solved_by_switch(code):
            log.info("group %s: this member continues in the classic protocol: %s", self.group_id, text)
            return
        complaint = self._link.complaint
        is_better = complaint is not None and complaint.code is code and code is not ErrorCode.UNSUPPORTED_VERSION
        self.failure = complaint if is_better else KafkaError(code, text)
        log.error("group %s: %s", self.group_id, self.failure)

    # From one protocol to the other

    def _switch_protocol(self, action: SwitchAction) -> None:
        match action:
            case SwitchAction.JOIN_CLASSIC:
                self._continue_in("classic")
            case SwitchAction.JOIN_CONSUMER:
                self._continue_in("consumer")
            case SwitchAction.CLOSE_CLASSIC:
                log.info("group %s: the broker takes this member in the consumer protocol: it moves", self.group_id)
                self._step(inputs.CloseRequested(MOVING, leave=False))

    def _new_driver(self, protocol: str, member_id: str) -> ProtocolDriver:
        """Return the driver of a new member. Raises ValueError for assignors that do not go together.

        A classic member's id is the one that the group knows it by already, or empty: the coordinator makes it.
        """
        if protocol == "classic":
            settings = self._settings
            return ClassicDriver(self._link, self.config, settings.assignors, member_id, settings.embedded)
        return ConsumerDriver(self._link, self.config, member_id)

    def _continue_in(self, protocol: str) -> None:
        """Replace the member, which owns nothing now; responses to requests of the old one are void."""
        poll_state = self._active.member.poll_state
        self._link.drop()
        driver = self._new_driver(protocol, self._switch.member_id)
        self._active.driver = driver
        driver.follow(self._subscription.topics)
        if protocol == "classic":
            self._tasks.spawn(self._probe(self._settings.protocol_check_ms * self._switch.probe_factor))
        self._step(driver.topic_metadata())
        if self._lags.is_reported:
            self._step(self._lags.attach(driver.member))
        if poll_state is not PollState.HERE:
            self._step(inputs.PollReturned())
        self._step(self._subscription)
        if self._closing is not None:
            self._step(self._closing)

    async def _probe(self, check_ms: int) -> None:
        await wait_until_movable(self._link, check_ms)
        self._switch.mark_movable()
        self._active.put(inputs.Tick())

    # Tasks

    def _spawn(self, work: Response) -> None:
        task = self._tasks.spawn(self._await(work, self._active.driver))
        task.add_done_callback(lambda _: work.close())  # it never began where the task was cancelled before

    async def _await(self, work: Response, driver: ProtocolDriver) -> None:
        try:
            response = await work
        except Exception as error:
            self._stop_on_defect(error)
        else:
            if driver is self._active.driver:
                self._active.put(response)

    def _stop_on_defect(self, error: Exception) -> None:
        log.error("group %s: a defect stopped the member", self.group_id, exc_info=error)
        self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect stopped the member: {error!r}")
        self._notify()

    def _queue_metadata(self, view: ClusterView) -> None:
        del view
        self._active.put(self._active.driver.topic_metadata())

    async def _end(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        await self._tasks.stop()
        self._loop_task = None
        self._link.drop()
        self.observer.membership_ended(self)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
