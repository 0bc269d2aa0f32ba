"""The changelog is built from the fragments of changes/, and a release removes them."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import pytest
from scripts.changelog import number, write
from tests.tidy.tree import Tree

TODAY = date(2026, 1, 31)


def with_fragments(root: Path, **texts: str) -> Path:
    (root / "changes").mkdir(exist_ok=True)
    (root / "changes" / "README.md").write_text("# Change fragments\n")
    for name, text in texts.items():
        (root / "changes" / f"{name.replace('__', '.')}.md").write_text(text)
    return root


def changelog(root: Path) -> str:
    return (root / "CHANGELOG.md").read_text().split("(changes/README.md).\n\n", 1)[1]


def test_fragments_are_listed_by_kind_and_name(tmp_path: Path) -> None:
    root = with_fragments(tmp_path, b__fixed="Two\nlines.\n", a__fixed="One.\n", c__added="New.\n")
    write(root, None, TODAY)
    assert changelog(root) == "## Unreleased\n\n### Added\n\n- New.\n\n### Fixed\n\n- One.\n- Two\n  lines.\n"


def test_a_release_keeps_the_earlier_ones_and_removes_the_fragments(tmp_path: Path) -> None:
    write(with_fragments(tmp_path, a__added="First.\n"), "0.1.0", TODAY)
    write(with_fragments(tmp_path, b__changed="Second.\n"), None, TODAY)
    write(tmp_path, "0.2.0", TODAY)
    assert changelog(tmp_path) == (
        "## 0.2.0 (2026-01-31)\n\n### Changed\n\n- Second.\n\n## 0.1.0 (2026-01-31)\n\n### Added\n\n- First.\n"
    )
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]


def test_a_section_that_was_written_before_its_release_gets_the_fragments_too(tmp_path: Path) -> None:
    write(with_fragments(tmp_path, a__added="First.\n"), "0.1.0", TODAY)
    page = tmp_path / "CHANGELOG.md"
    page.write_text(
        page.read_text().replace("### Added\n\n- First.", "The first release.\n\n- All of it.").rstrip("\n") + "\n"
    )
    write(with_fragments(tmp_path, b__fixed="Second.\n"), "0.1.0", TODAY.replace(day=1))
    assert changelog(tmp_path) == (
        "## 0.1.0 (2026-01-01)\n\nThe first release.\n\n- All of it.\n\n### Fixed\n\n- Second.\n"
    )


def test_a_word_is_no_number_of_a_release() -> None:
    assert number("0.2.0") == "0.2.0"
    with pytest.raises(argparse.ArgumentTypeError, match="'--help' is no number of a release"):
        number("--help")


def test_the_changelog_is_linked_and_says_how_it_is_written(tree: Tree) -> None:
    assert "`make changelog`" in tree.text("CHANGELOG.md")
    assert "CHANGELOG.md" in tree.text("README.md")
