"""SPARK_HOME of a local session: what is linked, and when it is left to the user; no session is started here."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from kohort.spark.spark_home import compiled_pyspark, links_of, local_home, made

PACKAGE = Path(pyspark.__file__).parent.resolve()

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="links need a privilege"),
    pytest.mark.skipif("SPARK_HOME" in os.environ, reason="Spark is not that of the package"),
]


def test_python_processes_find_the_installed_package_where_the_archive_was(tmp_path: Path) -> None:
    home = local_home(tmp_path)
    assert home is not None
    assert home.parent == tmp_path
    library = home / "python" / "lib"
    assert (library / "pyspark.zip" / "pyspark" / "__init__.py").samefile(PACKAGE / "__init__.py")
    assert [each.name for each in library.glob("py4j-*-src.zip/*")] == ["py4j"]
    assert {each.name for each in home.iterdir()} >= {each.name for each in PACKAGE.iterdir()} - {"__pycache__"}
    assert (home / "bin" / "spark-submit").samefile(PACKAGE / "bin" / "spark-submit")


def test_it_is_made_once_by_applications_that_start_at_once(tmp_path: Path) -> None:
    links = links_of(PACKAGE)
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: made(links, tmp_path / "home"), range(32)))
    assert homes == {tmp_path / "home"}
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_a_directory_of_which_a_part_was_deleted_is_made_again(tmp_path: Path) -> None:
    home = local_home(tmp_path)
    assert home is not None
    (home / "python" / "lib" / "pyspark.zip" / "pyspark").unlink()
    (home / "jars").unlink()
    assert local_home(tmp_path) == home
    assert (home / "jars").samefile(PACKAGE / "jars")
    assert [each.name for each in tmp_path.iterdir()] == [home.name]


def test_another_py4j_than_that_of_the_archive_is_not_linked(tmp_path: Path) -> None:
    home = made(links_of(PACKAGE), tmp_path / "home")
    assert all(each.is_file() for each in home.glob("python/lib/py4j-*-src.zip"))


def test_spark_home_is_set_while_java_starts_and_not_for_other_programs() -> None:
    home = str(local_home())
    with compiled_pyspark("local[2]"):
        assert os.environ["SPARK_HOME"] == home
    assert "SPARK_HOME" not in os.environ


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://master"])
def test_a_cluster_gets_the_archive(master: str) -> None:
    with compiled_pyspark(master):
        assert "SPARK_HOME" not in os.environ


def test_the_spark_home_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with compiled_pyspark("local[2]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_spark_starts_as_it_is_where_no_link_can_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert local_home(tmp_path / "file") is None
    assert "links cannot be made" in caplog.text
