"""Programs in JavaScript: packages are installed on first use, in the versions of the lock file beside them."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

from interop.unavailable import Unavailable

BUILD = Path(__file__).resolve().parent.parent / "build" / "node"
MANIFEST = ("package.json", "package-lock.json")
_installing = threading.Lock()


def command(sources: Path) -> list[str]:
    """Return the command line of the program of a folder, without its arguments. Raises `Unavailable`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing = "Node.js" if node is None else "npm"
        raise Unavailable(f"{missing} is not installed, and {sources.name} is a Node.js program (on Debian: npm)")
    target = BUILD / sources.name
    with _installing:
        if not (target / "node_modules").is_dir() or any(_differs(sources / name, target / name) for name in MANIFEST):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for name in MANIFEST:
                shutil.copyfile(sources / name, target / name)
            install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(install, cwd=target, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                shutil.rmtree(target)
                raise Unavailable(f"npm cannot install the packages of {sources.name}: {done.stderr.strip()[-300:]}")
        if _differs(sources / "main.js", target / "main.js"):  # another process may be about to read it
            shutil.copyfile(sources / "main.js", target / "main.js")
    return [node, str(target / "main.js")]


def _differs(one: Path, other: Path) -> bool:
    return not other.exists() or one.read_bytes() != other.read_bytes()
