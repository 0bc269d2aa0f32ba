"""A member that lives in the background of an asyncio program: heartbeats, rebalances, callbacks, commits.

It drives a `member` of either protocol: every answer, callback and deadline becomes an input, every effect a task of
its own, so nothing here decides anything about the group. What differs between the protocols is `side`'s, when to go
from one to the other `switching`'s. All tasks end with `stop`. Works with any broker of Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial

from kohort.assign.spec import Assignor
from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.member_id import new_member_id
from kohort.client.membership.member_log import log_effect
from kohort.client.membership.member_offsets import MemberOffsets
from kohort.client.membership.membership_commits import MembershipCommits
from kohort.client.membership.protocol_driver import ClassicSide, ConsumerSide, Side
from kohort.client.membership.protocol_switch import GroupProtocol, Switching
from kohort.client.membership.user_callbacks import UserCalls
from kohort.client.observer import client_observer
from kohort.client.rebalance_listener import RebalanceListener
from kohort.member import ConsumerMember, MemberConfig, PollState, State, effects, inputs
from kohort.member.consumer_inputs import LagsReported
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

Lags = Mapping[TopicPartition, int]

CLOSING = "the consumer is being closed"
MOVING = "it moves to the consumer protocol"


class Membership(MembershipCommits):
    """One membership in one group; `start` it once and `stop` it once.

    Timings are milliseconds. `rebalance_timeout_ms` bounds how long a callback may hold the group up;
    `max_poll_interval_ms` asks for `enter_poll`/`return_poll` at that pace and is off by default. `protocol` is
    "classic", "consumer" or "auto"; `assignors`, `session_timeout_ms` and `heartbeat_interval_ms` belong to the classic
    protocol; `assignor` (the broker's), `member_id`, lags and `names`/`regex` to the consumer protocol.
    Raises ValueError for assignors that do not go together.
    """

    on_change: Callable[[], None] | None = None
    """Called after each step of the member."""
    before_join: Callable[[], Awaitable[None]] | None = None
    """Awaited before the JoinGroup of a member that owns partitions: what is finished can be committed now."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        topics: Iterable[str],
        assignors: Sequence[Assignor] = (),
        protocol: GroupProtocol = "classic",
        assignor: str | None = None,
        member_id: str | None = None,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int | None = None,
        group_instance_id: str | None = None,
        listener: RebalanceListener | None = None,
        client_rack: str | None = None,
        matches: Callable[[str], bool] | None = None,
        names: Iterable[str] = (),
        regex: str | None = None,
        acceptable_recovery_lag: int = 10_000,
        lag_growth_ms: int = 60_000,
        protocol_check_ms: int = 60_000,
        metrics: RebalanceMetrics | None = None,
    ) -> None:
        config = MemberConfig(
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            instance_id=group_instance_id,
            rack=client_rack,
            server_assignor=assignor,
            acceptable_recovery_lag=acceptable_recovery_lag,
            lag_growth_ms=lag_growth_ms,
        )
        self.group_id = group_id
        self.failure: KafkaError | None = None
        self._lags: Lags | Callable[[], Lags] = {}
        self._known_lags: Lags = {}
        self.observer = client_observer()
        self._cluster = cluster
        self._config = config
        self._assignors = tuple(assignors)
        self._wanted = inputs.Subscribed(tuple(topics), matches, regex, tuple(names))
        self._measured = metrics or RebalanceMetrics(max_poll_interval_ms)
        self._link = CoordinatorLink(cluster, group_id)
        self._switching = Switching(protocol, self._link, protocol_check_ms)
        self._side = self._made(self._switching.first, member_id or new_member_id())
        chosen = {assignor.name: assignor for assignor in assignors}
        self._calls = UserCalls(group_id, listener or RebalanceListener(), chosen, rebalance_timeout_ms)
        self._inbox: asyncio.Queue[inputs.Input] = asyncio.Queue()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._driver: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._changed = BroadcastEvent()
        self._sleeping_until_ms: int | None = None
        self._closing: inputs.CloseRequested | None = None
        self._goes_on_in: str | None = None
        self._is_native_welcome = False
        self._moving_as: str | None = None
        self._offsets = MemberOffsets(
            cluster,
            group_id,
            group_instance_id,
            side=lambda: self._side,
            tell=self._inbox.put_nowait,
            changed=self._changed,
            committing=partial(self.observer.commit_sent, self),
        )

    # For the user

    async def start(self) -> None:
        """Begin to join; returns at once. `joined` waits for the first assignment."""
        self.begin()

    def begin(self) -> None:
        """Begin to join, from inside a running loop."""
        assert self._driver is None, "a membership starts once"
        self._side.follow(self._wanted.topics)
        self._unwatch = self._cluster.watch(self._take_view)
        self._inbox.put_nowait(self._side.seen())
        self._inbox.put_nowait(self._wanted)
        self._driver = asyncio.create_task(self._drive(), name=f"kohort member of {self.group_id}")

    async def stop(self, reason: str = CLOSING, *, leave: bool | None = None) -> None:
        """Give the partitions back through the listener, leave the group, and end every task.

        A static member stays in the group until its session ends, unless `leave` is True; `leave=False` makes any
        member stay. The leave request is given five seconds.
        """
        if self._driver is None:
            return
        self._closing = inputs.CloseRequested(reason, leave)
        self._inbox.put_nowait(self._closing)
        try:
            await asyncio.shield(self._driver)
        finally:
            await self._end()

    def metrics(self) -> dict[str, float]:
        """Return what this membership measured, by the names of docs/metrics.md."""
        return self._measured.values(_now_ms())

    async def joined(self, *, timeout_ms: int | None = None) -> Partitions:
        """Wait until the member is stable; return what it owns. Raises `KafkaError` where it failed, TimeoutError."""
        await self.wait_for(lambda: self.is_stable, timeout_ms=timeout_ms)
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
        self._calls.check(is_between=self._member.is_between)

    def subscribe(
        self,
        topics: Iterable[str],
        matches: Callable[[str], bool] | None = None,
        *,
        names: Iterable[str] = (),
        regex: str | None = None,
    ) -> None:
        """Want other topics from now on; the group rebalances if they differ.

        `matches` says which topics are wanted too once the leader assigns them: it may have seen them first. With
        `regex` the broker resolves the expression and `names` are wanted by name, where it can; else `topics` are.
        """
        self._wanted = inputs.Subscribed(tuple(topics), matches, regex, tuple(names))
        self._side.follow(self._wanted.topics)
        self._inbox.put_nowait(self._wanted)

    def report_lags(self, lags: Lags | Callable[[], Lags]) -> None:
        """Report how far each standby copy is behind, or a function that returns it, asked now and for each heartbeat.

        The coordinator is sent the lags with a join, and when they matter.
        """
        self._lags = lags
        self._inbox.put_nowait(self._lags_reported())

    def _lags_reported(self) -> LagsReported:
        if isinstance(self._member, ConsumerMember):
            self._member.lag_source = self._lags_now if callable(self._lags) else None
        return LagsReported(self._lags_now())

    def _lags_now(self) -> Lags:
        if callable(self._lags):
            try:
                self._known_lags = dict(self._lags())
            except Exception:
                log.exception("group %s: the function given to report_standby_lag failed", self.group_id)
        else:
            self._known_lags = dict(self._lags)
        return self._known_lags

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance."""
        self._inbox.put_nowait(inputs.RejoinRequested(reason))

    def enter_poll(self) -> None:
        """Say that the user came for records."""
        self._step_now(inputs.PollEntered())

    def return_poll(self) -> None:
        """Say that the user went off with records and must be back within the poll interval."""
        self._step_now(inputs.PollReturned())

    # The inside

    def _made(self, name: str, member_id: str) -> Side:
        if name == "classic":
            return ClassicSide(self._link, self._config, self._assignors)
        return ConsumerSide(self._link, self._config, member_id)

    async def _drive(self) -> None:
        try:
            while not self._member.is_closed:
                self._step(await self._next_input())
        except Exception as error:
            self._stand_still(error)

    def _step(self, event: inputs.Input) -> None:
        before, now_ms = self._member.state, _now_ms()
        self.observer.input_received(self, event)
        asked = self._member.step(event, now_ms)
        self._measured.observe(event, asked, before, self._member.state, now_ms)
        self.observer.input_processed(self, event, asked)
        self._offsets.held.follow(self._member.owned)
        for effect in asked:
            self._carry_out(effect)
        if self._switching.is_auto:
            self._consider_the_other_protocol()
        self._wake()

    def _consider_the_other_protocol(self) -> None:
        member = self._member
        if self._goes_on_in is not None:
            if not member.owned and member.running is None:
                self._go_on(self._goes_on_in, new_member_id(), was_refused=True)
        elif self._moving_as is not None:
            if member.is_closed:
                member_id, self._moving_as = self._moving_as, None
                self._go_on("consumer", member_id)
        elif member.is_stable:
            self._switching.settled(self._side.name)
            if self._is_native_welcome and self._closing is None:
                self._is_native_welcome = False
                self._moving_as = member.identity.member_id
                self._switching.retry_native()
                log.info("group %s: the broker takes this member in the consumer protocol: it moves", self.group_id)
                self._step(inputs.CloseRequested(MOVING, leave=False))

    def _go_on(self, name: str, member_id: str, *, was_refused: bool = False) -> None:
        """Be a member in the other protocol from here; nothing is owned now, and answers to the old one are void."""
        old, self._goes_on_in = self._member, None
        self._link.drop()
        self._side = self._made(name, member_id)
        self._side.follow(self._wanted.topics)
        if name == "classic":
            self._hold(asyncio.create_task(self._watch_for_native(was_refused=was_refused)))
        self._step(self._side.seen())
        if self._lags:
            self._step(self._lags_reported())
        if old.poll_state is not PollState.HERE:
            self._step(inputs.PollReturned())
        self._step(self._wanted)
        if self._closing is not None:
            self._step(self._closing)

    async def _watch_for_native(self, *, was_refused: bool) -> None:
        await self._switching.wait_for_native(was_refused=was_refused)
        self._is_native_welcome = True
        self._inbox.put_nowait(inputs.Tick())

    def _step_now(self, event: inputs.Input) -> None:
        """Take what happens for every batch without the way through the inbox."""
        if self._driver is None:
            return
        self._step(event)
        deadline_ms = self._member.next_deadline_ms()
        if deadline_ms is not None and (self._sleeping_until_ms is None or deadline_ms < self._sleeping_until_ms):
            self._inbox.put_nowait(inputs.Tick())

    def _wake(self) -> None:
        self._changed.notify()
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
            case effects.RunCallback():
                self._spawn(self._run_callback(effect))
            case effects.OnAssignment():
                self._calls.tell_assignor(effect)
            case effects.Rediscover():
                self._link.rediscover()
            case effects.TellUser():
                self._calls.tell_user(effect)
            case effects.Fail(code, text):
                self._fail(code, text)
            case effects.Ended():
                pass
            case _:
                log_effect(self.group_id, effect, self._config)
                if isinstance(effect, effects.Join) and self._member.owned and self.before_join is not None:
                    self._spawn(self._join_after(self.before_join, effect, self._side))
                elif (answer := self._side.carry_out(effect)) is not None:
                    self._spawn(answer)

    async def _join_after(
        self, before_join: Callable[[], Awaitable[None]], effect: effects.Join, side: Side
    ) -> inputs.Input:
        await before_join()
        member = side.member
        if member.state is not State.JOINING or member.identity != effect.identity:
            return inputs.Tick()  # closed, or put out of the group meanwhile: nobody waits for this join
        answer = side.carry_out(effect)
        assert answer is not None, "a join is answered"
        return await answer

    def _fail(self, code: ErrorCode, text: str) -> None:
        self._goes_on_in = self._switching.instead(self._side.name, code)
        if self._goes_on_in is not None:
            log.info("group %s: goes on in the %s protocol: %s", self.group_id, self._goes_on_in, text)
            return
        complaint = self._link.complaint
        is_better = complaint is not None and complaint.code is code and code is not ErrorCode.UNSUPPORTED_VERSION
        self.failure = complaint if is_better else KafkaError(code, text)
        log.error("group %s: %s", self.group_id, self.failure)

    def _spawn(self, work: Awaitable[inputs.Input]) -> None:
        task = asyncio.create_task(self._answer(work, self._side), name=f"kohort member of {self.group_id}")
        if isinstance(work, Coroutine):
            task.add_done_callback(lambda _: work.close())  # it never began where the task was cancelled before
        self._hold(task)

    def _hold(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _answer(self, work: Awaitable[inputs.Input], side: Side) -> None:
        try:
            answer = await work
        except Exception as error:
            self._stand_still(error)
        else:
            if side is self._side:
                self._inbox.put_nowait(answer)

    def _stand_still(self, error: Exception) -> None:
        log.error("group %s: the member stands still", self.group_id, exc_info=error)
        self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect stopped the member: {error!r}")
        self._wake()

    async def _run_callback(self, effect: effects.RunCallback) -> inputs.Input:
        self._side.follow({partition.topic for partition in effect.partitions})
        return await self._calls.run(effect)

    def _take_view(self, view: ClusterView) -> None:
        del view
        self._inbox.put_nowait(self._side.seen())

    async def _end(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        tasks = [*self._tasks, *([self._driver] if self._driver else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._driver = None
        self._link.drop()
        self.observer.membership_ended(self)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


__all__ = ["CLOSING", "Membership"]
