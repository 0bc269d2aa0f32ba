"""Tidy reads the repository through one fixture."""

from __future__ import annotations

import pytest
from tests.tidy.tree import ROOT, Tree


@pytest.fixture(scope="session")
def tree() -> Tree:
    """Return the repository's tracked files; without git there is no tree to judge."""
    if not (ROOT / ".git").exists():
        pytest.skip("tidy judges what git tracks, and this is not a clone")
    return Tree(ROOT)
