"""The timers of a group: named values, armed and disarmed by effects, that come back as commands.

A timer is its own key: arming it again moves it. It has no time; the deadline is in the effect.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class TimerKind(StrEnum):
    """What a timer bounds."""

    SESSION = "session"
    """A member, or an id issued and not yet used, that must send requests."""
    JOIN = "join"
    """The gathering of members at the start of a round."""
    SYNC = "sync"
    """The wait for every member's SyncGroup (KAFKA-12890)."""
    HOLD = "hold"
    """How long SyncGroup answers are withheld for members that must revoke."""
    QUIET = "quiet"
    """How long no join may arrive before a first round ends its delay."""
    REBALANCE = "rebalance"
    """How long a member of a consumer group may take to give partitions back (KIP-848)."""
    TARGET = "target"
    """When a consumer group computes a target that was put off."""


class Timer(NamedTuple):
    """One timer. `member_id` is empty for a timer of the whole group; `generation` distinguishes stale ones."""

    kind: TimerKind
    group_id: str
    member_id: str = ""
    generation: int = -1


def session_timer(group_id: str, member_id: str) -> Timer:
    """Return the timer that evicts a member without requests."""
    return Timer(TimerKind.SESSION, group_id, member_id)


def join_timer(group_id: str) -> Timer:
    """Return the timer that ends the gathering of a round."""
    return Timer(TimerKind.JOIN, group_id)


def sync_timer(group_id: str, generation: int) -> Timer:
    """Return the timer that ends the wait for the SyncGroup requests of a generation."""
    return Timer(TimerKind.SYNC, group_id, "", generation)


def hold_timer(group_id: str, generation: int) -> Timer:
    """Return the timer that ends the wait of a generation's SyncGroup answers."""
    return Timer(TimerKind.HOLD, group_id, "", generation)


def quiet_timer(group_id: str) -> Timer:
    """Return the timer that finds out that joins of a first round have stopped arriving."""
    return Timer(TimerKind.QUIET, group_id)


def revocation_timer(group_id: str, member_id: str, epoch: int) -> Timer:
    """Return the timer that evicts a member which does not give back what it was asked for in that epoch."""
    return Timer(TimerKind.REBALANCE, group_id, member_id, epoch)


def target_timer(group_id: str) -> Timer:
    """Return the timer that computes a target which was put off."""
    return Timer(TimerKind.TARGET, group_id)


def member_join_timer(group_id: str, member_id: str) -> Timer:
    """Return the timer that evicts a classic member of a consumer group which does not join again."""
    return Timer(TimerKind.JOIN, group_id, member_id)


def member_sync_timer(group_id: str, member_id: str) -> Timer:
    """Return the timer that evicts a classic member of a consumer group which does not ask for its assignment."""
    return Timer(TimerKind.SYNC, group_id, member_id)
