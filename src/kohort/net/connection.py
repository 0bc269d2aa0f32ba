"""One connection of a client to a broker: requests go out as they come, answers find their callers by correlation id.

The law: every call ends, with its answer or a `KafkaError` whose code shows whether another try can help
(NETWORK_EXCEPTION, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION). A broker answers in order, so a call that timed out takes
the connection with it. Each API's version is the newest that both sides support (KIP-35, KIP-511).
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from typing import Any, TypeVar, cast

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.api_versions import FIRST_VERSION, BrokerVersions, api_versions_request, retry_version
from kohort.net.byte_stream import FrameReceiver, write
from kohort.net.sasl import Sasl, authenticate
from kohort.net.tls import ALERT, met_plain_text, met_tls, tls_failure
from kohort.wire.apis import Api, response_class
from kohort.wire.codec import Buffer
from kohort.wire.frames import decode_response, gather_request
from kohort.wire.message import Request
from kohort.wire.primitives import MalformedMessage

ResponseT = TypeVar("ResponseT")

MAX_FRAME_BYTES = 256 << 20
"""The largest answer that a client takes; Kafka's fetches stay below `fetch.max.bytes` plus one batch."""


AUTHENTICATION_MS = 30_000
"""How long a broker may take for each answer of an authentication."""


class Connection:
    """An open connection; make one with `Connection.open`. `address` is `host:port`, `versions` what it negotiated."""

    def __init__(self, address: str, client_id: str, protocol: _Stream, sasl: Sasl | None = None) -> None:
        self.address = address
        self.client_id = client_id
        self._stream = protocol
        self._sasl = sasl
        self._expiry_s = math.inf
        """When its session is about to end, by the loop's clock."""
        self._reauthentication: asyncio.Task[None] | None = None
        self.versions: BrokerVersions

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        *,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        timeout_ms: int = 10_000,
        turn: int = 0,
    ) -> Connection:
        """Connect, negotiate versions and authenticate; `turn` is how many addresses of the host have failed.

        Raises `KafkaError`: NETWORK_EXCEPTION where no broker answers, SASL_AUTHENTICATION_FAILED and its kin.
        """
        address = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        stream = _Stream(address, is_secret=tls is not None, is_named=sasl is not None)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                server_name = host if tls is not None else None
                hosts = await _addresses(loop, host, port, turn) if turn else [host]
                for at in hosts:
                    try:
                        await loop.create_connection(lambda: stream, at, port, ssl=tls, server_hostname=server_name)
                        break
                    except OSError as cause:
                        if at == hosts[-1] or isinstance(cause, ssl.SSLError):
                            raise
                connection = cls(address, client_id, stream, sasl)
                await connection._negotiate(timeout_ms)
                await connection._authenticate()
        except TimeoutError as cause:
            stream.end("no answer in time")
            text = f"{address} did not answer within {timeout_ms} ms"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from cause
        except ssl.SSLError as cause:
            stream.end("connecting failed")
            raise tls_failure(address, cause) from cause
        except OSError as cause:
            stream.end("connecting failed")
            if tls is not None and isinstance(cause, ConnectionResetError | ConnectionAbortedError):
                raise met_plain_text(address) from cause
            text = f"cannot connect to {address}: {why_not_connected(cause)}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from cause
        except (ValueError, OverflowError) as cause:  # no host or port that an operating system takes
            stream.end("connecting failed")
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{address!r} is no address: {cause}") from cause
        except BaseException:
            stream.end("connecting was abandoned")
            raise
        return connection

    async def call(
        self,
        request: Request[ResponseT],
        *,
        version: int | None = None,
        highest: int | None = None,
        timeout_ms: int = 30_000,
    ) -> ResponseT:
        """Send a request and return its answer, whatever error codes it has.

        `version` is by default the newest that both sides support, up to `highest`. Raises `KafkaError`.
        """
        api = Api(request.API_KEY)
        chosen = self.versions.newest(api, highest=highest) if version is None else version
        self._renew_session()
        frame = await self._stream.call(request, chosen, self.client_id, timeout_ms)
        return cast(ResponseT, self._decoded(frame, api, chosen))

    def _decoded(self, frame: Buffer, api: Api, version: int) -> object:
        try:
            _, answer = decode_response(response_class(api), version, frame)
        except MalformedMessage as cause:
            self._stream.end(f"malformed answer to {api.name}: {cause}")
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} sent a malformed answer: {cause}") from cause
        return answer

    async def send(self, request: Request[Any], *, highest: int | None = None) -> None:
        """Send a request that has no answer (Produce with acks=0). Raises `KafkaError`."""
        version = self.versions.newest(Api(request.API_KEY), highest=highest)
        self._renew_session()
        await self._stream.send(request, version, self.client_id)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._stream.is_closed

    def close(self) -> None:
        """Close the connection; calls that wait end with NETWORK_EXCEPTION."""
        self._stream.end("the client closed it")

    async def _authenticate(self) -> None:
        if self._sasl is not None:
            lifetime_s = await authenticate(_Authentication(self), self._sasl)
            self._expiry_s = asyncio.get_running_loop().time() + lifetime_s

    def _renew_session(self) -> None:
        """Authenticate again if the session is about to end: requests that are made meanwhile wait (KIP-368)."""
        if self._expiry_s == math.inf or asyncio.get_running_loop().time() < self._expiry_s:
            return
        self._expiry_s = math.inf
        self._stream.block(is_blocked=True)
        self._reauthentication = asyncio.create_task(self._authenticate_again())

    async def _authenticate_again(self) -> None:
        try:
            async with asyncio.timeout(AUTHENTICATION_MS / 1000):
                await self._authenticate()
        except KafkaError as error:
            self._stream.refuse(error)
        except Exception as error:  # of the user's function that makes a token
            text = f"cannot authenticate again at {self.address}: {error!r}"
            self._stream.refuse(KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text))
        finally:
            self._stream.block(is_blocked=False)

    async def _negotiate(self, timeout_ms: int) -> None:
        version = FIRST_VERSION
        frame = await self._stream.call(api_versions_request(), version, self.client_id, timeout_ms)
        if (again := retry_version(frame)) is not None:
            version = again
            frame = await self._stream.call(api_versions_request(), version, self.client_id, timeout_ms)
        self.versions = BrokerVersions(self.address, frame, version)


