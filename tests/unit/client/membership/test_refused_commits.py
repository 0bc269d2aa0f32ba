"""What a commit raises where the group refuses it: whether its sender may try again depends on where it is by now."""

from __future__ import annotations

import pytest

from kohort.assign import RangeAssignor
from kohort.client import Cluster, Membership, MembershipSettings
from kohort.client.errors import CommitFailed, RebalanceInProgress
from kohort.member import Identity, State, inputs
from kohort.member.effects import Callback
from kohort.member.inputs import Subscribed
from kohort.model.assignment import Assignment
from kohort.model.errors import ErrorCode, KafkaError

OLD, NEW = Identity(1, "m"), Identity(2, "m")
OUT = [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]


def membership(generation: int) -> Membership:
    """Return a membership that is stable in this generation, by answers that no broker gave."""
    settings = MembershipSettings(assignors=(RangeAssignor(),))
    found = Membership(Cluster("127.0.0.1:1"), "g", Subscribed(("t",)), settings)
    member = found._active.member
    member.step(inputs.Subscribed(("t",)), 0)
    member.step(inputs.JoinAnswered(member.identity, ErrorCode.NONE, generation, "m", "leader", "range"), 0)
    member.step(inputs.SyncAnswered(member.identity, ErrorCode.NONE, Assignment()), 0)
    member.step(inputs.CallbackFinished(Callback.ASSIGNED), 0)
    assert member.state is State.STABLE
    return found


def refusal(found: Membership, error: ErrorCode, asked_as: Identity) -> KafkaError:
    return found._active.driver.commit_error(KafkaError(error, "refused"), asked_as)


@pytest.mark.parametrize("error", OUT)
def test_a_commit_refused_to_who_the_member_still_is_has_failed(error: ErrorCode) -> None:
    found = refusal(membership(1), error, OLD)
    assert isinstance(found, CommitFailed)
    assert not isinstance(found, RebalanceInProgress)
    assert (found.code, found.member_id, found.generation) == (error, "m", 1)


@pytest.mark.parametrize("error", OUT)
def test_a_commit_of_an_older_generation_has_failed_once_the_member_is_stable_again(error: ErrorCode) -> None:
    found = refusal(membership(2), error, OLD)
    assert not isinstance(found, RebalanceInProgress)
    assert found.code is error


@pytest.mark.parametrize("error", OUT)
def test_a_commit_refused_while_the_member_joins_with_a_new_identity_may_be_retried(error: ErrorCode) -> None:
    joining = membership(2)
    member = joining._active.member
    member.step(inputs.CommitAnswered(NEW, ErrorCode.REBALANCE_IN_PROGRESS), 0)
    member.step(inputs.CallbackFinished(Callback.REVOKED), 0)
    assert member.state is State.JOINING
    assert isinstance(refusal(joining, error, OLD), RebalanceInProgress)


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_commit_that_the_next_generation_overtook_may_be_tried_again(is_joined: bool) -> None:
    joining = membership(1)
    member = joining._active.member
    member.step(inputs.CommitAnswered(OLD, ErrorCode.REBALANCE_IN_PROGRESS), 0)
    member.step(inputs.CallbackFinished(Callback.REVOKED), 0)
    if is_joined:
        member.step(inputs.JoinAnswered(OLD, ErrorCode.NONE, 2, "m", "leader", "range"), 0)
    assert joining.state is (State.SYNCING if is_joined else State.JOINING)
    assert isinstance(refusal(joining, ErrorCode.ILLEGAL_GENERATION, OLD), RebalanceInProgress)


def test_a_rebalance_in_progress_makes_the_member_join() -> None:
    found = membership(1)
    assert isinstance(refusal(found, ErrorCode.REBALANCE_IN_PROGRESS, OLD), RebalanceInProgress)
    found._active.member.step(inputs.CommitAnswered(OLD, ErrorCode.REBALANCE_IN_PROGRESS), 0)
    assert found.state is State.PREPARING
    assert found._active.member.identity == OLD, "generation and id are kept"


@pytest.mark.parametrize("error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID])
def test_what_no_rebalance_mends_is_raised_as_it_came(error: ErrorCode) -> None:
    assert type(refusal(membership(1), error, OLD)) is KafkaError
