"""Put the files of examples/ into the documents that show them, under their `<!-- examples/… -->` marks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = re.compile(r"(^<!-- (examples/[\w./-]+) -->\n+```\w*\n)(.*?)(^```)", re.MULTILINE | re.DOTALL)


def shown(document: str) -> str:
    """Return a document with its examples as they are now."""
    return SHOWN.sub(lambda mark: mark[1] + (ROOT / mark[2]).read_text(encoding="utf-8") + mark[4], document)


if __name__ == "__main__":
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        path.write_text(shown(path.read_text(encoding="utf-8")), encoding="utf-8")
