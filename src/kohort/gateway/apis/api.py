"""What a module of `gateway.apis` offers: an API of groups, or one that is about its connection alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kohort.gateway.apis.connection_state import Command, Connection
from kohort.gateway.observing.epoch_heartbeats import EpochResult
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.wire.codec import Buffer
from kohort.wire.message import Request, Response


@dataclass(frozen=True, slots=True)
class OriginElsewhere:
    """The connection of a request that another instance of the gateway has shared."""

    client_host: str
    software_name: str
    margin_ms: int = 0


RequestOrigin = Connection | OriginElsewhere
"""The client's address, its software, and how long before its next heartbeat it must have the last answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApi:
    """An API whose requests are commands to a group.

    `request` and `answer` are what is done on this connection; `observe_request` and `observe_answer` are the part of
    it that changes the observed groups, also for what other instances of the gateway have seen. Without `request` or
    `answer` one is shared and observed, and passes.
    """

    request_type: type[Request[Any]]
    response_type: type[Response]
    command_of: Callable[[Any, int, RequestOrigin, str], Command]
    """Takes a message, its version, its origin and the client id."""
    request: Callable[[Connection, Exchange, Any, int], bool] | None = None
    """Takes a command, and returns whether its request passes now. If not, `Exchange.pass_on` passes it."""
    answer: Callable[[Connection, Exchange, Any, Any, Buffer, int], Buffer | None] | None = None
    """Takes a command, the message that answers it and that as a frame; returns what the client gets now, or None."""
    observe_request: Callable[[ObservedGroups, Any, int], None] | None = None
    observe_answer: Callable[[ObservedGroups, Any, Any, int, int], EpochResult | bool | None] | None = None
    """Takes a command, the message that answers it, its version and the time."""
    abandon: Callable[[ObservedGroups, Any, int], None] | None = None
    """Takes a command whose answer is not known, and will not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionApi:
    """An API that is about no group."""

    request_type: type[Request[Any]]
    response_type: type[Response]
    request: Callable[[Connection, Any, str], None] | None = None
    """Takes a message, and the client id."""
    answer: Callable[[Connection, Any, int], None] | None = None
    """Takes a message, and the time."""
