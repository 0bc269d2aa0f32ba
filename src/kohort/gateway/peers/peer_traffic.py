"""The requests and answers about groups that one peer has seen: they change the groups as if they were seen here.

Nothing of it is passed on or parked, and nothing is shared with other peers.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping

from kohort.gateway.apis.connection_state import Command, protocol_of
from kohort.gateway.apis.routes import abandon_request, observe_answer, observe_request, read_command, reads
from kohort.gateway.holding.parked_requests import ParkedRequests
from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.peers.instance_messages import SharedAnswer, SharedRequest
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import REQUEST_HEAD_BYTES, RequestHead, request_head
from kohort.group.commands import Join
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

MOST_BYTES = 256 << 20
"""Unanswered requests of a peer are remembered up to so many bytes; beyond that the oldest count as ended."""

ENTRY_BYTES = 500
"""What a request takes at least."""


class PeerTraffic:
    """The exchanges of one peer, from when its link is up until it ends."""

    def __init__(self, groups: ObservedGroups, parked_requests: Mapping[GroupProtocol, ParkedRequests]) -> None:
        self._groups = groups
        self._parked_requests = parked_requests
        self._open: OrderedDict[int, tuple[RequestHead, Command, int]] = OrderedDict()
        """By number, the requests that are not answered, with their size."""
        self._bytes = 0
        self._is_warned = False

    def request(self, shared: SharedRequest, now_ms: int) -> Command | None:
        """Take a request. Raises MalformedMessage.

        None for one of an API or a version that a newer release of the peer reads, and this one does not: what it
        changes in its group is looked up when the peer's summary shows that it knows the group otherwise.
        """
        if len(shared.frame) < REQUEST_HEAD_BYTES:
            raise MalformedMessage(f"a request of {len(shared.frame)} bytes has no header")
        self.ended(shared.number, now_ms)
        head = request_head(shared.frame)
        if not reads(head):
            if not self._is_warned:
                self._is_warned = True
                text = "another instance shares requests with API key %d, version %d, which this release cannot read:"
                log.warning(text + " groups with such members are followed by look-ups", head.api_key, head.api_version)
            return None
        command = read_command(head, shared.frame, shared.client_host, shared.software)
        size = len(shared.frame) + ENTRY_BYTES
        self._open[shared.number] = head, command, size
        self._bytes += size
        while self._bytes > MOST_BYTES:
            self.ended(next(iter(self._open)), now_ms)
        if isinstance(command, EpochHeartbeat):
            requests = self._parked_requests.get(protocol_of(command))
            if requests is not None:
                requests.sent_elsewhere(command, now_ms)
        elif not self._is_late(command, shared.generation):
            observe_request(self._groups, head, command, now_ms)
        return command

    def _is_late(self, command: Command, generation: int | None) -> bool:
        """Whether a JoinGroup is one of a round that is over: instances may learn of its end from each other first."""
        group = self._groups.group(command.group_id) if isinstance(command, Join) else None
        return group is not None and generation is not None and generation < group.generation

    def answer(self, shared: SharedAnswer, now_ms: int) -> None:
        """Take an answer; one to a request that is not known is ignored. Raises MalformedMessage."""
        head, command, size = self._open.pop(shared.number, (None, None, 0))
        self._bytes -= size
        if head is None or command is None:
            return
        result = observe_answer(self._groups, head, command, shared.frame, now_ms)
        if result is not None and isinstance(command, EpochHeartbeat):
            requests = self._parked_requests.get(protocol_of(command))
            if requests is not None:
                requests.answered_elsewhere(command, result, now_ms)

    def ended(self, number: int, now_ms: int) -> None:
        """A request gets no answer."""
        head, command, size = self._open.pop(number, (None, None, 0))
        self._bytes -= size
        if head is not None:
            abandon_request(self._groups, head, command, now_ms)

    def close(self, now_ms: int) -> None:
        """The link has ended: what is unanswered counts as ended."""
        while self._open:
            self.ended(next(iter(self._open)), now_ms)
