"""TLS of the gateway on both sides, and certificates that are renewed without a restart.

A context reads its files again when one of them has changed; connections made from then on use what they contain. A
file that cannot be read, or a key that does not fit, changes nothing, and is logged.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Iterable

from kohort.gateway.gateway_settings import BrokerTls, ListenerTls, SettingsError

log = logging.getLogger("kohort.gateway")


class RenewedContext:
    """A TLS context whose certificate is read again when its files change."""

    def __init__(self, context: ssl.SSLContext, paths: Iterable[str | None], load: Callable[[], None]) -> None:
        self.context = context
        self._paths = [path for path in paths if path is not None]
        self._load = load
        self._load()
        self._seen = self._stamps()

    def renew(self) -> None:
        """Read the files again if one has changed."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._load()
        except (OSError, ValueError) as error:
            log.error("certificate %s is not renewed, the old one stays: %s", self._paths[0], error)
        else:
            log.info("certificate %s is renewed", self._paths[0])

    def _stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def listener_context(settings: ListenerTls) -> RenewedContext:
    """Return the context of the gateway's ports. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def load() -> None:
        _load_chain(context, "listener_tls", settings.certificate, settings.key, settings.key_password)
        if settings.client_authority is not None:
            _load_authority(context, "listener_tls.client_authority", settings.client_authority)

    if settings.client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return RenewedContext(context, [settings.certificate, settings.key, settings.client_authority], load)


def broker_context(settings: BrokerTls) -> RenewedContext:
    """Return the context of connections to brokers. Raises SettingsError."""
    context = ssl.create_default_context()

    def load() -> None:
        if settings.authority is not None:
            _load_authority(context, "broker_tls.authority", settings.authority)
        if settings.certificate is not None:
            _load_chain(context, "broker_tls", settings.certificate, settings.key, settings.key_password)

    if settings.authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no other authority
    return RenewedContext(context, [settings.authority, settings.certificate, settings.key], load)


def _load_chain(context: ssl.SSLContext, setting: str, certificate: str, key: str | None, password: str | None) -> None:
    try:
        # A function, so that OpenSSL never asks the terminal.
        context.load_cert_chain(certificate, key, lambda: password or "")
    except ssl.SSLError as error:
        raise SettingsError(
            f"{setting}: {key or certificate} gives no certificate and key ({error.reason or error})"
        ) from None
    except OSError as error:
        raise SettingsError(f"{setting}: cannot read {certificate} or {key or certificate}: {error.strerror}") from None


def _load_authority(context: ssl.SSLContext, setting: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise SettingsError(f"{setting}: {path} holds no certificate ({error.reason or error})") from None
    except OSError as error:
        raise SettingsError(f"{setting}: cannot read {path}: {error.strerror}") from None
