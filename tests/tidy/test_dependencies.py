"""Every dependency has its reason written down, and every reason its dependency."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from tests.tidy.tree import Tree

PAGE = "docs/dependencies.md"


def name_of(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def declared(tree: Tree) -> Iterator[str]:
    project = tomllib.loads(tree.text("pyproject.toml"))
    yield from project["build-system"]["requires"]
    yield from project["project"]["dependencies"]
    for extra in project["project"]["optional-dependencies"].values():
        yield from extra
    for group in project["dependency-groups"].values():
        yield from (item for item in group if isinstance(item, str))


def test_every_dependency_has_its_line_and_every_line_its_dependency(tree: Tree) -> None:
    names = {name_of(requirement) for requirement in declared(tree)} - {"kohort"}
    explained = set(re.findall(r"^\| `([a-z0-9-]+)` \|", tree.text(PAGE), flags=re.MULTILINE))
    assert names - explained == set(), f"{PAGE} does not say why these are needed"
    assert explained - names == set(), f"{PAGE} explains what pyproject.toml does not ask for"


def test_the_core_depends_on_nothing(tree: Tree) -> None:
    assert tomllib.loads(tree.text("pyproject.toml"))["project"]["dependencies"] == []


def test_every_lock_file_pins_each_package_with_hashes(tree: Tree) -> None:
    files = list(tree.under("requirements/", suffix=".txt"))
    assert len(files) >= 3
    for path in files:
        pinned = [
            line for line in tree.text(path).replace("\\\n", "").split("\n") if re.match(r"[a-z]", line, re.IGNORECASE)
        ]
        assert len(pinned) > 10
        loose = [line[:60] for line in pinned if not re.match(r"[\w.\[\]-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", line)]
        assert not loose, f"{path}: {loose}"


def test_lock_files_are_audited_in_ci(tree: Tree) -> None:
    assert "make audit" in tree.text(".github/workflows/test.yml")
