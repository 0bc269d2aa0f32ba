"""Titles of commits name the change in at most 72 characters, as far as the history is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.tidy.tree import Tree

LONGEST = 72

SINCE = "e218486cd628d2a2de2af9c737a82f0e76bec124"
"""The last commit whose title was not checked."""

NEWEST = 50
"""So many commits are looked at."""


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)


def long_titles(root: Path, since: str) -> list[str]:
    """Return the titles that are too long, without those of merges. Skips the test where `since` is no ancestor."""
    if git(root, "merge-base", "--is-ancestor", since, "HEAD").returncode:
        pytest.skip("the history is not here, as in a shallow clone")
    listing = git(root, "log", "--no-merges", f"-{NEWEST}", "--format=%h %s", f"{since}..HEAD")
    assert listing.returncode == 0, listing.stderr
    return [line for line in listing.stdout.splitlines() if len(line.partition(" ")[2]) > LONGEST]


def test_titles_of_commits_have_at_most_72_characters(tree: Tree) -> None:
    found = long_titles(tree.root, SINCE)
    assert not found, "amend them:\n" + "\n".join(found)


def test_a_long_title_is_found(tmp_path: Path) -> None:
    def commit(title: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        git(tmp_path, *author, "commit", "-q", "--allow-empty", "-m", title)
        return git(tmp_path, "rev-parse", "HEAD").stdout.strip()

    git(tmp_path, "init", "-q")
    first = commit("a" * 80)
    commit("b" * LONGEST)
    assert long_titles(tmp_path, first) == []
    commit("c" * (LONGEST + 1))
    assert [title[-1] for title in long_titles(tmp_path, first)] == ["c"]
