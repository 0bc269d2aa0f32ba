"""The contract of listeners and assignors: each timeline of KIP-429 passes, and each departure from it is refused."""

from __future__ import annotations

import pytest
from tests.unit.member.classic_script import TWO, partitions

from kohort.assign import RebalanceProtocol
from kohort.sim.checks.callback_contract import Act, Contract, ContractBroken

EAGER, COOPERATIVE = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE
NOTHING = partitions()
T0, T1, T2 = partitions(0), partitions(1), partitions(2)
Trace = list[tuple[Act, frozenset]]  # type: ignore[type-arg]

BEGIN: Trace = [
    (Act.USER_DATA, NOTHING),
    (Act.SYNCED, TWO),
    (Act.ON_ASSIGNMENT, TWO),
    (Act.ASSIGNED, TWO),
    (Act.DONE, NOTHING),
]
"""The first round of either protocol: the member comes to own t-0 and t-1."""


def contract_after(protocol: RebalanceProtocol, *traces: Trace, sees_facts: bool = True) -> Contract:
    contract = Contract(protocol, sees_facts=sees_facts)
    for trace in traces:
        for act, names in trace:
            if sees_facts or act not in (Act.SYNCED, Act.OUT, Act.GONE, Act.UNWANTED):
                contract.record(act, names)
    return contract


LEGAL: list[tuple[str, RebalanceProtocol, Trace]] = [
    (
        "eager round",
        EAGER,
        [
            (Act.REVOKED, TWO),
            (Act.DONE, NOTHING),
            (Act.USER_DATA, NOTHING),
            (Act.USER_DATA, NOTHING),
            (Act.ASSIGN, NOTHING),
            (Act.SYNCED, T2),
            (Act.ON_ASSIGNMENT, T2),
            (Act.ASSIGNED, T2),
            (Act.DONE, NOTHING),
            (Act.REVOKED, T2),
            (Act.DONE, NOTHING),
            (Act.USER_DATA, NOTHING),
        ],
    ),
    (
        "eager, fenced",
        EAGER,
        [(Act.OUT, NOTHING), (Act.LOST, TWO), (Act.DONE, NOTHING), (Act.USER_DATA, NOTHING)],
    ),
    (
        "eager, fenced while everything is revoked: nothing is left to lose, and the next round is like any other",
        EAGER,
        [(Act.REVOKED, TWO), (Act.OUT, NOTHING), (Act.DONE, NOTHING), *BEGIN, (Act.REVOKED, TWO), (Act.DONE, NOTHING)],
    ),
    (
        "cooperative, another subscription while JoinGroup is tried again: the assignment takes away what is unwanted",
        COOPERATIVE,
        [
            (Act.USER_DATA, TWO),
            (Act.UNWANTED, T0),
            (Act.USER_DATA, TWO),
            (Act.SYNCED, T1),
            (Act.REVOKED, T0),
            (Act.DONE, NOTHING),
            (Act.ON_ASSIGNMENT, T1),
            (Act.ASSIGNED, NOTHING),
            (Act.DONE, NOTHING),
            (Act.USER_DATA, T1),
        ],
    ),
    (
        "cooperative, nothing moves",
        COOPERATIVE,
        [
            (Act.USER_DATA, TWO),
            (Act.SYNCED, TWO),
            (Act.ON_ASSIGNMENT, TWO),
            (Act.ASSIGNED, NOTHING),
            (Act.DONE, NOTHING),
        ],
    ),
    (
        "cooperative, one comes and one goes",
        COOPERATIVE,
        [
            (Act.USER_DATA, TWO),
            (Act.ASSIGN, NOTHING),
            (Act.SYNCED, T0 | T2),
            (Act.REVOKED, T1),
            (Act.DONE, NOTHING),
            (Act.ON_ASSIGNMENT, T0 | T2),
            (Act.ASSIGNED, T2),
            (Act.DONE, NOTHING),
            (Act.USER_DATA, T0 | T2),
        ],
    ),
    (
        "cooperative, unsubscribed",
        COOPERATIVE,
        [(Act.UNWANTED, T0), (Act.REVOKED, T0), (Act.DONE, NOTHING), (Act.USER_DATA, T1)],
    ),
    ("cooperative, deleted", COOPERATIVE, [(Act.GONE, T1), (Act.LOST, T1), (Act.DONE, NOTHING), (Act.USER_DATA, T0)]),
    (
        "cooperative, fenced",
        COOPERATIVE,
        [(Act.USER_DATA, TWO), (Act.OUT, NOTHING), (Act.LOST, TWO), (Act.DONE, NOTHING)],
    ),
    ("cooperative, answered late", COOPERATIVE, [(Act.USER_DATA, TWO), (Act.USER_DATA, TWO)]),
    (
        "closing",
        COOPERATIVE,
        [(Act.CLOSING, NOTHING), (Act.REVOKED, TWO), (Act.DONE, NOTHING), (Act.ENDED, NOTHING)],
    ),
]


