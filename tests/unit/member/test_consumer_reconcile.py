"""How a member of the consumer protocol comes from one target to the next: Java's ConsumerMembershipManagerTest."""

from __future__ import annotations

import pytest
from tests.unit.member.consumer_script import (
    ASSIGNED,
    LOST,
    NAMES,
    REVOKED,
    T_AGAIN,
    TWO,
    Script,
    T,
    U,
    V,
    ids,
    one_heartbeat,
    partitions,
    revoking,
    stable,
)

from kohort.member import ConsumerState, inputs
from kohort.member.effects import ConsumerHeartbeat, ExpediteHeartbeat, NameTopics, RunCallback
from kohort.model.assignment import NOTHING
from kohort.model.errors import ErrorCode


def test_the_first_assignment_is_called_back_and_then_acknowledged_at_once() -> None:
    script = Script()
    script.subscribe("t")
    script.answered(1, ids(0, 1))
    assert script.member.state is ConsumerState.RECONCILING
    assert script.callbacks() == [(ASSIGNED, TWO)]
    heartbeat = one_heartbeat(script.finished(ASSIGNED))
    assert heartbeat == ConsumerHeartbeat(2, "m", 1, owned=ids(0, 1))
    assert script.member.state is ConsumerState.STABLE


def test_the_first_assignment_is_called_back_even_with_nothing() -> None:
    script = Script()
    script.subscribe("t")
    script.answered(1, NOTHING)
    assert script.callbacks() == [(ASSIGNED, frozenset())]
    assert one_heartbeat(script.finished(ASSIGNED)).owned == NOTHING


def test_partitions_come_beside_those_that_are_owned() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    assert script.callbacks() == [(ASSIGNED, partitions(2))]
    assert one_heartbeat(script.finished(ASSIGNED)).owned == ids(0, 1, 2)


def test_what_is_revoked_is_acknowledged_once_assigned_was_called_too() -> None:
    script = revoking()
    asked = script.finished(REVOKED)
    assert [(effect.callback, effect.partitions) for effect in asked if isinstance(effect, RunCallback)] == [
        (ASSIGNED, frozenset())
    ]
    assert script.member.owned == partitions(0)
    assert one_heartbeat(script.finished(ASSIGNED)).owned == ids(0)


def test_nothing_is_revoked_where_nothing_goes() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    assert REVOKED not in dict(script.callbacks())


def test_the_same_assignment_again_is_nothing_to_do() -> None:
    script = stable()
    script.beat()
    assert script.answered(2, ids(0, 1)) == []
    assert script.member.state is ConsumerState.STABLE
    assert script.beat().owned is None


def test_heartbeats_go_on_while_a_callback_takes_its_time() -> None:
    script = revoking()
    for _ in range(3):
        assert script.beat() == ConsumerHeartbeat(script.member.number, "m", 1)
        script.answered(1)


def test_an_acknowledgement_waits_for_the_heartbeat_under_way() -> None:
    script = revoking()
    script.beat()
    script.finished(REVOKED)
    script.finished(ASSIGNED)
    assert script.member.state is ConsumerState.ACKNOWLEDGING
    assert one_heartbeat(script.answered(1)).owned == ids(0)


def test_a_lost_acknowledgement_is_sent_again() -> None:
    script = revoking()
    script.finished(REVOKED)
    script.finished(ASSIGNED)
    script.refused(ErrorCode.NETWORK_EXCEPTION)
    assert one_heartbeat(script.wait(1_000)).owned == ids(0)


# Names that are not known yet


def test_a_topic_without_a_name_is_asked_for_and_the_rest_taken_over() -> None:
    script = stable()
    script.beat()
    asked = script.answered(2, (*ids(0, 1, 2), *ids(0, topic_id=V)))
    assert NameTopics(frozenset({V})) in asked
    assert script.callbacks() == [(ASSIGNED, partitions(2))]
    assert one_heartbeat(script.finished(ASSIGNED)).owned == ids(0, 1, 2), "a part is acknowledged as a part"
    assert script.member.state is ConsumerState.RECONCILING


def test_the_rest_follows_when_the_name_comes() -> None:
    script = stable()
    script.beat()
    script.answered(2, (*ids(0, 1), *ids(0, topic_id=V)))
    assert one_heartbeat(script.asked[1:]).owned == ids(0, 1), "nothing to call back, and the member has seen it"
    script.answered(2)
    asked = script.seen({**NAMES, V: "v"})
    assert asked[0] == NameTopics(frozenset())
    assert script.callbacks() == [(ASSIGNED, partitions(0, topic="v"))]
    assert one_heartbeat(script.finished(ASSIGNED)).owned == (*ids(0, 1), *ids(0, topic_id=V))
    assert script.member.state is ConsumerState.STABLE


def test_metadata_without_new_names_leaves_the_member_waiting() -> None:
    script = stable()
    script.beat()
    script.answered(2, (*ids(0, 1), *ids(0, topic_id=V)))
    script.answered(2)
    assert script.seen(NAMES) == []
    assert script.member.state is ConsumerState.RECONCILING


@pytest.mark.parametrize("newer", [NOTHING, ids(0, topic_id=U)])
def test_a_newer_target_replaces_one_that_waits_for_names(newer: tuple) -> None:  # type: ignore[type-arg]
    script = Script()
    script.subscribe("t", "u", "v")
    script.answered(1, ids(0, topic_id=V))
    script.finished(ASSIGNED)
    assert NameTopics(frozenset()) in script.answered(2, newer)
    script.finished(ASSIGNED)
    script.answered(2)
    assert script.seen({**NAMES, V: "v"}) == []
    assert script.member.state is ConsumerState.STABLE
    assert script.member.owned == (partitions(0, topic="u") if newer else frozenset())


