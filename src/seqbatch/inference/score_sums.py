"""Sums over logged units that can be merged: moments, sums over clusters, sums of scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.inference.contrasts import Contrast, DesignTerms, column_sums, weighted_sum
from seqbatch.inference.logged_units import Rows

# ----------------------------------------------------------------------
# Means and central moments of several columns, which can be merged over pieces.


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, and sums of the second, third and fourth powers of deviations from the mean.

    Stored as central sums and merged by Pébay's formulas (2008): sums of plain powers would lose
    all digits if the mean is large.

    Parameters
    ----------
    count
        The number of rows.
    mean, second, third, fourth
        One number per column.

    Examples
    --------
    >>> import numpy as np
    >>> columns = np.array([[1.0], [2.0], [6.0]])
    >>> whole, parts = Moments.of(columns), Moments.of(columns[:1]).merge(Moments.of(columns[1:]))
    >>> float(whole.variance[0]), float(parts.variance[0]), float(parts.kurtosis[0])
    (7.0, 7.0, 1.5)
    """

    count: int
    mean: Floats
    second: Floats
    third: Floats
    fourth: Floats

    @classmethod
    def of(cls, columns: Floats) -> "Moments":
        """Return the moments of an array's columns."""
        if not len(columns):
            return cls(0, *(np.zeros(columns.shape[1]) for _ in range(4)))
        mean = column_sums(columns) / len(columns)
        away = columns - mean
        squares = away * away
        third, fourth = (np.einsum("ij,ij->j", squares, one) for one in (away, squares))
        return cls(len(columns), mean, column_sums(squares), third, fourth)

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of rows together."""
        a, b = self.count, other.count
        if not a or not b:
            return self if a else other
        n, gap = a + b, other.mean - self.mean
        second = self.second + other.second + gap**2 * a * b / n
        third = (
            self.third
            + other.third
            + gap**3 * a * b * (a - b) / n**2
            + 3 * gap * (a * other.second - b * self.second) / n
        )
        fourth = (
            self.fourth
            + other.fourth
            + gap**4 * a * b * (a * a - a * b + b * b) / n**3
            + 6 * gap**2 * (a * a * other.second + b * b * self.second) / n**2
            + 4 * gap * (a * other.third - b * self.third) / n
        )
        return Moments(n, self.mean + gap * b / n, second, third, fourth)

    @cached_property
    def variance(self) -> Floats:
        """The unbiased variance of a row; 0 for a single row."""
        return self.second / max(self.count - 1, 1)

    @cached_property
    def kurtosis(self) -> Floats:
        """Fourth moment over squared second, 3 for a normal; 1, the minimum, if all are equal."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.second > 0, self.count * self.fourth / self.second**2, 1.0)


# ----------------------------------------------------------------------
# Sums over clusters, for standard errors if units are not independent.
#
# Unlike all other sums, these grow with the number of clusters.


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """The number of units of each cluster, and the sums of their scores.

    Parameters
    ----------
    names
        The clusters, sorted.
    counts
        The number of units of each.
    sums
        The sums of their scores, one column per contrast.
    """

    names: AnyArray
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, names: AnyArray, columns: Floats) -> "ClusterSums":
        """Return the sums over some units."""
        return cls._added(names, np.ones(len(names)), columns)

    def merge(self, other: "ClusterSums") -> "ClusterSums":
        """Return the sums over both sets of units; a cluster may be in both."""
        return self._added(
            np.concatenate([self.names, other.names]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.sums, other.sums]),
        )

    @classmethod
    def _added(cls, names: AnyArray, counts: Floats, columns: Floats) -> "ClusterSums":
        unique, places = np.unique(names, return_inverse=True)
        size = len(unique)
        totals = np.zeros((size, columns.shape[1] + 1))
        for place, column in enumerate((counts, *columns.T)):
            totals[:, place] = np.bincount(places, weights=column, minlength=size)
        return cls(unique, totals[:, 0], totals[:, 1:])

    def deviations(self, place: int, mean: float) -> Floats:
        """Return each cluster's sum of deviations from a mean, for one column."""
        return self.sums[:, place] - self.counts * mean


def shared_covariance(
    one: ClusterSums, other: ClusterSums, place: int, means: tuple[float, float]
) -> float:
    """Return the covariance between the means of two waves due to clusters in both."""
    _, here, there = np.intersect1d(one.names, other.names, return_indices=True)
    first = one.deviations(place, means[0])[here]
    second = other.deviations(place, means[1])[there]
    return float(first @ second / (one.counts.sum() * other.counts.sum()))


# ----------------------------------------------------------------------
# Covariances of several columns.


