"""Rare events: intervals for outcomes that are mostly 0, and how many events they need.

With few events, estimate and estimated variance rise and fall together, so a symmetric interval
misses on one side. Here the variance is a function of the hypothesised value (a score interval, as
Wilson's), with a correction for skewness; it comes from the design and from all actions' events,
and from a contrast's own events only as far as there are many. A contrast has a positive and a
negative part; the limits of the two are combined (MOVER).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.inference.contrasts import AsRun, Contrast, Gain, GainOverRandom
from seqbatch.inference.evidence import Events
from seqbatch.inference.intervals import (
    FARTHEST,
    TINY,
    FewEvents,
    crossing,
    difference_limits,
    quantile,
)
from seqbatch.inference.score_sums import ScoreSums

# ----------------------------------------------------------------------
# The limits of one part, and of a contrast of two.


#: Own variance counts as much as the designed one if there are this many events.
BALANCE = 20.0
#: The variance that an action's fitted model adds, in outcomes: with few of them it matters.
FITTED = 2.0
#: Most limits are asked for at a z below the last of these, the first steps of a bisection.
STEPS = (FARTHEST / 2, FARTHEST / 4, FARTHEST / 8, FARTHEST / 16)
#: How much the uncertainty of the estimated skewness of amounts widens their upper limits.
HEAVY = 20.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a contrast: a weighted sum of events of different units.

    Parameters
    ----------
    size
        B, its estimate.
    most
        T, the largest value that it can have.
    scale, skew
        k and w: its variance at the hypothesised value b is k b (1 - b/T), its skewness w.
    upper_scale, upper_skew
        The same for the upper limit of amounts, whose estimated variance moves with the estimate.
    """

    size: float
    most: float
    scale: float
    skew: float
    upper_scale: float
    upper_skew: float

    def limits(self, z: float) -> tuple[float, float]:
        """Return the limits at z standard errors; they never come closer as z grows.

        >>> made = {"size": 0.02, "most": 1.0, "scale": 0.0025, "skew": 0.003}
        >>> part = Part(**made, upper_scale=0.0, upper_skew=0.0)
        >>> [round(limit, 8) for limit in part.limits(1.959964)]
        [0.00874766, 0.03754269]
        """
        if (z <= STEPS[-1] and self._near) or z <= self._before_turns:
            return self._at(z)
        lowest, highest = self._turns
        return self._at(min(z, lowest))[0], self._at(min(z, highest))[1]

    @cached_property
    def _near(self) -> bool:
        """Whether both turns are beyond the z of usual limits, which is soon known."""
        return self._goes_on(0, STEPS[-1]) and self._goes_on(1, STEPS[-1])

    @cached_property
    def _before_turns(self) -> float:
        """A z before both turns, found in fewer steps than the turns; 0 if it takes more."""
        return next((z for z in STEPS if self._goes_on(0, z) and self._goes_on(1, z)), 0.0)

    @cached_property
    def _turns(self) -> tuple[float, float]:
        """The z at which each limit is farthest; beyond it, skewness outweighs all other terms."""
        return self._turn(0), self._turn(1)

    def _turn(self, side: int) -> float:
        if self._goes_on(side, FARTHEST):
            return FARTHEST
        near, far = 0.0, FARTHEST
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if self._goes_on(side, middle) else (near, middle)
        return near

    def _goes_on(self, side: int, z: float) -> bool:
        """Return whether a limit, the lower or the upper one, still moves away at z."""
        step = 1e-5 * max(z, 1e-3)
        more = self._at(z + step)[side] - self._at(z)[side]
        return more >= 0 if side else more <= 0

    @cached_property
    def _fixed(self) -> tuple[float, float]:
        """The hypothesised value nearest to the estimate, and its variance."""
        b = min(max(self.size, 0.0), self.most * (1 - 1e-9))
        return b, self.scale * b * max(1 - b / self.most, 1e-6)

    def _at(self, z: float) -> tuple[float, float]:
        k, (b, spread) = self.scale, self._fixed
        middle, half = b + k * z * z / 2, z * sqrt(spread + (k * z / 2) ** 2)
        below = 1 + k * z * z / self.most
        edge = (z * z - 1) / 6
        low, high = (middle - half) / below, (middle + half) / below
        low, high = low - self.skew * edge, high - self.skew * edge
        if self.upper_scale:
            wide = self.upper_scale
            reach = z * sqrt(spread + (wide * z / 2) ** 2)
            high = max(high, b + wide * z * z / 2 + reach - self.upper_skew * edge)
        return low, high


