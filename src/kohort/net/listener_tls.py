"""TLS of a listener: its certificate, whether clients must have one, and which authorities may have signed it."""

from __future__ import annotations

import ssl

from kohort.net.renewed_context import (
    CertificateError,
    RenewedContext,
    load_authority,
    load_authority_text,
    load_chain,
    load_chain_text,
)
from kohort.node.configuration.listeners import Listener

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def listener_tls(listener: Listener) -> RenewedContext:
    """Return the context of a listener whose connections are encrypted. Raises CertificateError."""
    settings = listener.settings
    location = settings.ssl_keystore_location
    authority = settings.ssl_truststore_location
    if location is None and settings.ssl_keystore_key is None:
        raise CertificateError(
            f"listener {listener.name} is {listener.protocol} and has no certificate: set ssl.keystore.location to a"
            " PEM file with the private key and the certificate"
        )
    if location is not None and settings.ssl_keystore_key is not None:
        raise CertificateError(
            "ssl.keystore.location and ssl.keystore.key both give a private key: leave one of them out"
        )
    if listener.client_auth != "none" and authority is None and settings.ssl_truststore_certificates is None:
        raise CertificateError(
            f"listener {listener.name} asks clients for certificates (ssl.client.auth={listener.client_auth}) and"
            " trusts no authority: set ssl.truststore.location to a PEM file with the authorities that sign them"
        )
    return RenewedContext(lambda: _context(listener), [location, authority])


def _context(listener: Listener) -> ssl.SSLContext:
    settings = listener.settings
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _VERIFY[listener.client_auth]
    password = settings.ssl_key_password
    if settings.ssl_keystore_location is not None:
        load_chain(context, "ssl.keystore.location", settings.ssl_keystore_location, password=password)
    else:
        chain, key = settings.ssl_keystore_certificate_chain or "", settings.ssl_keystore_key or ""
        load_chain_text(context, "ssl.keystore", chain, key, password)
    if listener.client_auth != "none":
        if settings.ssl_truststore_location is not None:
            load_authority(context, "ssl.truststore.location", settings.ssl_truststore_location)
        else:
            text = settings.ssl_truststore_certificates or ""
            load_authority_text(context, "ssl.truststore.certificates", text)
    return context
