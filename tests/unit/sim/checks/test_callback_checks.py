"""The timelines of KIP-429 and KIP-848, as a listener sees them."""

from __future__ import annotations

import pytest
from tests.unit.sim.checks.scripted import Member, Script, breaks, of

from kohort.member.effects import Callback
from kohort.model.ids import TopicPartition
from kohort.sim.checks.callback_checks import CallbackChecker
from kohort.sim.checks.invariants import CALLBACK_CONTRACT

REVOKED, ASSIGNED, LOST = Callback.REVOKED, Callback.ASSIGNED, Callback.LOST


def script_of(kind: str, owned: str = "") -> tuple[Script, Member]:
    """A member of a kind that owns something."""
    script = Script(lambda _: CallbackChecker())
    member = script.member("a", kind=kind)
    if owned:
        script.see.asked(member, "JoinGroup", "")
        run(script, member, ASSIGNED, owned)
    return script, member


def run(script: Script, member: Member, callback: Callback, partitions: str) -> None:
    script.see.callback_began(member, callback, of(partitions), "")
    script.see.callback_ended(member, callback, of(partitions), None)


def test_the_eager_timeline() -> None:
    script, a = script_of("eager", "t0 t1")
    run(script, a, REVOKED, "t0 t1")
    script.see.asked(a, "JoinGroup", "")
    run(script, a, ASSIGNED, "t1 t2")
    run(script, a, LOST, "t1 t2")
    script.see.member_ended(a, "closed")


def test_the_cooperative_timeline() -> None:
    script, a = script_of("cooperative", "t0 t1")
    script.see.asked(a, "JoinGroup", "")
    run(script, a, REVOKED, "t1")
    run(script, a, ASSIGNED, "")
    script.see.asked(a, "JoinGroup", "")
    run(script, a, ASSIGNED, "t2")
    script.see.delivered(a, TopicPartition("t", 2), 0, 5)
    run(script, a, REVOKED, "t0 t2")
    script.see.member_ended(a, "closed")


def test_the_consumer_timeline() -> None:
    script, a = script_of("consumer")
    run(script, a, ASSIGNED, "t0 t1")
    run(script, a, REVOKED, "t1")
    run(script, a, ASSIGNED, "t2")
    run(script, a, LOST, "t0 t2")
    script.see.member_ended(a, "killed")


@pytest.mark.parametrize(
    ("kind", "callback", "partitions", "words"),
    [
        ("eager", REVOKED, "t0", "EAGER revokes all"),
        ("eager", ASSIGNED, "t2", "without a round before it"),
        ("cooperative", REVOKED, "", "revoked is called with nothing"),
        ("cooperative", REVOKED, "t2", "t-2 is not assigned"),
        ("cooperative", ASSIGNED, "t2", "without a round before it"),
        ("consumer", ASSIGNED, "t1 t2", "t-1 is assigned already"),
        ("consumer", LOST, "", "lost is called with nothing"),
        ("consumer", LOST, "t2", "t-2 is not assigned"),
    ],
)
def test_no_callback_comes_out_of_its_timeline(kind: str, callback: Callback, partitions: str, words: str) -> None:
    script, a = script_of(kind, "t0 t1")
    with breaks(CALLBACK_CONTRACT, f"a ({kind})", words):
        run(script, a, callback, partitions)


def test_callbacks_run_one_at_a_time() -> None:
    script, a = script_of("consumer", "t0")
    script.see.callback_began(a, REVOKED, of("t0"), "")
    with breaks(CALLBACK_CONTRACT, "begins while"):
        script.see.callback_began(a, ASSIGNED, of("t1"), "")


def test_no_round_is_joined_while_a_callback_runs() -> None:
    script, a = script_of("cooperative", "t0")
    script.see.callback_began(a, REVOKED, of("t0"), "")
    with breaks(CALLBACK_CONTRACT, "joins a round while"):
        script.see.asked(a, "JoinGroup", "")


def test_eager_joins_with_empty_hands() -> None:
    script, a = script_of("eager", "t0")
    with breaks(CALLBACK_CONTRACT, "joins a round with t-0 not revoked"):
        script.see.asked(a, "JoinGroup", "")


def test_records_come_after_assigned() -> None:
    script, a = script_of("consumer", "t0")
    script.see.callback_began(a, ASSIGNED, of("t1"), "")
    with breaks(CALLBACK_CONTRACT, "hands out t-1@0"):
        script.see.delivered(a, TopicPartition("t", 1), 0, 5)


def test_a_member_that_closes_revokes_what_it_had() -> None:
    script, a = script_of("consumer", "t0")
    with breaks(CALLBACK_CONTRACT, "closed with t-0 neither revoked nor lost"):
        script.see.member_ended(a, "closed")


def test_what_a_witness_has_seen_breaks_it_too() -> None:
    script, a = script_of("consumer", "t0")
    with breaks(CALLBACK_CONTRACT, "a reconciliation revokes once"):
        script.see.contract_broken(a, "a reconciliation revokes once")
