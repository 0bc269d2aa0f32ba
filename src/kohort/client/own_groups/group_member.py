"""A member of a group that consumes nothing: elect a leader, share out work, agree on anything.

The same machine as a consumer's member drives it: joins, generations, sessions, static members and their errors are
those of the classic protocol, on any broker that speaks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, NoReturn, Unpack

from kohort.client.arguments import check_text
from kohort.client.membership.membership import Membership, MembershipSettings
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.client.own_groups.group_protocols import (
    WHOLE,
    GroupProtocol,
    Metadata,
    OwnAssignor,
    OwnProtocol,
    check_protocols,
    names_of,
)
from kohort.client.settings import ClientConfig, ClientSettings, config_of, takes_settings
from kohort.member import ClassicMember, MemberConfig
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Partitions
from kohort.model.setting import OBJECT, STRING, check_fields, setting

OnChange = Callable[[Any], Awaitable[None] | None]
"""Called with an eager member's assignment, or with the names of a cooperative one that come or go."""


class GroupMemberSettings(ClientSettings, total=False):
    """The keyword arguments of `GroupMember`; `GroupMemberConfig` has their defaults and explains them."""

    group_id: str
    protocol_type: str
    protocols: GroupProtocol | Sequence[GroupProtocol]
    metadata: Any
    on_assigned: OnChange | None
    on_revoked: OnChange | None
    on_lost: OnChange | None
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class GroupMemberConfig(ClientConfig):
    """What a member of a program's own group reads.

    Raises TypeError, ValueError for settings that do not go together.
    """

    # fmt: off
    group_id: str = setting(MISSING, "The group.", 1, kind=STRING)
    protocol_type: str = setting(MISSING,
        "The same in the whole group, and not consumer, connect or any other that exists.", 1, kind=STRING)
    protocols: GroupProtocol | Sequence[GroupProtocol] = setting(MISSING, "In order of preference: the group uses one "
        "that all members offer, so that a new one can be rolled out.", kind=OBJECT)
    metadata: Any = setting(None, "What the leader's function is given about this member.", kind=OBJECT)
    on_assigned: OnChange | None = setting(None, "Called, or awaited, with what is assigned; a round waits for it, at "
        "most rebalance_timeout_ms.", kind=OBJECT, cls=Callable, expected="a function")
    on_revoked: OnChange | None = setting(None, "Called, or awaited, with what is revoked.", kind=OBJECT, cls=Callable,
        expected="a function")
    on_lost: OnChange | None = setting(None, "Called where the member was evicted; else on_revoked is.",
        kind=OBJECT, cls=Callable, expected="a function")
    group_instance_id: str | None = setting(None, "The name of a static member (KIP-345).", kind=STRING)
    session_timeout_ms: int = setting(45_000, "A member that sends no heartbeat for so long is evicted.", 1)
    heartbeat_interval_ms: int = setting(3_000, "How often heartbeats are sent.", 1)
    rebalance_timeout_ms: int = setting(60_000, "How long a round waits for this member.", 1)
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        if self.protocol_type == "consumer":
            raise ValueError("protocol_type='consumer' is that of consumers: use Consumer, or name a type of your own")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms, a third of it at most")


