"""Expected counts that keep a budget, however they are rounded: the search for the best table.

Counts are drawn as expected counts rounded up or down. If those could cost more than the budget,
the best table is searched for whose counts cannot.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from seqbatch.allocation.count_programme import CountProgramme
from seqbatch.allocation.limits import SLACK, Bounds, cheapest_counts
from seqbatch.allocation.transport import Ceiling, Transport
from seqbatch.allocation.whole_table import NEAR, ONE, sums
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# What counts cost, and the best table within some limits on them.


def sure_cost(totals: list[int], costs: Floats) -> float:
    """Return the highest possible cost when column sums are rounded up or down.

    The fractions of the column sums add up to an integer: this many counts are rounded up.
    """
    certain = sum(total // ONE * float(cost) for total, cost in zip(totals, costs, strict=True))
    uneven = [
        float(cost) for total, cost in zip(totals, costs, strict=True) if total % ONE
    ]  # fmt: skip
    up = sum(total % ONE for total in totals) // ONE
    return certain + sum(sorted(uneven, reverse=True)[:up])


def expected_cost(totals: list[int], costs: Floats) -> float:
    """Return the cost of these column sums."""
    return sum(total / ONE * float(cost) for total, cost in zip(totals, costs, strict=True))


@dataclass(frozen=True, eq=False)
class Node:
    """The best table within some limits on counts.

    Parameters
    ----------
    task, bounds
        The problem, and the limits.
    whole, point
        The table in multiples of 2^-52, and its prices.
    """

    task: Transport
    bounds: Bounds
    whole: Integers
    point: Floats

    @cached_property
    def totals(self) -> list[int]:
        """The column sums, in multiples of 2^-52."""
        return sums(self.whole)

    @cached_property
    def value(self) -> float:
        """What the table is worth."""
        return self.task.value(self.whole)

    @cached_property
    def sure(self) -> bool:
        """Whether its counts keep within the budget, however they are rounded."""
        asked = self.task.bounds
        sure = sure_cost(self.totals, asked.costs) <= asked.surely * (1 + SLACK)
        return sure and expected_cost(self.totals, asked.costs) <= asked.budget * (1 + NEAR)

    @property
    def ceiling(self) -> Ceiling:
        """The upper bound of all tables that its prices imply."""
        return self.task.ceiling(self.point, self.bounds)


def better(one: Node | None, other: Node) -> Node:
    """Return the table of higher value, the first one if they are equal."""
    return one if one is not None and one.value >= other.value else other


# ----------------------------------------------------------------------
# The search: whole counts first, which are good enough in most large waves.


#: The search ends when at most this part of the gain over the cheapest actions can be missing,
GAP = 5e-3
#: or after so many tables, or after tables of so many units in all,
TABLES = 100
WORK = 500_000
#: but not before so many of them if none keeps the budget.
FEWEST = 10
#: Counts are searched for within so many units of the expected ones, rounded.
REACHES = (2.0, np.inf)


@dataclass(frozen=True)
class Search:
    """The search for the best table whose counts keep the budget, however they are rounded."""

    task: Transport

    @cached_property
    def start(self) -> Node:
        """The best table whose counts keep the budget on average."""
        return self.node(self.task.bounds)

    @cached_property
    def gap(self) -> float:
        """How much value may be missing when the search ends."""
        value = self.start.value
        return GAP * max(value - self.task.least_value(value), 0.0)

    @property
    def tables(self) -> int:
        """How many tables the search may try."""
        return min(WORK // len(self.task.table), TABLES)

    def node(self, bounds: Bounds, *, near: Floats | None = None) -> Node:
        """Return the best table within limits; `near` are prices for nearly the same ones."""
        return Node(self.task, bounds, *self.task.within(bounds, near=near))

    def tried(self, bounds: Bounds) -> Node | None:
        """Return the best table within limits; None if there is no table."""
        try:
            return self.node(bounds)
        except InvalidArgumentError:
            return None

    def whole_counts(self, start: Node) -> Node:
        """Return the best table whose counts are the expected ones, rounded at least cost.

        With integer limits, fractional column sums are a mixture of integer ones; some rounding of
        them therefore costs no more than they do.
        """
        asked = self.task.bounds
        exact = np.array([total / ONE for total in start.totals])
        low, high = np.floor(exact + SLACK), np.ceil(exact - SLACK)
        counts = self._cheapest(asked.between(low, high))
        found = np.rint(counts)
        if (np.abs(found - counts) > 1e-3).any():
            raise InvalidArgumentError(
                "budget",
                "enough for whole counts between the expected ones rounded down and up",
                f"{asked.surely:g} and expected counts {exact.round(2).tolist()}",
                "Raise the budget or lower the floor.",
            )
        least, most = found.copy(), found.copy()
        # The last count follows from the others; a limit on it would leave prices undetermined.
        last = found.argmax()
        least[last], most[last] = 0, np.inf
        near = start.point[:-1] + start.point[-1] * asked.costs
        # Only differences of prices matter, and the action without a limit has price 0.
        near -= near[last]
        return self.node(replace(asked, least=least, most=most, budget=np.inf), near=near)

    def _cheapest(self, bounds: Bounds) -> Floats:
        rest, may = self.task.rest(bounds)
        return cheapest_counts(rest, may, self.task.weights) + self.task.given

    def best(self) -> Node:
        """Return the best table found whose counts are sure; limits that none keeps are refused."""
        best = self._rounded()
        if best is None or (self.tables and self.start.value > best.value + self.gap):
            best = self._searched(best)
        if best is None:
            raise InvalidArgumentError(
                "budget",
                "enough for counts that are rounded up or down, whatever is drawn",
                f"{self.task.bounds.surely:g} and expected counts of "
                f"{[round(total / ONE, 2) for total in self.start.totals]}",
                "Raise the budget or lower the floor.",
            )
        return best

    def _rounded(self) -> Node | None:
        """Return the table of whole counts near the expected ones, if it keeps the budget."""
        with suppress(InvalidArgumentError):
            node = self.whole_counts(self.start)
            return node if node.sure else None
        return None

    def _searched(self, best: Node | None) -> Node | None:
        """Return the best table, by the programme of counts.

        Each table that is tried gives the programme another ceiling. Far from the tables that were
        tried, ceilings are much too high: the search therefore starts near the expected counts.
        """
        counts = np.array([total / ONE for total in self.start.totals])
        programme = CountProgramme(self.task, counts, [self.start.ceiling])
        if best is not None:
            programme.ceilings.append(best.ceiling)
        tried = set[bytes]()
        for reach in REACHES:
            best = self._within_reach(reach, programme, tried, best)
        return best

    def _within_reach(
        self, reach: float, programme: CountProgramme, tried: set[bytes], best: Node | None
    ) -> Node | None:
        """Return the best table; end when no counts in reach may be worth more than it."""
        queue = [(-np.inf, cost) for cost in np.unique(self.task.bounds.costs).tolist()]
        while queue and programme.left > 0 and len(tried) < max(self.tables, FEWEST):
            worth, cost = heappop(queue)
            if best is not None and -worth <= best.value + self.gap:
                break
            found = programme.best(cost, reach)
            if found is None or (key := found[1].tobytes()) in tried:
                continue
            tried.add(key)
            node = self.tried(programme.limits(found[1]))
            if node is not None:
                programme.ceilings.append(node.ceiling)
                best = better(best, node) if node.sure else best
            heappush(queue, (-found[0], cost))
        return best