@dataclass(frozen=True, eq=False)
class JointMoments:
    """Count, means, and sums of products of deviations from the means, of all pairs of columns.

    Parameters
    ----------
    count
        The number of rows.
    mean
        One number per column.
    products
        One number per pair of columns.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 8.0]])
    >>> JointMoments.of(rows[:1]).merge(JointMoments.of(rows[1:])).covariance.tolist()
    [[4.0, 6.0], [6.0, 12.0]]
    """

    count: int
    mean: Floats
    products: Floats

    @classmethod
    def of(cls, columns: Floats) -> "JointMoments":
        """Return the moments of an array's columns."""
        width = columns.shape[1]
        if not len(columns):
            return cls(0, np.zeros(width), np.zeros((width, width)))
        mean = column_sums(columns) / len(columns)
        away = columns - mean
        return cls(len(columns), mean, away.T @ away)

    def merge(self, other: "JointMoments") -> "JointMoments":
        """Return the moments of both sets of rows together."""
        a, b = self.count, other.count
        if not a or not b:
            return self if a else other
        gap = other.mean - self.mean
        products = self.products + other.products + np.outer(gap, gap) * a * b / (a + b)
        return JointMoments(a + b, self.mean + gap * b / (a + b), products)

    @property
    def covariance(self) -> Floats:
        """The unbiased covariance of a row."""
        return self.products / max(self.count - 1, 1)


# ----------------------------------------------------------------------
# Powers of residuals by action: how noisy outcomes are, and how heavy their tails.


#: How many outcomes the common noise counts for, per unit of kurtosis above 1.
COMMON = 5.0


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Sums of e^2 and e^4 of each action, over all waves so far.

    Parameters
    ----------
    counts
        The number of residuals.
    squares, fourths
        The sums of their second and fourth powers.
    """

    counts: Integers
    squares: Floats
    fourths: Floats

    @classmethod
    def zero(cls, actions: int) -> "ResidualSums":
        """Return the sums of no residuals."""
        return cls(np.zeros(actions, dtype=np.int64), np.zeros(actions), np.zeros(actions))

    def with_residuals(self, residuals: Floats, actions: Integers) -> "ResidualSums":
        """Return the sums with these residuals added."""
        size = len(self.counts)
        squares = residuals * residuals
        return ResidualSums(
            self.counts + np.bincount(actions, minlength=size),
            self.squares + np.bincount(actions, weights=squares, minlength=size),
            self.fourths + np.bincount(actions, weights=squares * squares, minlength=size),
        )

    @cached_property
    def variance(self) -> float:
        """sigma^2: the mean of all squared residuals."""
        return float(self.squares.sum() / max(self.counts.sum(), 1))

    @cached_property
    def kurtosis(self) -> float:
        """kappa: the kurtosis of residuals within actions; 3 for normal ones."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = self.fourths * (self.counts / self.squares) ** 2
        terms = np.where(self.squares > 0, own, self.counts)
        return float(terms.sum() / max(self.counts.sum(), 1))

    @cached_property
    def by_action(self) -> Floats:
        """sigma_a^2: each action's noise, shrunk to the common one the more, the heavier tails."""
        g = COMMON * max(self.kurtosis - 1, 0.0)
        below = self.counts + g
        with np.errstate(divide="ignore", invalid="ignore"):
            mixed: Floats = (self.squares + g * self.variance) / below
        return np.where(below > 0, mixed, self.variance)


