"""Every decoder survives what was once found for it: the examples, and the kept corpus of each target."""

from __future__ import annotations

import pytest
from tests.decoders.corpus import FOLDER, keep, kept
from tests.decoders.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_refuses_or_takes_what_was_found_for_it(name: str) -> None:
    target = TARGETS[name]
    for content in [*target.examples(), *kept(name)]:
        target.run(content)


def test_every_archive_is_that_of_a_target() -> None:
    assert {path.name.removesuffix(".tar.gz") for path in FOLDER.iterdir()} == set(TARGETS)


def test_the_archives_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 1 << 20


def test_what_is_kept_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tests.decoders.corpus.FOLDER", tmp_path)
    assert keep("any", [b"longer", b"", b"x", b"x"]) == 3
    archive = (tmp_path / "any.tar.gz").read_bytes()
    assert list(kept("any")) == [b"", b"x", b"longer"]
    keep("any", kept("any"))
    assert (tmp_path / "any.tar.gz").read_bytes() == archive
