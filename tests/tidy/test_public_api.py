"""What documents and examples import is what the public modules export: docs/policy.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

from tests.tidy.tree import Tree, nodes

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROVISIONAL = {"kohort.fleet"}


def programs(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    """Yield the examples, and the blocks of Python that documents for users show, as far as each can be parsed."""
    yield from tree.modules("examples/")
    for path in tree.under("docs/", "README.md", suffix=".md"):
        if not path.startswith("docs/decisions/"):
            for body in BLOCK.findall(tree.text(path)):
                yield path, ast.parse(re.sub(r"^( *)\.\.\.$", r"\1pass", body, flags=re.MULTILINE))


def public(tree: Tree) -> set[str]:
    """Return the modules in the table of the policy."""
    return set(re.findall(r"^\| `(kohort[.\w]*)` \|", tree.text("docs/policy.md"), flags=re.MULTILINE))


def test_documents_and_examples_import_what_public_modules_export(tree: Tree) -> None:
    modules = public(tree) | PROVISIONAL
    assert {"kohort", "kohort.sync", "kohort.testing", "kohort.spark", "kohort.sim"} <= modules
    offences = []
    for path, program in programs(tree):
        for node in nodes(program):
            if isinstance(node, ast.Import):
                offences += [f"{path}: import {each.name}" for each in node.names if is_internal(each.name, modules)]
            elif isinstance(node, ast.ImportFrom) and node.module and is_internal(node.module, modules):
                offences.append(f"{path}: from {node.module} import {', '.join(each.name for each in node.names)}")
            elif isinstance(node, ast.ImportFrom) and node.module in modules:
                exported = import_module(node.module).__all__
                offences += [
                    f"{path}: {node.module} exports no {each.name}" for each in node.names if each.name not in exported
                ]
    assert not offences, "export what users need, or write the program without it:\n" + "\n".join(offences)


def is_internal(name: str, modules: set[str]) -> bool:
    return name.split(".")[0] in ("kohort", "pyspark_kohort") and name not in modules


def test_every_exported_name_of_a_core_module_can_be_imported(tree: Tree) -> None:
    for name in sorted(public(tree) - {"kohort.spark"}):  # those of Spark need Spark
        module = import_module(name)
        assert [each for each in module.__all__ if not hasattr(module, each)] == []
