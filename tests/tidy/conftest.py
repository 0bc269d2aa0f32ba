"""Tidy reads the repository through one fixture."""

from __future__ import annotations

import gc

import pytest
from tests.tidy.tree import ROOT, Tree


@pytest.fixture(scope="session")
def tree() -> Tree:
    """Return the repository's tracked files; without git there is no tree to judge.

    The collector leaves the syntax trees alone, a million nodes that live until the end.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("tidy judges what git tracks, and this is not a clone")
    read = Tree(ROOT)
    gc.disable()
    for path in read.under(""):
        read.syntax(path)
    gc.freeze()
    gc.enable()
    return read
