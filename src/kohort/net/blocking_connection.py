"""A blocking connection to a broker, for programs that have a thread to wait in, such as a Spark executor.

Requests may be sent ahead; answers arrive in their order. Large answers are received straight into memory of their own.
Errors are `KafkaError`s as with `Connection`, and the connection is of no use after one.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.api_versions import FIRST_VERSION, BrokerVersions, api_versions_request, retry_version
from kohort.net.byte_stream import FrameReceiver
from kohort.net.connection import MAX_FRAME_BYTES, why_not_connected
from kohort.net.sasl import Sasl, authenticate
from kohort.net.tls import ALERT, met_plain_text, met_tls, tls_failure
from kohort.wire.apis import Api, response_class
from kohort.wire.codec import Buffer
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Request
from kohort.wire.primitives import MalformedMessage

ResponseT = TypeVar("ResponseT")


class BlockingConnection:
    """An open connection with a timeout on every wait."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        *,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        timeout_ms: int = 30_000,
    ) -> None:
        """Connect, negotiate versions and authenticate: with the first address of the host where all of that succeeds.

        Each address may take `timeout_ms` for each answer. Raises `KafkaError`: NETWORK_EXCEPTION where no broker
        answers, SASL_AUTHENTICATION_FAILED and its kin.
        """
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._sasl = sasl
        self._correlation_id = 0
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError, OverflowError) as cause:  # or no host or port that an operating system takes
            raise self._lost(cause) from cause
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for at in addresses:
            try:
                self._open(at, host, port, tls)
                break
            except KafkaError as error:
                if error.code not in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT):
                    raise
                if at == addresses[-1]:
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, error.text) from error

    def _open(self, at: str, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._receiver = FrameReceiver(MAX_FRAME_BYTES)
        self._frames: deque[Buffer] = deque()
        self._asked: deque[tuple[type[Any], int, int]] = deque()
        self._expiry_s = math.inf
        """When its session is about to end, by the monotonic clock."""
        try:
            self._socket = socket.create_connection((at, port), self._timeout_ms / 1000)
        except OSError as cause:
            raise self._lost(cause) from cause
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._begin_tls(tls, host)
            self._versions = self._negotiate()
            self._authenticate()
        except OSError as cause:
            self.close()
            raise self._lost(cause) from cause
        except BaseException:
            self.close()
            raise

    def _begin_tls(self, tls: ssl.SSLContext, host: str) -> None:
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except (ssl.SSLEOFError, ConnectionError) as cause:
            raise met_plain_text(self.address) from cause
        except ssl.SSLError as cause:
            raise tls_failure(self.address, cause) from cause

    def call(self, request: Request[ResponseT], *, highest: int | None = None) -> ResponseT:
        """Send a request and wait for its answer; nothing else may be asked for. Raises `KafkaError`."""
        self.send(request, highest=highest)
        return cast(ResponseT, self.receive())

    def send(self, request: Request[Any], *, highest: int | None = None) -> None:
        """Send a request whose answer `receive` will return. Raises `KafkaError`."""
        if time.monotonic() >= self._expiry_s:
            self._authenticate()
        self._send(request, self._versions.newest(Api(request.API_KEY), highest=highest))

    def receive(self) -> Any:
        """Wait for the answer to the oldest request that has none. Raises `KafkaError`."""
        asked = self._asked[0]
        return self._decoded(self._receive_frame(), *asked)

    def _decoded(self, frame: Buffer, response: type[Any], version: int, expected_id: int) -> Any:
        try:
            correlation_id, answer = decode_response(response, version, frame)
        except MalformedMessage as cause:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} sent a malformed answer: {cause}") from cause
        if correlation_id != expected_id:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} answered a request that was not made")
        return answer

    @property
    def awaits_answers(self) -> bool:
        """Whether requests have no answer yet."""
        return bool(self._asked)

    @property
    def is_over(self) -> bool:
        """Whether the broker has closed it, as far as the operating system knows while nothing is asked for."""
        if self._asked:
            return False
        try:
            return bool(select.select([self._socket], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _authenticate(self) -> None:
        if self._sasl is not None:
            self._expiry_s = time.monotonic() + _run(authenticate(_Authentication(self), self._sasl))

    def exchange(self, request: Request[ResponseT], *, highest: int | None) -> ResponseT:
        """Send a request and wait for its answer; answers that arrive before are left for `receive`."""
        self._send(request, self._versions.newest(Api(request.API_KEY), highest=highest))
        while len(self._frames) < len(self._asked):
            self._receive_more()
        answer = self._decoded(self._frames.pop(), *self._asked.pop())
        return cast(ResponseT, answer)

    def _negotiate(self) -> BrokerVersions:
        version = FIRST_VERSION
        self._send(api_versions_request(), version)
        frame = self._receive_frame()
        if (again := retry_version(frame)) is not None:
            version = again
            self._send(api_versions_request(), version)
            frame = self._receive_frame()
        return BrokerVersions(self.address, frame, version)

    def _send(self, request: Request[Any], version: int) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        try:
            self._socket.sendall(encode_request(request, version, self._correlation_id, self._client_id))
        except OSError as cause:
            raise self._lost(cause) from cause
        self._asked.append((response_class(Api(request.API_KEY)), version, self._correlation_id))

    def _receive_frame(self) -> Buffer:
        self._asked.popleft()
        while not self._frames:
            self._receive_more()
        return self._frames.popleft()

    def _receive_more(self) -> None:
        try:
            # A large answer is waited for whole: one call into the kernel instead of one per packet.
            flags = socket.MSG_WAITALL if self._receiver.is_large and self._is_plain else 0
            count = self._socket.recv_into(self._receiver.buffer(), 0, flags)
            is_first = self._is_plain and self._correlation_id == 1
            if not count:
                raise met_tls(self.address) if is_first else ConnectionError("the broker closed it")
            if is_first and self._receiver.buffer()[:2] == ALERT:
                raise met_tls(self.address, is_certain=True)
            self._frames.extend(self._receiver.received(count))
        except TimeoutError as cause:
            text = f"{self.address} did not answer within {self._timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from cause
        except OSError as cause:
            raise self._lost(cause) from cause
        except MalformedMessage as cause:
            raise self._lost(cause) from cause

    @property
    def _is_plain(self) -> bool:
        return not isinstance(self._socket, ssl.SSLSocket)

    def _lost(self, cause: Exception) -> KafkaError:
        text = f"no connection to {self.address}: {why_not_connected(cause)}"
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, text)


class _Authentication:
    """Lets the asynchronous SASL exchange run over a blocking connection."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.address = connection.address
        self._connection = connection

    async def call(self, request: Request[ResponseT], *, highest: int | None = None) -> ResponseT:
        return self._connection.exchange(request, highest=highest)


def _run(steps: Coroutine[Any, Any, float]) -> float:
    """Run a coroutine that never waits for a loop."""
    try:
        steps.send(None)
    except StopIteration as end:
        return cast(float, end.value)
    raise AssertionError("a blocking exchange may not wait for a loop")
