"""SPARK_HOME of a local session: links to the installed PySpark, so that its Python processes load compiled files.

PySpark's wheel has its Python code twice: as a package, and in `python/lib/pyspark.zip`, which Spark puts first on the
path of each Python process that it starts. An archive has no compiled files, so that each of these processes compiles
PySpark, for about half a second. Here a directory with a link to the package takes the place of the archive.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from kohort.spark.java import cache_directory

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
