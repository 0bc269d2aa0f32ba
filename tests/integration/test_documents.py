"""Every `console` block of the README and the guides prints what it says, on a broker of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.integration.console import Console, steps

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "guide").glob("*.md"))]


def narrow(output: str) -> str:
    """Return output with its columns two spaces apart: an id that was shortened must not move the next column."""
    return re.sub(r" {2,}", "  ", output)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_commands_print(document: str, tmp_path: Path) -> None:
    console = Console(tmp_path)
    try:
        for step in steps((ROOT / document).read_text(encoding="utf-8")):
            printed = console.run(step.command)
            assert narrow(printed) == narrow(step.output), f"{document}:{step.line}: $ {step.command}"
    finally:
        console.close()
