"""Packages only re-export, tests wait for events and never for time, and nothing dead is kept."""

from __future__ import annotations

import ast

from tests.tidy.tree import Tree, nodes

IN_VIRTUAL_TIME = ("tests/sim/", "tests/unit/sim/programs/")
"""Where an hour of sleep takes none."""

LAZY = {"__getattr__", "__dir__"}


def is_reexport(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name() | ast.Tuple()]) | ast.AnnAssign(target=ast.Name()):
            calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
            return all(ast.unparse(call.func).rsplit(".", 1)[-1] in ("items", "lazy_exports") for call in calls)
        case ast.FunctionDef(name=name):
            return name in LAZY
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
            return all(is_reexport(inner) for inner in body)
        case ast.If(body=[ast.Raise()]):
            return "sys.version_info" in ast.unparse(node.test)  # a Python that is too old to read more
        case _:
            return False


def test_a_package_init_only_reexports(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path, module in tree.modules("src/")
        if path.endswith("/__init__.py")
        for node in module.body
        if not is_reexport(node)
    ]
    assert not offences, "move it into a module with a name:\n" + "\n".join(offences)


def test_no_test_sleeps(tree: Tree) -> None:
    """Waiting is for an event, with a deadline. `asyncio.sleep(0)` waits for nothing and only yields."""
    offences = []
    for path, module in tree.modules("tests/"):
        for node in nodes(module):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yields = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if name == "sleep" and not yields and not path.startswith(IN_VIRTUAL_TIME):
                offences.append(f"{path}:{node.lineno}")
    assert not offences, "\n".join(offences)


def test_no_test_mocks_our_code(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path, module in tree.modules("tests/")
        for node in nodes(module)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unittest.mock"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("unittest.mock") for alias in node.names))
    ]
    assert not offences, "drive the real thing:\n" + "\n".join(offences)


def test_no_error_is_swallowed_bare(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path, module in tree.modules("src/")
        for node in nodes(module)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert not offences, "name what is expected:\n" + "\n".join(offences)


def test_no_debugging_is_left_behind(tree: Tree) -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path, module in tree.modules("src/", "tests/", "bench/", "examples/")
        for node in nodes(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "breakpoint"
    ]
    assert not offences, "\n".join(offences)
