"""The simulator finds what others shipped: each bug breaks an invariant within a stated number of seeds."""

from __future__ import annotations

import pytest
from tests.quality.exhibits import CHECKED, EXHIBITS, Exhibit
from tests.quality.museum import STARTS, hunt
from tests.quality.page import story
from tests.tidy.tree import ROOT

from kohort.sim.checks.checker import NO_DEFECT
from kohort.sim.checks.invariants import CATALOGUE

QUICK = [exhibit for exhibit in EXHIBITS if exhibit.is_quick]


@pytest.mark.parametrize("exhibit", QUICK, ids=lambda exhibit: exhibit.name)
def test_bug_is_found_within_its_budget(exhibit: Exhibit) -> None:
    assert hunt(exhibit.name, STARTS[0]).is_found


def test_stories_of_exhibits_have_three_sentences_and_name_known_invariants() -> None:
    names = {invariant.name for invariant in CATALOGUE} | {NO_DEFECT, CHECKED}
    for exhibit in EXHIBITS:
        assert exhibit.story.count(". ") == 2, exhibit.name
        assert set(exhibit.caught_by) <= names, exhibit.name


def test_page_contains_the_current_story_of_each_exhibit() -> None:
    text = (ROOT / "docs/museum.md").read_text(encoding="utf-8")
    for exhibit in EXHIBITS:
        assert story(exhibit) in text, f"docs/museum.md is stale for {exhibit.name}: run `make museum`"
