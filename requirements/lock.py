"""Resolve pyproject.toml into the lock files, for every platform and Python, with hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

DEMO = [
    "--extra",
    "fast",
    "--extra",
    "cli",
    "--extra",
    "spark",
    "--extra",
    "delta",
    "--extra",
    "fleet",
    "--group",
    "demo",
]

DEV = [*DEMO, "--extra", "iceberg", "--extra", "security", "--group", "check"]

SETS = {
    "demo": DEMO,
    "dev": DEV,
    "fuzz": [*DEV, "--group", "fuzz"],
    "release": [*DEV, "--group", "release"],
    "site": [*DEV, "--group", "site"],
    "interop": [
        *DEMO,
        "--extra",
        "iceberg",
        "--extra",
        "postgres",
        "--extra",
        "security",
        "--group",
        "check",
        "--group",
        "interop",
    ],
}

OPTIONS = ["--universal", "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]


def main() -> None:
    for name, chosen in SETS.items():
        output = f"requirements/{name}.txt"
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--python-version", "3.11"]
        subprocess.run([*command, *OPTIONS, *chosen, "--output-file", output], cwd=ROOT, check=True)
        print(f"wrote {output}")


if __name__ == "__main__":
    main()
