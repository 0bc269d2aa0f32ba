"""The table of Kafka's scenarios names tests that exist, leaves no number out, and says why where it differs."""

from __future__ import annotations

import ast
import re
from collections import Counter

from scripts import conformance
from tests.tidy.tree import Tree

LAST = 153


def is_scenario(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether pytest runs a function through the book of scenarios."""
    return any(isinstance(each, ast.Name) and each.id == "scenario" for each in function.decorator_list)


def names_in(tree: Tree, path: str) -> set[str]:
    """Return the names of the tests in a module: functions of its own, or scenarios of ours."""
    return {
        node.name
        for node in tree.syntax(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name.startswith("test_") or is_scenario(node))
    }


def test_every_test_that_the_table_names_exists(tree: Tree) -> None:
    missing = []
    for row in conformance.all_rows():
        for test in row.get("tests", ()):
            path, _, name = f"tests/{test}".partition("::")
            if path not in tree.files or name not in names_in(tree, path):
                missing.append(f"row {row['at']}: {test}")
    assert not missing, "moved or renamed? change tests/conformance.toml and run `make gen`:\n" + "\n".join(missing)


def test_the_table_leaves_no_number_out_and_none_in_twice() -> None:
    marks = [str(row["at"]) for row in conformance.all_rows()]
    assert [mark for mark, count in Counter(marks).items() if count > 1] == []
    numbers: set[int] = set()
    for mark in marks:
        first, *last = map(int, re.findall(r"\d+", mark))
        numbers.update(range(first, (last[0] if last else first) + 1))
    assert numbers == set(range(1, LAST + 1))


def test_every_row_has_a_test_or_says_that_it_has_none() -> None:
    bare = [row["at"] for row in conformance.all_rows() if not row.get("tests") and not row.get("gap")]
    assert not bare, f"name a test, or say why there is none: {bare}"


def test_every_reason_for_another_outcome_is_there_to_be_read(tree: Tree) -> None:
    for row in conformance.all_rows():
        if "decision" in row:
            assert "differs" in row, f"row {row['at']} names a decision and no difference"
            assert conformance.decision_page(row["decision"]) in tree.files
