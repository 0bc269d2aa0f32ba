"""TLS of the gateway on both sides. Its contexts are given to sockets once, so renewed files are read into them."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from kohort.gateway.gateway_settings import BrokerTls, ListenerTls
from kohort.model.setting import SettingsError
from kohort.net.renewed_context import CertificateError, RenewedContext, load_authority, load_chain


def listener_context(settings: ListenerTls) -> RenewedContext:
    """Return the context of the gateway's ports. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def load() -> ssl.SSLContext:
        load_chain(context, "listener_tls", settings.certificate, settings.key, settings.key_password)
        if settings.client_authority is not None:
            load_authority(context, "listener_tls.client_authority", settings.client_authority)
        return context

    if settings.client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return _renewed(load, settings.certificate, settings.key, settings.client_authority)


def broker_context(settings: BrokerTls) -> RenewedContext:
    """Return the context of connections to brokers. Raises SettingsError."""
    context = ssl.create_default_context()

    def load() -> ssl.SSLContext:
        if settings.authority is not None:
            load_authority(context, "broker_tls.authority", settings.authority)
        if settings.certificate is not None:
            load_chain(context, "broker_tls", settings.certificate, settings.key, settings.key_password)
        return context

    if settings.authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no other authority
    return _renewed(load, settings.authority, settings.certificate, settings.key)


def _renewed(load: Callable[[], ssl.SSLContext], *paths: str | None) -> RenewedContext:
    try:
        return RenewedContext(load, paths)
    except CertificateError as error:
        raise SettingsError(str(error)) from None
