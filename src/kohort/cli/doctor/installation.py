"""What is installed on this machine, and what is missing for what: Python, extras, Java, and the port of a broker."""

from __future__ import annotations

import errno
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import NamedTuple

from kohort.cli.doctor.findings import DoctorFinding, Severity
from kohort.model.extras import install_command


class Extra(NamedTuple):
    """An extra of the package: what it is for, the modules that it brings, and its megabytes on disk, about."""

    purpose: str
    modules: tuple[str, ...]
    size_mb: int


EXTRAS = {
    "fast": Extra(
        "uvloop, CRC32C, lz4, zstd and snappy, and the expressions of KIP-848 in our broker",
        ("uvloop", "crc32c", "lz4", "zstandard", "cramjam", "re2"),
        50,
    ),
    "cli": Extra("progress bars, and completion of commands", ("rich", "shtab"), 6),
    "top": Extra("kohort top", ("textual",), 10),
    "console": Extra("kohort console", ("starlette", "uvicorn", "jinja2", "urllib3"), 3),
    "metrics": Extra("metrics of clients in prometheus_client", ("prometheus_client",), 1),
    "telemetry": Extra("OpenTelemetry", ("opentelemetry",), 1),
    "faststream": Extra("FastStream's broker on our consumer", ("faststream", "aiokafka"), 16),
    "schemas": Extra("a schema registry", ("urllib3",), 1),
    "security": Extra("OAUTHBEARER in our broker", ("jwt", "cryptography"), 16),
    "keda": Extra("kohort keda-scaler", ("grpc",), 19),
    "spark": Extra("kohort.spark", ("pyspark", "pyarrow", "pandas", "numpy", "numba"), 1080),
    "delta": Extra("Delta tables", ("deltalake", "pyarrow"), 320),
    "iceberg": Extra("Iceberg tables", ("pyiceberg", "pyarrow"), 270),
    "postgres": Extra("PostgreSQL tables", ("psycopg",), 12),
    "fleet": Extra("kohort fleet", ("pyspark", "pyarrow", "deltalake", "duckdb"), 1280),
}


def installation(
    is_there: Callable[[str], bool] = lambda module: find_spec(module) is not None,
) -> Iterator[DoctorFinding]:
    """Yield what is installed; `is_there` returns whether a module can be imported."""
    from kohort import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    text = f"kohort {__version__} on Python {version}, {platform.system()} {platform.machine()}"
    yield DoctorFinding(Severity.OK, "python", "kohort", text)
    for name, extra in EXTRAS.items():
        missing = [module for module in extra.modules if not is_there(module)]
        about = f"extra {name}"
        if not missing:
            yield DoctorFinding(Severity.OK, "extra", about, extra.purpose)
            continue
        text = f"{', '.join(missing)} missing, for {extra.purpose}; about {extra.size_mb:,} MB"
        yield DoctorFinding(Severity.INFO, "extra", about, text, install_command(name))
    if is_there("pyspark"):
        yield _java()


def _java() -> DoctorFinding:
    from kohort.spark.java import JavaMissing, java_home

    try:
        return DoctorFinding(Severity.OK, "java", "Java", f"{java_home()}, for Spark")
    except JavaMissing as error:
        return DoctorFinding(Severity.ERROR, "java", "Java", str(error))


def port_of(host: str, port: int) -> tuple[bool, DoctorFinding]:
    """Return whether something listens on a port of this machine, and the finding."""
    about = f"port {port}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True, DoctorFinding(Severity.INFO, "port", about, f"a process listens on {host}:{port}")
            text = f"{host}:{port} cannot be listened on: {error.strerror}"
            return False, DoctorFinding(Severity.WARNING, "port", about, text, "give `kohort broker` another --port")
    return False, DoctorFinding(Severity.OK, "port", about, f"{host}:{port} is free for `kohort broker`")