@pytest.mark.parametrize("sees_facts", [True, False])
@pytest.mark.parametrize(("protocol", "trace"), [case[1:] for case in LEGAL], ids=[case[0] for case in LEGAL])
def test_the_timelines_of_the_specification_pass(protocol: RebalanceProtocol, trace: Trace, sees_facts: bool) -> None:
    contract_after(protocol, BEGIN, trace, sees_facts=sees_facts)


MOVING: Trace = [(Act.USER_DATA, TWO), (Act.SYNCED, T0 | T2)]

ILLEGAL: list[tuple[str, RebalanceProtocol, Trace]] = [
    ("EAGER revokes all", EAGER, [(Act.REVOKED, T0)]),
    ("EAGER revokes once", EAGER, [(Act.REVOKED, TWO), (Act.DONE, NOTHING), (Act.REVOKED, NOTHING)]),
    ("claims exactly what is owned", EAGER, [(Act.REVOKED, TWO), (Act.DONE, NOTHING), (Act.USER_DATA, TWO)]),
    ("callbacks run one at a time", EAGER, [(Act.REVOKED, TWO), (Act.LOST, TWO)]),
    ("no JoinGroup leaves while a callback runs", EAGER, [(Act.REVOKED, TWO), (Act.USER_DATA, TWO)]),
    ("lost is never called with nothing", COOPERATIVE, [(Act.LOST, NOTHING)]),
    ("only what is owned can be lost", COOPERATIVE, [(Act.LOST, T2)]),
    ("loses only what no longer exists", COOPERATIVE, [(Act.LOST, T0)]),
    ("loses all that it owned", COOPERATIVE, [(Act.OUT, NOTHING), (Act.LOST, T0)]),
    ("there is nothing to revoke", COOPERATIVE, [(Act.OUT, NOTHING), (Act.REVOKED, T0)]),
    ("what was lost is reported before JoinGroup", COOPERATIVE, [(Act.OUT, NOTHING), (Act.USER_DATA, TWO)]),
    ("does not call revoked with nothing", COOPERATIVE, [(Act.REVOKED, NOTHING)]),
    ("just what is no longer subscribed to", COOPERATIVE, [(Act.REVOKED, T0)]),
    ("is revoked before JoinGroup", COOPERATIVE, [(Act.UNWANTED, T0), (Act.USER_DATA, TWO)]),
    ("claims exactly what is owned", COOPERATIVE, [(Act.USER_DATA, T0)]),
    ("between JoinGroup and SyncGroup", COOPERATIVE, [(Act.ASSIGN, NOTHING)]),
    ("answers a JoinGroup", COOPERATIVE, [(Act.SYNCED, TWO)]),
    ("just what the assignment leaves out", COOPERATIVE, [*MOVING, (Act.REVOKED, T0)]),
    ("is revoked before on_assignment", COOPERATIVE, [*MOVING, (Act.ON_ASSIGNMENT, T0 | T2)]),
    (
        "on_assignment waits until the revocation has finished",
        COOPERATIVE,
        [*MOVING, (Act.REVOKED, T1), (Act.ON_ASSIGNMENT, T0 | T2)],
    ),
    (
        "the assignment that SyncGroup brought",
        COOPERATIVE,
        [*MOVING, (Act.REVOKED, T1), (Act.DONE, NOTHING), (Act.ON_ASSIGNMENT, T0)],
    ),
    (
        "assigned follows on_assignment",
        COOPERATIVE,
        [*MOVING, (Act.REVOKED, T1), (Act.DONE, NOTHING), (Act.ASSIGNED, T2)],
    ),
    (
        "what was not owned before",
        COOPERATIVE,
        [*MOVING[:1], (Act.SYNCED, TWO), (Act.ON_ASSIGNMENT, TWO), (Act.ASSIGNED, T0)],
    ),
    (
        "assigned names all that is new",
        COOPERATIVE,
        [*MOVING[:1], (Act.SYNCED, TWO | T2), (Act.ON_ASSIGNMENT, TWO | T2), (Act.ASSIGNED, NOTHING)],
    ),
    (
        "nothing is lost between an assignment and its assigned",
        COOPERATIVE,
        [*MOVING, (Act.REVOKED, T1), (Act.DONE, NOTHING), (Act.GONE, T0), (Act.LOST, T0)],
    ),
    ("ends with assigned before the next one", COOPERATIVE, [*MOVING, (Act.USER_DATA, TWO)]),
    ("closing gives up all", COOPERATIVE, [(Act.CLOSING, NOTHING), (Act.REVOKED, T0)]),
    ("joins no more", COOPERATIVE, [(Act.CLOSING, NOTHING), (Act.USER_DATA, TWO)]),
    ("ends owns nothing", COOPERATIVE, [(Act.CLOSING, NOTHING), (Act.ENDED, NOTHING)]),
    ("over once", COOPERATIVE, [(Act.DONE, NOTHING)]),
]


