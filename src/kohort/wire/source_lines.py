"""Python source that is being written: its lines, how deep they are indented, and names that are not taken yet."""

from __future__ import annotations

INDENT = "    "


class SourceLines:
    """The lines of one function's body; the first are indented `depth` times."""

    def __init__(self, depth: int) -> None:
        self.lines: list[str] = []
        self._depth = depth
        self._names = 0

    def add(self, line: str) -> None:
        """Add a line at the present depth."""
        self.lines.append(INDENT * self._depth + line)

    def block(self, head: str) -> SourceLines:
        """Add a line; what is added inside of the context that this returns is indented."""
        self.add(head)
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def name(self, stem: str) -> str:
        """Return a name that was never returned before."""
        self._names += 1
        return f"{stem}{self._names}"
