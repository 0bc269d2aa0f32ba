"""Builds a Spark session with defaults for this interpreter, Java, loopback, UTC and quiet logs.

The settings in `conf` take precedence. Its queries report to `format("kohort")` what they finish, and whether they are
stateful.

PySpark's wheel has its Python code twice: as a package, and in `python/lib/pyspark.zip`, which Spark puts first on the
path of each Python process that it starts. An archive has no compiled files, so that each of these processes compiles
PySpark, for about half a second. A directory with links, SPARK_HOME of a local session, takes the archive's place.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from kohort.model.extras import install_command
from kohort.spark.java import cache_directory, java_home
from kohort.spark.running_session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)


@contextmanager
def compiled_pyspark(master: str) -> Iterator[None]:
    """Set SPARK_HOME to such a directory while Java is started, unless it is set, or `master` is a cluster.

    Afterwards it is not set any more: other programs that this process starts may have another PySpark.
    """
    home = local_home() if master.startswith("local") and "SPARK_HOME" not in os.environ else None
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


def local_home(cache: Path | None = None) -> Path | None:
    """Return the directory, made under `cache` where it is not there; None where Spark has to start as it is.

    That is so on Windows, where links need a privilege, and where Spark does not come from an installed package.
    """
    import py4j.version
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    package = Path(pyspark.__file__).parent.resolve()
    if os.name == "nt" or not (package / "python" / "lib" / "pyspark.zip").is_file():
        return None
    if Path(_find_spark_home()).resolve() != package:
        return None
    links = links_of(package, Path(py4j.__file__).parent.resolve(), py4j.version.__version__)
    number = sha256("\n".join(map(str, sorted(links.items()))).encode()).hexdigest()[:12]
    try:
        return made(links, (cache or cache_directory()) / f"spark-{pyspark.__version__}-{number}")
    except OSError as error:
        log.warning("SPARK_HOME stays that of PySpark, whose processes start slower: links cannot be made: %s", error)
        return None


def links_of(package: Path, py4j: Path | None = None, version: str = "") -> dict[str, Path]:
    """Return the links of a SPARK_HOME for an installed PySpark: where each is in it, and what it points to.

    An archive of py4j stays an archive, unless the installed `py4j` has its version.
    """
    library = package / "python" / "lib"
    links = {each.name: each for each in package.iterdir() if each.name not in ("python", "__pycache__")}
    links |= {f"python/{each.name}": each for each in library.parent.iterdir() if each.name != "lib"}
    for archive in library.iterdir():
        name = f"python/lib/{archive.name}"
        if archive.name == "pyspark.zip":
            links[f"{name}/pyspark"] = package
        elif py4j is not None and archive.name == f"py4j-{version}-src.zip":
            links[f"{name}/py4j"] = py4j
        else:
            links[name] = archive
    return links


def made(links: Mapping[str, Path], home: Path) -> Path:
    """Make a directory of links, or return the one that is there. Raises OSError."""
    if _is_whole(links, home):
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    # Two applications may start at once: each makes its own directory, and renames it into place.
    unfinished = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    replaced = unfinished.with_name(f"{unfinished.name}.replaced")
    try:
        unfinished.chmod(0o755)
        for name, target in links.items():
            link = unfinished / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target, target_is_directory=target.is_dir())
        try:
            unfinished.rename(home)
        except OSError:
            if not _is_whole(links, home):  # else another application was faster
                home.rename(replaced)
                unfinished.rename(home)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
    return home


def _is_whole(links: Mapping[str, Path], home: Path) -> bool:
    return all((home / name).is_symlink() and (home / name).readlink() == target for name, target in links.items())


class SparkMissing(ImportError):
    """PySpark or pyarrow is not installed; the text has the command that installs them."""


def build(
    app: str,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str | int | bool] | None = None,
    java_options: str = "",
    log_level: str = "ERROR",
) -> SparkSession:
    """Return the running Spark session, or start one.

    `app` is the application's name; `master` is also `sc://host:port`, a server of Spark Connect, and the environment
    variable SPARK_REMOTE takes precedence, as everywhere in Spark. `conf` are Spark settings, which override ours;
    `java_options` are added to those of the driver's Java. It has a listener of ours, unless it is one of Spark
    Connect. Raises SparkMissing when PySpark or pyarrow is not installed, JavaMissing when there is no Java 17 or
    newer.
    """
    require_spark()
    if (remote := os.environ.get("SPARK_REMOTE", master)).startswith("sc://"):
        return _connect(app, remote, conf or {})
    # By default Spark starts its Python workers as `python3` from the PATH.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local") or "PYSPARK_PYTHON" not in os.environ:  # of a cluster it is where its workers have it
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(master)
    with compiled_pyspark(master):
        session = _configured(builder, settings(master, log_level, java_options) | dict(conf or {})).getOrCreate()
    if not is_remote(session):
        from kohort.spark.membership.query_listener import listen  # it needs PySpark

        session.sparkContext.setLogLevel(log_level)
        make_found(session)
        listen(session)
    return session


def _connect(app: str, remote: str, conf: Mapping[str, str | int | bool]) -> SparkSession:
    """Return a session of a Connect server, whose settings were made when it was started."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).remote(remote)
    return _configured(builder, {"spark.sql.session.timeZone": "UTC"} | dict(conf)).getOrCreate()


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str | int | bool]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    return builder


def settings(master: str, log_level: str = "ERROR", java_options: str = "") -> dict[str, str | int | bool]:
    """Return the settings that `build` uses for a master unless the caller overrides them."""
    chosen: dict[str, str | int | bool] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": True,
    }
    if master.startswith("local"):
        logging = files("kohort.spark").joinpath("log4j2.properties")
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores(master),
            "spark.driver.extraJavaOptions": (
                f"-Dlog4j2.configurationFile={logging} -Dkohort.log.level={log_level} {java_options}".rstrip()
            ),
        }
    elif java_options:
        chosen["spark.driver.extraJavaOptions"] = java_options
    return chosen


def cores(master: str) -> int:
    """Return how many threads `local`, `local[n]` or `local[n,failures]` runs on; `*` is every core of the machine."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def require_spark() -> None:
    """Raise SparkMissing, naming the command to run, unless PySpark and pyarrow are installed."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise SparkMissing(f"{' and '.join(missing)} not installed: {install_command('spark')}")


_FOUND = "kohort.found"
"""System property of Java: the formats that Spark has found are those that were put there."""


def make_found(spark: SparkSession) -> None:
    """Put our format where Spark caches what it has found, if it would find no other one. New sessions have it, too.

    It stays after `stop()`, but it belongs to one application: that of the next one replaces it.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql.udf import _wrap_function

    modules = [each.name for each in iter_modules() if each.name.startswith("pyspark_")]
    if modules != ["pyspark_kohort"]:
        return
    ours = import_module(*modules).DefaultSource
    with suppress(AttributeError, Py4JError, TypeError):  # a version that looks in another way looks by itself
        sql = spark._jvm.org.apache.spark.sql.execution.datasources
        formats = getattr(getattr(sql, "DataSourceManager$"), "MODULE$")
        properties = spark._jvm.java.lang.System
        if formats.dataSourceBuilders().isEmpty() or properties.getProperty(_FOUND):
            source = sql.v2.python.UserDefinedPythonDataSource(_wrap_function(spark.sparkContext, ours))
            found = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({ours.name(): source})
            getattr(formats, "dataSourceBuilders_$eq")(spark._jvm.scala.Some(found))
            properties.setProperty(_FOUND, "true")
