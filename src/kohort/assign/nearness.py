"""Bring partitions near to their members without changing how even the loads are (KIP-881).

A partition that is far from its class goes to one that is near, and a chain of moves leads back: no hop takes another
partition away from its racks, and it ends where the first began. On the way it may leave out one hop: from a class
that can take one more at no cost to a class that can give one up for as much.
"""

from __future__ import annotations

from kohort.assign.shares import Hop, Shares, bits

JUMP = -1
"""The kind of a hop that moves no partition: the load itself goes the other way."""


def match_racks(shares: Shares) -> None:
    """Bring near what can be, until nothing more can or the steps are used up."""
    # What one circle moves may open the way for one that was looked for before.
    while _match(shares):
        pass


def _match(shares: Shares) -> bool:
    """Follow every circle that can be found from each class in turn; return whether there was one."""
    has_moved = False
    for home, held in enumerate(shares.held):
        for kind in sorted(held):
            if shares.far[kind] >> home & 1:
                while held.get(kind) and shares.steps < shares.max_steps:
                    path = _circle(shares, home, kind)
                    if not path:
                        break
                    hops = [hop for hop in path if hop[1] != JUMP]
                    shares.move(hops, shares.room(hops) if len(hops) == len(path) else 1)
                    has_moved = True
    return has_moved


def _circle(shares: Shares, home: int, first: int) -> list[Hop]:
    """Return hops that take a kind from `home` to a class near it and lead back to `home`, or none.

    Those that take no partition from an owner are tried before others.
    """
    shares.steps += 1
    near = shares.eligible[first] & ~shares.far[first]
    came: dict[int, Hop] = {taker: (home, first, taker) for taker in bits(near)}
    reached, jumped = near, 0
    givers_for: dict[float, int] = {}
    nearest, waiting = list(came), dict[int, tuple[int, int]]()
    seen: set[int] = set()

    def reach(giver: int, kind: int, allowed: int, into: list[int]) -> None:
        nonlocal reached, jumped
        new = allowed & ~reached
        for taker in bits(new):
            came[taker] = (giver, kind, taker)
            into.append(taker)
        reached |= new
        if kind == JUMP or jumped >> giver & 1:
            jumped |= new

    while nearest and home not in came:
        for giver in nearest:  # which grows on the way
            cost = shares.cost[giver]
            if not jumped >> giver & 1:
                if cost not in givers_for:
                    givers_for[cost] = _able_to_give(shares, cost)
                reach(giver, JUMP, givers_for[cost], nearest)
            for kind in shares.held[giver]:
                # One giver of a kind is as good as another that is as near to it.
                which = kind << 1 | shares.far[kind] >> giver & 1
                if which in seen:
                    continue
                if kind in shares.free[giver]:
                    seen.add(which)
                    reach(giver, kind, _near_enough(shares, giver, kind), nearest)
                else:
                    waiting.setdefault(which, (giver, kind))
        nearest, hops, waiting = [], waiting, {}
        for which, (giver, kind) in hops.items():
            if which not in seen:
                seen.add(which)
                reach(giver, kind, _near_enough(shares, giver, kind), nearest)
    return _path(came, home) if home in came else []


def _near_enough(shares: Shares, giver: int, kind: int) -> int:
    """Return who may take a kind from a class: anyone if it is far from that one, else whoever is near to it."""
    return shares.eligible[kind] if shares.far[kind] >> giver & 1 else shares.eligible[kind] & ~shares.far[kind]


def _able_to_give(shares: Shares, cost: float) -> int:
    """Return the classes in which giving one up saves as much as one more costs elsewhere."""
    return sum(1 << each for each, total in enumerate(shares.totals) if shares.saving_at(each, total) >= cost)


def _path(came: dict[int, Hop], home: int) -> list[Hop]:
    path = [came[home]]
    while path[-1][0] != home:
        path.append(came[path[-1][0]])
    return path[::-1]
