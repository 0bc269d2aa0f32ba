"""The command of a Java member, which starts from an archive of its loaded classes and so in half the CPU time.

The archive (JEP 350) is made once on a machine, by a member that joins a group on
a broker of ours and leaves it. It takes class paths of jars only, so the member's classes are put into one.
"""

from __future__ import annotations

import os
import tempfile
import threading
import zipfile
from pathlib import Path

from interop import jars
from interop.kohort_broker import KohortBroker
from interop.process import Child

NAME = "GroupMember"
QUIET = "-Xlog:disable"  # else the JVM says on stdout what it cannot archive
_making = threading.Lock()


def command(*arguments: str) -> list[str]:
    """Return the command line of one member."""
    jar, archive = made()
    return _command(jar, f"-XX:SharedArchiveFile={archive}", *arguments)


def made() -> tuple[Path, Path]:
    """Return the jar of the member's classes and the archive, making both on first use."""
    classes = jars.compiled(NAME)
    jar = classes.with_suffix(".jar")
    archive = classes.with_suffix(".jsa")
    with _making:
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=classes.parent) as part:
                _pack(classes, Path(part, "classes.jar"))
                Path(part, "classes.jar").rename(jar)
                _train(jar, Path(part))
                Path(part, "classes.jsa").rename(archive)
    return jar, archive


def _command(jar: Path, option: str, *arguments: str) -> list[str]:
    java, *rest = jars.command(NAME, *arguments, classes=jar)
    return [java, QUIET, option, *rest]


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w") as packed:
        for each in sorted(classes.glob("*.class")):
            packed.write(each, each.name)


def _train(jar: Path, folder: Path) -> None:
    with KohortBroker() as broker:
        line = _command(jar, f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}", broker.bootstrap, NAME, NAME)
        member = Child(line, folder / "member.jsonl", environment=dict(os.environ), separate=True)
        member.wait_for(lambda text: '"owns"' in text, "a Java member", 60)
        member.stop(60)
