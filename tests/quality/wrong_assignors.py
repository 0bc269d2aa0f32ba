"""Sticky assignors as they were when they believed too much, too little, or never came to an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.quality.replacing import replaced

from kohort.assign import sticky_engine as claims_module
from kohort.assign.shares import Hop, Shares, bits
from kohort.assign.spec import RebalanceProtocol
from kohort.assign.sticky_engine import Claims, Layout, Owned, Slots
from kohort.member.classic_member import ClassicMember

Mutation = AbstractContextManager[None]
Topics = Callable[[int], Sequence[str]]


@contextmanager
def kafka_12984() -> Iterator[None]:
    """A member that fell out of its group goes on claiming what it owned, and the leader believes every claim."""
    right_prepare = ClassicMember._prepare

    def read_claims(
        owned: list[Owned], slots_of: Sequence[Slots], _layout: Layout, _generation: Callable[[int], int], _of: Topics
    ) -> Claims:
        kept: list[Owned] = [
            [claim for claim in dict.fromkeys(claims) if claim.partition in slots.get(claim.topic, ())]
            for claims, slots in zip(owned, slots_of, strict=True)
        ]
        numbers = {
            slots[claim.topic][claim.partition]
            for claims, slots in zip(kept, slots_of, strict=True)
            for claim in claims
        }
        return Claims(kept, numbers)

    def prepare(member: ClassicMember) -> None:
        if member.owned and not member.identity.is_valid and member.protocol is RebalanceProtocol.COOPERATIVE:
            member.is_prepared = True
            member._join()
        else:
            right_prepare(member)

    with ExitStack() as mutations:
        mutations.enter_context(replaced(claims_module, "read_claims", read_claims))
        mutations.enter_context(replaced(ClassicMember, "_prepare", prepare))
        yield


def kafka_14639() -> Mutation:
    """A member behind the newest generation owns nothing, even where no other member claims its partitions."""
    right = claims_module.read_claims

    def read_claims(
        owned: list[Owned], slots_of: Sequence[Slots], layout: Layout, generation_of: Callable[[int], int], of: Topics
    ) -> Claims:
        generations = [generation_of(at) for at in range(len(owned))]
        newest = max(generations, default=-1)
        newest_claims = [claims if at == newest else () for claims, at in zip(owned, generations, strict=True)]
        return right(list(newest_claims), slots_of, layout, generation_of, of)

    return replaced(claims_module, "read_claims", read_claims)


def librdkafka_4783() -> Mutation:
    """With fewer partitions than members a move that gains nothing is made, and its reverse, and so on for ever."""
    right = Shares._level

    def level(shares: Shares) -> None:
        if sum(shares._supply) < sum(shares.sizes):
            while hop := _move_without_loss(shares):
                shares.move([hop], 1)
        right(shares)

    return replaced(Shares, "_level", level)


def _move_without_loss(shares: Shares) -> Hop | None:
    for giver, held in enumerate(shares.assigned):
        for kind in held:
            for taker in bits(shares.eligible[kind] & ~(1 << giver)):
                if shares.cost[taker] <= shares._saving[giver]:
                    return giver, kind, taker
    return None
