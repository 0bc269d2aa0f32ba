"""One member's step: the pairs of states of Kafka's CurrentAssignmentBuilderTest, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.reconcile import ReconcileStep, is_unknown, is_within, reconcile
from kohort.group.events import Assigned, MemberState
from kohort.model.assignment import IdPartitions, id_partitions

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
A, B = b"a" * 16, b"b" * 16
OLD = 10
NEW = 11


def held(*parts: tuple[bytes, tuple[int, ...], int]) -> tuple[Assigned, ...]:
    """Return partitions of topics, each topic's assigned in one epoch."""
    return tuple(Assigned(topic_id, numbers, (epoch,) * len(numbers)) for topic_id, numbers, epoch in parts)


def some(**numbers: tuple[int, ...]) -> IdPartitions:
    """Return partitions of the topics `a` and `b`."""
    return id_partitions((name.encode() * 16, parts) for name, parts in numbers.items())


def member(
    state: MemberState, assigned: tuple[Assigned, ...], pending: tuple[Assigned, ...] = (), epoch: int = OLD
) -> ConsumerMember:
    found = ConsumerMember("g", "m")
    found.epoch = found.previous_epoch = epoch
    found.state, found.assigned, found.pending = state, assigned, pending
    return found


def step(
    one: ConsumerMember,
    target: IdPartitions,
    target_epoch: int = NEW,
    owned: IdPartitions | None = None,
    others: IdPartitions = (),
    **changes: Any,
) -> ReconcileStep | None:
    """Return the step of a member that subscribes to both topics; `others` is what other members have."""
    group = ConsumerGroup("g", assignment_epoch=target_epoch, members={"other": member(STABLE, ())})
    group.owners = {topic_id: dict.fromkeys(numbers, "other") for topic_id, numbers in others}
    one.target = target
    options = {"subscribed": frozenset({A, B}), "has_subscription_changed": False, **changes}
    return reconcile(group, one, owned=owned, **options)


HAS = held((A, (1, 2, 3), OLD), (B, (4, 5, 6), OLD))
OWNS = some(a=(1, 2, 3), b=(4, 5, 6))


# -- from STABLE


def test_member_with_an_unchanged_target_takes_the_new_epoch() -> None:
    assert step(member(STABLE, HAS), OWNS) == ReconcileStep(NEW, OLD, STABLE, HAS, ())


def test_member_at_the_targets_epoch_stays_as_it_is() -> None:
    assert step(member(STABLE, HAS), OWNS, target_epoch=OLD) is None


def test_free_partitions_are_granted_at_once_in_the_new_epoch() -> None:
    result = step(member(STABLE, HAS), some(a=(1, 2, 3, 4), b=(4, 5, 6, 7)), others=OWNS)
    after = (Assigned(A, (1, 2, 3, 4), (OLD, OLD, OLD, NEW)), Assigned(B, (4, 5, 6, 7), (OLD, OLD, OLD, NEW)))
    assert result == ReconcileStep(NEW, OLD, STABLE, after, ())


@pytest.mark.parametrize("owned", [None, OWNS, some(a=(1,))])
def test_partitions_are_revoked_while_the_member_may_own_them_and_its_epoch_stays(
    owned: IdPartitions | None,
) -> None:
    result = step(member(STABLE, HAS), some(a=(2, 3, 4), b=(5, 6, 7)), owned=owned)
    kept = held((A, (2, 3), OLD), (B, (5, 6), OLD))
    assert result == ReconcileStep(OLD, OLD, UNREVOKED, kept, held((A, (1,), OLD), (B, (4,), OLD)))


def test_partition_that_another_member_has_is_waited_for() -> None:
    result = step(member(STABLE, HAS), some(a=(1, 2, 3, 4), b=(4, 5, 6, 7)), others=some(a=(4,)))
    after = (HAS[0], Assigned(B, (4, 5, 6, 7), (OLD, OLD, OLD, NEW)))
    assert result == ReconcileStep(NEW, OLD, UNRELEASED, after, ())


def test_member_that_waits_for_all_it_is_to_get_has_the_new_epoch() -> None:
    result = step(member(STABLE, HAS), some(a=(1, 2, 3, 4), b=(4, 5, 6)), others=some(a=(4,)))
    assert result == ReconcileStep(NEW, OLD, UNRELEASED, HAS, ())


