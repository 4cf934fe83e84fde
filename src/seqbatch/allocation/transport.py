"""The transportation problem of a wave: its best table within limits, by prices or by tilting."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from seqbatch.allocation.limits import Bounds, check_feasible
from seqbatch.allocation.prices import CERTAIN, Dual, cooled, settled
from seqbatch.allocation.rounding import as_floats
from seqbatch.allocation.whole_table import WholeTable
from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError

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
# The problem: what a wave's tables are worth, and the best one within limits on counts.


#: The expected count at the price of an action that has no room, if probabilities are tilted.
HARDLY_ANY = 1e-3


class Ceiling(NamedTuple):
    """An upper bound: no table is worth more than a constant plus the prices of its counts."""

    constant: float
    prices: Floats


@dataclass(frozen=True, eq=False)
class Transport:
    """A table to bring within limits, with its rows in the order of summation.

    Parameters
    ----------
    scores
        (n, K), whose expected sum is maximised; None to find the nearest table.
    table, eligible, floor
        As for :func:`~seqbatch.allocation.limited`; the floor may be an empty array.
    weights
        (n,), the part of each row that the floor leaves.
    bounds
        The limits.
    """

    scores: Floats | None
    table: Floats
    eligible: Bools
    floor: Floats
    weights: Floats
    bounds: Bounds

    def within(self, bounds: Bounds, *, near: Floats | None = None) -> tuple[Integers, Floats]:
        """Return the best integer table within limits, and the prices, that of the budget last.

        `near` are prices that were optimal for nearly the same limits.
        """
        rest, may = self.rest(bounds)
        check_feasible(rest, may, self.weights)
        if self.scores is None:
            dual, tilt = tilting(self.table, self.weights, may, rest)
            point = tilt
        else:
            point, warm = pricing(self.scores, self.weights, may, rest, near=near)
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

    def rest(self, bounds: Bounds) -> tuple[Bounds, Bools]:
        """Return the limits on the part that the policy decides, and the eligible cells of it."""
        rest = bounds.beyond(self.given)
        # An action without any room is excluded: its price would be infinite.
        return rest, self.eligible & (rest.most > 0)

    @property
    def given(self) -> Floats:
        """The counts that the floor alone gives, (K,)."""
        counts: Floats = self.floor.sum(axis=0)
        return counts

    def value(self, whole: Integers) -> float:
        """Return the expected sum of scores, or minus the relative entropy to the table."""
        if self.scores is not None:
            return float(np.vdot(self.scores, as_floats(whole)))
        own = as_floats(whole) - (self.floor if len(self.floor) else 0.0)
        aim = self.weights[:, None] * np.maximum(self.table, SMALL)
        part = own > 0
        return -float((own[part] * np.log(own[part] / aim[part])).sum())

    def least_value(self, value: float) -> float:
        """Return the value if each unit gets its cheapest action, to measure gains by.

        There is no such value if probabilities are tilted: the given one is then counted twice.
        """
        if self.scores is None:
            return 2 * value
        costs = np.where(self.eligible, self.bounds.costs, np.inf)
        cheap = costs == costs.min(axis=1, keepdims=True)
        low = np.where(cheap, self.scores, -np.inf).max(axis=1) @ self.weights
        return float(low + (np.vdot(self.scores, self.floor) if len(self.floor) else 0.0))

    def ceiling(self, point: Floats, bounds: Bounds) -> Ceiling:
        """Return the dual at the prices of the best table within some limits."""
        prices = point[:-1] + point[-1] * bounds.costs
        worth = np.log(np.maximum(self.table, SMALL)) if self.scores is None else self.scores
        net = np.where(self.eligible, worth - prices, -np.inf)
        closed = self.rest(bounds)[0].most <= 0
        rise = self._rise(net, closed)
        prices, net = prices + rise, net - rise
        own = 0.0 if self.scores is None or not len(self.floor) else np.vdot(worth, self.floor)
        constant = self.weights @ self._best(net) + own - prices @ self.given
        return Ceiling(float(constant), prices)

    def _rise(self, net: Floats, closed: Bools) -> Floats:
        """Return by how much prices of actions without room rise until (nearly) no unit pays."""
        over = np.where(closed, net - self._best(np.where(closed, -np.inf, net))[:, None], -np.inf)
        if self.scores is not None:
            rise = over.max(axis=0)
        else:
            with np.errstate(divide="ignore"):
                rise = np.log(self.weights @ np.exp(over) / HARDLY_ANY)
        return np.where(np.isfinite(rise), rise, 0.0)

    def _best(self, net: Floats) -> Floats:
        """Return what each unit chooses: the highest net worth, or the soft maximum."""
        most: Floats = net.max(axis=1)
        if self.scores is None:
            most = most + np.log(np.exp(net - most[:, None]).sum(axis=1))
        return most
