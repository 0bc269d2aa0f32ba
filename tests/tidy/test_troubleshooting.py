"""The pages of errors quote messages that the code really prints."""

from __future__ import annotations

import re

import pytest
from tests.tidy.tree import Tree

PAGES = ("docs/guide/troubleshooting.md", "docs/guide/what-can-go-wrong.md")
OF_OTHERS = {"DATA_SOURCE_NOT_FOUND", "Python worker failed to connect back"}
"""What Spark prints."""


@pytest.mark.parametrize("page", PAGES)
def test_every_message_of_the_page_stands_in_the_code(tree: Tree, page: str) -> None:
    quoted = set(re.findall(r"^### `(.+)`$", tree.text(page), re.MULTILINE))
    assert len(quoted) >= 20
    code = "\n".join(tree.text(path) for path in tree.under("src/"))
    assert {each for each in quoted - OF_OTHERS if each not in code} == set()