@pytest.mark.parametrize(("rule", "protocol", "trace"), ILLEGAL, ids=[case[0] for case in ILLEGAL])
def test_a_departure_is_refused_with_the_rule_it_breaks(rule: str, protocol: RebalanceProtocol, trace: Trace) -> None:
    contract = contract_after(protocol, BEGIN, trace[:-1])
    with pytest.raises(ContractBroken, match=rule):
        contract.record(*trace[-1])


def test_eager_calls_revoked_even_where_nothing_is_owned() -> None:
    empty = [(act, NOTHING) for act, _ in BEGIN]
    with pytest.raises(ContractBroken, match="EAGER calls revoked before every round, even with nothing"):
        contract_after(EAGER, empty, [(Act.USER_DATA, NOTHING)])


def test_a_broken_contract_shows_what_led_to_it() -> None:
    contract = contract_after(COOPERATIVE, BEGIN)
    with pytest.raises(ContractBroken, match=r"assigned\(t-0, t-1\) → done\(\) → lost\(t-2\)"):
        contract.record(Act.LOST, T2)


def test_what_was_revoked_for_another_member_does_not_come_back_in_the_same_round() -> None:
    contract = contract_after(COOPERATIVE, BEGIN, MOVING, [(Act.REVOKED, T1), (Act.DONE, NOTHING)], sees_facts=False)
    contract.record(Act.ON_ASSIGNMENT, TWO)
    with pytest.raises(ContractBroken, match="comes back in the next round"):
        contract.record(Act.ASSIGNED, T1)


def test_a_second_round_is_due_until_the_member_joins() -> None:
    contract = contract_after(COOPERATIVE, BEGIN, MOVING, [(Act.REVOKED, T1), (Act.DONE, NOTHING)])
    assert contract.is_second_round_due
    contract.record(Act.ON_ASSIGNMENT, T0 | T2)
    contract.record(Act.ASSIGNED, T2)
    contract.record(Act.DONE)
    assert contract.is_second_round_due
    contract.record(Act.USER_DATA, T0 | T2)
    assert not contract.is_second_round_due


def test_a_revocation_that_never_ran_may_be_asked_for_again() -> None:
    contract = contract_after(EAGER, BEGIN, [(Act.REVOKED, TWO), (Act.ABANDONED, NOTHING), (Act.REVOKED, TWO)])
    assert contract.owned == TWO


def test_member_that_is_fenced_without_partitions_has_none_to_lose() -> None:
    empty = [(act, NOTHING) for act in (Act.USER_DATA, Act.SYNCED, Act.ON_ASSIGNMENT, Act.ASSIGNED, Act.OUT, Act.DONE)]
    again = [(Act.USER_DATA, NOTHING), *((act, TWO) for act in (Act.SYNCED, Act.ON_ASSIGNMENT, Act.ASSIGNED))]
    contract = contract_after(COOPERATIVE, empty, [*again, (Act.DONE, NOTHING), (Act.USER_DATA, TWO)])
    assert contract.owned == TWO
