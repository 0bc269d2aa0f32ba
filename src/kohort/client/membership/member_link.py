"""What a member needs of its client, whichever kind: its group's coordinator, and the metadata of topics.

`CoordinatorLink` is that of an asyncio program; the simulator has one in virtual time, whose awaits no event loop runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from logging import Logger
from typing import Any, Protocol, TypeVar

from kohort.client.cluster.metadata import ClusterView
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.apis import Api
from kohort.wire.message import Request

ResponseT = TypeVar("ResponseT")


class OpenConnection(Protocol):
    """An open connection to the coordinator."""

    @property
    def address(self) -> str:
        """The coordinator's `host:port`."""

    async def call(self, request: Request[ResponseT], *, timeout_ms: int) -> ResponseT:
        """Send a request and return its response, whatever error codes that has. Raises `KafkaError`."""


class MemberLink(Protocol):
    """The coordinator of one group, and the topics that concern one member."""

    log: Logger

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def request_timeout_ms(self) -> int:
        """The longest that an ordinary request waits for its response."""

    @property
    def view(self) -> ClusterView:
        """The newest metadata."""

    @property
    def followed(self) -> Iterable[str]:
        """The topics whose metadata concerns the member."""

    def random(self) -> float:
        """Return a random number from 0 to 1, for jitter."""

    async def open(self) -> OpenConnection:
        """Return an open connection to the coordinator. Raises `KafkaError`."""

    def within(self, limit_ms: int) -> AbstractAsyncContextManager[Any]:
        """Return a context that raises TimeoutError where its body, with opening a connection, takes longer."""

    def drop(self) -> None:
        """Close the connection; what waits on it fails with NETWORK_EXCEPTION."""

    def newest(self, api: Api) -> int:
        """Return the newest version of an API that both sides of the open connection speak."""

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the coordinator is one of ours, as far as is known, with this version of the feature."""

    def code(self, error: KafkaError) -> ErrorCode:
        """Return the code of an error, as an input of the member."""

    def follow(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics too."""

    def resolve_names(self, topic_ids: frozenset[bytes]) -> None:
        """Find the names of these topics, and of no others asked for before."""

    async def refresh(self, topics: Iterable[str], is_wanted: Callable[[], bool]) -> None:
        """Wait for metadata of now that covers these topics, or until they are not wanted. Raises `KafkaError`."""
