"""The search for the best table if counts that are fractions can be better than whole ones.

With a floor, counts may be unable to be whole: a dear action has to be given 0.4 times, say. The
budget must then hold in the draws in which it is given once.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from seqbatch.allocation.limits import SLACK, Bounds
from seqbatch.allocation.sure_counts import Node, Search, better, expected_cost
from seqbatch.allocation.sure_roundings import SureRoundings
from seqbatch.allocation.transport import Ceiling
from seqbatch.allocation.whole_table import NEAR, ONE
from seqbatch.errors import InvalidArgumentError

#: If no table is known yet, so many roundings of the cheapest counts are tried at least.
FEWEST = 10


@dataclass(frozen=True, eq=False)
class Region:
    """Counts among which the best are still to be found.

    The dearest actions are decided: each has a fixed whole number of units, or a fraction between
    two whole numbers.

    Parameters
    ----------
    bounds
        The limits on counts.
    decided
        How many actions are decided.
    fractions
        Those of them whose counts are fractions.
    up
        The sum of the fractions' parts beyond whole numbers, rounded up.
    """

    bounds: Bounds
    decided: int = 0
    fractions: frozenset[int] = frozenset()
    up: int = 0

    @property
    def complete(self) -> bool:
        """Whether all actions are decided."""
        return self.decided == len(self.bounds.costs)

    @property
    def empty(self) -> bool:
        """Whether limits contradict each other."""
        return bool((self.bounds.least > self.bounds.most).any())

    def parts(self, totals: list[int]) -> Iterator["Region"]:
        """Yield the parts of the region, by the count of the dearest undecided action.

        It is below the whole numbers next to the given count, above them, or decided.
        """
        action, done = self._dearest, self.decided + 1
        whole, fraction = divmod(totals[action], ONE)
        low, high = (whole, whole + 1) if fraction else (whole - 1, whole + 1)
        yield replace(self, bounds=self.bounds.of(action, -np.inf, low))
        yield replace(self, bounds=self.bounds.of(action, high, np.inf))
        for start in range(low, high):
            between, some = self.bounds.of(action, start, start + 1), self.fractions | {action}
            for up in {max(self.up, 1), self.up + 1}:
                yield Region(between, done, some, up)._with_reserve()
        if not fraction:
            fixed = Region(self.bounds.of(action, whole, whole), done, self.fractions, self.up)
            yield fixed._with_reserve() if self.fractions else fixed

    @property
    def _dearest(self) -> int:
        """The dearest undecided action."""
        return int(np.argsort(-self.bounds.costs, kind="stable")[self.decided])

    def _with_reserve(self) -> "Region":
        """Return the region with a budget that leaves enough for fractions that are rounded up.

        If the fractions add up to at most `up`, this many at least are rounded up in a draw: in
        the worst one the dearest. The undecided actions make up for them, and cost no more than
        the dearest of them.
        """
        bounds, costs = self.bounds, self.bounds.costs
        some = np.array(sorted(self.fractions), dtype=np.int64)
        next_cost = 0.0 if self.complete else float(costs[self._dearest])
        own, down = costs[some] - next_cost, np.floor(bounds.least[some] + SLACK)
        spent = down @ own + np.sort(own)[::-1][: self.up].sum()
        lowered, members = costs.copy(), np.zeros(len(costs))
        lowered[some], members[some] = next_cost, 1.0
        further = (
            (lowered, bounds.surely * (1 + SLACK) - spent),
            (members, float(down.sum() + self.up)),
        )
        return replace(self, bounds=replace(bounds, further=further))


def _keeps(totals: list[int], bounds: Bounds) -> bool:
    """Return whether counts are exactly within limits, and their cost within the budget."""
    limits = zip(totals, bounds.least.tolist(), bounds.most.tolist(), strict=True)
    inside = all(low * ONE <= total <= high * ONE for total, low, high in limits)
    return inside and all(
        expected_cost(totals, costs) <= budget * (1 + NEAR) for costs, budget in bounds.budgets
    )


class FractionSearch:
    """Branch and bound on expected counts that may be fractions.

    Regions of counts and sure roundings of their best counts wait in one queue. A region is worth
    what its best table is, and roundings what the ceilings of all tables so far allow.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self._queue: list[tuple[float, int, tuple[Region, Node] | SureRoundings]] = []
        self._numbers, self._made = count(), 0
        self._ceilings = list[Ceiling]()
        self._best: Node | None = None

    def best(self) -> Node:
        """Return the best table found; limits that none keeps are refused."""
        start = self._search.start
        with suppress(InvalidArgumentError):
            self._best = self._search.whole_counts(start)
        if self._best is None or (self._search.tables and not self._enough(start.value)):
            self._ceilings.append(start.ceiling)
            self._add(Region(start.bounds), start)
            self._try_cheapest()
            self._run()
        if self._best is None:
            raise InvalidArgumentError(
                "budget",
                "enough for counts that are rounded up or down, whatever is drawn",
                f"{start.bounds.surely:g} and expected counts of "
                f"{[round(total / ONE, 2) for total in start.totals]}",
                "Raise the budget or lower the floor.",
            )
        return self._best

    def _enough(self, worth: float) -> bool:
        """Return whether so much is hardly more than the best table is worth."""
        return self._best is not None and worth <= self._best.value + self._search.gap

    def _run(self) -> None:
        while self._queue and self._made < self._search.tables:
            worth, _, item = heappop(self._queue)
            if self._enough(-worth):
                break
            if isinstance(item, SureRoundings):
                worth = item.worth(self._ceilings)
                # The others may be better by now.
                self._try(item, 0 if self._queue and worth < -self._queue[0][0] else 1)
            else:
                self._part(*item)

    def _push(self, worth: float, item: tuple[Region, Node] | SureRoundings) -> None:
        over = isinstance(item, tuple) and item[0].complete
        if not over and not self._enough(worth):
            heappush(self._queue, (-worth, next(self._numbers), item))

    def _part(self, region: Region, node: Node) -> None:
        """Queue the parts of a region, each with its best table."""
        for part in region.parts(node.totals):
            if part.empty:
                continue
            if _keeps(node.totals, part.bounds):
                self._push(node.value, (part, node))
            elif (found := self._tried(part.bounds)) is not None:
                self._add(part, found)

    def _tried(self, bounds: Bounds) -> Node | None:
        self._made += 1
        node = self._search.tried(bounds)
        if node is not None:
            self._ceilings.append(node.ceiling)
            if node.sure:
                self._best = better(self._best, node)
        return node

    def _add(self, region: Region, node: Node) -> None:
        """Queue a region with its best table, and try the best rounding of that."""
        if not (node.sure or self._enough(node.value)):
            self._push(node.value, (region, node))
            self._try(SureRoundings(node.totals, node.bounds, self._search.task), 1)

    def _try(self, roundings: SureRoundings, most: int) -> None:
        """Try the roundings that may be best, until one has a table; queue the others."""
        for _ in range(most):
            if not len(roundings) or self._enough(roundings.worth(self._ceilings)):
                return
            node = self._tried(roundings.take())
            if node is not None and node.sure:
                break
        if len(roundings):
            self._push(roundings.worth(self._ceilings), roundings)

    def _try_cheapest(self) -> None:
        """If there is no table yet, try roundings of the cheapest counts until there is one."""
        if self._best is None:
            task = self._search.task
            found = SureRoundings(self._search.cheapest(), task.bounds, task)
            self._try(found, max(self._search.tables, FEWEST))
