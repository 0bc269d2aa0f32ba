"""Every `console` block of the README and the guides prints what it says, on a broker of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.integration.console import Console, steps

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/tutorial.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "guide").glob("*.md")),
]
ATTEMPTS = 20
"""Events of a group are written a moment after it has changed: `kohort explain` is asked again."""


def narrow(output: str) -> str:
    """Return output with its columns two spaces apart, for ids of other lengths, and with one name of all members."""
    return re.sub(r" {2,}", "  ", re.sub(r"\bkohort-[0-9a-f]{4}\b", "kohort-5f0f", output))


def without_durations(explained: str) -> str:
    """Return what `kohort explain` prints without what depends on the speed of the machine."""
    explained = re.sub(r"(; slowest to [^;\n]*|, \S+ last after [\d.]+ m?s)", "", explained)
    return narrow(re.sub(r"\b[\d.]+ (m?s|partition-seconds)\b", "0 ms", explained.replace("for up to", "for")))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_commands_print(document: str, tmp_path: Path) -> None:
    console = Console(tmp_path)
    text = (ROOT / document).read_text(encoding="utf-8")
    console.save_programs(text)
    try:
        for step in steps(text):
            printed = console.run(step.command)
            for _ in range(ATTEMPTS if re.fullmatch(r"kohort explain \w+", step.command) else 0):
                if without_durations(printed) == without_durations(step.output):
                    printed = step.output
                    break
                printed = console.run(step.command)
            assert narrow(printed) == narrow(step.output), f"{document}:{step.line}: $ {step.command}"
    finally:
        console.close()
