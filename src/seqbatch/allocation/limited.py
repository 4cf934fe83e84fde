"""A policy's probabilities brought within limits: by prices, or by tilting."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.allocation.exact import ONE, Columns, sums
from seqbatch.allocation.limits import SLACK, Bounds, Limits, cheapest_counts, check_feasible
from seqbatch.allocation.rounding import as_floats, whole_parts
from seqbatch.allocation.shares import pricing, sharing, tilting
from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True, eq=False)
class Limited:
    """A table of probabilities within limits.

    Attributes
    ----------
    probabilities
        (n, K), multiples of 2^-52; rows sum to exactly 1, column sums keep the limits exactly.
    prices
        (K,) the price of each action: above 0 where `at_most` binds, below 0 where `at_least`
        does. In units of scores, one more unit of an action that is full is worth its price:
        between what the next unit would add and what the last one added.
    budget_price
        What one more unit of the budget is worth; 0 where it does not bind.
    value
        The expected sum of scores; NaN without scores.
    prices_in
        "score" where the policy chooses by scores, "log" where probabilities were tilted.
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
    """Return the nearest table of probabilities whose column sums keep the limits.

    Where every row of `probabilities` is 0 or 1, the policy chooses by scores: the sum of scores is
    maximised under the limits, a transportation problem solved by prices. Each unit takes the
    action with the highest score less price; units in a tie share what is left evenly.

    Elsewhere probabilities are tilted: the row of unit i becomes proportional to
    p_ia exp(-lambda_a - mu cost_a), which is the table within limits that is nearest in relative
    entropy. Cells of 0 stay 0, unless limits cannot be met without them.

    A table that keeps the limits already is returned as it is.

    A budget holds surely after :func:`rounded`, which rounds counts up or down: where they could
    cost more than it when rounded up, expected counts are made whole at no higher cost. The prices
    are those before that.

    Parameters
    ----------
    scores
        (n, K), what the sum of is maximised; None if the table is to be tilted.
    probabilities
        (n, K), the policy's own table.
    limits
        On the column sums.
    eligible
        (n, K) of bool; by default every unit may get every action.
    floor
        (n, K), what each cell gets whatever the policy says; the policy decides on the rest of
        each row. The limits are those of the sum of both.
    order
        A number for each unit, as for :func:`rounded`: sums are taken in this order, so that no
        bit of the result depends on the order of rows.

    Examples
    --------
    Three customers, one call to make; the second gains most by it:

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
        raise InvalidArgumentError("scores", "given where the policy chooses by them", "None")
    places: AnyArray = np.arange(len(table)) if order is None else np.argsort(order, kind="stable")
    if order is not None:
        table, mask, weights = table[places], mask[places], weights[places]
        base = base[places] if floor is not None else base
    task = _Task(table, mask, base, weights, bounds)
    made, point = task.solved(scored[places] if hard and scored is not None else None)
    whole[places] = made
    return _result(whole, point, scored, hard=hard)


@dataclass
class _Task:
    """What is to be brought within limits, in the order of sums."""

    table: Floats
    eligible: Bools
    floor: Floats
    weights: Floats
    bounds: Bounds

    def solved(self, scores: Floats | None) -> tuple[Integers, Floats]:
        """Return whole parts within the limits, and the prices; the budget's price comes last."""
        whole, point = self._within(self.bounds, scores)
        totals = sums(whole)
        if sure_cost(totals, self.bounds.costs) > self.bounds.surely * (1 + SLACK):
            fixed = self._whole_counts(totals)
            near = point[:-1] + point[-1] * self.bounds.costs
            # Only differences of prices matter, and the one action without a limit has none.
            near -= near[np.isinf(fixed.most)]
            whole, _ = self._within(fixed, scores, near=near)
        return whole, point

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
        if not Columns(whole, self.floor, may).repair(bounds):
            raise InvalidArgumentError(
                "limits",
                "possible to keep exactly",
                f"at least {bounds.least.tolist()} and at most {bounds.most.tolist()} of "
                f"{', '.join(bounds.names)}",
            )
        return whole, np.append(point[:-1], point[-1] / dual.unit)

    def _rest(self, bounds: Bounds) -> tuple[Bounds, Bools]:
        """Return the limits on what the policy decides, and who may get what of it."""
        rest = bounds.beyond(self.floor.sum(axis=0))
        # Nobody can get what there is nothing of; its price would have no end.
        return rest, self.eligible & (rest.most > 0)

    def _whole_counts(self, totals: list[int]) -> Bounds:
        """Return limits that fix every count: those the table expects, rounded, cheapest first.

        With whole limits, column sums between whole numbers are a mixture of whole ones, so that
        some rounding of them costs no more than they do.
        """
        exact = np.array([total / ONE for total in totals])
        low, high = np.floor(exact + SLACK), np.ceil(exact - SLACK)
        rest, may = self._rest(replace(self.bounds, least=low, most=high))
        counts = cheapest_counts(rest, may, self.weights) + self.floor.sum(axis=0)
        found = np.rint(counts)
        if (np.abs(found - counts) > 1e-3).any():
            raise InvalidArgumentError(
                "budget",
                "such that whole counts between those expected can keep it",
                f"{self.bounds.surely:g} and expected counts {exact.round(2).tolist()}",
                "Raise the budget or lower the floor.",
            )
        least, most = found.copy(), found.copy()
        # The last count follows from the others; a limit on it, too, would leave prices open.
        least[found.argmax()], most[found.argmax()] = 0, np.inf
        return replace(self.bounds, least=least, most=most, budget=np.inf)


def sure_cost(totals: list[int], costs: Floats) -> float:
    """Return the most that counts can cost when column sums are rounded up or down.

    The fractions of the column sums add up to a whole number: so many counts are rounded up.
    """
    certain = sum(total // ONE * float(cost) for total, cost in zip(totals, costs, strict=True))
    uneven = [
        float(cost) for total, cost in zip(totals, costs, strict=True) if total % ONE
    ]  # fmt: skip
    up = sum(total % ONE for total in totals) // ONE
    return certain + sum(sorted(uneven, reverse=True)[:up])


def _keeps(totals: list[int], bounds: Bounds) -> bool:
    counts = all(
        low * ONE <= total and (not np.isfinite(high) or total <= int(high * ONE))
        for total, low, high in zip(totals, bounds.least, bounds.most, strict=True)
    )
    expected = sum(total / ONE * float(c) for total, c in zip(totals, bounds.costs, strict=True))
    return (
        counts
        and expected <= bounds.budget * (1 + SLACK)
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
            "0 wherever a unit is not eligible, and each unit eligible for some action",
            f"{table[wrong[0]].tolist()} for {mask[wrong[0]].tolist()} in row {wrong[0]}",
        )
    return mask


def _floor(floor: ArrayLike, mask: Bools) -> Floats:
    base = arguments.floats("floor", floor, mask.shape)
    if (base < 0).any() or (base > mask).any() or (base.sum(axis=1) > 1 + 1e-12).any():
        rule = "at least 0, 0 where a unit is not eligible, and at most 1 in each row's sum"
        raise InvalidArgumentError("floor", rule, f"values from {base.min():g} to {base.max():g}")
    return base
