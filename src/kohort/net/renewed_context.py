"""TLS contexts whose certificates are renewed without a restart: of a listener, and of any PEM files and texts.

A context is made again when one of its files has changed; connections made from then on use what the files contain. A
file that cannot be read, or a key that does not fit, changes nothing, and is logged. A listener has its certificate,
whether clients must have one, and which authorities may have signed it.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterable
from textwrap import fill

from kohort.node.configuration.listeners import Listener

log = logging.getLogger("kohort.net")

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)


class CertificateError(ValueError):
    """A certificate or a key cannot be used; the text names the setting and never shows a key."""


class RenewedContext:
    """A TLS context that is made again when its files change. Raises CertificateError."""

    def __init__(self, make: Callable[[], ssl.SSLContext], paths: Iterable[str | None]) -> None:
        self._make = make
        self._paths = [path for path in paths if path is not None]
        self._seen = self._stamps()
        self.context = make()

    def renew(self) -> ssl.SSLContext:
        """Return the context, made again if one of the files has changed."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self.context = self._make()
            except (OSError, ValueError) as error:
                log.error("certificate %s is not renewed, the old one stays: %s", self._paths[0], error)
            else:
                log.info("certificate %s is renewed", self._paths[0])
        return self.context

    def _stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def load_chain(
    context: ssl.SSLContext, setting: str, certificate: str, key: str | None = None, password: str | None = None
) -> None:
    """Have a context show the certificate of a file, whose key is there too or in another. Raises CertificateError."""
    try:
        # A function, so that OpenSSL never asks the terminal.
        context.load_cert_chain(certificate, key, lambda: password or "")
    except ssl.SSLError as error:
        reason = error.reason or error
        raise CertificateError(f"{setting}: {key or certificate} gives no certificate and key ({reason})") from None
    except OSError as error:
        text = f"{setting}: cannot read {certificate} or {key or certificate}: {error.strerror}"
        raise CertificateError(text) from None


def load_chain_text(context: ssl.SSLContext, setting: str, chain: str, key: str, password: str | None = None) -> None:
    """Have a context show a certificate that is given as text. Raises CertificateError."""
    blocks = [*_blocks(f"{setting}.key", key), *_blocks(f"{setting}.certificate.chain", chain)]
    # OpenSSL reads files only; this one is its owner's alone, and gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write("".join(blocks))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=lambda: password or "")
        except ssl.SSLError as error:
            reason = error.reason or error
            raise CertificateError(f"{setting}: the texts give no certificate and key ({reason})") from None


def load_authority(context: ssl.SSLContext, setting: str, path: str) -> None:
    """Have a context trust the authorities in a file. Raises CertificateError."""
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise CertificateError(f"{setting}: {path} has no certificate ({error.reason or error})") from None
    except OSError as error:
        raise CertificateError(f"{setting}: cannot read {path}: {error.strerror}") from None


def load_authority_text(context: ssl.SSLContext, setting: str, text: str) -> None:
    """Have a context trust the authorities whose certificates are given as text. Raises CertificateError."""
    try:
        context.load_verify_locations(cadata="".join(_blocks(setting, text)))
    except ssl.SSLError as error:
        raise CertificateError(f"{setting}: the text has no certificate ({error.reason or error})") from None


def _blocks(setting: str, text: str) -> list[str]:
    """Return the PEM blocks of a text, whose lines may have been joined as in a properties file."""
    blocks = [
        f"-----BEGIN {kind}-----\n{fill(''.join(body.split()), 64)}\n-----END {kind}-----\n"
        for kind, body in _BLOCK.findall(text.replace("\\n", "\n"))
    ]
    if not blocks:
        raise CertificateError(f"{setting}: the text has no PEM block (-----BEGIN …-----)")
    return blocks


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
