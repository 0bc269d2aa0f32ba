"""Groups that consume nothing, on any broker: protocols and metadata of the program's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS, scenario

from kohort.client import (
    Admin,
    CooperativeProtocol,
    EagerProtocol,
    GroupMember,
    JsonCodec,
    MemberMetadata,
    share_evenly,
)
from kohort.model.errors import ErrorCode, KafkaError

TENANTS = [f"tenant {number}" for number in range(64)]


class Owners:
    """Which member has which name, by what the members' callbacks report; two at once are a failure."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.given_up: set[str] = set()

    def member(
        self, bootstrap: str, group_id: str, member: str, names: Iterable[str] = TENANTS, **more: Any
    ) -> GroupMember:
        def assigned(added: frozenset[str]) -> None:
            taken = {name: self.of[name] for name in added if name in self.of}
            assert not taken, f"{member} is given what others have: {taken}"
            self.of |= dict.fromkeys(added, member)

        def revoked(gone: frozenset[str]) -> None:
            assert {self.of.pop(name) for name in gone} == {member}
            self.given_up |= gone

        return GroupMember(
            bootstrap,
            group_id=group_id,
            protocol_type="tenants",
            protocols=CooperativeProtocol(name="v1", assign=share_evenly(names)),
            heartbeat_interval_ms=100,
            on_assigned=assigned,
            on_revoked=revoked,
            **more,
        )


async def _have(members: Sequence[GroupMember], counts: Sequence[int]) -> None:
    for member in members:
        await member.wait_for(
            lambda: (
                all(each.is_stable for each in members)
                and sorted(len(each.assignment) for each in members) == sorted(counts)
            ),
            timeout_ms=PATIENCE_MS,
        )


@scenario
async def names_move_to_a_new_member_while_their_owners_go_on_with_the_rest(bootstrap: str, name: str) -> None:
    owners = Owners()
    async with owners.member(bootstrap, name, "a") as first:
        assert await first.joined(timeout_ms=PATIENCE_MS) == frozenset(TENANTS)
        async with owners.member(bootstrap, name, "b") as second:
            await _have([first, second], [32, 32])
            assert len(owners.given_up) == 32, "what a member keeps it never gives up"
            assert set(owners.of) == set(TENANTS)
        await _have([first], [64])
    assert not owners.of


@scenario
async def a_name_that_no_member_shares_out_any_more_is_given_up(bootstrap: str, name: str) -> None:
    owners, names = Owners(), list(TENANTS)
    async with owners.member(bootstrap, name, "a", names) as member:
        await member.joined(timeout_ms=PATIENCE_MS)
        names.remove("tenant 7")
        member.rejoin("a tenant has gone")
        await _have([member], [63])
        assert owners.given_up == {"tenant 7"}


@scenario
async def a_static_member_that_returns_has_its_names_without_a_round(bootstrap: str, name: str) -> None:
    owners = Owners()
    async with owners.member(bootstrap, name, "a") as first:
        second = owners.member(bootstrap, name, "b", group_instance_id="b")
        await second.start()
        await _have([first, second], [32, 32])
        before = second.assignment, first.generation
        await second.stop()
        async with owners.member(bootstrap, name, "b", group_instance_id="b") as back:
            assert await back.joined(timeout_ms=PATIENCE_MS) == before[0]
            assert first.generation == before[1]


def _elect(members: Sequence[MemberMetadata[Mapping[str, Any]]]) -> dict[str, Any]:
    """The member of the lowest rank leads."""
    leader = min(members, key=lambda member: member.metadata["rank"])
    return {member.member_id: leader.metadata["host"] for member in members}


def _candidate(bootstrap: str, group_id: str, host: str, rank: int, **more: Any) -> GroupMember:
    protocol = EagerProtocol(name="lowest-rank", assign=_elect, codec=JsonCodec(), assignment_codec=JsonCodec())
    return GroupMember(
        bootstrap,
        group_id=group_id,
        protocol_type="election",
        protocols=more.pop("protocols", protocol),
        metadata={"host": host, "rank": rank},
        heartbeat_interval_ms=100,
        **more,
    )


