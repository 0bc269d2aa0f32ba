"""How many partitions of each kind the members of each class share, where subscriptions differ.

A class is all members with equal subscriptions (and rack, and weight); a kind is all partitions that the same classes
may own (and with replicas on the same racks). Both are few where members and partitions are many, and inside a class
everything is even (`deal`), so balance is a question of flow between classes: it is best when no chain of moves
leads from a fuller member to one that is emptier by two. `level` finds such chains, the one that takes the fewest
partitions from their owners first, and ends when there is none. It counts its steps and stops at a bound that only a
pathological group can reach. `match_racks` then brings partitions near to their members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

Hop = tuple[int, int, int]
"""From one class a kind to another class."""

DONE = -1.0
"""The saving of a class from which nothing can be moved to advantage: less than any real one."""


class Shares:
    """The flow of partitions from kinds to classes; classes, kinds and sets of classes (bit masks) are numbers."""

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        eligible: Sequence[int],
        far: Sequence[int],
        supply: Sequence[int],
        owned: Sequence[dict[int, int]],
        loads: Sequence[Sequence[int]],
    ) -> None:
        self.assigned = [dict(counts) for counts in owned]
        self.steps = 0
        self.max_steps = 4 * (sum(supply) + len(sizes))
        self.sizes = sizes
        self._weights = weights
        self.eligible = eligible
        self.far = far
        self._supply = supply
        self._owned = owned
        self._fuller = [_counts_above(each) for each in loads]
        self.totals = [sum(counts.values()) for counts in owned]
        # The kinds of which a class has more than its members own: moving one of those costs no member a partition.
        self.free: list[dict[int, None]] = [{} for _ in sizes]
        self._saving = [0.0] * len(sizes)
        self.cost = [0.0] * len(sizes)
        for member_class in range(len(sizes)):
            self._weigh(member_class)
        self._fair = sum(supply) / sum(size * weight for size, weight in zip(sizes, weights, strict=True))

    def share_out(self) -> list[dict[int, int]]:
        """Return how many of each kind each class gets."""
        self._fill()
        self._level()
        return self.assigned

    # Loads

    def saving_at(self, member_class: int, total: int) -> float:
        """Return how much the sum of the squared loads falls when the fullest member gives one partition up."""
        return (2 * -(-total // self.sizes[member_class]) - 1) / self._weights[member_class]

    def _cost_at(self, member_class: int, total: int) -> float:
        """Return how much it grows when the emptiest member takes one more."""
        return (2 * (total // self.sizes[member_class]) + 1) / self._weights[member_class]

    def _weigh(self, member_class: int) -> None:
        total = self.totals[member_class]
        self._saving[member_class] = self.saving_at(member_class, total)
        self.cost[member_class] = self._cost_at(member_class, total)

    def _even_share(self, member_class: int) -> int:
        return int(self._fair * self.sizes[member_class] * self._weights[member_class])

    def _spared(self, member_class: int) -> int:
        """Return how many more partitions the class can take and each spare a member from giving one up.

        A member that owns more than its even share has one more of them when the class gets one more.
        """
        share, extras = divmod(self.totals[member_class], self.sizes[member_class])
        fuller = self._fuller[member_class]
        return max(0, fuller[share] - extras) if share < len(fuller) else 0

    def _add(self, member_class: int, kind: int, amount: int) -> None:
        assigned = self.assigned[member_class]
        assigned[kind] = assigned.get(kind, 0) + amount
        if self.spare(member_class, kind) > 0:
            self.free[member_class][kind] = None
        else:
            self.free[member_class].pop(kind, None)
        if not assigned[kind]:
            del assigned[kind]

    def move(self, path: Sequence[Hop], amount: int) -> None:
        """Move that many partitions along each hop of a path."""
        for giver, kind, taker in path:
            self._add(giver, kind, -amount)
            self._add(taker, kind, amount)
            self.totals[giver] -= amount
            self.totals[taker] += amount
        for giver, _, taker in path:
            self._weigh(giver)
            self._weigh(taker)

    # What no member owns goes to the emptiest

    def _fill(self) -> None:
        placed = [0] * len(self._supply)
        for counts in self._owned:
            for kind, count in counts.items():
                placed[kind] += count
        # Kinds that few may take come first.
        order = sorted(range(len(placed)), key=lambda kind: self.eligible[kind].bit_count())
        for kind in order:
            if left := self._supply[kind] - placed[kind]:
                self._fill_kind(kind, left)

    def _fill_kind(self, kind: int, left: int) -> None:
        far = self.far[kind]

        def rank(taker: int) -> tuple[float, int, int, int]:
            return self.cost[taker], far >> taker & 1, -self._spared(taker), taker

        emptiest = [rank(each) for each in bits(self.eligible[kind])]
        heapify(emptiest)
        while left:
            _, _, spared, taker = heappop(emptiest)
            # As many as there are members at its lowest load: one each.
            size = self.sizes[taker]
            most = -spared or size - self.totals[taker] % size
            amount = min(left, most) if emptiest else left
            left -= amount
            self._add(taker, kind, amount)
            self.totals[taker] += amount
            self._weigh(taker)
            heappush(emptiest, rank(taker))

    # Chains from the fullest to the emptiest

    def _level(self) -> None:
        finished = 0
        while self.steps < self.max_steps:
            highest = max(self._saving)
            if highest <= DONE or highest <= min(self.cost):
                return
            givers = [each for each, saving in enumerate(self._saving) if saving == highest]
            came: dict[int, Hop | None] = dict.fromkeys(givers)
            path = (
                self._search(dict(came), highest, finished, is_free=True)
                or self._direct(givers, highest)
                or self._search(came, highest, finished)
            )
            if path:
                self._follow(path)
                continue
            # None of these can give to anyone emptier, now or later: what they may reach is as full as they are.
            for each in came:
                finished |= 1 << each
                self._saving[each] = DONE

    def _direct(self, givers: Sequence[int], highest: float) -> list[Hop]:
        """Return a hop to a class that is emptier, the emptiest that one of the givers can give to, or none."""
        self.steps += 1
        emptier = 0
        for each, cost in enumerate(self.cost):
            if cost < highest:
                emptier |= 1 << each
        for giver in givers:
            open_to = 0
            for kind in self.assigned[giver]:
                open_to |= self.eligible[kind]
            if open_to & emptier:
                came: dict[int, Hop | None] = {giver: None}
                return self._search(came, highest, ~emptier)
        return []

    def _follow(self, path: Sequence[Hop]) -> None:
        """Move along a path what is a gain; between two neighbours, kind after kind."""
        giver, first, taker = path[0][0], path[0][1], path[-1][2]
        most = self._gain(giver, taker)
        is_free = self.spare(giver, first) > 0
        moved = min(most, self.room(path))
        self.move(path, moved)
        if len(path) > 1:
            return
        for kind in list(self.assigned[giver]):
            if moved == most:
                return
            if self.eligible[kind] >> taker & 1 and (self.spare(giver, kind) > 0) == is_free:
                hop = [(giver, kind, taker)]
                amount = min(most - moved, self.room(hop))
                self.move(hop, amount)
                moved += amount

    def _gain(self, giver: int, taker: int) -> int:
        """Return how many partitions to move from one class to another: as long as each of them is a gain."""
        low, high = 1, self.totals[giver]
        # Neither is brought across the average: others may be fuller or emptier.
        for surplus in (high - self._even_share(giver), self._even_share(taker) - self.totals[taker]):
            if surplus > 0:
                high = min(high, surplus)
        while low < high:
            middle = (low + high + 1) // 2
            saving = self.saving_at(giver, self.totals[giver] - middle + 1)
            if saving > self._cost_at(taker, self.totals[taker] + middle - 1):
                low = middle
            else:
                high = middle - 1
        return low

    def room(self, path: Sequence[Hop]) -> int:
        """Return how many partitions can go along a path at what its first one costs."""
        amounts = []
        for giver, kind, _ in path:
            spare = self.spare(giver, kind)
            amounts.append(spare if spare > 0 else self.assigned[giver][kind])
        return min(amounts)

    def spare(self, member_class: int, kind: int) -> int:
        """Return how many partitions of the kind the class has beyond those that its members own already."""
        return self.assigned[member_class].get(kind, 0) - self._owned[member_class].get(kind, 0)

    def _search(
        self,
        came: dict[int, Hop | None],
        limit: float,
        visited: int = 0,
        *,
        is_free: bool = False,
    ) -> list[Hop]:
        """Return the hops to the best taker, or none. `came` has where from, and grows by all that can be reached.

        A taker has room for less than `limit`. The best one takes the fewest partitions from their owners, and is the
        emptiest of those. With `is_free`, no hop takes a partition from an owner.
        """
        seen: set[int] = set()
        nearest = list(came)
        for each in nearest:
            visited |= 1 << each

        def follow(giver: int, kind: int, into: list[int]) -> None:
            nonlocal visited
            allowed = self.eligible[kind]
            for taker in bits(allowed & ~visited):
                came[taker] = (giver, kind, taker)
                into.append(taker)
            visited |= allowed

        while nearest:
            later: dict[int, int] = {}
            for giver in nearest:  # which grows on the way
                free = self.free[giver]
                for kind in free if is_free else self.assigned[giver]:
                    if kind in seen:
                        continue
                    if kind in free:
                        seen.add(kind)
                        follow(giver, kind, nearest)
                    else:
                        later.setdefault(kind, giver)  # one giver of a kind is as good as another
            found = [each for each in nearest if self.cost[each] < limit]
            if found:
                return _path(came, min(found, key=lambda each: (self.cost[each], -self._spared(each), each)))
            nearest = []
            for kind, giver in later.items():
                if kind not in seen:
                    seen.add(kind)
                    follow(giver, kind, nearest)
        return []


def _path(came: dict[int, Hop | None], end: int) -> list[Hop]:
    path: list[Hop] = []
    hop = came[end]
    while hop is not None:
        path.append(hop)
        hop = came[hop[0]]
    return path[::-1]


def _counts_above(loads: Sequence[int]) -> list[int]:
    """Return for each load, from 0 to the highest, how many of `loads` are above it."""
    found = [0] * max(loads, default=0)
    for load in loads:
        if load:
            found[load - 1] += 1
    for load in range(len(found) - 2, -1, -1):
        found[load] += found[load + 1]
    return found


def bits(mask: int) -> Iterator[int]:
    """Return the numbers in a bit mask."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


