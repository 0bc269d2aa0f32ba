"""What is to be seen of a world while it runs: the hooks that checkers, traces, pictures and counters implement.

An observer changes nothing. The base class sees everything and does nothing; a hook that no observer overrides costs
nothing. Partitions are sets of `TopicPartition`; `now_us` of the scheduler is the time of what a hook reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.member import effects, inputs
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.streams_tasks import Task, TasksByRole

if TYPE_CHECKING:
    from kohort.gateway.gateway import Gateway
    from kohort.node.groups.offsets_partition import OffsetsPartition
    from kohort.node.node import Node
    from kohort.sim.kernel.scheduler import Scheduler


OUTPUT = "out"
"""The topic that transactional producers write to."""
OUTPUT_PARTITIONS = 3

Offsets = Mapping[TopicPartition, int]
Errors = Mapping[TopicPartition, ErrorCode]
"""Of the partitions of a commit that were refused."""


class SeenMember(Protocol):
    """A member as observers know it, whichever client it is."""

    @property
    def name(self) -> str:
        """What the world calls it, also after restarts of its process."""

    @property
    def group_id(self) -> str:
        """Its group."""

    @property
    def kind(self) -> str:
        """`eager`, `cooperative`, `consumer`, …: which protocol, for the trace."""

    @property
    def instance_id(self) -> str | None:
        """Its `group.instance.id`."""

    @property
    def identity(self) -> Identity:
        """Its member id with the generation or epoch that it shows; empty before it joined."""


class SeenThread(SeenMember, Protocol):
    """A member of a streams group as observers know it."""

    @property
    def early_tasks(self) -> frozenset[Task]:
        """The active tasks that it began while a report without them was unanswered: others may be granted them."""


class SeenNode(Protocol):
    """A node as observers know it: it has a name, and while it runs a `Node`."""

    @property
    def name(self) -> str:
        """What the world calls it."""

    @property
    def node(self) -> Node | None:
        """The running node, None while the process is down."""


class SeenGateway(Protocol):
    """A gateway as observers know it: it has a name, and while it runs a `Gateway`."""

    @property
    def name(self) -> str:
        """What the world calls it."""

    @property
    def gateway(self) -> Gateway | None:
        """The running gateway, None while the process is down."""


class Observer:
    """Sees a world; override what matters."""

    # -- the world

    def began(self, scheduler: Scheduler) -> None:
        """See the world begin, before anything happens in it."""

    def stepped(self) -> None:
        """See that one action of the scheduler has run; called after each."""

    def fault(self, name: str, subject: str, detail: str) -> None:
        """See a fault begin or end, or the world change: `power loss` of `n1`, `topic grown` …"""

    def healed(self) -> None:
        """See the faults end: from here on everything must converge."""

    def ended(self) -> None:
        """See the world's end, when everything has had its time to converge."""

    # -- nodes

    def node_started(self, node: SeenNode) -> None:
        """See a node that has replayed its disk and listens."""

    def node_stopped(self, node: SeenNode, how: str) -> None:
        """See a node end (`kill`, `power loss`, `stop`), while its last state can still be looked at."""

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """See an offsets partition that was replayed, at a start or after a failed flush; its groups follow."""

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """See an event that has been applied to a shard of a node by a decision (not by replay)."""

    def gateway_started(self, gateway: SeenGateway) -> None:
        """See a gateway that listens."""

    # -- members

    def member_started(self, member: SeenMember) -> None:
        """See a member's process begin."""

    def configured(self, member: SeenMember, heartbeat_interval_ms: int) -> None:
        """See how often a member that begins sends heartbeats that are not parked (classic)."""

    def closing(self, member: SeenMember, finished: Mapping[TopicPartition, int]) -> None:
        """See a member's user close it, with what it has finished and no commit has been answered for."""

    def member_ended(self, member: SeenMember, how: str) -> None:
        """See it end: `closed`, `killed`, or `failed: …`. It acts no more from here on."""

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """See a member's state machine enter another state."""

    def poll_missed(self, member: SeenMember, is_leaving: bool) -> None:
        """See a member whose user did not poll in time; a static classic one sends no LeaveGroup (KIP-345)."""

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        """See a rebalance callback begin."""

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        """See it end."""

    def contract_broken(self, member: SeenMember, sentence: str) -> None:
        """See that a member's machine asked for what its listener or its assignor may rely on not to happen."""

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """See what a member acts on from here: called at each change, with nothing when its process ends."""

    def runs(self, member: SeenThread, tasks: TasksByRole) -> None:
        """See which tasks a member of a streams group acts on from here: called at each change, as `owns` is."""

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        """See records handed to the application: offsets from `first` up to, without, `next_offset`."""

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        """See from where a member will read a partition: `committed`, `reset`, `seek`."""

    def commit_shows(self, member: SeenMember, number: int, identity: Identity) -> None:
        """See the identity of a commit, where it is not the member's of now; called just before `commit_sent`."""

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        """See a commit leave; its identity is the member's of now. `number` names it among the member's."""

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        """See what became of it. A commit without an answer is answered REQUEST_TIMED_OUT or NETWORK_EXCEPTION."""

    def subscribed(self, member: SeenMember, topics: tuple[str, ...]) -> None:
        """See which topics a JoinGroup names, just before it is asked; for heartbeats, where they are new."""

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """See a group request leave a member."""

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """See its answer arrive."""

    # -- records

    def produced(self, partition: TopicPartition, offset: int, count: int) -> None:
        """See records acknowledged by the broker: `count` of them from `offset` on."""

    # -- transactions, by the name of their producer, which is its transactional id, and their number

    def producer_identified(self, producer: str, producer_id: int, epoch: int) -> None:
        """See a transactional producer get another id or epoch: those before it are fenced."""

    def producer_ended(self, producer: str, why: str) -> None:
        """See a process of a transactional producer end by itself."""

    def transaction_began(self, producer: str, number: int, records: int) -> None:
        """See a transaction begin that is to have so many records."""

    def transaction_wrote(self, producer: str, number: int, partition: TopicPartition, offset: int) -> None:
        """See a batch of it acknowledged; the offset is -1 where the broker knows only that it has it."""

    def transaction_ending(self, producer: str, number: int, is_commit: bool) -> None:
        """See its program ask for its end."""

    def transaction_ended(self, producer: str, number: int, is_commit: bool) -> None:
        """See the end answered."""

    def transaction_offset_found(self, producer: str, number: int, asked_us: int) -> None:
        """See the offset of a producer's group, which is the number of a transaction; -1 where there is none.

        It was requested at `asked_us`; another process of the producer may have committed since.
        """

    def committed_read(
        self, partition: TopicPartition, values: Sequence[tuple[int, bytes]], next_offset: int, stable_offset: int
    ) -> None:
        """See what a reader of committed records got: each offset with its value, and the last stable offset."""


HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_"))


class TimedObserver(Observer):
    """An observer with the clock of the world."""

    _scheduler: Scheduler | None = None

    def began(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @property
    def now_us(self) -> int:
        """The time of the world; 0 before it began."""
        return 0 if self._scheduler is None else self._scheduler.now_us


class Observers(Observer):
    """Passes everything on, in order, to those who look at it."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers: list[Observer] = []
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """Let one more see everything from here on."""
        self._observers.append(observer)
        for name in HOOKS:
            self.__dict__[name] = self._all_of(name)

    def _all_of(self, name: str) -> Callable[..., None]:
        hooks = [
            getattr(each, name) for each in self._observers if getattr(type(each), name) is not getattr(Observer, name)
        ]
        if not hooks:
            return getattr(Observer, name).__get__(self)  # type: ignore[no-any-return]
        if len(hooks) == 1:
            return hooks[0]  # type: ignore[no-any-return]

        def call_all(*arguments: Any) -> None:
            for hook in hooks:
                hook(*arguments)

        return call_all


def request_of(effect: effects.Effect) -> tuple[str, str] | None:
    """Return the group request that an effect is and its detail, for `asked`; None for other effects."""
    match effect:
        case effects.Join():
            return "JoinGroup", f"{','.join(name for name, _ in effect.protocols)}: {effect.reason}"
        case effects.Sync():
            return "SyncGroup", f"{len(effect.assignments)} assignments of {effect.protocol_name}"
        case effects.Heartbeat():
            return "Heartbeat", ""
        case effects.Leave():
            return "LeaveGroup", effect.reason
        case effects.ConsumerHeartbeat():
            return "ConsumerGroupHeartbeat", f"epoch {effect.member_epoch}: {effect.cause}"
        case _:
            return None


def response_of(event: inputs.Input) -> tuple[str, ErrorCode, str] | None:
    """Return the group request that an input answers, its error and its detail, for `answered`; None for others."""
    match event:
        case inputs.JoinAnswered():
            role = "leads" if event.leader and event.leader == event.member_id else "follows"
            return "JoinGroup", event.error, f"{role} as {event.member_id} in generation {event.generation}"
        case inputs.SyncAnswered():
            return "SyncGroup", event.error, " ".join(map(str, sorted(event.assignment.partitions)))
        case inputs.HeartbeatAnswered():
            return "Heartbeat", event.error, ""
        case inputs.LeaveAnswered():
            return "LeaveGroup", event.error, ""
        case inputs.ConsumerHeartbeatAnswered():
            assigned = ""
            if event.assignment is not None:
                ids = [f"{topic_id.hex()[:4]}:{','.join(map(str, numbers))}" for topic_id, numbers in event.assignment]
                assigned = f", assigned {' '.join(ids) or 'nothing'}"
            return "ConsumerGroupHeartbeat", event.error, f"epoch {event.member_epoch}{assigned}"
        case _:
            return None
