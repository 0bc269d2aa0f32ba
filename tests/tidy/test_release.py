"""`make release` stops with a sentence where it would publish something else than what is meant."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from scripts.release import (
    ReleaseFailed,
    check_sdist,
    check_wheel,
    faults_of,
    interpreters,
    main,
    version_of,
    write_checksums,
)

METADATA = "Metadata-Version: 2.4\nName: kohort\nVersion: 0.1.0\n\nText\n"


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone whose HEAD can be released as 0.1.0."""
    for path, text in {
        "src/kohort/__init__.py": '__version__ = "0.1.0"\n',
        "changes/README.md": "# Change fragments\n",
        "CHANGELOG.md": "# Changelog\n\n## 0.1.0 (2026-01-31)\n\nThe first release.\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def faults(root: Path) -> str:
    return "\n".join(faults_of(root, version_of(root)))


def test_a_clean_tree_can_be_released_and_so_can_the_commit_of_its_tag(repository: Path) -> None:
    assert faults(repository) == ""
    git(repository, "tag", "v0.1.0")
    assert faults(repository) == ""


def test_a_version_that_is_tagged_elsewhere_is_released_already(repository: Path) -> None:
    git(repository, "tag", "v0.1.0")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert faults(repository).startswith("0.1.0 is released already, as the tag v0.1.0 at ")
    assert faults(repository).endswith(": raise __version__ in src/kohort/__init__.py")


def test_what_is_not_committed_is_named(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("## 0.1.0 (2026-01-31)\n")
    assert faults(repository).startswith("CHANGELOG.md: changed and not committed")


def test_fragments_and_a_changelog_without_the_version_come_first(repository: Path) -> None:
    (repository / "changes" / "lag.added.md").write_text("Lag.\n")
    (repository / "src/kohort/__init__.py").write_text('__version__ = "0.2.0"\n')
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "two")
    assert faults(repository) == (
        "changes/ has 1 fragments, such as lag.added.md: run `make changelog VERSION=0.2.0`, and commit\n"
        "CHANGELOG.md has no section 0.2.0: run `make changelog VERSION=0.2.0`, and commit"
    )


def wheel_with(folder: Path, *names: str) -> Path:
    wheel = folder / "kohort-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for name in names:
            opened.writestr(name, METADATA)
    return wheel


def test_a_wheel_that_is_half_built_is_refused(tmp_path: Path) -> None:
    metadata = "kohort-0.1.0.dist-info/METADATA"
    whole = wheel_with(tmp_path, "kohort/__init__.py", metadata)
    check_wheel(whole, "0.1.0", {"kohort/__init__.py"})
    with pytest.raises(ReleaseFailed, match=r"lacks kohort/lazy\.py \(1 files\): look at \[tool\.hatch\.build\]"):
        check_wheel(whole, "0.1.0", {"kohort/__init__.py", "kohort/lazy.py"})
    with pytest.raises(ReleaseFailed, match=r"has, though it is not committed, kohort/__init__\.py"):
        check_wheel(whole, "0.1.0", set())
    whole.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(ReleaseFailed, match=r"no whole wheel of 0\.1\.0: .*; build it again"):
        check_wheel(whole, "0.1.0", {"kohort/__init__.py"})
    with pytest.raises(ReleaseFailed, match=r"no whole wheel of 0\.1\.0"):
        check_wheel(wheel_with(tmp_path, "kohort/__init__.py"), "0.1.0", {"kohort/__init__.py"})


def test_a_source_distribution_with_tests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_bytes(b"x")
    sdist = tmp_path / "kohort-0.1.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as opened:
        opened.add(tmp_path / "corpus", "kohort-0.1.0/tests/decoders/corpus")
    with pytest.raises(ReleaseFailed, match=r"kohort-0\.1\.0\.tar\.gz has tests: look at"):
        check_sdist(sdist)


def test_a_python_that_is_missing_is_named_and_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(interpreters(["3.99"])) == []
    assert "Python 3.99 is not on this machine: not tried" in capsys.readouterr().out


def test_an_unknown_extra_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--draft", "--extra", "fats"]) == 1
    assert "release: there is no extra 'fats': there are fast, cli, " in capsys.readouterr().err


def test_checksums_are_of_every_file_and_can_be_compared(tmp_path: Path) -> None:
    (tmp_path / "sbom").mkdir()
    (tmp_path / "sbom" / "one.cdx.json").write_text("{}")
    write_checksums(tmp_path)
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "sbom/one.cdx.json: OK\n"