class GroupMember:
    """One member of a program's own group. Use it as `async with GroupMember(…) as member`, or `start` and `stop` it.

    Heartbeats and rounds run in the background. What ends the membership (another process with its
    `group_instance_id`, no right to the group, a leader's function that failed) is raised by `joined`, `wait_for` and
    `serve_forever`. Raises TypeError for a setting that does not exist, ValueError for settings that clash.
    """

    @takes_settings(GroupMemberConfig)
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[GroupMemberSettings]) -> None:
        config: GroupMemberConfig = config_of(GroupMemberConfig, settings, bootstrap_servers=bootstrap_servers)
        given = config.protocols
        protocols = tuple(given) if isinstance(given, Sequence) else (given,)
        self._config = config
        self._cluster = config.cluster()
        self._metadata = Metadata(config.metadata)
        self._assigned: Any = None
        self._protocol_name = ""
        is_cooperative = check_protocols(protocols)
        by_name = {each.name: each for each in protocols}
        self._own = OwnProtocol(config.protocol_type, by_name, self._metadata, is_cooperative)
        self._membership = Membership(
            self._cluster,
            config.group_id,
            Subscribed((WHOLE.topic,), matches=lambda _: True),
            MembershipSettings(
                MemberConfig(
                    session_timeout_ms=config.session_timeout_ms,
                    rebalance_timeout_ms=config.rebalance_timeout_ms,
                    heartbeat_interval_ms=config.heartbeat_interval_ms,
                    instance_id=config.group_instance_id,
                ),
                [OwnAssignor(each, self._set_assignment) for each in protocols],
                embedded=self._own,
            ),
            listener=_OwnGroupListener(self._own, config, lambda: self._assigned),
        )
        self._is_started = False

    def _set_assignment(self, name: str, assigned: Any, generation: int) -> None:
        del generation
        self._protocol_name, self._assigned = name, assigned

    async def __aenter__(self) -> GroupMember:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect and begin to join; again does nothing. Raises `BrokerUnreachable`, RuntimeError after `stop`."""
        await self._cluster.start()
        if not self._is_started:
            self._is_started = True
            self._membership.begin()

    async def stop(self, reason: str = "the member is being closed") -> None:
        """Revoke what is assigned, leave the group, and end every connection. A static member stays in the group."""
        try:
            await self._membership.stop(reason)
        finally:
            await self._cluster.close()

    # The member in its group

    async def joined(self, *, timeout_ms: int | None = None) -> Any:
        """Wait until the member has its part of a round that is over; return it. Raises `KafkaError`, TimeoutError."""
        await self._membership.joined(timeout_ms=timeout_ms)
        return self.assignment

    async def wait_for(self, condition: Callable[[], bool], *, timeout_ms: int | None = None) -> None:
        """Wait until `condition()` is true, which is evaluated whenever the member changes. Raises as `joined` does."""
        await self._membership.wait_for(condition, timeout_ms=timeout_ms)

    async def serve_forever(self) -> NoReturn:
        """Be a member until the coroutine is cancelled. Raises what ends the membership."""
        await self._membership.wait_for(lambda: False)
        raise AssertionError("the condition is never true")

    def update(self, metadata: Any) -> None:
        """Replace the metadata; a round begins, so that the leader is sent it."""
        self._metadata.value = metadata
        self._membership.rejoin("metadata has changed")

    def rejoin(self, reason: str) -> None:
        """Ask for a round, since something has changed that the assignment depends on.

        Our brokers begin one for any member that sends a reason (KIP-800), others only for the leader.
        """
        check_text("reason", reason)
        self._membership.rejoin(reason)

    @property
    def assignment(self) -> Any:
        """What this member has now: in an eager group its value, or None, in a cooperative one a frozenset of names."""
        owned = self._membership.assignment
        if self._own.is_cooperative:
            return names_of(owned)
        return self._assigned if owned else None

    @property
    def generation(self) -> int:
        """The generation that the member is in, or -1. It only grows, so it fences what an older one still does."""
        return self._membership.generation

    @property
    def member_id(self) -> str:
        """The id that the coordinator knows this member by, or an empty string."""
        return self._membership.member_id

    @property
    def is_leader(self) -> bool:
        """Whether this member's function made the last assignment."""
        member = self._membership.member
        return isinstance(member, ClassicMember) and member.is_leader

    @property
    def is_stable(self) -> bool:
        """Whether the member has its assignment, and no round is under way as far as it knows."""
        return self._membership.is_stable

    @property
    def protocol_name(self) -> str:
        """The name of the protocol that made the assignment, or an empty string."""
        return self._protocol_name

    @property
    def session_left_ms(self) -> int:
        """How long at least this member's session lasts, in milliseconds; 0 where it may be over.

        It counts from when the last heartbeat was sent that the coordinator has answered. A program that cannot be
        fenced by `generation` stops what only one member may do before it is 0.
        """
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        return self._membership.member.session.left_ms(now_ms)


class _OwnGroupListener(RebalanceListener):
    """Calls the program's functions with its own values."""

    def __init__(self, own: OwnProtocol, config: GroupMemberConfig, value: Callable[[], Any]) -> None:
        self._is_cooperative = own.is_cooperative
        self._config = config
        self._value = value

    def on_partitions_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        return self._call(self._config.on_assigned, partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        return self._call(self._config.on_revoked, partitions)

    def on_partitions_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        return self._call(self._config.on_lost or self._config.on_revoked, partitions)

    def _call(self, function: OnChange | None, partitions: Partitions) -> Awaitable[None] | None:
        if function is None or not partitions:
            return None
        return function(names_of(partitions) if self._is_cooperative else self._value())
