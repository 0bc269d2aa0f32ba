"""What answers are worth: nobody is refused without a cause, and no answer makes a member start a round without need.

A member that shows the epoch it was given is in its group until the log says otherwise, and one that joins shows none.
An answer to who it was says nothing of who it is; a refusal because of a round that it is in calls for no other round.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.group.invariants import FENCED_FOR_CAUSE, ROUNDS_HAVE_CAUSES
from kohort.member.effects import Callback
from kohort.member.identity import Identity
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.kernel.world_observer import SeenMember

_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_BY_COMMIT = "offset commit failed"
"""How a member begins its reason to join when a commit told it of a round."""


class Hearing:
    """What one process has shown and heard."""

    __slots__ = ("commits", "has_ground", "is_joining", "is_misled", "shown", "state")

    def __init__(self) -> None:
        self.state = ""
        self.shown = -1
        """The generation that it showed last."""
        self.commits: dict[int, int] = {}
        """By number, the generation that a commit shows."""
        self.is_joining = False
        """Whether the heartbeat that is under way shows no epoch."""
        self.is_misled = False
        """Whether the last refusal that it heard was meant for who it was."""
        self.has_ground = False
        """Whether a commit has told it of a round, since the last one, while it was in none."""


class HeedingChecker(Checker):
    """FencedForCause and RoundsHaveCauses."""

    invariants = (FENCED_FOR_CAUSE, ROUNDS_HAVE_CAUSES)

    def __init__(self) -> None:
        super().__init__()
        self._hearings: dict[str, Hearing] = {}

    def member_started(self, member: SeenMember) -> None:
        """Begin with a process that has heard nothing."""
        self._hearings[member.name] = Hearing()

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Forget it."""
        self._hearings.pop(member.name, None)

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        """Note where it is, and whether it went there by itself."""
        hearing = self._hearing(member)
        hearing.state = state
        if cause == "Tick":
            hearing.is_misled = False

    # -- the group's requests

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        """Look at what made a member join."""
        hearing = self._hearing(member)
        epoch = member.identity.generation
        if request == "ConsumerGroupHeartbeat":
            hearing.is_joining = epoch <= 0 and detail.startswith("epoch 0")
        elif request == "JoinGroup":
            self._judge(member, hearing, detail.partition(": ")[2])
        if epoch >= 0:
            hearing.shown = epoch
            hearing.is_misled = False

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        """Note what it is told, and whether there was a cause."""
        hearing = self._hearing(member)
        if error is not ErrorCode.NONE:
            hearing.is_misled = False
        elif request == "SyncGroup":
            hearing.has_ground = False
        if request == "ConsumerGroupHeartbeat" and hearing.is_joining:
            self.count(FENCED_FOR_CAUSE)
            if error is ErrorCode.FENCED_MEMBER_EPOCH:
                self.broken(FENCED_FOR_CAUSE, f"{member.name} joins with epoch 0, and is fenced by its epoch")

    # -- its commits

    def commit_shows(self, member: SeenMember, number: int, identity: Identity) -> None:
        """Note a commit that was asked for as somebody whom the member is no more."""
        self._hearing(member).commits[number] = identity.generation

    def commit_sent(self, member: SeenMember, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Note what it shows."""
        self._hearing(member).commits.setdefault(number, member.identity.generation)

    def commit_answered(
        self,
        member: SeenMember,
        number: int,
        offsets: Mapping[TopicPartition, int],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """Note whom a refusal is meant for, and where it finds the member."""
        hearing = self._hearing(member)
        shown = hearing.commits.pop(number, -1)
        error = next(iter(errors.values()), ErrorCode.NONE)
        if error in _OUT:
            hearing.is_misled = 0 <= shown < hearing.shown and member.identity.generation == hearing.shown
        elif error is ErrorCode.REBALANCE_IN_PROGRESS and hearing.state in ("stable", "completing"):
            hearing.has_ground = True

    # -- what it does

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        """Who loses everything was told so as who it was then."""
        if callback is Callback.LOST:
            self._judge(member, self._hearing(member), "")

    def _judge(self, member: SeenMember, hearing: Hearing, reason: str) -> None:
        self.count(ROUNDS_HAVE_CAUSES)
        if hearing.is_misled and member.identity.generation < 0:
            self.broken(
                ROUNDS_HAVE_CAUSES,
                f"{member.name} gives up generation {hearing.shown} because a commit of an older one was refused",
            )
        if reason.startswith(_BY_COMMIT) and not hearing.has_ground:
            self.broken(ROUNDS_HAVE_CAUSES, f"{member.name} joins because of a commit that was refused in a round")

    def _hearing(self, member: SeenMember) -> Hearing:
        hearing = self._hearings.get(member.name)
        if hearing is None:
            hearing = self._hearings[member.name] = Hearing()
        return hearing


__all__ = ["HeedingChecker"]
