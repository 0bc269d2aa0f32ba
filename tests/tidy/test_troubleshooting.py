"""The page of errors quotes messages that the code really prints."""

from __future__ import annotations

import re

from tests.tidy.tree import Tree

PAGE = "docs/guide/troubleshooting.md"
OF_OTHERS = {"DATA_SOURCE_NOT_FOUND", "Python worker failed to connect back"}
"""What Spark prints."""


def test_every_message_of_the_page_stands_in_the_code(tree: Tree) -> None:
    quoted = set(re.findall(r"^### `(.+)`$", tree.text(PAGE), re.MULTILINE))
    assert len(quoted) >= 20
    code = "\n".join(tree.text(path) for path in tree.under("src/"))
    assert {each for each in quoted - OF_OTHERS if each not in code} == set()
