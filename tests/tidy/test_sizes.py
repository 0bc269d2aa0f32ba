"""Limits on functions, docstrings and attributes of a class. A module has none: it holds one idea, long or short."""

from __future__ import annotations

import ast

from tests.tidy.tree import Tree, nodes

FUNCTION_LINES = 70
DOCSTRING_LINES = 10
ATTRIBUTES = 20

CODE = ("src/", "tests/", "bench/", "examples/", "interop/", "scripts/")


def test_no_function_is_longer_than_70_lines(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno} {node.name}: {lines}"
        for path, module in tree.modules(*CODE)
        for node in nodes(module)
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


def attributes(node: ast.ClassDef) -> set[str]:
    """The fields of a class, and what its methods assign to `self`."""
    fields = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return fields | {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each.value, ast.Name) and each.value.id == "self"
    }


def test_a_class_of_more_than_20_attributes_says_why(tree: Tree) -> None:
    """Settings have as many as they have."""
    offences = [
        f"{path}:{node.lineno} {node.name}: {len(attributes(node))}"
        for path, module in tree.modules("src/")
        for node in nodes(module)
        if isinstance(node, ast.ClassDef) and not node.name.endswith(("Settings", "Config", "Thresholds"))
        if len(attributes(node)) > ATTRIBUTES and "More than 20 attributes" not in (ast.get_docstring(node) or "")
    ]
    assert not offences, "\n".join(offences)
