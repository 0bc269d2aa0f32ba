"""TCP between the instances of a gateway: who they are, that they may, and messages in both directions.

Both ends send a greeting: who they are, in front of which cluster, and a random number that was never sent before. Then
each proves, with that number of the other one, that it has the secret (HMAC, RFC 2104); a connection without it learns
nothing but the greeting. Messages have their length before them; an empty one is a sign of life. A link on
which nothing arrives for a while is abandoned, as is one whose other end reads nothing.

Every instance calls those that it was given, itself among them. Of two connections between the same two instances the
one stays whose caller has the smaller id.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from kohort.gateway.peers.instance_messages import MOST_MESSAGE_BYTES, OLDEST, agreed_version
from kohort.gateway.peers.instance_messages import VERSION as MESSAGES
from kohort.gateway.peers.instances import Instances
from kohort.model.bounded_dict import BoundedDict
from kohort.model.printable import printable
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

VERSION = 1
"""Of the greeting, to which fields may be added: another version of it is refused."""

FIRST_MESSAGES = (3, 3)
"""The versions of the messages of an instance whose greeting names none, as of releases before greetings did."""

IDLE_SECONDS = 3.0
"""A link on which nothing arrives for so long is abandoned."""

ALIVE_SECONDS = 1.0
"""How often an instance sends something at least."""

GREETING_SECONDS = 5.0
"""How long a connection may take until both ends have proved themselves."""

GREETING_BYTES = 4_096
UNSENT_BYTES = 32 << 20
"""A link with more unsent bytes is abandoned: its other end reads nothing, or too slowly."""

AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0)
"""How long to wait before an instance is called again, the last one from then on."""

MOST_UNPROVED = 64
"""How many connections may be open that have not proved themselves."""

_LENGTH = Struct(">I")
_NONCE_BYTES = 32


class LinkRefused(Exception):
    """The other end of a connection is no instance of this gateway; the text is the reason."""


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """Who an instance is: an id of its own, and the cluster that it stands in front of."""

    instance_id: str
    cluster_id: str


@dataclass(slots=True)
class LinkCounters:
    """What has passed over all links."""

    messages_sent: int = 0
    messages_received: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    lost: int = 0
    refused: int = 0


@dataclass(slots=True, eq=False)
class _InstanceLink:
    """A connection to another instance that has proved itself."""

    peer_id: str
    address: str
    is_caller: bool
    writer: asyncio.StreamWriter
    failure: str = ""

    def send(self, message: bytes, counters: LinkCounters) -> None:
        """Send a message; where too much is unsent the link is abandoned."""
        transport = self.writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > UNSENT_BYTES:
            self.abandon(f"it has not read {UNSENT_BYTES >> 20} MiB")
            return
        transport.write(_LENGTH.pack(len(message)) + message)
        counters.messages_sent += 1
        counters.sent_bytes += _LENGTH.size + len(message)

    def abandon(self, why: str) -> None:
        """Close the connection at once."""
        self.failure = self.failure or why
        self.writer.transport.abort()


class InstanceLinks:
    """The links of one process. `changed` is called after each message."""

    def __init__(
        self,
        identity: InstanceIdentity,
        secret: bytes,
        instances: Instances,
        now_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.counters = LinkCounters()
        self._secret = secret
        self._instances = instances
        self._now_ms = now_ms
        self._changed = changed
        self._links: dict[str, _InstanceLink] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[str, asyncio.Task[None]] = {}
        """By address, those of the tasks that call an instance."""
        self._ids: dict[str, str] = {}
        """By address that is called, the id of the instance that answered there last."""
        self._failures: BoundedDict[str, str] = BoundedDict(MOST_UNPROVED)
        """By address, what was logged of it last."""
        self._unproved = 0

    @property
    def connected(self) -> dict[str, str]:
        """The addresses of the instances with which a link is up, by id."""
        return {peer_id: link.address for peer_id, link in self._links.items()}

    # From start to end

    async def listen(self, host: str, port: int) -> int:
        """Take connections of other instances, and return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._accepted, host or None, port)
        return int(self._server.sockets[0].getsockname()[1])

    def call_only(self, addresses: Iterable[str]) -> None:
        """Link with the instances at each HOST:PORT, and again whenever a link ends; call no others any more."""
        wanted = set(addresses)
        for address in self._calls.keys() - wanted:
            self._calls.pop(address).cancel()
        for address in sorted(wanted - self._calls.keys()):
            self._calls[address] = self._run(self._call_again_and_again(address))

    async def stop(self) -> None:
        """Close all links."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Connections

    async def _call_again_and_again(self, address: str) -> None:
        failures = 0
        while (peer_id := self._ids.get(address)) != self.identity.instance_id:
            if peer_id not in self._links:
                try:
                    await self._call(address)
                    failures = 0
                except (OSError, TimeoutError, LinkRefused, asyncio.IncompleteReadError) as error:
                    self._log_failure(address, str(error) or type(error).__name__)
                    failures += 1
            await asyncio.sleep(AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)])

    async def _call(self, address: str) -> None:
        async with asyncio.timeout(GREETING_SECONDS):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        await self._serve(reader, writer, address, is_caller=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._unproved >= MOST_UNPROVED:
            writer.transport.abort()
            return
        name = writer.get_extra_info("peername") or ("an address", "that is gone")
        self._run(self._serve_accepted(reader, writer, f"{name[0]}:{name[1]}"))

    async def _serve_accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        try:
            await self._serve(reader, writer, address, is_caller=False)
        except (OSError, TimeoutError, LinkRefused, asyncio.IncompleteReadError) as error:
            self._log_failure(address.rpartition(":")[0] or address, str(error) or type(error).__name__)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, *, is_caller: bool
    ) -> None:
        """Greet the other end, and take what it sends until the link ends. Raises LinkRefused, and what sockets do."""
        try:
            self._unproved += 1
            try:
                async with asyncio.timeout(GREETING_SECONDS):
                    peer_id = await self._greet(reader, writer, is_caller=is_caller)
            finally:
                self._unproved -= 1
            if is_caller:
                self._ids[address] = peer_id
            if peer_id == self.identity.instance_id:
                return
            link = _InstanceLink(peer_id, address, is_caller, writer)
            if self._is_admitted(link):
                await self._exchange(link, reader)
        except LinkRefused:
            self.counters.refused += 1
            raise
        finally:
            writer.transport.abort()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_caller: bool) -> str:
        """Return the id of the other end once it has proved that it has the secret. Raises LinkRefused."""
        own = json.dumps(
            {
                "kohort_gateway": VERSION,
                "instance": self.identity.instance_id,
                "cluster": self.identity.cluster_id,
                "nonce": secrets.token_hex(_NONCE_BYTES),
                "messages": [OLDEST, MESSAGES],
            }
        ).encode()
        writer.write(_LENGTH.pack(len(own)) + own)
        theirs = await _read(reader, GREETING_BYTES)
        peer_id, cluster_id = _read_greeting(theirs)
        caller, listener = (own, theirs) if is_caller else (theirs, own)
        # The role stands in the proof, so that no end's proof is another one's.
        roles = (b"caller", b"listener") if is_caller else (b"listener", b"caller")
        own_proof, expected = (self._proof(role, caller, listener) for role in roles)
        writer.write(_LENGTH.pack(len(own_proof)) + own_proof)
        if not hmac.compare_digest(await _read(reader, GREETING_BYTES), expected):
            raise LinkRefused("it has another secret: instances_secret_file must be the same everywhere")
        if cluster_id != self.identity.cluster_id:
            raise LinkRefused(f"it stands in front of cluster {cluster_id!r}, this one of {self.identity.cluster_id!r}")
        return peer_id

    def _proof(self, role: bytes, caller: bytes, listener: bytes) -> bytes:
        content = b"".join(_LENGTH.pack(len(part)) + part for part in (role, caller, listener))
        return hmac.digest(self._secret, content, "sha256")

    def _is_admitted(self, link: _InstanceLink) -> bool:
        """Whether a link stays beside one that is up: then that one ends."""
        other = self._links.get(link.peer_id)
        if other is None or other.writer.transport.is_closing():
            return True
        caller_id = self.identity.instance_id if link.is_caller else link.peer_id
        if caller_id != min(self.identity.instance_id, link.peer_id):
            return False
        other.abandon("another connection to the same instance takes its place")
        return True

    async def _exchange(self, link: _InstanceLink, reader: asyncio.StreamReader) -> None:
        """Take messages until the link ends."""
        self._links[link.peer_id] = link
        counters = self.counters
        self._instances.connected(link.peer_id, lambda message: link.send(message, counters), self._now_ms())
        self._changed()
        self._failures.pop(link.address, None)
        log.info("linked with the instance at %s", printable(link.address))
        alive = asyncio.get_running_loop().create_task(self._stay_alive(link))
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS):
                    message = await _read(reader, MOST_MESSAGE_BYTES)
                counters.messages_received += 1
                counters.received_bytes += _LENGTH.size + len(message)
                if message:
                    self._instances.received(link.peer_id, message, self._now_ms())
                    self._changed()
        except TimeoutError:
            link.failure = f"nothing has come for {IDLE_SECONDS:g} s"
        except (OSError, asyncio.IncompleteReadError):
            link.failure = link.failure or "it has closed the connection"
        except MalformedMessage as error:
            link.failure = f"a message cannot be read: {error}"
        finally:
            alive.cancel()  # to await it here would take the end of this task for its own
            if self._links.get(link.peer_id) is link:
                del self._links[link.peer_id]
                counters.lost += 1
                self._instances.disconnected(link.peer_id, self._now_ms())
                self._changed()
                if link.failure:
                    self._log_failure(link.address, link.failure)

    async def _stay_alive(self, link: _InstanceLink) -> None:
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            link.send(b"", self.counters)

    def _log_failure(self, address: str, why: str) -> None:
        if self._failures.get(address) != why:
            self._failures[address] = why
            log.warning("no link with the instance at %s: %s", printable(address), printable(why))


async def _read(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return the next message. Raises LinkRefused for one that is too long, and what sockets raise."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > most:
        raise LinkRefused(f"it has sent a message of {length} bytes")
    return await reader.readexactly(length)


def _read_greeting(content: bytes) -> tuple[str, str]:
    """Return the id of an instance and of its cluster. Raises LinkRefused."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise LinkRefused("it is no instance of kohort gateway") from None
    if not isinstance(fields, dict) or "kohort_gateway" not in fields:
        raise LinkRefused("it is no instance of kohort gateway")
    if fields["kohort_gateway"] != VERSION:
        raise LinkRefused(f"it greets in version {fields['kohort_gateway']!r}, this one in {VERSION}")
    instance_id, cluster_id = fields.get("instance"), fields.get("cluster")
    versions = fields.get("messages", FIRST_MESSAGES)
    is_range = isinstance(versions, list | tuple) and len(versions) == 2 and all(type(each) is int for each in versions)
    if not isinstance(instance_id, str) or not instance_id or not isinstance(cluster_id, str) or not is_range:
        raise LinkRefused("its greeting is not complete")
    if agreed_version(*versions) is None:
        oldest, newest = versions
        older = "this one" if oldest > MESSAGES else "it"
        raise LinkRefused(
            f"its release knows versions {oldest} to {newest} of the messages between instances, this one {OLDEST} to"
            f" {MESSAGES}: upgrade {older}, over a release between the two; until then members behind both are observed"
        )
    return instance_id, cluster_id