@scenario
async def an_elected_leader_gives_up_before_the_next_one_is_known(bootstrap: str, name: str) -> None:
    seen: list[str] = []
    told = {
        "on_assigned": lambda leader: seen.append(f"+{leader}"),
        "on_revoked": lambda leader: seen.append(f"-{leader}"),
    }
    async with _candidate(bootstrap, name, "a", 2, **told) as first:
        assert await first.joined(timeout_ms=PATIENCE_MS) == "a"
        async with _candidate(bootstrap, name, "b", 1) as second:
            await first.wait_for(lambda: first.assignment == "b", timeout_ms=PATIENCE_MS)
            assert seen == ["+a", "-a", "+b"]
            assert await second.joined(timeout_ms=PATIENCE_MS) == "b"
            assert (first.generation, first.is_leader) == (second.generation, not second.is_leader)
            generation = first.generation
            second.update({"host": "b", "rank": 3})
            await first.wait_for(lambda: first.assignment == "a", timeout_ms=PATIENCE_MS)
            assert first.generation > generation, "what the former leader still does is fenced"
            assert 0 < first.session_left_ms <= 45_000
    assert first.session_left_ms == 0


@scenario
async def a_new_protocol_is_used_once_all_members_offer_it(bootstrap: str, name: str) -> None:
    def protocol(name: str, value: bytes) -> EagerProtocol[bytes, bytes]:
        return EagerProtocol(name=name, assign=lambda members: {each.member_id: value for each in members})

    old, new = protocol("v1", b"old"), protocol("v2", b"new")
    settings: dict[str, Any] = {"group_id": name, "protocol_type": "upgrade", "heartbeat_interval_ms": 100}
    async with GroupMember(bootstrap, protocols=[new, old], metadata=b"m", **settings) as upgraded:
        async with GroupMember(bootstrap, protocols=old, **settings) as other:
            await upgraded.wait_for(lambda: upgraded.assignment == b"old", timeout_ms=PATIENCE_MS)
            assert await other.joined(timeout_ms=PATIENCE_MS) == b"old"
        await upgraded.wait_for(lambda: upgraded.assignment == b"new", timeout_ms=PATIENCE_MS)
        assert upgraded.protocol_name == "v2"
        async with Admin(bootstrap) as admin:
            [listed] = [each for each in await admin.list_groups() if each.group_id == name]
        assert listed.protocol_type == "upgrade"
        with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL") as refused:
            async with GroupMember(bootstrap, protocols=old, **settings | {"protocol_type": "another"}) as stranger:
                await stranger.joined(timeout_ms=PATIENCE_MS)
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@scenario
async def a_leader_that_cannot_assign_says_why(bootstrap: str, name: str) -> None:
    def failing(members: Sequence[MemberMetadata[bytes]]) -> dict[str, bytes]:
        raise RuntimeError(f"no plan for {len(members)}")

    protocol = EagerProtocol(name="v1", assign=failing)
    async with GroupMember(bootstrap, group_id=name, protocol_type="failing", protocols=protocol) as member:
        with pytest.raises(KafkaError, match="no plan for 1"):
            await member.joined(timeout_ms=PATIENCE_MS)


@scenario
async def a_round_waits_for_a_callback(bootstrap: str, name: str) -> None:
    may_go, seen = asyncio.Event(), list[str]()

    async def revoked(leader: str) -> None:
        await may_go.wait()
        seen.append(f"{leader} has stopped")

    async with _candidate(bootstrap, name, "a", 2, on_revoked=revoked) as first:
        await first.joined(timeout_ms=PATIENCE_MS)
        async with _candidate(
            bootstrap, name, "b", 1, on_assigned=lambda leader: seen.append(f"{leader} starts")
        ) as second:
            await first.wait_for(lambda: not first.is_stable, timeout_ms=PATIENCE_MS)
            may_go.set()
            await second.joined(timeout_ms=PATIENCE_MS)
    assert seen[:2] == ["a has stopped", "b starts"]
