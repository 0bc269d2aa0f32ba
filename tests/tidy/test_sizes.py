"""A module can be read in one sitting, a function on one screen, a docstring in one breath."""

from __future__ import annotations

import ast

from tests.tidy.tree import ROOT, Tree

MODULE_LINES = 700
LONG_MODULE_LINES = 400
FUNCTION_LINES = 70
DOCSTRING_LINES = 10

CODE = ("src/", "tests/", "bench/", "examples/", "interop/", "scripts/")
LONG_MODULES = ROOT / "tests" / "tidy" / "long_modules.txt"
"""Modules between 400 and 700 lines, one a line: the path and why it stays whole."""


def long_modules() -> dict[str, str]:
    lines = (line for line in LONG_MODULES.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return {path: reason.strip() for path, _, reason in (line.partition(" ") for line in lines)}


def line_count(tree: Tree, path: str) -> int:
    return len(tree.text(path).splitlines())


def test_no_module_is_longer_than_700_lines(tree: Tree) -> None:
    offences = [f"{path}: {n}" for path in tree.under(*CODE) if (n := line_count(tree, path)) > MODULE_LINES]
    assert not offences, "\n".join(offences)


def test_a_module_longer_than_400_lines_says_why(tree: Tree) -> None:
    excused = long_modules()
    offences = [
        f"{path}: {n} lines: split it, or write in {LONG_MODULES.name} why it stays whole"
        for path in tree.under("src/")
        if (n := line_count(tree, path)) > LONG_MODULE_LINES and not excused.get(path)
    ]
    assert not offences, "\n".join(offences)


def test_the_list_of_long_modules_names_no_short_one(tree: Tree) -> None:
    stale = [path for path in long_modules() if path not in tree.files or line_count(tree, path) <= LONG_MODULE_LINES]
    assert not stale, f"take these out of {LONG_MODULES.name}: {stale}"


def test_no_function_is_longer_than_70_lines(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno} {node.name}: {lines}"
        for path, module in tree.modules(*CODE)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not offences, "\n".join(offences)


def test_every_module_opens_with_at_most_ten_lines_of_docstring(tree: Tree) -> None:
    offences = []
    for path, module in tree.modules("src/"):
        docstring = ast.get_docstring(module)
        if not docstring:
            offences.append(f"{path}: no docstring")
        elif len(docstring.splitlines()) > DOCSTRING_LINES and not path.startswith("src/kohort/group/"):
            offences.append(f"{path}: {len(docstring.splitlines())} lines")
    assert not offences, "\n".join(offences)


def test_no_python_file_is_empty(tree: Tree) -> None:
    empty = [path for path in tree.under(*CODE) if not tree.text(path).strip()]
    assert not empty, "\n".join(empty)