@dataclass(frozen=True)
class RareShape:
    """The shape of an estimate from rare events.

    Parameters
    ----------
    more, less
        The two parts; `less` is None for a mean or a value.
    offset, sign
        The estimate is offset + sign (more - less): mirrored if the usual outcome is 1, and moved
        by the costs of actions.
    """

    more: Part
    less: Part | None
    offset: float = 0.0
    sign: float = 1.0
    df: float = inf

    @property
    def estimate(self) -> float:
        """The estimate."""
        return self.offset + self.sign * (self.more.size - (self.less.size if self.less else 0.0))

    @cached_property
    def error(self) -> float:
        """Half the width of the 95% interval, over the quantile of the normal."""
        z = quantile(0.025, inf)
        low, high = self._at(z)
        return (high - low) / 2 / z

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the limits that the true value is beyond with this probability on each side."""
        return self._at(quantile(tail, inf)) if tail > TINY else (-inf, inf)

    def statistic(self, value: float = 0.0) -> float:
        """Return the smallest z at which the limits hold a value, negative if it is above."""
        return crossing(self._at, self.estimate, value)

    def _at(self, z: float) -> tuple[float, float]:
        low, high = self._inner(z)
        ends = self.offset + self.sign * low, self.offset + self.sign * high
        return min(ends), max(ends)

    def _inner(self, z: float) -> tuple[float, float]:
        low, high = self.more.limits(z)
        if self.less is None:
            return max(low, 0.0), high
        return difference_limits(self.more.size, (low, high), self.less.size, self.less.limits(z))


def rare_shape(
    tallies: Sequence[ScoreSums],
    places: Sequence[int],
    weights: Floats,
    effects: Sequence[float],
    events: Events,
    *,
    widening: float,
    mirrored: bool,
    charges: Floats,
) -> RareShape:
    """Return the shape of a contrast over waves.

    Parameters
    ----------
    tallies, places
        The sums of the waves used, and the column of the contrast in each.
    weights
        W_m, which sum to 1.
    effects
        The design effect of clusters in each wave, 1 without clusters.
    events
        The events of all waves so far.
    widening
        F, the factor on the variance.
    mirrored
        Whether the usual outcome is 1, so that parts count from there.
    charges
        The cost of each action.
    """
    design = [tally.design[place] for tally, place in zip(tallies, places, strict=True)]
    # Plain numbers: arrays of a few waves cost more than they save.
    units = [tally.units for tally in tallies]
    given = sum(w / n * one[:, 0, :] for w, n, one in zip(weights, units, design, strict=True))
    two = bool(given[1].any())
    made = []
    for side in range(2 if two else 1):
        columns = [2 * place + side for place in places]
        moments = [
            (float(tally.parts.mean[c]), float(tally.parts.second[c]), float(tally.parts.third[c]))
            for tally, c in zip(tallies, columns, strict=True)
        ]
        sums = _PartSums(
            size=float(sum(w * one[0] for w, one in zip(weights, moments, strict=True))),
            variance=float(sum(
                w**2 * e * one[1] / (max(n - 1, 1) * n)
                for w, e, n, one in zip(weights, effects, units, moments, strict=True)
            )),
            third=float(sum(
                w**3 * e**2 * one[2] / n**3
                for w, e, n, one in zip(weights, effects, units, moments, strict=True)
            )),
            given=given[side],
            second=sum(
                w**2 * e * one[side, 1] / n**2
                for w, e, n, one in zip(weights, effects, units, design, strict=True)
            ),
            cubed=sum(
                w**3 * e**2 * one[side, 2] / n**3
                for w, e, n, one in zip(weights, effects, units, design, strict=True)
            ),
        )  # fmt: skip
        made.append(_part(sums, events, widening=widening, two=two))
    net = given[0] - given[1]
    offset = -float(net @ charges) + (float(net.sum()) if mirrored else 0.0)
    return RareShape(made[0], made[1] if two else None, offset, -1.0 if mirrored else 1.0)


@dataclass(frozen=True, eq=False)
class _PartSums:
    """Weighted sums over waves for one part: B, v, k3 and, by action, A_a, H_a, J_a."""

    size: float
    variance: float
    third: float
    given: Floats
    second: Floats
    cubed: Floats


def _part(sums: _PartSums, events: Events, *, widening: float, two: bool) -> Part:
    """Return scale and skewness: the designed ones, or the own ones if they are larger."""
    (r1, r2), means = events.ratios, events.means
    whole = float(sums.given.sum())
    most = whole * r1
    learned = 1 + FITTED / np.maximum(events.outcomes, 1)
    designed = r1 * float(sums.second @ (means * learned)) / float(sums.given @ means)
    slanted = r2 * float(sums.cubed @ means) / float(sums.second @ means)
    scale, skew = designed, slanted
    if 0 < sums.size < most and sums.variance > 0:
        own = sums.variance / (sums.size * (1 - sums.size / most))
        own_skew = sums.third / sums.variance
        expected = whole**2 / float(sums.second.sum()) * events.share
        known = min(expected, sums.size**2 / sums.variance)
        g = known / (known + BALANCE)
        mixed = g * own + (1 - g) * designed
        if mixed > designed:
            scale, skew = mixed, g * own_skew + (1 - g) * slanted
    scale *= widening
    upper_scale = upper_skew = 0.0
    if not events.binary:
        # The variance estimate moves with the estimate only as far as a part's own events make
        # up the moments, which come from all actions.
        own_events = float(events.counts[sums.given > 0].sum() / events.counts.sum())
        h = own_events ** (4 if two else 2)
        heavy = HEAVY * float(events.third.sum() ** 2 / events.second.sum() ** 3)
        upper_scale = scale * (1 + h * (r2 / r1 * (1 + heavy) - 1))
        upper_skew = skew * (1 + h * heavy)
    return Part(size=sums.size, most=most, scale=scale, skew=skew,
                upper_scale=upper_scale, upper_skew=upper_skew)  # fmt: skip


# ----------------------------------------------------------------------
# The rule of events: how many are needed, counted from the plan.
#
# The number is planned, not realised: a rule that looks at what the policy did, or at an action's
# own events, would select campaigns in which control's events happen to be missing.


#: Events needed for an interval: of yes/no outcomes, and of amounts, whose sizes must be seen.
ENOUGH_BINARY, ENOUGH_AMOUNTS = 5, 20


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """What the plan said about a wave before its outcomes.

    Parameters
    ----------
    units
        n_m.
    actions
        K.
    cost, gain_cost
        D_m, the planned mean of 1/p of one action; and the same for the gain of the run.
    least
        The planned lowest probability of an action.
    """

    units: int
    actions: int
    cost: float
    gain_cost: float
    least: float


def planned_units(waves: Sequence[PlannedDesign], contrast: Contrast) -> float:
    """Return the planned effective units of a contrast over waves."""
    total = sum(wave.units for wave in waves)
    if isinstance(contrast, AsRun):
        return float(total)
    if isinstance(contrast, Gain | GainOverRandom):
        kept = 1 - 1 / max(wave.actions for wave in waves)
        return (kept * total) ** 2 / sum(wave.units * wave.gain_cost for wave in waves)
    return sum(wave.units / wave.cost for wave in waves)


def planned_units_of_next_rule(last: PlannedDesign) -> float:
    """Return the planned effective units of the rule to run next, which the last wave judges."""
    return (1 - 1 / last.actions) * last.units * last.least


def few_events(
    events: Events,
    planned: float,
    *,
    share_returned: float = 1.0,
    yes_no: bool = False,
    rate: float = 0.0,
) -> FewEvents | None:
    """Return how many events there are if they are too few, else None.

    The rule applies if most outcomes equal the usual one; others have an event for every outcome.

    Parameters
    ----------
    events
        The events of all waves so far.
    planned
        The planned effective units of the contrast.
    share_returned
        The share of units with an outcome.
    yes_no
        Whether outcomes are declared to be yes or no: the rule then applies before the first event.
    rate
        The rate of events that a hypothesis implies, if it is above the rate so far.
    """
    if not (events.rare or (yes_no and not events.counts.any())):
        return None
    needed = ENOUGH_BINARY if events.binary else ENOUGH_AMOUNTS
    expected = planned * share_returned * max(events.share, rate)
    return None if expected >= needed else FewEvents(expected, needed)
