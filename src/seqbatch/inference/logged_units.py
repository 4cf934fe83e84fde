"""Logged units, and the sums over them: scores, moments, clusters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast

# ----------------------------------------------------------------------
# Rows: units with everything that was logged, the only data that inference needs.


#: The largest deviation of the sum of logged probabilities from 1.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Units of one wave, or a piece of it; a wave is one such object or several, in any order.

    Create them with :meth:`of`, which validates.

    Parameters
    ----------
    features
        The model's columns, shape (n, P): a constant first, the others standardised.
    actions
        The action of each unit, from 0; 0 is control.
    probabilities
        The logged probability of every action, shape (n, K).
    outcomes
        The outcomes, NaN if missing.
    clusters
        What dependent units have in common, for example a customer; None if all are independent.
    groups
        Declared segments: for each name, the level of every unit, in one type. Units whose level
        is None or NaN are a segment too: "missing".
    eligible
        Which actions each unit could have got, shape (n, K); None if all could get all.
    before_costs
        The outcomes before costs were subtracted, which are used to check whether all are equal;
        None if no costs were subtracted.

    Examples
    --------
    >>> rows = Rows.of([[1.0], [1.0]], [0, 1], [[0.5, 0.5], [0.2, 0.8]], [3.0, float("nan")])
    >>> rows.count, rows.actions_number, rows.taken.tolist(), rows.returned.tolist()
    (2, 2, [0.5, 0.8], [True, False])
    """

    features: Floats
    actions: Integers
    probabilities: Floats
    outcomes: Floats
    clusters: AnyArray | None = None
    groups: Mapping[str, AnyArray] = field(default_factory=dict)
    eligible: Bools | None = None
    before_costs: Floats | None = None

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        actions: ArrayLike,
        probabilities: ArrayLike,
        outcomes: ArrayLike,
        *,
        clusters: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        eligible: ArrayLike | None = None,
    ) -> "Rows":
        """Validate and return the rows."""
        x = arguments.floats("features", features, ("n", "P"))
        p = arguments.floats("probabilities", probabilities, (len(x), "K"))
        taken = _whole("actions", actions, len(x))
        y = np.asarray(outcomes, dtype=np.float64)
        arguments.floats("outcomes", y[~np.isnan(y)], ("n",))
        _require("outcomes", f"one for each of {len(x)} units", y.shape == (len(x),), y.shape)
        _require_probabilities(p, taken)
        named = {name: np.asarray(levels) for name, levels in (groups or {}).items()}
        shared = None if clusters is None else np.asarray(clusters)
        for name, column in {**named, "clusters": shared}.items():
            if column is not None:
                fits = column.shape == (len(x),)
                _require(name, f"one value for each of {len(x)} units", fits, column.shape)
        _require_levels(named, shared)
        return cls(x, taken, p, y, shared, named, _eligible(eligible, p))

    def some(self, among: Bools | slice) -> "Rows":
        """Return a subset of the units, in the same order."""
        return Rows(
            self.features[among],
            self.actions[among],
            self.probabilities[among],
            self.outcomes[among],
            None if self.clusters is None else self.clusters[among],
            {name: levels[among] for name, levels in self.groups.items()},
            None if self.eligible is None else self.eligible[among],
            None if self.before_costs is None else self.before_costs[among],
        )

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self.actions)

    @property
    def actions_number(self) -> int:
        """K, the number of actions."""
        return int(self.probabilities.shape[1])

    @cached_property
    def taken(self) -> Floats:
        """The logged probability of each unit's action."""
        return self.probabilities[np.arange(self.count), self.actions]

    @cached_property
    def returned(self) -> Bools:
        """Whether each unit has an outcome."""
        return ~np.isnan(self.outcomes)


#: A wave as functions accept it: one piece, or a re-iterable of several.
Wave = Rows | Iterable[Rows]


def pieces(wave: Wave) -> Iterable[Rows]:
    """Return the pieces of a wave."""
    if isinstance(wave, Rows):
        return (wave,)
    if iter(wave) is wave:
        raise InvalidArgumentError(
            "wave",
            "rows, or an iterable of rows that can be iterated twice",
            type(wave).__name__,
            "Pass a list, or an object whose __iter__ starts again.",
        )
    return wave


