"""Expected counts that keep a budget, however they are rounded: the search for the best table.

Counts are drawn as expected counts rounded up or down. If those could cost more than the budget,
the best table is searched for whose counts cannot.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

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
#: or after so many tables, or after tables of so many units in all.
TABLES = 100
WORK = 500_000


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

    @property
    def mixed(self) -> bool:
        """Whether fractional counts can be better than the whole ones that they are mixtures of."""
        bounds = self.task.bounds
        limits = np.append(bounds.least, bounds.most[np.isfinite(bounds.most)])
        return bool(
            len(self.task.floor)
            or bounds.budget < bounds.surely
            or (limits != np.rint(limits)).any()
        )

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

    def cheapest(self) -> list[int]:
        """Return the cheapest counts within the limits, in multiples of 2^-52."""
        return [round(count * ONE) for count in self._cheapest(self.task.bounds).tolist()]

    def _cheapest(self, bounds: Bounds) -> Floats:
        rest, may = self.task.rest(bounds)
        return cheapest_counts(rest, may, self.task.weights) + self.task.given

    def best_whole(self) -> Node:
        """Return the best table of whole counts, by branch and bound on the expected ones."""
        best = self.whole_counts(self.start)
        queue, made = [(-self.start.value, 0, self.start)] if self.tables else [], 0
        while queue and made < self.tables:
            _, _, node = heappop(queue)
            if node.value <= best.value + self.gap:
                break
            for bounds in self._branches(node):
                made += 1
                child = self.tried(bounds)
                if child is None:
                    continue
                if child.sure:
                    best = better(best, child)
                elif child.value > best.value + self.gap:
                    heappush(queue, (-child.value, made, child))
                    # Actions of one cost can be exchanged: many nodes then have nearly one value.
                    made += 1
                    best = self._rounded(child, best)
        return best

    def _rounded(self, node: Node, best: Node) -> Node:
        """Return the better one of the best table and a node's table with whole counts."""
        with suppress(InvalidArgumentError):
            found = self.whole_counts(node)
            return better(best, found) if found.sure else best
        return best

    def _branches(self, node: Node) -> list[Bounds]:
        """Return limits that exclude the node's counts but no better whole ones.

        The dearest count that is a fraction is at most its floor or at least its ceiling.
        """
        uneven = [action for action, total in enumerate(node.totals) if total % ONE]
        if not uneven:
            return []
        action = max(uneven, key=lambda a: float(self.task.bounds.costs[a]))
        low = node.totals[action] // ONE
        return [node.bounds.of(action, -np.inf, low), node.bounds.of(action, low + 1, np.inf)]
