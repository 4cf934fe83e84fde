"""What share of each unit every action gets: the best one's, or those nearest to given ones."""

import math
from dataclasses import replace

import numpy as np

from seqbatch.allocation.limits import Bounds, check_feasible
from seqbatch.allocation.prices import CERTAIN, Dual, cooled, settled
from seqbatch.core.arrays import Bools, Floats
from seqbatch.errors import InvalidArgumentError

#: The last temperature, as a part of the median spread of a unit's scores: at most so much, times
#: log K, is lost of the best value for each unit.
COLD = 1e-9
COOLING = 5.0
#: First prices come from so many units.
SAMPLE = 20_000
#: What cells of probability 0 are given where limits cannot be met without them.
SMALL = 1e-6


def pricing(
    scores: Floats, weights: Floats, may: Bools, bounds: Bounds, *, near: Floats | None = None
) -> tuple[Floats, Dual]:
    """Return the prices of the transportation problem, and the dual at the last temperature.

    `near` are prices that were right for nearly the same limits.
    """
    # Only differences within a row matter; the largest at 0 keeps their last bits.
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
    """Return temperatures from the mean spread of a unit's scores to far below a common one.

    A few units with enormous spreads would make the mean too warm for all the others.
    """
    some = spreads[spreads > 0]
    if len(some) == 0:
        return [1.0]
    warm, cold = float(some.mean()), COLD * float(np.median(some))
    steps = math.ceil(math.log(warm / cold) / math.log(COOLING))
    return [warm * COOLING**-step for step in range(steps + 1)]


def sharing(cold: Dual, point: Floats) -> tuple[Dual, Floats]:
    """Tilt the shares at the last temperature so that they fill the limits that bind.

    Prices have too few bits to do so: their last one is worth 1e-7 temperatures. Tilts start at 0.
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
    """Return the prices, in logarithms, that tilt a table into its limits."""
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
