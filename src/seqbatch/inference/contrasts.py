"""The contrasts to estimate: means, lifts, and the value and gains of the campaign as run.

A contrast is a weighted sum of a unit's scores, s_i = sum_a d_i(a) G_i(a). The coefficients d
follow from the logged probabilities alone. Its positive and its negative part are sums over
different units, which is why intervals for rare events treat them separately.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from seqbatch.core.arrays import Floats, Integers

#: A coefficient below this is what rounding left of equal probabilities.
ROUNDING = 1e-12


class Contrast(Protocol):
    """A quantity to estimate from the units' scores."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def arms(self) -> int:
        """The number of actions compared."""

    @property
    def widening(self) -> float:
        """The factor on the variance of rare events that adaptive weights require."""

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return d+ and d- of each unit and action, both at least 0; each (n, K) or (1, K)."""

    def design(self, terms: "DesignTerms") -> Floats:
        """Return the sums of d, d^2/(p q) and d^3/(p q)^2: by part and action, (2, 3, K)."""

    def costs(self, probabilities: Floats) -> Floats:
        """Return the sum of 1/p_i over the contrast's actions; infinite if a probability is 0."""


@dataclass(frozen=True, eq=False)
class DesignTerms:
    """Sums over units of d, d^2/(p q) and d^3/(p q)^2, for the coefficients that contrasts share.

    Parameters
    ----------
    probabilities, chances
        p_i(a) and p_i(a) q_a(x_i); NaN for an action that a unit could not get.
    inverse
        1/(p q).
    """

    probabilities: Floats
    chances: Floats
    inverse: Floats

    @classmethod
    def of(cls, probabilities: Floats, returned: Floats) -> "DesignTerms":
        """Return the terms of units whose outcomes come back with these probabilities."""
        chances = probabilities * returned
        return cls(probabilities, chances, _inverse(chances))

    def some(self, places: Integers) -> "DesignTerms":
        """Return the terms of some of the units."""
        taken = (self.probabilities, self.chances, self.inverse)
        return DesignTerms(*(one.take(places, axis=0) for one in taken))

    @cached_property
    def whole(self) -> Floats:
        """The sums by action for d = 1, shape (3, K)."""
        inverse = self.inverse
        count = np.full(inverse.shape[1], len(inverse))
        return np.stack([count, column_sums(inverse), _dot(inverse, inverse)])

    @cached_property
    def given(self) -> Floats:
        """The sums by action for d = p."""
        p = _given(self.probabilities)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Without a chance of the action there is nothing to weigh: 0/0 counts as 0.
            weights = np.where(p > 0, p / self.chances, 0.0)
        return np.stack([column_sums(p), _dot(p, weights), _dot(p * weights, weights)])

    @cached_property
    def rest(self) -> Floats:
        """The sums by action for d = 1 - p."""
        other = 1 - self.probabilities
        with np.errstate(divide="ignore", invalid="ignore"):
            missed = other / self.chances
        return np.stack([column_sums(other), _dot(other, missed), _dot(other * missed, missed)])

    def of_units(self, parts: tuple[Floats, Floats]) -> Floats:
        """Return the sums for coefficients of each unit; 0 where a coefficient is 0."""
        made = np.zeros((2, 3, self.chances.shape[1]))
        for part, coefficients in enumerate(parts):
            for action in np.flatnonzero((coefficients != 0).any(axis=0)):
                d = coefficients[:, action]
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.where(d == 0, 0.0, d / self.chances[:, action])
                made[part, :, action] = d.sum(), d @ ratio, (d * ratio) @ ratio
        return made

    def of_actions(self, more: int, less: int | None = None) -> Floats:
        """Return the sums for 1 on one action, and 1 on another in the negative part."""
        made = np.zeros((2, 3, self.chances.shape[1]))
        made[0, :, more] = self.whole[:, more]
        if less is not None:
            made[1, :, less] = self.whole[:, less]
        return made