def _whole(name: str, values: ArrayLike, count: int) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        received = f"shape {array.shape} of {array.dtype}"
        raise InvalidArgumentError(name, f"{count} whole numbers", received)
    return np.ascontiguousarray(array, dtype=np.int64)


def _eligible(eligible: ArrayLike | None, probabilities: Floats) -> Bools | None:
    if eligible is None:
        return None
    allowed = arguments.bools("eligible", eligible, probabilities.shape)
    _require(
        "probabilities", "0 for ineligible actions", not probabilities[~allowed].any(),
        "more",
    )  # fmt: skip
    return allowed


def missing_levels(levels: AnyArray) -> Bools:
    """Return which units have no level: None or NaN.

    >>> missing_levels(np.array(["a", None, float("nan")], dtype=object)).tolist()
    [False, True, True]
    """
    gone: Bools = (levels != levels) | (levels == None)  # noqa: E711
    return gone


def _require_levels(groups: Mapping[str, AnyArray], clusters: AnyArray | None) -> None:
    """Refuse levels that cannot be told apart, and clusters that are not known."""
    for name, levels in groups.items():
        try:
            np.unique(levels[~missing_levels(levels)])
        except TypeError as error:
            raise InvalidArgumentError(name, "levels of one type", f"several ({error})") from None
    if clusters is not None:
        gone = int(missing_levels(clusters).sum())
        rule = "a name or number for each unit; give a unit that depends on no other a unique one"
        _require("clusters", rule, not gone, f"None or NaN for {gone:,} units")


def _require_probabilities(probabilities: Floats, actions: Integers) -> None:
    K = probabilities.shape[1]
    inside = not len(actions) or (actions.min() >= 0 and actions.max() < K)
    _require("actions", f"between 0 and {K - 1}", inside, actions)
    _require("probabilities", "at least 0", not (probabilities < 0).any(), "less")
    off = np.abs(probabilities.sum(axis=1) - 1)
    worst = float(off.max()) if len(off) else 0.0
    _require(
        "probabilities", "1 in total for each unit", worst <= ROUNDING, f"a total off by {worst}"
    )
    taken = probabilities[np.arange(len(actions)), actions]
    _require("probabilities", "above 0 for the action of each unit", (taken > 0).all(), 0.0)


def _require(name: str, rule: str, kept: object, received: object) -> None:
    if not kept:
        raise InvalidArgumentError(name, rule, received)


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
        mean = columns.mean(axis=0)
        away = columns - mean
        squares = away * away
        third, fourth = (np.einsum("ij,ij->j", squares, one) for one in (away, squares))
        return cls(len(columns), mean, squares.sum(axis=0), third, fourth)

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

    @property
    def variance(self) -> Floats:
        """The unbiased variance of a row; 0 for a single row."""
        return self.second / max(self.count - 1, 1)

    @property
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
    costs
        Sums of the contrasts' costs.
    clusters
        Sums over clusters; None if all units are independent.
    """

    outcomes: int
    moments: Moments
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
            self.costs + other.costs,
            clusters,
        )


@dataclass(frozen=True, eq=False)
class ScoreColumns:
    """Scores and costs of a piece, one column per contrast, before they are summed."""

    rows: Rows
    scores: Floats
    costs: Floats

    @classmethod
    def of(cls, rows: Rows, values: Floats, contrasts: Sequence[Contrast]) -> "ScoreColumns":
        """Compute each contrast for each unit.

        For an action that a unit could not get, score and probability are NaN, and so is every
        contrast that involves it.
        """
        p = rows.probabilities
        if rows.eligible is not None:
            p = np.where(rows.eligible, p, np.nan)
            values = np.where(rows.eligible, values, np.nan)
        return cls(
            rows,
            np.column_stack([contrast.of(values, p) for contrast in contrasts]),
            np.column_stack([contrast.costs(p) for contrast in contrasts]),
        )

    def tally(self, among: Bools | None = None) -> ScoreSums:
        """Sum over all units, or over some."""
        part = slice(None) if among is None else among
        scores, names = self.scores[part], self.rows.clusters
        return ScoreSums(
            int(self.rows.returned[part].sum()),
            Moments.of(scores),
            self.costs[part].sum(axis=0),
            None if names is None else ClusterSums.of(names[part], scores),
        )