JUMP = -1
"""The kind of a hop that moves no partition: the load itself goes the other way."""


def match_racks(shares: Shares) -> None:
    """Move partitions near to their classes without changing the loads (KIP-881), until no more can or steps run out.

    A partition that is far from its class goes to one that is near, and a chain of moves leads back: no hop takes
    another partition away from its racks, and it ends where the first began. On the way it may leave out one hop: from
    a class that can take one more at no cost to a class that can give one up for as much.
    """
    # What one circle moves may open the way for one that was looked for before.
    while _match(shares):
        pass


def _match(shares: Shares) -> bool:
    """Follow every circle that can be found from each class in turn; return whether there was one."""
    has_moved = False
    for home, assigned in enumerate(shares.assigned):
        for kind in sorted(assigned):
            if shares.far[kind] >> home & 1:
                while assigned.get(kind) and shares.steps < shares.max_steps:
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
            for kind in shares.assigned[giver]:
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
    return _circle_path(came, home) if home in came else []


def _near_enough(shares: Shares, giver: int, kind: int) -> int:
    """Return who may take a kind from a class: anyone if it is far from that one, else those near to it."""
    return shares.eligible[kind] if shares.far[kind] >> giver & 1 else shares.eligible[kind] & ~shares.far[kind]


def _able_to_give(shares: Shares, cost: float) -> int:
    """Return the classes in which giving one up saves as much as one more costs elsewhere."""
    return sum(1 << each for each, total in enumerate(shares.totals) if shares.saving_at(each, total) >= cost)


def _circle_path(came: dict[int, Hop], home: int) -> list[Hop]:
    path = [came[home]]
    while path[-1][0] != home:
        path.append(came[path[-1][0]])
    return path[::-1]
