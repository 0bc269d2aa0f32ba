"""Certificates for one test run, made by the openssl that every system has: an authority, a broker, a client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from interop.unavailable import Unavailable


class Authority(NamedTuple):
    """Who signs; `certificate` is what others must know to trust it."""

    certificate: Path
    key: Path


def authority(directory: Path, name: str) -> Authority:
    """Make an authority."""
    made = Authority(directory / f"{name}.pem", directory / f"{name}.key")
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        "-keyout", str(made.key), "-out", str(made.certificate),
    )  # fmt: skip
    return made


def signed(directory: Path, name: str, by: Authority, holds: str) -> Path:
    """Make a certificate that holds these names, such as `IP:127.0.0.1`; return a PEM file with key and chain."""
    key, request, certificate = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
    _openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext", f"subjectAltName={holds}",
        "-keyout", str(key), "-out", str(request),
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", str(request), "-CA", str(by.certificate), "-CAkey", str(by.key), "-CAcreateserial",
        "-copy_extensions", "copy", "-days", "2", "-out", str(certificate),
    )  # fmt: skip
    whole = directory / f"{name}.pem"
    whole.write_text(key.read_text() + certificate.read_text())
    return whole


def _openssl(*words: str) -> None:
    found = shutil.which("openssl")
    if found is None:
        raise Unavailable("there is no openssl to make certificates: install it (on Debian: openssl)")
    done = subprocess.run([found, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
