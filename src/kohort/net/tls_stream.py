"""TLS of one accepted socket, over OpenSSL's buffers in memory: a protocol of the socket, and a transport of a client.

The TLS of asyncio and of uvloop drops the alert of a failed handshake, by which a client learns that its certificate is
refused, and encrypts a whole response at once. Here no more is encrypted than the socket takes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from kohort.wire.codec import Buffer

READ_BYTES = 256 << 10
SLICE_BYTES = 64 << 10
"""How much is encrypted at a time."""


class TlsStream(asyncio.Protocol):
    """One connection. `ended` is called when the handshake is: with None, or with the reason why it failed."""

    def __init__(
        self, context: ssl.SSLContext, client: asyncio.Protocol, ended: Callable[[str | None], None], limit_ms: int
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._client = client
        self._ended = ended
        self._is_open = False
        self._is_full = False
        self._is_closing = False
        self._unsent: deque[Buffer] = deque()
        self._limit_ms = limit_ms
        self._limit: asyncio.TimerHandle
        self._raw: Any = None

    # -- the protocol of the socket

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        text = f"its handshake took longer than {self._limit_ms} ms"
        self._limit = asyncio.get_running_loop().call_later(self._limit_ms / 1000, self._abandon, text)
        if self._is_closing:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._incoming.write(data)
        try:
            if self._is_open or self._shake_hands():
                self._read()
        except ssl.SSLError as error:
            self._send_encrypted()  # an alert
            if self._is_open:
                self.abort()
            else:
                self._abandon(_reason(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._unsent.clear()
        if self._is_open:
            self._client.connection_lost(exc)
        else:
            self._abandon("it closed the connection during the handshake")

    def pause_writing(self) -> None:
        self._is_full = True
        if self._is_open:
            self._client.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        self._encrypt()
        if self._is_open and not self._is_full:
            self._client.resume_writing()

    def _shake_hands(self) -> bool:
        """Continue the handshake and return whether it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            return False
        self._send_encrypted()
        self._is_open = True
        self._end_handshake(None)
        self._client.connection_made(self)  # type: ignore[arg-type]
        return True

    def _abandon(self, reason: str) -> None:
        self._is_closing = True
        self._raw.close()
        self._end_handshake(reason)

    def _end_handshake(self, failure: str | None) -> None:
        self._limit.cancel()
        ended, self._ended = self._ended, _ignore
        ended(failure)

    def _read(self) -> None:
        parts: list[bytes] = []
        is_over = False
        try:
            while self._incoming.pending or self._tls.pending() or not parts:
                part = self._tls.read(READ_BYTES)
                if not part:
                    is_over = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_over = True
        if self._outgoing.pending:
            self._send_encrypted()
        if parts:
            self._client.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if is_over:
            self.close()

    def _send_encrypted(self) -> None:
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    # -- the transport of the client

    def write(self, buffer: Buffer) -> None:
        """Send a buffer."""
        self.writelines((buffer,))

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        """Send buffers in order; they must not change afterwards."""
        if not self._is_closing:
            self._unsent.extend(buffers)
            self._encrypt()

    def _encrypt(self) -> None:
        """Encrypt what the socket takes, small buffers together."""
        unsent, tls = self._unsent, self._tls
        while unsent and not self._is_full:
            size, pieces = 0, []
            while unsent and size < SLICE_BYTES:
                piece = unsent.popleft()
                if size + len(piece) > SLICE_BYTES:
                    view = memoryview(piece)
                    unsent.appendleft(view[SLICE_BYTES - size :])
                    piece = view[: SLICE_BYTES - size]
                size += len(piece)
                pieces.append(piece)
            if size:
                tls.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                self._raw.write(self._outgoing.read())
        if self._is_closing and not unsent:
            self._finish()

    def close(self) -> None:
        """Close the connection once everything has left."""
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self._finish()

    def _finish(self) -> None:
        with suppress(ssl.SSLError):  # the client's farewell is not waited for
            self._tls.unwrap()
        self._send_encrypted()
        self._raw.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_closing = True
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        """Whether nothing is received any more."""
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not left yet."""
        return sum(map(len, self._unsent)) + int(self._raw.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int) -> None:
        """Pause the client while more bytes than this have not left."""
        self._raw.set_write_buffer_limits(high=high)

    def pause_reading(self) -> None:
        """Stop receiving."""
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Resume receiving."""
        self._raw.resume_reading()

    def get_extra_info(self, name: str) -> Any:
        """Return what is known of the connection; `peer_certificate` is the client's, in DER, or None."""
        return self._tls.getpeercert(binary_form=True) if name == "peer_certificate" else self._raw.get_extra_info(name)


def _ignore(_: str | None) -> None:
    """Take no notice: the handshake has ended before."""


def _reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, for the broker's log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message})"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    advice = {
        "http request": "; it speaks HTTP",
        "wrong version number": "; it speaks without TLS: give the client security.protocol=SSL or SASL_SSL",
        "peer did not return a certificate": "; ssl.client.auth is required",
    }
    return reason + advice.get(reason, "")
