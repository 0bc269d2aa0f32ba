"""A second statement of what the log says of a group: who is in it with which epoch, what each has, what is committed.

It is folded from the same events as `group/shard`, by other code that was written to be read, not to be fast, and that
knows nothing of how decisions are made. Of soft events it takes only who is out, who has joined the round that gathers,
and whose id was issued. Whatever is soft is forgotten when a shard is loaded.
"""

from __future__ import annotations

from kohort.group.events import MemberState, OffsetCommitted, StoredMember
from kohort.model.id_partitions import NOTHING, IdPartitions

Place = tuple[bytes, int]
"""A partition by its topic's id."""

AWAY = -2
"""The epoch of a static member that said it would come back."""


class Native:
    """What the records say of one member of a consumer group; `held` has the epoch in which each partition came."""

    __slots__ = ("assigned", "epoch", "held", "instance_id", "is_classic", "names", "regex", "state", "target")

    def __init__(self) -> None:
        self.instance_id: str | None = None
        self.is_classic = False
        self.names: tuple[str, ...] = ()
        self.regex = ""
        self.epoch = 0
        self.state = MemberState.STABLE
        self.assigned: frozenset[Place] = frozenset()
        self.held: dict[Place, int] = {}
        self.target: IdPartitions = NOTHING


class GroupLedger:
    """What is known of one group. `kind` is empty for a group that has offsets only."""

    __slots__ = (
        "asker",
        "before",
        "commits",
        "epoch",
        "former",
        "generation",
        "is_gathering",
        "is_synced",
        "joined",
        "kind",
        "left_behind",
        "members",
        "natives",
        "out",
        "regexes",
        "target_epoch",
        "turns",
    )

    def __init__(self) -> None:
        self.kind = ""
        self.turns = 0
        """How often anything changed that says who may commit."""
        self.commits: dict[tuple[str, int], OffsetCommitted] = {}
        # a classic group
        self.generation = 0
        self.is_synced = True
        self.members: dict[str, StoredMember] = {}
        self.out: set[str] = set()
        """Who was put out since the generation was stored."""
        self.joined: set[str] = set()
        """Whose JoinGroup came for the round that gathers."""
        self.left_behind: set[str] = set()
        """Static members that did not join a generation and stay in it: they know nothing of it until they ask."""
        self.is_gathering = False
        self.former: dict[str, frozenset[Place]] = {}
        """What the members of the consumer group that this was until now were granted."""
        self.before: dict[str, StoredMember] = {}
        """The members of the classic group that this was, but for those it had left behind."""
        # a consumer group
        self.epoch = 0
        self.target_epoch = 0
        self.natives: dict[str, Native] = {}
        self.asker: dict[Place, str] = {}
        """Who has a partition, granted or asked back."""
        self.regexes: dict[str, tuple[str, ...]] = {}

    def is_out(self, member_id: str) -> bool:
        """Whether a member was put out or left behind, or has left for a while: it may not know what holds now."""
        if member_id in self.left_behind:
            return True
        if self.kind == "consumer":
            member = self.natives.get(member_id)
            return member is None or member.epoch == AWAY
        if member_id in self.out:
            return True
        return member_id not in self.members and member_id not in self.joined

    def hear(self, member_id: str, epoch: int) -> None:
        """Note that a member shows a generation or epoch: if it is the log's, it was told, and is not left behind."""
        member = self.natives.get(member_id)
        if epoch == (self.generation if member is None else member.epoch):
            self.left_behind.discard(member_id)

    def why_no_commit(self, member_id: str, epoch: int, place: Place) -> str | None:
        """Return why a commit with a generation or epoch is to be refused, or None when it may be accepted."""
        if self.kind == "consumer":
            return self._why_not_native(member_id, epoch, place)
        if epoch < 0 and not self.members:
            return None
        if self.kind == "":
            return f"there is no group in which {member_id} could be at {epoch}"
        if member_id in self.out:
            return f"{member_id} was put out"
        if member_id not in self.members:
            return f"{member_id} is not in generation {self.generation}"
        if epoch != self.generation:
            if self.is_gathering and 0 <= epoch < self.generation and member_id in self.former:
                return None  # what it had in the consumer group is its own until the round ends
            return f"{member_id} shows generation {epoch}, the group is at {self.generation}"
        if not self.is_synced and not self.is_gathering:
            return f"generation {self.generation} has no assignments yet"
        return None

    def _why_not_native(self, member_id: str, epoch: int, place: Place) -> str | None:
        if epoch < 0 and not self.natives:
            return None
        member = self.natives.get(member_id)
        if member is None:
            return f"{member_id} is no member"
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            return f"{member_id} shows epoch {epoch}, the log knows {member.epoch}"
        since = member.held.get(place)
        if since is None or not 0 <= since <= epoch:
            return f"{member_id} shows epoch {epoch} and is at {member.epoch}, and had the partition since {since}"
        return None

    def names_of(self, member: Native) -> frozenset[str]:
        """Return the topics that a member of a consumer group subscribes to, as far as expressions are resolved."""
        return frozenset(member.names).union(self.regexes.get(member.regex, ()) if member.regex else ())

    def resume(self, before: GroupLedger) -> None:
        """Go on after a load: what the log does not say, or a cleaning took from it, is as true as before."""
        if before.kind == self.kind == "consumer":
            self.left_behind = before.left_behind & self.natives.keys()
        elif before.kind == self.kind and before.generation == self.generation:
            self.left_behind = before.left_behind & self.members.keys()
            self.former = {id_: had for id_, had in before.former.items() if id_ in self.members} | self.former
