"""The group member of one simulated process: its state machine, the group requests it sends, and what observers see.

Inputs are taken one after another, in the order in which they came, and the effects of one are carried out before the
next is taken. Rebalance callbacks and changes of state go to its `user`, the application of the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kohort.member import ClassicMember, ConsumerMember, Identity, effects, inputs
from kohort.member.member_state import NO_IDENTITY
from kohort.model.assignment import Partitions
from kohort.sim.checks.callback_contract import ConsumerContractChecker, ContractBroken, ContractChecker
from kohort.sim.kernel.host import Alarm
from kohort.sim.kernel.scheduler import run
from kohort.sim.kernel.world_observer import Observer, request_of, response_of
from kohort.sim.peers.client_kinds import PeerConfig
from kohort.sim.peers.peer_connection import PeerConnections
from kohort.sim.peers.peer_link import Driver
from kohort.sim.peers.peer_metadata import PeerMetadata

CLOSING = "the consumer is being closed"


class MemberUser:
    """What uses a member: it runs callbacks and commits. The base class does nothing."""

    def run_callback(self, effect: effects.RunCallback) -> None:
        """Run a callback of the listener; `CallbackFinished` is the member's next input about it."""

    def partitions_revoked(self, partitions: Partitions) -> None:
        """The member no longer owns these partitions."""

    def member_changed(self) -> None:
        """The member is in another state, or has another identity."""

    def input_taken(self) -> None:
        """The member has taken an input, with those that followed from it, or has ended."""

    def proceed(self) -> None:
        """Continue: a request was answered, or the cluster looks different."""

    def close(self, closing: inputs.CloseRequested) -> None:
        """Close the member when the current work is finished."""


class PeerMember:
    """One member. Set `user` before the first input is taken.

    `make_driver` makes the driver of its protocol, for which it is called with `take`.

    More than 20 attributes: it stands for a whole consumer and its program.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        config: PeerConfig,
        connections: PeerConnections,
        metadata: PeerMetadata,
        observer: Observer,
        make_driver: Callable[[Callable[[inputs.Input], None]], Driver],
    ) -> None:
        self.name = name
        self.group_id = config.group_id
        self.instance_id = config.instance_id
        self.kind = kind
        self.config = config
        self.connections = connections
        self.metadata = metadata
        self.host = connections.host
        self.random = connections.random
        self.observer = observer
        self.user = MemberUser()
        self.failure: effects.Fail | None = None
        self.is_over = False
        self._inbox: deque[inputs.Input] = deque()
        self._is_stepping = False
        self._observed: Partitions = frozenset()
        """The owned partitions that observers saw last."""
        self._subscribed: tuple[str, ...] = ()
        """The topics that the group was sent last."""
        self._awaited: tuple[frozenset[str], int, Callable[[], None]] | None = None
        self._alarm = Alarm(self.host, self._tick)
        self._driver = make_driver(self.take)
        machine = self.machine = self._driver.member
        self._checked = (
            ConsumerContractChecker(machine) if isinstance(machine, ConsumerMember) else ContractChecker(machine)
        )

    # -- what others see

    @property
    def identity(self) -> Identity:
        """Its member id with the generation or epoch that it shows; empty before it joined."""
        return NO_IDENTITY if self.is_over else self.machine.identity

    @property
    def owned(self) -> Partitions:
        return frozenset() if self.is_over else self.machine.owned

    @property
    def is_stable(self) -> bool:
        """Whether it is in its group, owns its assignment, and no round is under way or wanted."""
        machine = self.machine
        if self.is_over or not machine.is_stable:
            return False
        return not (isinstance(machine, ClassicMember) and machine.is_rejoin_wanted)

    def when_in(self, states: frozenset[str], wait_us: int, action: Callable[[], None]) -> None:
        """Run an action once, `wait_us` after the state machine next enters one of these states."""
        self._awaited = (states, wait_us, action)

    # -- inputs and effects

    def take(self, event: inputs.Input) -> None:
        """Feed an input to the state machine, after those that came before it, and carry out the effects."""
        if (response := response_of(event)) is not None:
            self.observer.answered(self, *response)
        self._inbox.append(event)
        if self._is_stepping or self.is_over:
            return
        self._is_stepping = True
        while self._inbox and not self.is_over:
            self._step(self._inbox.popleft())
        self._is_stepping = False
        if not self.is_over:
            self._alarm.set(self.machine.next_deadline_ms())
        self.user.input_taken()

    def _step(self, event: inputs.Input) -> None:
        machine = self.machine
        state, identity = machine.state, machine.identity
        try:
            asked = self._checked.step(event, self.host.now_ms())
        except ContractBroken as broken:
            self.observer.contract_broken(self, str(broken))
            raise
        if machine.owned is not self._observed:
            self._show_owned(machine.owned)
        if machine.state is not state:
            error = getattr(event, "error", None)
            cause = f"{type(event).__name__} {error.name}" if error else type(event).__name__
            self.observer.member_moved(self, machine.state.value, cause)
            if self._awaited is not None and machine.state.value in self._awaited[0]:
                (_, wait_us, action), self._awaited = self._awaited, None
                self.host.after_us(wait_us, action)
        for effect in asked:
            self._carry_out(effect)
            if self.is_over:
                return
        if machine.state is not state or machine.identity is not identity:
            self.user.member_changed()

    def _carry_out(self, effect: effects.Effect) -> None:
        machine = self.machine
        match effect:
            case effects.RunCallback():
                self.metadata.follow({partition.topic for partition in effect.partitions})
                self.user.run_callback(effect)
            case effects.Rediscover():
                self.connections.rediscover()
            case effects.Fail():
                self.failure = effect
                self.user.close(inputs.CloseRequested(CLOSING))
            case effects.Ended():
                self.end("closed" if self.failure is None else f"failed: {self.failure.code.name}")
            case effects.PollMissed(is_leaving):
                self.observer.poll_missed(self, is_leaving)
            case effects.OnAssignment(name, assignment, generation) if isinstance(machine, ClassicMember):
                machine.assignors[name].on_assignment(assignment, generation)
            case effects.RaiseInPoll() | effects.PollLate() | effects.AssignmentErrorStays():
                pass
            case _:
                if (request := request_of(effect)) is not None:
                    self._show_request(*request)
                if (response := self._driver.carry_out(effect)) is not None:
                    run(response, self.take)

    def _tick(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.host.now_ms():
            self.take(inputs.Tick())
        else:
            self._alarm.set(deadline_ms)

    def show_topics(self) -> None:
        """Feed the newest view of the cluster's topics to the state machine."""
        self.take(self._driver.topic_metadata())

    def _show_request(self, request: str, detail: str) -> None:
        if request == "JoinGroup" or (
            request == "ConsumerGroupHeartbeat" and self.machine.topics is not self._subscribed
        ):
            self._subscribed = self.machine.topics
            self.observer.subscribed(self, self._subscribed)
        self.observer.asked(self, request, detail)

    # -- the end

    def end(self, how: str) -> None:
        """End the process: `closed`, `killed` or `failed: …`."""
        if how != "killed":
            self.connections.close()
        if self._observed:
            self._show_owned(frozenset())
        self.is_over = True
        self.observer.member_ended(self, how)
        self.host.kill()

    def _show_owned(self, owned: Partitions) -> None:
        if owned != self._observed:
            self.user.partitions_revoked(self._observed - owned)
            self.observer.owns(self, owned)
        self._observed = owned
