"""The tree that tidy looks at: the files git tracks, read and parsed once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def nodes(module: ast.Module) -> list[ast.AST]:
    """Return every node of a module, listed once for all tests that look at them."""
    return list(ast.walk(module))


class Tree:
    """The tracked files of the repository, by path relative to its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parsed: dict[str, ast.Module] = {}
        self.texts: dict[str, str] = {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every tracked path that exists in the work tree, sorted."""
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout
        return tuple(sorted(path for path in listing.split("\0") if path and (self.root / path).is_file()))

    def under(self, *prefixes: str, suffix: str = ".py") -> Iterator[str]:
        """Yield the tracked paths that start with one of `prefixes` and end with `suffix`."""
        return (path for path in self.files if path.startswith(prefixes) and path.endswith(suffix))

    def text(self, path: str) -> str:
        """Return a file as text; bytes that are not UTF-8 become replacement characters."""
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self.texts[path]

    def syntax(self, path: str) -> ast.Module:
        """Return a Python file's syntax tree."""
        if path not in self.parsed:
            self.parsed[path] = ast.parse(self.text(path), filename=path)
        return self.parsed[path]

    def modules(self, *prefixes: str) -> Iterator[tuple[str, ast.Module]]:
        """Yield each tracked Python file under `prefixes` with its syntax tree."""
        for path in self.under(*prefixes):
            yield path, self.syntax(path)
