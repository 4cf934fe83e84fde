"""Prices that bring soft choices within limits, by Newton's method on the dual.

A unit of weight w chooses action a in proportion to exp((s_a - z_a) / t), where z_a = lambda_a +
mu c_a is the action's price and t the temperature. The prices minimise the convex function

    sum_i w_i t log sum_a exp((s_ia - z_a) / t) + sum_a r_a(lambda_a) + B mu,    mu >= 0,

where r_a(x) is most_a x for x > 0 and least_a x for x < 0. A price is 0 if neither limit binds. As
t goes to 0, choices approach the solution of the transportation problem, with ties shared evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from seqbatch.allocation.limits import Bounds
from seqbatch.core import kernels
from seqbatch.core.arrays import Floats

#: A gap of this many temperatures makes a choice certain: exp(-40) is below the last bit of 1.
CERTAIN = 40.0
STEPS = 300
#: The side of a variable that may take either sign.
FREE = 2.0
#: How far column sums may be from their limits, relative to these, before the exact repair.
TOLERANCE = 1e-12
#: The relative precision of sums over a million units.
ROUNDING = 1e-10


@dataclass
class Dual:
    """The dual function of some units under limits, at one temperature.

    Parameters
    ----------
    scores, weights
        (n, K), -inf where an action is not eligible, and (n,).
    bounds
        The limits.
    spend_all
        Whether the budget must be spent completely.
    """

    scores: Floats
    weights: Floats
    bounds: Bounds
    spend_all: bool = False
    temperature: float = 1.0
    _certain: Floats = field(init=False)
    _open: tuple[Floats, Floats] = field(init=False)
    _width: float = field(init=False)
    _centre: Floats = field(init=False)

    def __post_init__(self) -> None:
        largest = float(self.bounds.costs.max(initial=0.0))
        # Costs in units of the largest one give all variables the same magnitude.
        self.unit = largest if largest > 0 and np.isfinite(self.bounds.budget) else 1.0
        self.costs = self.bounds.costs / self.unit
        self.budget = self.bounds.budget / self.unit

    def cool(self, temperature: float, point: Floats) -> None:
        """Set the temperature; sum the units that are far from a tie at these prices once."""
        self.temperature = temperature
        self._width = 2 * CERTAIN * temperature
        self._centre = self.prices(point)
        columns, kept = np.zeros(len(self.costs)), np.empty(len(self.scores), dtype=np.bool_)
        kernels.near_ties(self.scores, self.weights, self._centre, self._width, columns, kept)
        self._certain = columns
        self._open = self.scores[kept], self.weights[kept]

    def prices(self, point: Floats) -> Floats:
        """Return the price of each action per unit, including the budget's price."""
        prices: Floats = point[:-1] + point[-1] * self.costs
        return prices

    def at(self, point: Floats) -> tuple[Floats, Floats]:
        """Return the column sums and their derivatives by minus the prices."""
        prices = self.prices(point)
        # After a large change of prices, units that were far from a tie may be close to one.
        if np.ptp(prices - self._centre) > self._width - CERTAIN * self.temperature:
            self.cool(self.temperature, point)
        columns = self._certain.copy()
        curvature = np.zeros((len(columns), len(columns)))
        kernels.tilt(*self._open, prices, self.temperature, columns, curvature)
        curvature = np.tril(curvature) + np.tril(curvature, -1).T
        return columns, curvature / self.temperature

    def gradient(self, point: Floats, columns: Floats) -> tuple[Floats, Floats]:
        """Return the slope in each variable, 0 if it should stay at 0, and the side it is on."""
        used = np.append(columns, self.costs @ columns)
        most = np.append(self.bounds.most, self.budget)
        least = np.append(self.bounds.least, self.budget if self.spend_all else -np.inf)
        side = np.sign(point)
        # If both limits coincide, the function has no kink at 0, and 0 may be crossed.
        side[most == least] = FREE
        side[(side == 0) & (used > most)] = 1
        side[(side == 0) & (used < least)] = -1
        slope = np.zeros_like(point)
        slope[side > 0] = (most - used)[side > 0]
        slope[side < 0] = (least - used)[side < 0]
        return slope, side

    def gap(self, slope: Floats) -> float:
        """Return the distance of column sums from their limits, relative to these."""
        limits = np.append(
            np.where(np.isfinite(self.bounds.most), self.bounds.most, self.bounds.least),
            self.budget if np.isfinite(self.budget) else 0.0,
        )
        return float(np.max(np.abs(slope) / (1 + np.abs(limits))))


