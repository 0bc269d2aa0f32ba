"""Tidy reads the repository through one fixture."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.tidy.tree import ROOT, Tree


@pytest.fixture(scope="session")
def tree() -> Iterator[Tree]:
    """Return the repository's tracked files; without git there is no tree to judge.

    The collector would walk the million nodes of the syntax trees again and again, which none of them leaves.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("tidy judges what git tracks, and this is not a clone")
    gc.disable()
    yield Tree(ROOT)
    gc.enable()
