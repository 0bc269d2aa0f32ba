"""Which Java Spark gets, from a system of made-up launchers."""

from __future__ import annotations

import subprocess

import pytest

from kohort.spark import java
from kohort.spark.java import JavaMissing, java_home, parse_version, shim_home


def install(directory, version):
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    return directory


def no_wheel():
    return None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21-ea" 2023-09-19', 21),
        ("bash: java: command not found", None),
    ],
)
def test_feature_version_is_read_from_what_java_prints(text, version):
    assert parse_version(text) == version


def test_java_home_wins_over_path(tmp_path):
    home, other = install(tmp_path / "home", "21.0.1"), install(tmp_path / "other", "17.0.1")
    assert java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, no_wheel) == home


def test_too_old_a_java_home_is_passed_over_for_the_one_on_path(tmp_path):
    old, new = install(tmp_path / "old", "11.0.20"), install(tmp_path / "new", "17.0.1")
    assert java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, no_wheel) == new


def test_a_link_on_path_leads_to_the_real_home(tmp_path):
    home = install(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java_home({"PATH": str(tmp_path / "bin")}, no_wheel) == home


def test_without_any_java_the_error_says_what_was_seen_and_what_to_run(tmp_path):
    old = install(tmp_path / "old", "1.8.0_412")
    with pytest.raises(JavaMissing, match=r"Java 17 or newer.*old/bin/java is Java 8.*pip install '\.\[spark\]'"):
        java_home({"JAVA_HOME": str(old), "PATH": ""}, no_wheel)


def test_the_wheels_java_is_started_without_the_module_it_lacks(tmp_path):
    real = tmp_path / "a wheel" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor each do echo "$each"; done\n')
    real.chmod(0o755)
    home = java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}, lambda: real)
    arguments = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "org.apache.spark.launcher.Main", ""]
    shown = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[:-1] == arguments[1:]


def test_the_shim_is_written_anew_only_when_it_must_change(tmp_path):
    shim = shim_home(tmp_path / "one" / "java", tmp_path) / "bin" / "java"
    first = shim.stat().st_ino
    assert (shim_home(tmp_path / "one" / "java", tmp_path) / "bin" / "java").stat().st_ino == first
    shim_home(tmp_path / "two" / "java", tmp_path)
    assert "two/java" in shim.read_text()
    assert [each.name for each in shim.parent.iterdir()] == ["java"]


def test_an_unwritable_cache_is_passed_over(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a directory")
    found = java.cache_directory({"XDG_CACHE_HOME": str(blocked), "HOME": str(tmp_path / "home")})
    assert found == tmp_path / "home" / ".cache" / "kohort"