def test_what_is_owned_keeps_its_name_when_the_cluster_shows_it_no_more() -> None:
    script = stable()
    script.seen({})
    script.beat()
    assert not any(isinstance(effect, NameTopics) for effect in script.answered(2, ids(0)))
    assert script.callbacks() == [(REVOKED, partitions(1))]


def test_partitions_of_a_deleted_topic_are_lost_and_others_revoked() -> None:
    script = stable(owned=(*ids(0, 1), *ids(0, topic_id=U)), topics=("t", "u"))
    script.seen({T: "t"}, gone=frozenset({U}))
    script.beat()
    script.answered(2, ids(0))
    script.finished(LOST)
    script.finished(REVOKED)
    script.finished(ASSIGNED)
    assert script.callbacks() == [(LOST, partitions(0, topic="u")), (REVOKED, partitions(1)), (ASSIGNED, frozenset())]


def test_a_topic_made_anew_is_lost_and_assigned() -> None:
    script = stable()
    script.seen({T_AGAIN: "t"}, gone=frozenset({T}))
    script.beat()
    script.answered(2, ids(0, topic_id=T_AGAIN))
    script.finished(LOST)
    heartbeat = one_heartbeat(script.finished(ASSIGNED))
    assert script.callbacks() == [(LOST, TWO), (ASSIGNED, partitions(0))]
    assert heartbeat.owned == ids(0, topic_id=T_AGAIN)


# One at a time


def test_a_target_that_comes_meanwhile_is_the_next_reconciliations() -> None:
    script = revoking()
    script.beat()
    assert script.answered(2, ids(0, 2)) == []
    script.finished(REVOKED)
    asked = script.finished(ASSIGNED)
    assert one_heartbeat(asked).owned == ids(0)
    assert script.member.state is ConsumerState.RECONCILING
    script.answered(2)
    script.finished(ASSIGNED)
    assert script.callbacks() == [(ASSIGNED, frozenset()), (ASSIGNED, partitions(2))]
    assert script.member.state is ConsumerState.STABLE


def test_a_target_that_came_meanwhile_is_taken_over_when_the_acknowledgement_was_answered() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    script.beat()
    script.answered(2, ids(0, 1, 2, 3))
    acknowledged = script.finished(ASSIGNED)
    assert [type(effect) for effect in acknowledged] == [ConsumerHeartbeat, ExpediteHeartbeat]
    assert one_heartbeat(acknowledged[:1]).owned == ids(0, 1, 2)
    assert script.take(inputs.PollEntered()) == []  # who claims 0 to 2 may be refused 3 by the answer
    [callback] = script.answered(3)
    assert isinstance(callback, RunCallback)
    assert callback.partitions == partitions(3)


def test_what_an_acknowledgement_did_not_claim_and_its_answer_takes_away_is_never_taken_over() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    script.beat()
    script.answered(2, ids(0, 1, 2, 3))
    script.finished(ASSIGNED)
    assert one_heartbeat(script.answered(3, ids(0, 1, 2))).owned == ids(0, 1, 2)
    assert script.callbacks() == [(ASSIGNED, partitions(2))]
    assert script.member.owned == partitions(0, 1, 2)


def test_a_full_heartbeat_in_the_middle_of_taking_over_claims_what_is_taken_over() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    script.beat()
    script.refused(ErrorCode.REQUEST_TIMED_OUT)
    assert script.beat().owned == ids(0, 1, 2)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_reconciliation_is_discarded_when_its_member_is_fenced(error: ErrorCode) -> None:
    script = revoking()
    script.beat()
    assert script.refused(error) == [], "one callback at a time"
    assert script.member.state is ConsumerState.FENCED
    script.finished(REVOKED)
    assert script.callbacks() == [(LOST, partitions(0))]
    heartbeat = one_heartbeat(script.finished(LOST))
    assert (heartbeat.member_epoch, heartbeat.member_id, heartbeat.owned) == (0, "m", NOTHING)


def test_a_revocation_that_came_too_late_becomes_a_loss() -> None:
    script = revoking()
    script.beat()
    script.refused(ErrorCode.FENCED_MEMBER_EPOCH)
    script.finished(REVOKED, is_abandoned=True)
    assert script.callbacks() == [(LOST, TWO)]


def test_an_assignment_that_was_under_way_is_lost_with_the_rest() -> None:
    script = stable()
    script.beat()
    script.answered(2, ids(0, 1, 2))
    script.beat()
    script.refused(ErrorCode.FENCED_MEMBER_EPOCH)
    script.finished(ASSIGNED)
    assert script.callbacks()[-1] == (LOST, partitions(0, 1, 2))


def test_the_same_assignment_is_called_back_again_after_a_fencing() -> None:
    script = stable()
    script.beat()
    script.refused(ErrorCode.FENCED_MEMBER_EPOCH)
    script.finished(LOST)
    script.forget()
    script.answered(3, ids(0, 1))
    assert script.callbacks() == [(ASSIGNED, TWO)]


def test_a_target_that_comes_while_the_member_leaves_is_ignored() -> None:
    script = stable()
    script.beat()
    script.take(inputs.CloseRequested("bye"))
    script.answered(2, ids(0))
    assert script.callbacks() == [(REVOKED, TWO)]
    assert script.member.state is ConsumerState.PREPARE_LEAVING


def test_a_subscription_that_changes_takes_nothing_before_the_coordinator_does() -> None:
    script = stable()
    script.subscribe("u")
    assert script.callbacks() == []
    script.answered(1, NOTHING)
    assert script.callbacks() == [(REVOKED, TWO)]
