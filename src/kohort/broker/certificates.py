"""Certificates for tests, made on the fly by the package `cryptography`: an authority, and what it signs.

They are valid for a week from yesterday on, and their keys are written for the owner's eyes only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from kohort.extras import install_command
from kohort.model.setting import SettingsError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:  # the extra [security] is not installed
    x509 = None

_VALID = timedelta(days=7)


def new_key() -> Any:
    """Return a private key on the curve P-256. Raises SettingsError where the package is not installed."""
    if x509 is None:
        raise SettingsError(f"certificates for tests need a package: {install_command('security')}")
    return ec.generate_private_key(ec.SECP256R1())


class Authority:
    """An authority of its own, whose certificate is the file `certificate`. Raises SettingsError."""

    def __init__(self, directory: Path, name: str = "kohort test authority") -> None:
        self._directory = directory
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = _builder(self._name, self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = directory / "ca.pem"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, hosts: Iterable[str] = ()) -> Path:
        """Make a certificate for a name and hosts, and return a file with its private key and itself (PEM)."""
        key = new_key()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names := [_host(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self._directory / f"{name}.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(pkcs8 + made.public_bytes(serialization.Encoding.PEM))
        return path


def _builder(subject: Any, issuer: Any, key: Any) -> Any:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(yesterday).not_valid_after(yesterday + _VALID)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _host(host: str) -> Any:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
