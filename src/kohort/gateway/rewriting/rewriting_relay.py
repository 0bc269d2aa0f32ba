"""A group relay and an address relay as one: groups are seen as the client sees them, addresses are the gateway's."""

from __future__ import annotations

from collections.abc import Callable

from kohort.gateway.relay.read_budget import ReadBudget
from kohort.gateway.relay.relay import Relay, Sink
from kohort.gateway.rewriting.address_relay import AddressRelay
from kohort.gateway.rewriting.broker_addresses import AddressOf
from kohort.wire.codec import Buffer


class RewritingRelay:
    """A connection as `Relay` is one; the address relay stands on its broker's side.

    `open_relay` makes the relay of groups from its two sinks. `end` is called with the reason when the connection has
    to be closed.
    """

    def __init__(
        self,
        open_relay: Callable[[Sink, Sink], Relay],
        address_of: AddressOf,
        to_client: Sink,
        to_broker: Sink,
        end: Callable[[str], None],
        budget: ReadBudget | None = None,
    ) -> None:
        self._now_ms = 0
        self._addresses = AddressRelay(address_of, self._pass_answer, to_broker, end, budget)
        self._relay = open_relay(to_client, self._addresses.from_client)

    @property
    def is_idle(self) -> bool:
        """Whether no request of the client awaits its answer."""
        return self._relay.is_idle

    @property
    def buffered_bytes(self) -> int:
        """How many bytes this connection buffers."""
        return self._relay.buffered_bytes + self._addresses.buffered_bytes

    @property
    def passing_bytes(self) -> int:
        """How many bytes the broker still sends of an answer that passes unread; 0 while it waits behind another."""
        return min(self._relay.passing_bytes, self._addresses.passing_bytes)

    def passed_elsewhere(self, count: int) -> None:
        """So many of these bytes have passed without `from_broker`."""
        self._addresses.passed_elsewhere(count)
        self._relay.passed_elsewhere(count)

    def from_client(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the client. Raises `MalformedMessage`: the connection is to be closed."""
        self._relay.from_client(chunk, now_ms)

    def from_broker(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the broker."""
        self._now_ms = now_ms
        self._addresses.from_broker(chunk)

    def _pass_answer(self, data: Buffer) -> None:
        self._relay.from_broker(data, self._now_ms)

    def release(self, now_ms: int) -> None:
        """Let what waits pass now."""
        self._relay.release(now_ms)

    def closed(self, now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended; `is_by_client`: neither gateway nor broker ended it."""
        self._addresses.closed()
        self._relay.closed(now_ms, is_by_client=is_by_client)