def why_not_connected(cause: Exception) -> str:
    """Return why a connection was not opened."""
    if isinstance(cause, ConnectionRefusedError) or "Connect call failed" in str(cause):
        return "nothing listens there"  # asyncio's own words name the address once more
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


class _Authentication:
    """The connection as `authenticate` uses it: its requests leave before those that wait for them."""

    def __init__(self, connection: Connection) -> None:
        self.address = connection.address
        self._connection = connection

    async def call(self, request: Request[ResponseT], *, highest: int | None = None) -> ResponseT:
        connection, api = self._connection, Api(request.API_KEY)
        version = connection.versions.newest(api, highest=highest)
        frame = await connection._stream.call(request, version, connection.client_id, AUTHENTICATION_MS, is_first=True)
        return cast(ResponseT, connection._decoded(frame, api, version))


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int, turn: int) -> list[str]:
    """Return the addresses of a host from the one on whose turn it is; the host itself if it has only one."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    first = turn % len(addresses)
    return addresses[first:] + addresses[:first] if len(addresses) > 1 else [host]


class _Stream(asyncio.BufferedProtocol):
    """The stream of one connection: requests out, frames in, and the calls that wait for them."""

    def __init__(self, address: str, *, is_secret: bool, is_named: bool) -> None:
        self.address = address
        self._is_plain = not is_secret
        self._wish = "" if is_named else ", without a word to a client that gave no SASL credentials"
        self.waiting: dict[int, asyncio.Future[Buffer]] = {}
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._receiver = FrameReceiver(MAX_FRAME_BYTES)
        self._correlation_id = 0
        self._has_room = True
        self._is_blocked = False
        self._open = asyncio.Event()
        self._open.set()
        self._queue = asyncio.Lock()
        self._queued = 0
        self._why = ""
        self._refusal: KafkaError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_plain and self._correlation_id == 1 and self._receiver.buffer()[:2] == ALERT:
            self.refuse(met_tls(self.address, is_certain=True))
            return
        try:
            frames = self._receiver.received(nbytes)
        except MalformedMessage as cause:
            self.end(f"it sent what is not Kafka's protocol: {cause}")
            return
        for frame in frames:
            waiter = self.waiting.pop(int.from_bytes(frame[:4], "big", signed=True), None)
            if waiter is None:
                self.end("it answered a request that was not made")
                return
            if not waiter.done():
                waiter.set_result(frame)

    def eof_received(self) -> None:
        self._end_by_broker("the broker closed it")

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            # In TLS 1.3 a broker looks at the client's certificate after the client takes the handshake for complete.
            self._refusal = tls_failure(self.address, exc)
        self._end_by_broker("the broker closed it" if exc is None else str(exc))

    def _end_by_broker(self, why: str) -> None:
        """End; a broker that closes the connection instead of giving its first answers may expect TLS, or SASL."""
        if not self.is_closed and self.waiting:
            if self._correlation_id == 1 and self._is_plain:
                self._refusal = met_tls(self.address)
            elif self._correlation_id in (2, 3):
                why += self._wish
        self.end(why)

    def pause_writing(self) -> None:
        self._has_room = False
        self._open.clear()

    def resume_writing(self) -> None:
        self._has_room = True
        self._set_open()

    def block(self, *, is_blocked: bool) -> None:
        """Set whether requests wait, but for those that are sent first."""
        self._is_blocked = is_blocked
        self._set_open()

    def _set_open(self) -> None:
        if self.is_closed or (self._has_room and not self._is_blocked):
            self._open.set()
        else:
            self._open.clear()

    async def call(
        self, request: Request[Any], version: int, client_id: str, timeout_ms: int, *, is_first: bool = False
    ) -> Buffer:
        """Write a request and wait for the frame that answers it; `is_first`: before those that wait to be written."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Buffer] = loop.create_future()
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        buffers = gather_request(request, version, correlation_id, client_id)
        if is_first:
            self._write_now(buffers, correlation_id, waiter)
        else:
            await self._write(buffers, waiter_id=correlation_id, waiter=waiter)
        alarm = loop.call_later(timeout_ms / 1000, self._expire, waiter, request, timeout_ms)
        try:
            return await waiter
        finally:
            alarm.cancel()

    async def send(self, request: Request[Any], version: int, client_id: str) -> None:
        """Write a request that has no answer."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        await self._write(gather_request(request, version, self._correlation_id, client_id))

    def end(self, why: str) -> None:
        """Close; calls that wait end with an error."""
        if self.is_closed:
            return
        self.is_closed = True
        self._why = why
        self._open.set()
        if self._transport is not None:
            self._transport.abort()
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(self._lost())

    def refuse(self, error: KafkaError) -> None:
        """Close; calls that wait, and those that come, end with this error."""
        if not self.is_closed:
            self._refusal = error
            self.end(error.text)

    async def _write(
        self, buffers: list[Buffer], waiter_id: int = -1, waiter: asyncio.Future[Buffer] | None = None
    ) -> None:
        if self._queued or not self._open.is_set():
            # Requests leave in the order they were made: a producer's sequence numbers depend on it.
            self._queued += 1
            try:
                async with self._queue:
                    await self._open.wait()
                    self._write_now(buffers, waiter_id, waiter)
            finally:
                self._queued -= 1
        else:
            self._write_now(buffers, waiter_id, waiter)

    def _write_now(self, buffers: list[Buffer], waiter_id: int, waiter: asyncio.Future[Buffer] | None) -> None:
        if self.is_closed or self._transport is None:
            raise self._lost()
        if waiter is not None:
            self.waiting[waiter_id] = waiter
        write(self._transport, buffers)

    def _expire(self, waiter: asyncio.Future[Buffer], request: Request[Any], timeout_ms: int) -> None:
        if not waiter.done():
            text = f"{self.address} did not answer {type(request).__name__} within {timeout_ms} ms"
            waiter.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            self.end("a request timed out")

    def _lost(self) -> KafkaError:
        if self._refusal is not None:
            return self._refusal
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.address} was lost: {self._why}")