def minimise(dual: Dual, point: Floats, tolerance: float, *, near: float = 0.0) -> Floats:
    """Return prices at which column sums satisfy the limits, by Newton steps within orthants.

    Stops when column sums are within `tolerance` of their limits, when the next step is no longer
    than `near`, or when rounding prevents further progress.
    """
    columns, curvature = dual.at(point)
    radius, stalled, least_gap = 4 * dual.temperature, 0, np.inf
    for _ in range(STEPS):
        slope, side = dual.gradient(point, columns)
        gap = dual.gap(slope)
        stalled = stalled + 1 if gap > least_gap / 2 else 0
        least_gap = min(gap, least_gap)
        # The lower the temperature, the more the last bit of a price matters.
        noise = max(ROUNDING, 1e-15 * float(np.abs(point).max()) / dual.temperature)
        if gap <= tolerance or (stalled > 3 and gap < noise):
            break
        step = _newton_step(dual, slope, side, curvature)
        length = float(np.abs(step).max())
        if length <= near or radius < 1e-12 * dual.temperature:
            break
        tried = _within(point + step * min(1.0, radius / length), side)
        new_columns, new_curvature = dual.at(tried)
        onward = float(dual.gradient(tried, new_columns)[0] @ (tried - point))
        # The function's value is too large to resolve the gain of the last steps, but its slope is
        # not: a step is too long if the slope behind it rises nearly as much as it fell before.
        if onward <= 0.5 * abs(float(slope @ (tried - point))):
            radius *= 3 if length > radius else 1
            point, columns, curvature = tried, new_columns, new_curvature
        else:
            radius = min(length, radius) / 4
    return point


def _newton_step(dual: Dual, slope: Floats, side: Floats, curvature: Floats) -> Floats:
    """Return the Newton step over the free variables."""
    actions = len(slope) - 1
    change = np.hstack([np.eye(actions), dual.costs[:, None]])
    free = side != 0
    matrix = (change.T @ curvature @ change)[np.ix_(free, free)]
    sizes, directions = np.linalg.eigh(matrix)
    # Directions without curvature are limited by the radius alone.
    sizes = np.maximum(sizes, max(float(sizes[-1]) * 1e-15, 1e-280))
    step = np.zeros_like(slope)
    step[free] = -directions @ ((directions.T @ slope[free]) / sizes)
    return np.nan_to_num(np.clip(step, -1e200, 1e200))


def _within(point: Floats, side: Floats) -> Floats:
    """Stop variables at 0 if they would cross it."""
    return np.where((np.sign(point) == side) | (side == FREE), point, 0.0)


def cooled(dual: Dual, temperatures: Sequence[float], point: Floats) -> Floats:
    """Follow the prices from warm to cold, at each temperature to within reach of the next.

    If ties decide, prices equal their limit plus the temperature times a constant. The next prices
    are therefore extrapolated linearly from the last two.
    """
    before, guess = None, point
    for place, temperature in enumerate(temperatures):
        dual.cool(temperature, guess)
        found = minimise(dual, guess, TOLERANCE, near=temperature / 4)
        guess = found
        if before is not None and place + 1 < len(temperatures):
            last = temperatures[place - 1]
            ahead = (temperatures[place + 1] - temperature) / (temperature - last)
            guess = _within(found + ahead * (found - before), np.sign(found))
        before = found
    return guess


def settled(dual: Dual, point: Floats) -> Floats:
    """Return the prices at temperature 1, to full precision."""
    dual.cool(1.0, point)
    return minimise(dual, point, TOLERANCE)
