"""A policy's probabilities adjusted to limits on counts and cost, by prices or by tilting."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.allocation.limits import SLACK, Bounds, Limits, cheapest_counts, check_feasible
from seqbatch.allocation.prices import CERTAIN, Dual, cooled, settled
from seqbatch.allocation.rounding import as_floats, whole_parts
from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Exact column sums: cells are integer multiples of 2^-52, moved until all limits hold exactly.


ONE = 1 << 52
#: A unit gives up at most one part in this many of a cell, unless the others have no more to give.
PART = 1 << 12
#: Columns closer than this to a limit are moved onto it.
NEAR = 1e-6


def sums(whole: Integers) -> list[int]:
    """Return the column sums of an integer table, without overflow."""
    limbs = np.zeros((2, whole.shape[1]), dtype=np.int64)
    kernels.whole_sums(whole, limbs)
    return [(int(high) << 26) + int(low) for high, low in limbs.T]


class WholeTable:
    """An integer table whose column sums are moved into their limits.

    Parameters
    ----------
    whole
        The table, modified in place.
    floor
        The minimum of each cell, (n, K), or an empty array.
    eligible
        Which actions each unit may get.
    """

    def __init__(self, whole: Integers, floor: Floats, eligible: Bools) -> None:
        self.whole, self.floor, self.eligible = whole, floor, eligible
        self.sums = sums(whole)

    def repair(self, bounds: Bounds) -> bool:
        """Move excess mass out of columns and missing mass in; return whether all limits hold."""
        most = [int(limit * ONE) if np.isfinite(limit) else None for limit in bounds.most]
        least = [-int(-limit * ONE) for limit in bounds.least]
        held = self._settle(least, most)
        if held:
            # Columns that nearly reach a limit are moved onto it: their counts are then certain.
            tight = [self._tightened(a, least[a], most[a]) for a in range(len(least))]
            self._settle([low for low, _ in tight], [high for _, high in tight])
        return held

    def _tightened(self, action: int, low: int, high: int | None) -> tuple[int, int | None]:
        for limit in (low, high):
            if limit is not None and abs(self.sums[action] - limit) < NEAR * ONE:
                return limit, limit
        return low, high

    def _settle(self, least: list[int], most: list[int | None]) -> bool:
        held = True
        for action, (low, high) in enumerate(zip(least, most, strict=True)):
            while high is not None and self.sums[action] > high:
                room = [_room(most[a], self.sums[a]) for a in range(len(least))]
                if not self._send(action, self.sums[action] - high, room, forward=True):
                    held = False
                    break
            while self.sums[action] < low:
                spare = [max(self.sums[a] - least[a], 0) for a in range(len(least))]
                if not self._send(action, low - self.sums[action], spare, forward=False):
                    held = False
                    break
        return held

    def _send(self, action: int, amount: int, other: list[int], *, forward: bool) -> bool:
        """Move an amount from an action to others with room, or to it from others with spare."""
        for open_to in (np.empty((0, 0), dtype=np.bool_), self.eligible):
            found = np.zeros((len(other), len(other)), dtype=np.int64)
            kernels.movable(self.whole, self.floor, open_to, min(amount, ONE), found)
            path = _path(found if forward else found.T, action, lambda a: other[a] > 0)
            if path is None:
                continue
            steps = list(pairwise(path))
            if not forward:
                steps = [(b, a) for a, b in steps]
            available = min(int(found[a, b]) for a, b in steps)
            self._along(steps, min(amount, available, other[path[-1]]), open_to)
            return True
        return False

    def _along(self, steps: list[tuple[int, int]], amount: int, open_to: Bools) -> None:
        for origin, target in reversed(steps):
            left = amount
            for part in (PART, 1):
                left = kernels.move(
                    self.whole, self.floor, open_to, origin, target, left, part
                )  # fmt: skip
            self.sums[origin] -= amount - left
            self.sums[target] += amount - left


def _room(most: int | None, total: int) -> int:
    return 1 << 100 if most is None else max(most - total, 0)


def _path(found: Integers, start: int, ends: Callable[[int], bool]) -> list[int] | None:
    """Return the shortest path from an action to one that satisfies `ends`."""
    ways, seen = [[start]], {start}
    for way in ways:
        for following in np.flatnonzero(found[way[-1]] > 0).tolist():
            if following in seen:
                continue
            if ends(following):
                return [*way, following]
            seen.add(following)
            ways.append([*way, following])
    return None


# ----------------------------------------------------------------------
# Soft solutions: the best assignment by prices, or the nearest table to given probabilities.


#: The last temperature, relative to the median spread of a unit's scores: per unit, at most this
#: much times log K is lost compared with the best value.
COLD = 1e-9
COOLING = 5.0
#: The number of units from which the first prices are computed.
SAMPLE = 20_000
#: The value given to cells of probability 0 if the limits cannot be met without them.
SMALL = 1e-6

# The search for counts that keep a budget when they are rounded.
#: It ends when at most this part of the gain over the cheapest actions can be missing,
GAP = 5e-3
#: or after so many tables, or after tables of so many units in all.
TABLES = 100
WORK = 500_000
#: How often the expected cost is halved towards the cheapest one.
HALVINGS = 6


def pricing(
    scores: Floats, weights: Floats, may: Bools, bounds: Bounds, *, near: Floats | None = None
) -> tuple[Floats, Dual]:
    """Return the prices of the transportation problem, and the dual at the last temperature.

    `near` are prices that were optimal for nearly the same limits.
    """
    # Only differences within a row matter; shifting the largest to 0 preserves their precision.
    known = np.where(may, scores, -np.inf)
    known -= known.max(axis=1, keepdims=True)
    ladder = _temperatures(-np.where(may, known, 0).min(axis=1))
    point, start = np.zeros(scores.shape[1] + 1), 0
    if near is not None:
        point, start = np.append(near, 0.0), len(ladder) // 2
    elif len(scores) > 2 * SAMPLE:
        stride, start = len(scores) // SAMPLE, min(4, len(ladder) - 1)
        part = Dual(known[::stride], weights[::stride] * stride, bounds)
        point = cooled(part, ladder[:start], point)
    dual = Dual(known, weights, bounds)
    return cooled(dual, ladder[start:], point), dual


def _temperatures(spreads: Floats) -> list[float]:
    """Return temperatures from the mean spread of a unit's scores to far below the median spread.

    A few units with enormous spreads would make the mean too warm for all the others.
    """
    some = spreads[spreads > 0]
    if len(some) == 0:
        return [1.0]
    warm, cold = float(some.mean()), COLD * float(np.median(some))
    steps = math.ceil(math.log(warm / cold) / math.log(COOLING))
    return [warm * COOLING**-step for step in range(steps + 1)]


def sharing(cold: Dual, point: Floats) -> tuple[Dual, Floats]:
    """Tilt the shares at the last temperature to fill the limits that bind; tilts start at 0.

    Prices are not precise enough for this: their last bit is worth 1e-7 temperatures.
    """
    shares = cold.scores
    shares -= cold.prices(point)
    shares /= cold.temperature
    shares -= shares.max(axis=1, keepdims=True)
    shares[shares < -CERTAIN] = -np.inf
    least, most = cold.bounds.least, cold.bounds.most
    binding = replace(
        cold.bounds,
        least=np.where(point[:-1] > 0, most, least),
        most=np.where(point[:-1] < 0, least, most),
    )
    dual = Dual(shares, cold.weights, binding, spend_all=bool(point[-1] > 0))
    return dual, settled(dual, np.zeros_like(point))


def tilting(table: Floats, weights: Floats, may: Bools, bounds: Bounds) -> tuple[Dual, Floats]:
    """Return the dual and the prices, in logarithms, that tilt a table into its limits."""
    support = may & (table > 0)
    try:
        check_feasible(bounds, support, weights)
        known = table
    except InvalidArgumentError:
        support, known = may, table + SMALL
    logs = np.full(table.shape, -np.inf)
    np.log(known, out=logs, where=support)
    dual = Dual(logs, weights, bounds)
    return dual, settled(dual, np.zeros(table.shape[1] + 1))


# ----------------------------------------------------------------------
# The result, and the main function.


@dataclass(frozen=True, kw_only=True, eq=False)
class Limited:
    """A table of probabilities that satisfies limits.

    Attributes
    ----------
    probabilities
        (n, K), multiples of 2^-52; rows sum to exactly 1, and column sums satisfy the limits
        exactly.
    prices
        (K,), the price of each action: positive if `at_most` binds, negative if `at_least` does. In
        units of scores, it is the value of one more unit of a full action, between the gain of the
        next unit and that of the last one.
    budget_price
        The value of one more unit of budget; 0 if the budget does not bind.
    value
        The expected sum of scores; NaN without scores.
    prices_in
        "score" if the policy chooses by scores, "log" if probabilities were tilted.
    """

    probabilities: Floats
    prices: Floats
    budget_price: float
    value: float
    prices_in: Literal["score", "log"]


def limited(
    scores: ArrayLike | None,
    probabilities: ArrayLike,
    limits: Limits,
    *,
    eligible: ArrayLike | None = None,
    floor: ArrayLike | None = None,
    order: ArrayLike | None = None,
) -> Limited:
    """Return the nearest table of probabilities whose column sums satisfy the limits.

    If every entry of `probabilities` is 0 or 1, the policy chooses by scores: the sum of scores is
    maximised under the limits, a transportation problem solved by prices. Each unit takes the
    action with the highest score minus price; tied units share the remainder evenly.

    Otherwise probabilities are tilted: the row of unit i becomes proportional to
    p_ia exp(-lambda_a - mu cost_a), the table within the limits that is nearest in relative
    entropy. Cells of 0 stay 0, unless the limits cannot be met without them.

    A table that already satisfies the limits is returned unchanged.

    A budget always holds after :func:`rounded`, which rounds counts up or down: if the counts
    rounded up could exceed it, the best table is searched for whose counts cannot. The search
    ends when at most 0.5% of the gain over the cheapest actions can be missing, or after 100
    tables; above 5,000 units there are fewer. The prices are those before that step.

    Parameters
    ----------
    scores
        (n, K), the scores whose sum is maximised; None to tilt the table.
    probabilities
        (n, K), the policy's own table.
    limits
        The limits on column sums.
    eligible
        (n, K) of bool; by default every unit may get every action.
    floor
        (n, K), the probability that each cell gets regardless of the policy, which decides on the
        rest of each row. The limits apply to the sum of both.
    order
        One number per unit, as for :func:`rounded`: sums are taken in this order, which makes the
        result independent, bit for bit, of the order of rows.

    Examples
    --------
    Three customers and one call to make; the second customer gains most:

    >>> scores = [[0.0, 1.0], [0.0, 5.0], [0.0, 2.0]]
    >>> chosen = [[0, 1], [0, 1], [0, 1]]
    >>> result = limited(scores, chosen, Limits(at_most=[np.inf, 1]))
    >>> result.probabilities[:, 1]
    array([0., 1., 0.])
    >>> result.value, bool(2 <= result.prices[1] <= 5)
    (5.0, True)
    """
    table = arguments.floats("probabilities", probabilities, ("units", "actions"))
    scored = None if scores is None else arguments.floats("scores", scores, table.shape)
    mask = _mask(eligible, table)
    base = np.empty((0, table.shape[1])) if floor is None else _floor(floor, mask)
    weights = 1 - base.sum(axis=1) if floor is not None else np.ones(len(table))
    bounds = limits.over(table.shape[1])
    whole = whole_parts(table if floor is None else base + weights[:, None] * table)
    hard = bool(((table == 0) | (table == 1)).all())
    if _keeps(sums(whole), bounds):
        return _result(whole, np.zeros(table.shape[1] + 1), scored, hard=hard)
    if hard and scored is None:
        raise InvalidArgumentError("scores", "given if the policy chooses by scores", "None")
    places: AnyArray = np.arange(len(table)) if order is None else np.argsort(order, kind="stable")
    if order is not None:
        table, mask, weights = table[places], mask[places], weights[places]
        base = base[places] if floor is not None else base
    task = _Task(table, mask, base, weights, bounds)
    solution, point = task.solved(scored[places] if hard and scored is not None else None)
    whole[places] = solution
    return _result(whole, point, scored, hard=hard)


@dataclass
class _Task:
    """A table to bring within limits, with its rows in the order of summation."""

    table: Floats
    eligible: Bools
    floor: Floats
    weights: Floats
    bounds: Bounds

    def solved(self, scores: Floats | None) -> tuple[Integers, Floats]:
        """Return an integer table within the limits, and the prices, that of the budget last."""
        start = self._node(self.bounds, scores)
        if not start.sure:
            return self._best(start, scores).whole, start.point
        return start.whole, start.point

    def _node(
        self, bounds: Bounds, scores: Floats | None, *, near: Floats | None = None,
        between: frozenset[int] = frozenset(),
    ) -> "_Node":  # fmt: skip
        whole, point = self._within(bounds, scores, near=near)
        totals = sums(whole)
        sure = sure_cost(totals, self.bounds.costs) <= self.bounds.surely * (
            1 + SLACK
        ) and expected_cost(totals, self.bounds.costs) <= self.bounds.budget * (1 + NEAR)
        value = self._value(whole, scores) if self._searched else np.nan
        return _Node(value, bounds, whole, point, totals, sure, between)

    def _value(self, whole: Integers, scores: Floats | None) -> float:
        """Return the expected sum of scores, or minus the relative entropy to the table."""
        if scores is not None:
            return float(np.vdot(scores, as_floats(whole)))
        own = as_floats(whole) - (self.floor if len(self.floor) else 0.0)
        aim = self.weights[:, None] * np.maximum(self.table, SMALL)
        part = own > 0
        return -float((own[part] * np.log(own[part] / aim[part])).sum())

    def _best(self, start: "_Node", scores: Floats | None) -> "_Node":
        """Return the best table whose counts, however they are rounded, keep within the budget.

        Branch and bound on the expected counts. It starts with the cheapest whole counts, which are
        good enough in most large waves.
        """
        if not self._searched:
            return self._whole_counts(start, scores)
        best, problem = None, None
        try:
            best = self._whole_counts(start, scores)
        except InvalidArgumentError as error:
            problem = error
        gap = GAP * max(start.value - self._least_value(start, scores), 0.0)
        if self._mixed and (best is None or start.value > best.value + gap):
            best = self._with_less(best, scores)
        queue, made = [(-start.value, 0, start)], 0
        while queue and made < min(WORK // len(self.table), TABLES):
            _, _, node = heappop(queue)
            if best is not None and node.value <= best.value + gap:
                break
            for bounds, between in self._branches(node):
                made += 1
                child = self._tried(bounds, scores, between)
                if child is None:
                    continue
                if child.sure:
                    best = _better(best, child)
                elif best is None or child.value > best.value + gap:
                    heappush(queue, (-child.value, made, child))
                    # Actions of one cost can be exchanged: many nodes then have nearly one value.
                    made += 1
                    with suppress(InvalidArgumentError):
                        fixed = self._whole_counts(child, scores)
                        best = _better(best, fixed) if fixed.sure else best
        if best is None:
            assert problem is not None
            raise problem
        return best

    def _with_less(self, best: "_Node | None", scores: Floats | None) -> "_Node | None":
        """Return a better table if one has a lower expected cost at which counts are sure.

        A lower cost than the budget leaves room for counts that are rounded up.
        """
        rest, may = self._rest(self.bounds)
        counts = cheapest_counts(rest, may, self.weights) + self.floor.sum(axis=0)
        low, high = float(counts @ self.bounds.costs), self.bounds.budget
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            node = self._tried(replace(self.bounds, budget=middle), scores)
            if node is not None and node.sure:
                low, counts = middle, np.array([total / ONE for total in node.totals])
                best = _better(best, node)
            else:
                high = middle
        # All tables whose counts round to the same ones are as sure.
        least, most = np.floor(counts + SLACK), np.ceil(counts - SLACK)
        node = self._tried(replace(self.bounds, least=least, most=most), scores)
        return _better(best, node) if node is not None and node.sure else best

    def _tried(
        self, bounds: Bounds, scores: Floats | None, between: frozenset[int] = frozenset()
    ) -> "_Node | None":
        try:
            return self._node(bounds, scores, between=between)
        except InvalidArgumentError:
            return None

    def _least_value(self, start: "_Node", scores: Floats | None) -> float:
        """Return the value if each unit gets its cheapest action, to measure gains by."""
        if scores is None:
            return 2 * start.value
        costs = np.where(self.eligible, self.bounds.costs, np.inf)
        cheap = costs == costs.min(axis=1, keepdims=True)
        low = np.where(cheap, scores, -np.inf).max(axis=1) @ self.weights
        return float(low + (np.vdot(scores, self.floor) if len(self.floor) else 0.0))

    def _branches(self, node: "_Node") -> list[tuple[Bounds, frozenset[int]]]:
        """Return limits that exclude the node's counts but no better ones that are sure.

        The dearest count that is a fraction is at most its floor or at least its ceiling. If tables
        with a fraction may be better than all with whole counts, it may also stay between them.
        """
        uneven = [
            a for a, total in enumerate(node.totals) if total % ONE and a not in node.between
        ]  # fmt: skip
        if not uneven:
            return []
        action = max(uneven, key=lambda a: float(self.bounds.costs[a]))
        exact = node.totals[action] / ONE
        low, high = float(np.floor(exact)), float(np.ceil(exact))
        found = [(node.within(action, -np.inf, low), node.between)]
        found += [(node.within(action, high, np.inf), node.between)]
        if self._mixed:
            found += [(node.within(action, low, high), node.between | {action})]
        return found

    @property
    def _searched(self) -> bool:
        return len(self.table) <= WORK

    @property
    def _mixed(self) -> bool:
        """Whether fractional counts can be better than the whole ones that they are mixtures of."""
        limits = np.append(self.bounds.least, self.bounds.most[np.isfinite(self.bounds.most)])
        return bool(
            len(self.floor)
            or self.bounds.budget < self.bounds.surely
            or (limits != np.rint(limits)).any()
        )

    def _within(
        self, bounds: Bounds, scores: Floats | None, *, near: Floats | None = None
    ) -> tuple[Integers, Floats]:
        rest, may = self._rest(bounds)
        check_feasible(rest, may, self.weights)
        if scores is None:
            dual, tilt = tilting(self.table, self.weights, may, rest)
            point = tilt
        else:
            point, warm = pricing(scores, self.weights, may, rest, near=near)
            dual, tilt = sharing(warm, point)
        whole = np.empty(self.table.shape, dtype=np.int64)
        kernels.tilted(dual.scores, self.weights, dual.prices(tilt), 1.0, self.floor, whole)
        if not WholeTable(whole, self.floor, may).repair(bounds):
            raise InvalidArgumentError(
                "limits",
                "exactly satisfiable",
                f"at least {bounds.least.tolist()} and at most {bounds.most.tolist()} of "
                f"{', '.join(bounds.names)}",
            )
        return whole, np.append(point[:-1], point[-1] / dual.unit)

    def _rest(self, bounds: Bounds) -> tuple[Bounds, Bools]:
        """Return the limits on the part that the policy decides, and the eligible cells of it."""
        rest = bounds.beyond(self.floor.sum(axis=0))
        # An action without any room is excluded: its price would be infinite.
        return rest, self.eligible & (rest.most > 0)

    def _whole_counts(self, start: "_Node", scores: Floats | None) -> "_Node":
        """Return the best table whose counts are the expected ones, rounded at least cost.

        With integer limits, fractional column sums are a mixture of integer ones; some rounding of
        them therefore costs no more than they do.
        """
        exact = np.array([total / ONE for total in start.totals])
        low, high = np.floor(exact + SLACK), np.ceil(exact - SLACK)
        rest, may = self._rest(replace(self.bounds, least=low, most=high))
        counts = cheapest_counts(rest, may, self.weights) + self.floor.sum(axis=0)
        found = np.rint(counts)
        if (np.abs(found - counts) > 1e-3).any():
            raise InvalidArgumentError(
                "budget",
                "enough for whole counts between the expected ones rounded down and up",
                f"{self.bounds.surely:g} and expected counts {exact.round(2).tolist()}",
                "Raise the budget or lower the floor.",
            )
        least, most = found.copy(), found.copy()
        # The last count follows from the others; a limit on it would leave prices undetermined.
        last = found.argmax()
        least[last], most[last] = 0, np.inf
        near = start.point[:-1] + start.point[-1] * self.bounds.costs
        # Only differences of prices matter, and the action without a limit has price 0.
        near -= near[last]
        fixed = replace(self.bounds, least=least, most=most, budget=np.inf)
        return self._node(fixed, scores, near=near)


@dataclass(frozen=True, eq=False)
class _Node:
    """The best table within some limits on counts.

    `sure` is whether its counts keep within the budget, however they are rounded; `between` are the
    actions whose counts may be fractions.
    """

    value: float
    bounds: Bounds
    whole: Integers
    point: Floats
    totals: list[int]
    sure: bool
    between: frozenset[int]

    def within(self, action: int, low: float, high: float) -> Bounds:
        """Return the node's limits with further ones on an action's count."""
        least, most = self.bounds.least.copy(), self.bounds.most.copy()
        least[action], most[action] = max(least[action], low), min(most[action], high)
        return replace(self.bounds, least=least, most=most)


def _better(one: _Node | None, other: _Node) -> _Node:
    return one if one is not None and one.value >= other.value else other


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


def _keeps(totals: list[int], bounds: Bounds) -> bool:
    counts = all(
        low * ONE <= total and (not np.isfinite(high) or total <= int(high * ONE))
        for total, low, high in zip(totals, bounds.least, bounds.most, strict=True)
    )
    return (
        counts
        and expected_cost(totals, bounds.costs) <= bounds.budget * (1 + SLACK)
        and sure_cost(totals, bounds.costs) <= bounds.surely
    )


def _result(whole: Integers, point: Floats, scores: Floats | None, *, hard: bool) -> Limited:
    probabilities = as_floats(whole)
    return Limited(
        probabilities=probabilities,
        prices=point[:-1].copy(),
        budget_price=float(point[-1]),
        value=np.nan if scores is None else float(np.vdot(scores, probabilities)),
        prices_in="score" if hard else "log",
    )


def _mask(eligible: ArrayLike | None, table: Floats) -> Bools:
    if eligible is None:
        return np.ones(table.shape, dtype=np.bool_)
    mask = np.asarray(eligible)
    if mask.dtype != np.bool_ or mask.shape != table.shape:
        rule = f"true and false of shape {table.shape}"
        raise InvalidArgumentError("eligible", rule, f"{mask.dtype} of shape {mask.shape}")
    wrong = np.flatnonzero((~mask & (table > 0)).any(axis=1) | ~mask.any(axis=1))
    if len(wrong):
        raise InvalidArgumentError(
            "probabilities",
            "0 for ineligible actions, and each unit eligible for at least one action",
            f"{table[wrong[0]].tolist()} for {mask[wrong[0]].tolist()} in row {wrong[0]}",
        )
    return mask


def _floor(floor: ArrayLike, mask: Bools) -> Floats:
    base = arguments.floats("floor", floor, mask.shape)
    if (base < 0).any() or (base > mask).any() or (base.sum(axis=1) > 1 + 1e-12).any():
        rule = "at least 0, 0 for ineligible actions, and at most 1 in each row's sum"
        raise InvalidArgumentError("floor", rule, f"values from {base.min():g} to {base.max():g}")
    return base