# ----------------------------------------------------------------------
# Sums of scores over units of a wave, from which all estimates are computed.


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Sums over some units of a wave, which can be merged over pieces.

    Parameters
    ----------
    outcomes
        The number of outcomes.
    moments
        Moments of the scores s_i, one column per contrast.
    parts
        Moments of the positive and the negative parts of the scores, counted from the usual
        outcome: two columns per contrast.
    design
        Sums of d, d^2/(p q) and d^3/(p q)^2 over all units, which need no outcomes; shape
        (contrasts, 2 parts, 3, K).
    costs
        Sums of the contrasts' costs.
    clusters
        Sums over clusters; None if all units are independent.
    """

    outcomes: int
    moments: Moments
    parts: Moments
    design: Floats
    costs: Floats
    clusters: ClusterSums | None = None

    @property
    def units(self) -> int:
        """The number of units."""
        return self.moments.count

    @property
    def share_returned(self) -> float:
        """The share of units with an outcome."""
        return self.outcomes / self.units

    def merge(self, other: "ScoreSums") -> "ScoreSums":
        """Return the sums over both sets of units."""
        clusters = self.clusters
        if clusters is not None and other.clusters is not None:
            clusters = clusters.merge(other.clusters)
        return ScoreSums(
            self.outcomes + other.outcomes,
            self.moments.merge(other.moments),
            self.parts.merge(other.parts),
            self.design + other.design,
            self.costs + other.costs,
            clusters,
        )


@dataclass(frozen=True, eq=False)
class Weighing:
    """How contrasts weigh the units of a piece, whatever their outcomes.

    Parameters
    ----------
    rows
        The units.
    contrasts
        The contrasts.
    probabilities
        p_i(a); NaN for an action that a unit could not get.
    coefficients
        d+ and d- of each contrast.
    costs
        The cost of each unit, one column per contrast.
    """

    rows: Rows
    contrasts: Sequence[Contrast]
    probabilities: Floats
    coefficients: Sequence[tuple[Floats, Floats]]
    costs: Floats

    @classmethod
    def of(cls, rows: Rows, contrasts: Sequence[Contrast]) -> "Weighing":
        """Weigh the units of a piece."""
        p = rows.probabilities
        if rows.eligible is not None:
            p = np.where(rows.eligible, p, np.nan)
        both = [contrast.coefficients(p) for contrast in contrasts]
        costs = np.column_stack([contrast.costs(p) for contrast in contrasts])
        return cls(rows, contrasts, p, both, costs)


@dataclass(frozen=True, eq=False)
class ScoreColumns:
    """The scores of a piece, before they are summed.

    Parameters
    ----------
    contrasts
        The contrasts; one column of `scores` and two of `parts` for each.
    scores, parts
        The scores s_i, and their positive and negative parts counted from the usual outcome.
    costs
        The cost of each unit, one column per contrast.
    terms
        The terms of the design's sums.
    returned, clusters
        Whether each unit has an outcome, and its cluster if there are clusters.
    """

    contrasts: Sequence[Contrast]
    scores: Floats
    parts: Floats
    costs: Floats
    terms: DesignTerms
    returned: Bools
    clusters: AnyArray | None

    @classmethod
    def of(
        cls, weighing: Weighing, values: Floats, returned: Floats, *, usual: float = 0.0
    ) -> "ScoreColumns":
        """Compute each contrast for each unit.

        For an action that a unit could not get, score and probability are NaN, and so is every
        contrast that involves it.

        Parameters
        ----------
        weighing
            The units and the contrasts.
        values
            The units' scores G_i(a).
        returned
            The probability q_a(x_i) that an outcome comes back, shape (n, K) or (1, K).
        usual
            The usual outcome, 0 or 1, from which parts are counted.
        """
        rows, contrasts = weighing.rows, weighing.contrasts
        if rows.eligible is not None:
            values = np.where(rows.eligible, values, np.nan)
        scores = np.empty((rows.count, len(contrasts)))
        parts = np.empty((rows.count, 2 * len(contrasts)))
        for place, both in enumerate(weighing.coefficients):
            more, less = (weighted_sum(d, values) for d in both)
            scores[:, place] = more - less
            if usual:
                more, less = both[0].sum(axis=1) - more, both[1].sum(axis=1) - less
            parts[:, 2 * place], parts[:, 2 * place + 1] = more, less
        terms = DesignTerms.of(weighing.probabilities, returned)
        return cls(contrasts, scores, parts, weighing.costs, terms, rows.returned, rows.clusters)

    def only(self, contrasts: Sequence[Contrast]) -> "ScoreColumns":
        """Return the columns of some of the contrasts."""
        if contrasts == self.contrasts:
            return self
        places = [self.contrasts.index(contrast) for contrast in contrasts]
        parts = [2 * place + side for place in places for side in (0, 1)]
        return replace(
            self,
            contrasts=contrasts,
            scores=self.scores[:, places],
            parts=self.parts[:, parts],
            costs=self.costs[:, places],
        )

    def some(self, places: Integers) -> "ScoreColumns":
        """Return the rows of some of the units."""
        # Several times faster than by indexing.
        scores, parts, costs = (
            one.take(places, axis=0) for one in (self.scores, self.parts, self.costs)
        )
        return ScoreColumns(
            self.contrasts,
            scores,
            parts,
            costs,
            self.terms.some(places),
            self.returned[places],
            None if self.clusters is None else self.clusters[places],
        )

    def tally(self) -> ScoreSums:
        """Sum over the units."""
        return ScoreSums(
            int(np.count_nonzero(self.returned)),
            Moments.of(self.scores),
            Moments.of(self.parts),
            np.stack([contrast.design(self.terms) for contrast in self.contrasts]),
            column_sums(self.costs),
            None if self.clusters is None else ClusterSums.of(self.clusters, self.scores),
        )
