"""A Python with another PySpark than this one's, and everything else of this one: an environment of its own.

It is made once on a machine, by package name, and kept in the cache of the user.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from interop.jars import cache
from interop.unavailable import Unavailable

OLDEST = "4.2.0"
"""The oldest PySpark that pyproject.toml allows."""

OF_TABLES = "4.1.4"
"""The newest PySpark for which Delta and Iceberg both publish jars."""


def python_with(version: str) -> Path:
    """Return the Python of an environment that has this PySpark. Raises `Unavailable` when it cannot be installed."""
    name = f"pyspark-{version}-python{sys.version_info.major}.{sys.version_info.minor}"
    home = cache() / "python" / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, symlinks=True)
        install = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--no-input"]
        done = subprocess.run(
            [*install, "install", "--quiet", f"pyspark=={version}"],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            cwd=tempfile.gettempdir(),
        )
        if done.returncode:
            raise Unavailable(f"PySpark {version} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        (home / "ready").touch()
    # What comes after its own packages are those that run this, wherever they are by now.
    own = next((home / "lib").glob("python*/site-packages"))
    others = sysconfig.get_paths()["purelib"]
    (own / "others.pth").write_text(f"import site; site.addsitedir({others!r})\n")
    return python