def test_partitions_that_the_member_no_longer_reports_are_not_revoked() -> None:
    result = step(member(STABLE, HAS), some(a=(2, 3), b=(5, 6)), owned=some(a=(2,), b=(5, 6)))
    assert result == ReconcileStep(NEW, OLD, STABLE, held((A, (2, 3), OLD), (B, (5, 6), OLD)), ())


def test_partitions_not_owned_any_more_do_not_keep_the_member_from_waiting_for_others() -> None:
    result = step(member(STABLE, HAS), some(a=(2, 3, 4), b=(5, 6)), owned=some(a=(2, 3), b=(5, 6)), others=some(a=(4,)))
    assert result == ReconcileStep(NEW, OLD, UNRELEASED, held((A, (2, 3), OLD), (B, (5, 6), OLD)), ())


# -- from UNREVOKED_PARTITIONS

KEPT = held((A, (2, 3), OLD), (B, (5, 6), OLD))
ASKED = held((A, (1,), OLD), (B, (4,), OLD))


def test_member_that_gave_everything_back_reaches_the_target() -> None:
    result = step(member(UNREVOKED, KEPT, ASKED), some(a=(2, 3), b=(5, 6)), owned=some(a=(2, 3), b=(5, 6)))
    assert result == ReconcileStep(NEW, OLD, STABLE, KEPT, ())


@pytest.mark.parametrize("owned", [None, some(a=(1, 2, 3), b=(4, 5, 6)), some(a=(1,)), some(b=(4,))])
def test_member_stays_while_it_may_own_partitions_pending_revocation(owned: IdPartitions | None) -> None:
    assert step(member(UNREVOKED, KEPT, ASKED), some(a=(3,)), target_epoch=NEW + 1, owned=owned) is None


def test_newer_target_may_revoke_more_after_the_first_revocation() -> None:
    result = step(member(UNREVOKED, KEPT, ASKED), some(a=(3,), b=(6,)), owned=some(a=(2, 3), b=(5, 6)))
    assert result == ReconcileStep(
        OLD, OLD, UNREVOKED, held((A, (3,), OLD), (B, (6,), OLD)), held((A, (2,), OLD), (B, (5,), OLD))
    )


def test_member_that_gave_everything_back_waits_for_what_others_have() -> None:
    result = step(
        member(UNREVOKED, KEPT, ASKED),
        some(a=(2, 3, 4), b=(5, 6, 7)),
        owned=some(a=(2, 3), b=(5, 6)),
        others=some(a=(4,), b=(7,)),
    )
    assert result == ReconcileStep(NEW, OLD, UNRELEASED, KEPT, ())


def test_member_gets_back_what_it_had_to_give_when_the_target_turns_around() -> None:
    result = step(member(UNREVOKED, KEPT, ASKED), OWNS, owned=some(a=(2, 3), b=(5, 6)), others=some(a=(1,), b=(4,)))
    again = (Assigned(A, (1, 2, 3), (NEW, OLD, OLD)), Assigned(B, (4, 5, 6), (NEW, OLD, OLD)))
    assert result == ReconcileStep(NEW, OLD, STABLE, again, ())


# -- from UNRELEASED_PARTITIONS


def test_waiting_member_is_stable_when_nothing_is_left_to_wait_for() -> None:
    result = step(member(UNRELEASED, HAS, epoch=NEW), OWNS)
    assert result == ReconcileStep(NEW, NEW, STABLE, HAS, ())


def test_partition_is_granted_once_it_is_free() -> None:
    result = step(member(UNRELEASED, HAS, epoch=NEW), some(a=(1, 2, 3, 4), b=(4, 5, 6, 7)))
    after = (Assigned(A, (1, 2, 3, 4), (OLD, OLD, OLD, NEW)), Assigned(B, (4, 5, 6, 7), (OLD, OLD, OLD, NEW)))
    assert result == ReconcileStep(NEW, NEW, STABLE, after, ())


def test_partitions_are_granted_one_by_one_in_the_same_epoch() -> None:
    result = step(member(UNRELEASED, HAS, epoch=NEW), some(a=(1, 2, 3, 4), b=(4, 5, 6, 7)), others=some(a=(4,)))
    assert result == ReconcileStep(NEW, NEW, UNRELEASED, (HAS[0], Assigned(B, (4, 5, 6, 7), (OLD, OLD, OLD, NEW))), ())