def column_sums(columns: Floats) -> Floats:
    """Return the sum of each column, added row by row.

    >>> column_sums(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    # The same additions as those of `sum`, which is several times slower if columns are few.
    total: Floats = np.einsum("nk->k", columns) if columns.shape[1] > 1 else columns.sum(axis=0)
    return total


def _dot(one: Floats, other: Floats) -> Floats:
    total: Floats = np.einsum("nk,nk->k", one, other)
    return total


@dataclass(frozen=True)
class Mean:
    """The mean outcome if every unit got one action."""

    action: int
    arms: ClassVar[int] = 1
    widening: ClassVar[float] = 1.0

    @property
    def name(self) -> str:
        """Its name."""
        return f"mean of action {self.action}"

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return 1 for the action."""
        return _one(probabilities, self.action), np.zeros((1, probabilities.shape[1]))

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        return terms.of_actions(self.action)

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a)."""
        return _inverse(probabilities[:, self.action])


@dataclass(frozen=True)
class Lift:
    """The difference in mean outcome between two actions; over control by default."""

    action: int
    over: int = 0
    arms: ClassVar[int] = 2
    widening: ClassVar[float] = 1.0

    @property
    def name(self) -> str:
        """Its name."""
        return f"lift of action {self.action} over action {self.over}"

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return 1 for the action, and 1 for the other one."""
        return _one(probabilities, self.action), _one(probabilities, self.over)

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        return terms.of_actions(self.action, self.over)

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a) + 1/p_i(0)."""
        return _inverse(probabilities[:, self.action]) + _inverse(probabilities[:, self.over])


@dataclass(frozen=True)
class AsRun:
    """The mean outcome of the campaign as it was run."""

    arms: ClassVar[int] = 1
    widening: ClassVar[float] = 1.0
    name: ClassVar[str] = "value as run"

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return p_i(a)."""
        return _given(probabilities), np.zeros((1, probabilities.shape[1]))

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        return np.stack([terms.given, np.zeros_like(terms.given)])

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1: outcomes of the run itself need no weights."""
        return np.ones(len(probabilities))


@dataclass(frozen=True)
class Gain:
    """The gain of the campaign as run over giving one action to all units."""

    over: int = 0
    arms: ClassVar[int] = 1
    widening: ClassVar[float] = 1.1

    @property
    def name(self) -> str:
        """Its name."""
        return f"gain of the run over action {self.over}"

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return p_i of the other actions, and 1 - p_i(a)."""
        more = _given(probabilities)
        less = np.zeros_like(probabilities)
        # NaN for a unit that could not get the action: its gain over it does not exist.
        less[:, self.over] = 1 - probabilities[:, self.over]
        more[:, self.over] = 0.0
        return more, less

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        made = np.stack([terms.given, np.zeros_like(terms.given)])
        made[0, :, self.over] = 0.0
        made[1, :, self.over] = terms.rest[:, self.over]
        return made

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a)."""
        return _inverse(probabilities[:, self.over])


@dataclass(frozen=True)
class GainOverRandom:
    """The gain of the campaign as run over assigning every unit uniformly at random.

    `among` restricts random assignment to some actions; each unit gets only eligible ones.
    """

    among: tuple[int, ...] | None = None
    arms: ClassVar[int] = 1
    widening: ClassVar[float] = 1.1
    name: ClassVar[str] = "gain of the run over random assignment"

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return the parts of p_i(a) - 1/K above and below 0, K the actions that i could get."""
        could = ~np.isnan(probabilities)
        if self.among is not None:
            could[:, [a for a in range(could.shape[1]) if a not in self.among]] = False
        random = could / np.maximum(could.sum(axis=1, keepdims=True), 1)
        gap = _given(probabilities) - random
        # Equal probabilities differ from 1/K by rounding, which is no gain.
        gap[np.abs(gap) < ROUNDING] = 0.0
        return np.maximum(gap, 0.0), np.maximum(-gap, 0.0)

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        return terms.of_units(self.coefficients(terms.probabilities))

    def costs(self, probabilities: Floats) -> Floats:
        """Return sum_a 1/p_i(a) / K^2, the noise of the mean over actions."""
        some = probabilities if self.among is None else probabilities[:, list(self.among)]
        inverse = _inverse(some)
        with np.errstate(invalid="ignore"):
            total: Floats = np.nansum(inverse, axis=1) / (~np.isnan(inverse)).sum(axis=1) ** 2
        return total


def all_contrasts(actions: int) -> tuple[Contrast, ...]:
    """Return every contrast of this many actions: 3K + 1 of them."""
    means = [Mean(action) for action in range(actions)]
    lifts = [Lift(action) for action in range(1, actions)]
    gains = [Gain(action) for action in range(actions)]
    return (*means, *lifts, AsRun(), *gains, GainOverRandom())


def weighted_sum(coefficients: Floats, scores: Floats) -> Floats:
    """Return sum_a d_i(a) G_i(a); an unknown score counts only where its coefficient is not 0."""
    total: Floats = np.zeros(len(scores))
    for action in np.flatnonzero((coefficients != 0).any(axis=0)):
        d = coefficients[:, action]
        own = d * scores[:, action]
        # One row stands for all units.
        total += own if len(d) == 1 else np.where(d == 0, 0.0, own)
    return total


def _one(probabilities: Floats, action: int) -> Floats:
    made = np.zeros((1, probabilities.shape[1]))
    made[0, action] = 1.0
    return made


def _given(probabilities: Floats) -> Floats:
    """Return the probabilities, 0 for actions that a unit could not get."""
    return np.where(np.isnan(probabilities), 0.0, probabilities)


def _inverse(probabilities: Floats) -> Floats:
    """Return 1/p, infinite if p is 0."""
    with np.errstate(divide="ignore"):
        return 1 / probabilities
