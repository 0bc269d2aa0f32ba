"""What a session is given before it starts; none is started here."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kohort.spark.spark_session import compiled_pyspark, cores, links_of, local_home, made, settings

pyspark = pytest.importorskip("pyspark")

PACKAGE = Path(pyspark.__file__).parent.resolve()

starts_with_links = pytest.mark.skipif(
    os.name == "nt" or "SPARK_HOME" in os.environ, reason="links need a privilege, and Spark must be the package's"
)


@starts_with_links
def test_python_processes_find_the_installed_package_where_the_archive_was(tmp_path: Path) -> None:
    home = local_home(tmp_path)
    assert home is not None
    assert home.parent == tmp_path
    library = home / "python" / "lib"
    assert (library / "pyspark.zip" / "pyspark" / "__init__.py").samefile(PACKAGE / "__init__.py")
    assert [each.name for each in library.glob("py4j-*-src.zip/*")] == ["py4j"]
    assert {each.name for each in home.iterdir()} >= {each.name for each in PACKAGE.iterdir()} - {"__pycache__"}
    assert (home / "bin" / "spark-submit").samefile(PACKAGE / "bin" / "spark-submit")


@starts_with_links
def test_it_is_made_once_by_applications_that_start_at_once(tmp_path: Path) -> None:
    links = links_of(PACKAGE)
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: made(links, tmp_path / "home"), range(32)))
    assert homes == {tmp_path / "home"}
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


@starts_with_links
def test_a_directory_of_which_a_part_was_deleted_is_made_again(tmp_path: Path) -> None:
    home = local_home(tmp_path)
    assert home is not None
    (home / "python" / "lib" / "pyspark.zip" / "pyspark").unlink()
    (home / "jars").unlink()
    assert local_home(tmp_path) == home
    assert (home / "jars").samefile(PACKAGE / "jars")
    assert [each.name for each in tmp_path.iterdir()] == [home.name]


@starts_with_links
def test_another_py4j_than_that_of_the_archive_is_not_linked(tmp_path: Path) -> None:
    home = made(links_of(PACKAGE), tmp_path / "home")
    assert all(each.is_file() for each in home.glob("python/lib/py4j-*-src.zip"))


@starts_with_links
def test_spark_home_is_set_while_java_starts_and_not_for_other_programs() -> None:
    home = str(local_home())
    with compiled_pyspark("local[2]"):
        assert os.environ["SPARK_HOME"] == home
    assert "SPARK_HOME" not in os.environ


@starts_with_links
@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://master"])
def test_a_cluster_gets_the_archive(master: str) -> None:
    with compiled_pyspark(master):
        assert "SPARK_HOME" not in os.environ


@starts_with_links
def test_the_spark_home_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with compiled_pyspark("local[2]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


@starts_with_links
def test_spark_starts_as_it_is_where_no_link_can_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert local_home(tmp_path / "file") is None
    assert "links cannot be made" in caplog.text


@pytest.mark.parametrize(
    ("master", "threads"),
    [("local", 1), ("local[2]", 2), ("local[3,4]", 3), ("local[*]", os.cpu_count()), ("local[*,2]", os.cpu_count())],
)
def test_a_local_master_says_its_threads(master: str, threads: int) -> None:
    assert cores(master) == threads


def test_a_local_session_listens_on_loopback_and_shuffles_as_wide_as_it_has_threads() -> None:
    chosen = settings("local[4]")
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.sql.shuffle.partitions"] == 4
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.ui.enabled"] is False


def test_a_cluster_keeps_its_own_addresses_and_logging() -> None:
    assert not [name for name in settings("spark://master:7077") if name.startswith("spark.driver.")]


def test_java_options_are_added_to_ours() -> None:
    options = str(settings("local[1]", "WARN", "-Xss2m")["spark.driver.extraJavaOptions"])
    assert options.endswith("-Dkohort.log.level=WARN -Xss2m")
    assert settings("yarn", java_options="-Xss2m")["spark.driver.extraJavaOptions"] == "-Xss2m"