def test_waiting_member_stays_while_nothing_becomes_free() -> None:
    result = step(member(UNRELEASED, HAS, epoch=NEW), some(a=(1, 2, 3, 4), b=(4, 5, 6)), others=some(a=(4,)))
    assert result is None


def test_waiting_member_goes_on_to_a_newer_target_and_waits_there() -> None:
    one = member(UNRELEASED, HAS, epoch=NEW)
    result = step(one, some(a=(1, 2, 3, 4), b=(4, 5, 6)), target_epoch=NEW + 1, others=some(a=(4,)))
    assert result == ReconcileStep(NEW + 1, NEW, UNRELEASED, HAS, ())


def test_waiting_member_is_asked_for_what_a_newer_target_takes_from_it() -> None:
    one = member(UNRELEASED, HAS, epoch=NEW)
    result = step(one, some(a=(2, 3), b=(5, 6)), target_epoch=NEW + 1, owned=OWNS, others=some(a=(4,)))
    assert result == ReconcileStep(NEW, NEW, UNREVOKED, KEPT, ASKED)


# -- subscriptions


def test_targets_of_unsubscribed_topics_are_revoked_and_not_granted() -> None:
    result = step(member(STABLE, HAS), some(a=(1, 2, 3), b=(4, 5, 6, 7)), owned=OWNS, subscribed=frozenset({A}))
    assert result == ReconcileStep(OLD, OLD, UNREVOKED, held((A, (1, 2, 3), OLD)), held((B, (4, 5, 6), OLD)))


def test_unresolved_expression_subscribes_to_nothing() -> None:
    result = step(member(STABLE, ()), some(a=(1, 2, 3)), subscribed=frozenset())
    assert result == ReconcileStep(NEW, OLD, STABLE, (), ())


def test_member_that_subscribes_to_less_is_asked_for_the_rest_before_there_is_a_new_target() -> None:
    changed = {"subscribed": frozenset({A}), "has_subscription_changed": True}
    result = step(member(STABLE, HAS), OWNS, target_epoch=OLD, owned=None, **changed)
    assert result == ReconcileStep(OLD, OLD, UNREVOKED, held((A, (1, 2, 3), OLD)), held((B, (4, 5, 6), OLD)))


def test_what_is_not_owned_any_more_is_free_as_soon_as_it_is_not_subscribed_to() -> None:
    changed = {"subscribed": frozenset({A}), "has_subscription_changed": True}
    result = step(member(STABLE, HAS), OWNS, target_epoch=OLD, owned=some(a=(1, 2, 3)), **changed)
    assert result == ReconcileStep(OLD, OLD, STABLE, held((A, (1, 2, 3), OLD)), ())


def test_subscribing_to_less_adds_to_the_partitions_pending_revocation() -> None:
    changed = {"subscribed": frozenset({A}), "has_subscription_changed": True}
    result = step(member(UNREVOKED, KEPT, ASKED), OWNS, owned=None, **changed)
    assert result == ReconcileStep(
        OLD, OLD, UNREVOKED, held((A, (2, 3), OLD)), held((A, (1,), OLD), (B, (4, 5, 6), OLD))
    )


def test_subscribing_to_more_changes_nothing_before_there_is_a_new_target() -> None:
    assert step(member(STABLE, HAS), OWNS, target_epoch=OLD, has_subscription_changed=True) is None


# -- UNKNOWN, and what a member says


@pytest.mark.parametrize(("owned", "is_fenced"), [(None, True), (some(a=(1,)), True), ((), False)])
def test_member_in_a_state_of_a_later_version_must_begin_anew(owned: IdPartitions | None, is_fenced: bool) -> None:
    one = member(MemberState.UNKNOWN, HAS, ASKED)
    assert is_unknown(one, owned) is is_fenced


def test_member_in_a_state_of_a_later_version_that_owns_nothing_goes_to_its_target() -> None:
    result = step(member(MemberState.UNKNOWN, KEPT, ASKED), some(a=(2,)), owned=())
    assert result == ReconcileStep(NEW, OLD, STABLE, held((A, (2,), OLD)), ())


def test_owning_what_was_granted_or_less_is_within_it() -> None:
    assert is_within((), HAS)
    assert is_within(some(a=(1, 2)), HAS)
    assert not is_within(some(a=(1, 4)), HAS)
    assert not is_within(None, HAS)
