"""JoinGroup: a request may open a round, and its answer shows the generation and its leader."""

from __future__ import annotations

from tests.unit.gateway.classic_members import group


def test_answers_show_generation_leader_and_members() -> None:
    observed = group("a", "b")["a"].gateway.groups.group("g")
    assert observed is not None
    assert (observed.generation, observed.leader, sorted(observed.members)) == (1, "a", ["a", "b"])


def test_a_request_of_the_leader_opens_a_round_before_it_is_answered() -> None:
    leader = group("a", "b")["a"]
    leader.join(3_000)
    observed = leader.gateway.groups.group("g")
    assert observed is not None
    assert observed.is_gathering
    assert observed.awaiting_join == {"a"}
