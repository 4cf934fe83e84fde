"""A policy's probabilities adjusted to limits on counts and cost, by prices or by tilting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.allocation.limits import SLACK, Bounds, Limits
from seqbatch.allocation.rounding import as_floats, whole_parts
from seqbatch.allocation.sure_counts import Search, expected_cost, sure_cost
from seqbatch.allocation.transport import Transport
from seqbatch.allocation.whole_table import ONE, sums
from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError


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
    aimed = scored[places] if hard and scored is not None else None
    search = Search(Transport(aimed, table, mask, base, weights, bounds))
    whole[places] = (search.start if search.start.sure else search.best()).whole
    return _result(whole, search.start.point, scored, hard=hard)


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
