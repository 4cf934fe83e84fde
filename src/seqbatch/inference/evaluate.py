"""Off-policy evaluation: the value of another policy, from any log with probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.doubly_robust_scores import OutcomeModel, score
from seqbatch.inference.evidence import gathered
from seqbatch.inference.intervals import Interval, interval_table, student
from seqbatch.inference.logged_units import ROUNDING, Rows, Wave, pieces
from seqbatch.inference.return_model import ReturnModel, own_chances
from seqbatch.inference.score_sums import ClusterSums, Moments

#: A policy: the probability of every action for every unit, or a function that returns them.
Probabilities = Floats | Callable[[Rows], Floats]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The mean outcome under another policy, by three estimators.

    Parameters
    ----------
    inverse_probability
        Outcomes weighted by the ratio of the policy's and the log's probabilities: unbiased, noisy.
    self_normalised
        The same, divided by the mean weight: less noise, slightly biased.
    doubly_robust
        A model's predictions, corrected by weighted residuals: the one to read first.
    units
        The number of units in the log.
    effective
        The effective sample size, (sum w)^2 / sum w^2 over units with outcomes.
    largest_weight
        The largest weight; if it is large, a single unit dominates the estimates.
    unsupported
        The share of the policy's choices that had probability 0 in the log.
    """

    inverse_probability: Interval
    self_normalised: Interval
    doubly_robust: Interval
    units: int
    effective: float
    largest_weight: float
    unsupported: float

    def tables(self) -> list[Table]:
        """Return the estimates and the diagnostics."""
        rows = [self.inverse_probability, self.self_normalised, self.doubly_robust]
        columns = ("units", "effective sample size", "largest weight", "unsupported")
        facts = (self.units, self.effective, self.largest_weight, self.unsupported)
        return [interval_table("The policy's value", rows), Table("Overlap", columns, [facts])]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return (
            f"{str(self.doubly_robust).removesuffix('.')}. Effective sample size "
            f"{self.effective:,.0f} of {self.units:,} units; largest weight "
            f"{self.largest_weight:,.1f}."
        )


def evaluate(log: Wave, policy: Probabilities, *, level: float = 0.95) -> Evaluation:
    """Estimate the mean outcome of a policy on the units of a log.

    The intervals assume that units, or clusters, are independent. They are valid for logs whose
    probabilities do not depend on the log's own earlier outcomes; for adaptive waves, pool wave by
    wave instead.

    Parameters
    ----------
    log
        Rows, or a re-iterable of pieces.
    policy
        Probabilities of shape (n, K) for a single piece, or a function from rows to probabilities.
    level
        The coverage.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows.of(np.ones((4, 1)), [0, 1, 1, 0], np.full((4, 2), 0.5), [1.0, 3.0, 5.0, 1.0])
    >>> always_1 = np.tile([0.0, 1.0], (4, 1))
    >>> result = evaluate(rows, always_1)
    >>> result.inverse_probability.estimate, result.self_normalised.estimate, result.effective
    (4.0, 4.0, 2.0)
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    evidence = gathered(log)
    model, returned = OutcomeModel.fitted(evidence), ReturnModel.fitted(log, evidence)
    parts = (
        _weighed(rows, wanted, q := returned.of(rows), score(rows, model, q).values)
        for rows, wanted in _wanted(log, policy)
    )
    return _evaluation(reduce(_Weighed.merge, parts), level)


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Sums over units; the columns of moments are w y, w, and the doubly robust score."""

    moments: Moments
    cross: float
    largest: float
    unsupported: float
    clusters: ClusterSums | None

    def merge(self, other: _Weighed) -> _Weighed:
        clusters = self.clusters
        if clusters is not None and other.clusters is not None:
            clusters = clusters.merge(other.clusters)
        return _Weighed(
            self.moments.merge(other.moments),
            self.cross + other.cross,
            max(self.largest, other.largest),
            self.unsupported + other.unsupported,
            clusters,
        )

    def variances(self) -> tuple[list[float], float]:
        """Return the variances of the three estimates, and their degrees of freedom.

        The variance of the ratio is that of w (y - ratio) / mean w, to first order.
        """
        n, (plain, mean, _) = self.moments.count, self.moments.mean.tolist()
        ratio = plain / mean
        if self.clusters is not None:
            away = self.clusters.sums - self.clusters.counts[:, None] * self.moments.mean
            away[:, 1] = (away[:, 0] - ratio * away[:, 1]) / mean
            df = max(len(away) - 1, 1)
            return ((away**2).sum(axis=0) / n**2 * len(away) / df).tolist(), df
        own = self.moments.variance / n
        covariance = (self.cross - n * plain * mean) / max(n - 1, 1) / n
        spread = (own[0] + ratio**2 * own[1] - 2 * ratio * covariance) / mean**2
        return [float(own[0]), max(float(spread), 0.0), float(own[2])], max(n - 1, 1)


def _weighed(rows: Rows, wanted: Floats, returned: Floats, values: Floats) -> _Weighed:
    own = wanted[np.arange(rows.count), rows.actions]
    weights = np.where(rows.returned, own / own_chances(rows, returned), 0.0)
    weighted = weights * np.where(rows.returned, rows.outcomes, 0.0)
    robust = np.einsum("nk,nk->n", wanted, values)
    unsupported = float(wanted[rows.probabilities == 0].sum())
    columns = np.column_stack([weighted, weights, robust])
    return _Weighed(
        Moments.of(columns),
        float(weighted @ weights),
        float(weights.max(initial=0.0)),
        unsupported,
        None if rows.clusters is None else ClusterSums.of(rows.clusters, columns),
    )


def _evaluation(sums: _Weighed, level: float) -> Evaluation:
    moments, n = sums.moments, sums.moments.count
    plain, mean, robust = moments.mean.tolist()
    if not mean:
        raise InvalidArgumentError(
            "policy",
            "one that chooses actions with outcomes in the log",
            "one whose choices never occur in the log",
        )
    squares = float(moments.second[1] + n * mean**2)
    variances, df = sums.variances()
    estimates = {
        "inverse probability": plain,
        "self-normalised": plain / mean,
        "doubly robust": robust,
    }
    named = [
        student(name, estimate, variance, df, level=level)
        for (name, estimate), variance in zip(estimates.items(), variances, strict=True)
    ]
    unsupported = sums.unsupported / n
    if unsupported > ROUNDING:
        note = f"{unsupported:.1%} of the policy's choices have probability 0 in the log."
        named = [replace(one, valid=False, note=note) for one in named]
    return Evaluation(
        inverse_probability=named[0],
        self_normalised=named[1],
        doubly_robust=named[2],
        units=n,
        effective=(n * mean) ** 2 / squares,
        largest_weight=sums.largest,
        unsupported=unsupported,
    )


def _wanted(log: Wave, policy: Probabilities) -> Iterator[tuple[Rows, Floats]]:
    """Yield each piece with the policy's probabilities."""
    if not callable(policy) and not isinstance(log, Rows):
        raise InvalidArgumentError(
            "policy",
            "a function from rows to probabilities if the log comes in pieces",
            type(policy).__name__,
        )
    for rows in pieces(log):
        given = policy(rows) if callable(policy) else policy
        wanted = arguments.floats("policy", given, (rows.count, rows.actions_number))
        wrong = (wanted < 0).any(axis=1) | (np.abs(wanted.sum(axis=1) - 1) > ROUNDING)
        if wrong.any():
            rule = "probabilities of at least 0 that sum to 1 for each unit"
            received = f"{wanted[wrong][0]} for unit {wrong.argmax()}"
            raise InvalidArgumentError("policy", rule, received)
        yield rows, wanted
