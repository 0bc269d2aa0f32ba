"""Write CHANGELOG.md from the fragments in changes/; with a version, release them and remove the fragments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

HEAD = """\
# Changelog

Written by `make changelog` from the fragments in [changes](changes/README.md).

"""

KINDS = {"added": "Added", "changed": "Changed", "removed": "Removed", "fixed": "Fixed"}


def fragments(root: Path) -> list[Path]:
    """Return the fragments that are not released yet, by kind and name."""
    found = [path for path in root.glob("changes/*.*.md") if path.suffixes[-2][1:] in KINDS]
    return sorted(found, key=lambda path: (list(KINDS).index(path.suffixes[-2][1:]), path.name))


def section(root: Path, title: str) -> Iterator[str]:
    """Yield the lines of one release: its title, then the fragments of each kind."""
    yield f"## {title}\n"
    last = ""
    for path in fragments(root):
        kind = KINDS[path.suffixes[-2][1:]]
        if kind != last:
            yield f"\n### {kind}\n\n"
            last = kind
        lines = path.read_text(encoding="utf-8").strip().replace("](../", "](").splitlines()
        yield f"- {lines[0]}\n" + "".join(f"  {line}\n" if line else "\n" for line in lines[1:])


def released(root: Path) -> str:
    """Return the sections of earlier releases, as the changelog has them."""
    page = root / "CHANGELOG.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    start = re.search(r"^## \d", text, flags=re.MULTILINE)
    return text[start.start() :] if start else ""


def write(root: Path, version: str | None, today: date) -> None:
    """Write the changelog; with a version, give the new section its number and remove the fragments.

    A section that has the number already, since it was written before the release, gets the fragments too.
    """
    title = f"{version} ({today.isoformat()})" if version else "Unreleased"
    earlier = released(root)
    written = ""
    if version and (same := re.match(rf"## {re.escape(version)} .*\n\n((?:(?!## ).*\n)*)", earlier)):
        written, earlier = same[1].strip("\n"), earlier[same.end() :]
    new = "".join(section(root, title)) if fragments(root) or written else ""
    if written:
        new = new.replace("\n", f"\n\n{written}\n", 1)
    page = HEAD + new + ("\n" if new and earlier else "") + earlier
    (root / "CHANGELOG.md").write_text(page, encoding="utf-8")
    if version:
        for path in fragments(root):
            path.unlink()


def number(text: str) -> str:
    """Return the number of a release, or raise: only a section that begins with one is found again."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a release such as 0.2.0")
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", type=number, help="releases the fragments under this number")
    write(ROOT, parser.parse_args().version, date.today())
