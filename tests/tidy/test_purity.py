"""The inner layers get clocks, chance and I/O as arguments: none of them may be imported there."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.tidy.tree import Tree, nodes

PURE = (
    "model", "wire", "assign", "group", "transaction", "member", "log", "node", "what_if",
    "gateway/relay", "gateway/policies", "gateway/observing", "gateway/holding", "gateway/assigning", "gateway/apis",
    "gateway/peers", "gateway/rewriting", "gateway/gateway.py", "console/history",
)  # fmt: skip
BANNED = {
    "asyncio", "datetime", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "selectors",
    "shutil", "signal", "socket", "socketserver", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
"""Standard modules that reach a clock, chance, a thread, a socket or the operating system."""

OPTIONAL_HOMES = {
    "crc32c": "src/kohort/wire/crc32c.py",
    "lz4": "src/kohort/wire/compression.py",
    "zstandard": "src/kohort/wire/compression.py",
    "cramjam": "src/kohort/wire/compression.py",
    "re2": "src/kohort/node/groups/topic_image.py",
    "uvloop": "src/kohort/net/event_loop.py",
    "rich": "src/kohort/cli/terminal/output.py",
    "shtab": "src/kohort/cli/completion.py",
    "deltalake": "src/kohort/spark/tables/delta_storage.py",
    "pyiceberg": "src/kohort/spark/tables/iceberg",
    "urllib3": "src/kohort/schemas/registry.py",
    "psycopg": "src/kohort/spark/tables/postgres_rows.py",
    "prometheus_client": "src/kohort/client/prometheus.py",
    "cryptography": "src/kohort/broker/secured_listener.py",
    "jwt": "src/kohort/broker/json_web_tokens.py",
    "starlette": "src/kohort/console/web/console_app.py",
    "uvicorn": "src/kohort/console/web/http_server.py",
    "jinja2": "src/kohort/console/web/templating.py",
    "textual": "src/kohort/console/top/top_app.py",
    "faststream": "src/kohort/faststream.py",
    "grpc": "src/kohort/cli/keda_scaler/external_scaler.py",
}
"""Where an optional package may be named: in one module, or in those of one format, whose paths begin so."""

OF_AN_EXTRA = (
    "src/kohort/console/top/top_app.py",
    "src/kohort/console/web/",
    "src/kohort/fleet/",
    "src/kohort/spark/",
    "src/kohort/testing/",
    "src/kohort/client/decode/numba_decoder.py",
    "src/kohort/client/decode/plain_decoder.py",
    "src/kohort/client/decode/numba_bytes.py",
    "src/kohort/client/prometheus.py",
    "src/kohort/faststream.py",
)
"""What is imported only where its extra (or pytest) is installed."""


def imported(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def pure_prefixes() -> tuple[str, ...]:
    return tuple(f"src/kohort/{layer}/" for layer in PURE)


def test_inner_layers_import_no_clock_chance_thread_or_socket(tree: Tree) -> None:
    offences = [
        f"{path}:{line} imports {name}"
        for path, module in tree.modules(*pure_prefixes())
        for line, name in imported(module)
        if name.split(".")[0] in BANNED
    ]
    assert not offences, "they come in as arguments:\n" + "\n".join(offences)


def test_inner_layers_open_no_file(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno} calls {node.func.id}"
        for path, module in tree.modules(*pure_prefixes())
        for node in nodes(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"open", "input", "print"}
    ]
    assert not offences, "bytes come from log.disk only:\n" + "\n".join(offences)


@pytest.mark.parametrize("package", sorted(OPTIONAL_HOMES))
def test_an_optional_package_is_named_in_its_place_only(tree: Tree, package: str) -> None:
    users = {
        path for path, module in tree.modules("src/") for _, name in imported(module) if name.split(".")[0] == package
    }
    others = {each for each in users if not each.startswith(OPTIONAL_HOMES[package])}
    assert not others, f"{package} is optional: only {OPTIONAL_HOMES[package]} tries to import it"


def test_the_core_imports_with_the_standard_library_alone(tree: Tree) -> None:
    """Every module but those of an extra, in an interpreter that sees no installed package."""
    names = [
        path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in tree.under("src/kohort/")
        if not path.startswith(OF_AN_EXTRA) and not path.endswith("__main__.py")
    ]
    script = (
        "import sys, importlib; sys.path.insert(0, 'src'); [importlib.import_module(name) for name in sys.argv[1:]]"
    )
    command = [sys.executable, "-S", "-B", "-c", script, *names]
    outcome = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr
