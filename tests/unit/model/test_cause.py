"""The reasons of a JoinGroup that a coordinator acts on."""

from __future__ import annotations

import pytest

from kohort.model.cause import JoinReason, join_reason


@pytest.mark.parametrize("text", ["blind", "topic_metadata_change"])
def test_the_names_of_the_proposal_are_understood(text: str) -> None:
    assert join_reason(text) == text


@pytest.mark.parametrize("text", [None, "", "BLIND", "blind ", "rebalance enforced by user", "unknown"])
def test_any_other_text_is_unknown(text: str | None) -> None:
    assert join_reason(text) is JoinReason.UNKNOWN
