"""Off-policy evaluation: the value of another policy, from any log with probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.estimates import PRIOR_DF, degrees_of_freedom
from seqbatch.inference.evidence import Evidence, gathered
from seqbatch.inference.intervals import Interval, interval_table, student
from seqbatch.inference.logged_units import ROUNDING, Rows, Wave, pieces
from seqbatch.inference.return_model import ReturnModel, own_chances
from seqbatch.inference.score_sums import ClusterSums, Moments

#: A policy: the probability of every action for every unit, or a function that returns them.
Probabilities = Floats | Callable[[Rows], Floats]

#: Waves of fewer units are joined with the next: of a few, the variance is not known.
FEWEST = 50
BIASED = "The interval leaves out the bias of the model, which is trusted where weights are large."
#: The columns of the sums, and the estimators whose columns are means of units.
PLAIN, WEIGHTS, ROBUST, SWITCHED, SHRUNK, CLIPPED = range(6)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The mean outcome under another policy, by several estimators.

    A unit's weight w is the ratio of the policy's and the log's probability of its action.

    Parameters
    ----------
    inverse_probability
        Outcomes weighted by w: unbiased, noisy.
    self_normalised
        The same, divided by the mean weight: less noise, slightly biased.
    doubly_robust
        A model's predictions, corrected by weighted residuals.
    switch
        The same, without the correction where w is above `limit` (Wang et al. 2017).
    shrunk
        Doubly robust with the weights limit^2 w / (w^2 + limit^2): optimistic shrinkage (Su et al.
        2020).
    clipped
        Doubly robust with the weights min(w, limit): pessimistic shrinkage.
    adaptively_weighted
        Doubly robust, with waves weighted by n / sqrt(C): n units, and C the mean over them of the
        sum of p'^2 / p over actions, p' the policy's and p the log's probability (Hadad et al.
        2021, Zhan et al. 2021). For an adaptive log, the one to read first; the same estimate as
        `doubly_robust` if there is one wave. Variances of small waves are drawn towards those that
        the log's probabilities let expect.
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
    switch: Interval
    shrunk: Interval
    clipped: Interval
    adaptively_weighted: Interval
    units: int
    effective: float
    largest_weight: float
    unsupported: float

    @property
    def estimates(self) -> dict[str, Interval]:
        """The interval of each estimator, by its name here."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: one for name, one in every.items() if isinstance(one, Interval)}

    def tables(self) -> list[Table]:
        """Return the estimates and the diagnostics."""
        columns = ("units", "effective sample size", "largest weight", "unsupported")
        facts = (self.units, self.effective, self.largest_weight, self.unsupported)
        values = interval_table("The policy's value", list(self.estimates.values()))
        return [values, Table("Overlap", columns, [facts])]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return (
            f"{str(self.adaptively_weighted).removesuffix('.')}. Effective sample size "
            f"{self.effective:,.0f} of {self.units:,} units; largest weight "
            f"{self.largest_weight:,.1f}."
        )


def evaluate(
    log: Wave, policy: Probabilities, *, level: float = 0.95, limit: float = 10.0
) -> Evaluation:
    """Estimate the mean outcome of a policy on the units of a log.

    The intervals assume that units, or clusters, are independent given the waves before. In an
    adaptive log, whose probabilities depend on outcomes of earlier waves, `Rows.waves` says which
    unit is of which wave: each wave then has its own model and its own variance. The weights of
    `adaptively_weighted` make waves contribute alike to the variance, whatever the earlier ones
    showed; the others weigh every unit alike, and their intervals are narrow by chance.

    Parameters
    ----------
    log
        Rows, or a re-iterable of pieces.
    policy
        Probabilities of shape (n, K) for a single piece, or a function from rows to probabilities.
    level
        The coverage.
    limit
        From which weight on `switch`, `shrunk` and `clipped` trust the model: less noise, and the
        model's bias, which their intervals leave out.

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
    arguments.number("limit", limit, above=0)
    sums: list[_Weighed] = []
    evidence: Evidence | None = None
    returned: ReturnModel | None = None
    waves = _waves(log)
    for names in waves:
        parts = list(_wanted(log, policy, names))
        units = [rows for rows, _ in parts]
        before, earlier = returned, evidence
        evidence = gathered(units, earlier)
        model = OutcomeModel.fitted(evidence)
        returned = ReturnModel.fitted(units, evidence, earlier=earlier, before=before)
        own = evidence if earlier is None else evidence.without(earlier)
        shift = CommonShift.of(own.statistics, model) if len(waves) > 1 else None
        weighed = (_weighed(*part, returned.of(part[0]), model, shift, limit) for part in parts)
        sums.append(reduce(_Weighed.merge, weighed))
    return _evaluation(sums, level, limit)


def _waves(log: Wave) -> list[AnyArray | None]:
    """Return the numbers of the waves in order, small ones together; None for all units."""
    counts: dict[int, int] = {}
    for rows in pieces(log):
        if rows.waves is None:
            return [None]
        for wave, units in zip(*np.unique(rows.waves, return_counts=True), strict=True):
            counts[int(wave)] = counts.get(int(wave), 0) + int(units)
    groups, held = list[list[int]](), FEWEST
    for wave in sorted(counts):
        if held >= FEWEST:
            groups.append([])
            held = 0
        groups[-1].append(wave)
        held += counts[wave]
    if held < FEWEST and len(groups) > 1:
        last = groups.pop()
        groups[-1] += last
    return [np.array(group) for group in groups]


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Sums over units of a wave; the columns of moments are those above, each a mean of units.

    `cost` is the sum of p'^2 / p, infinite where the log had no chance of a choice; `noise` has the
    sum of squared residuals and their number.
    """

    moments: Moments
    cross: float
    cost: float
    noise: Floats
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
            self.cost + other.cost,
            self.noise + other.noise,
            max(self.largest, other.largest),
            self.unsupported + other.unsupported,
            clusters,
        )

    def moderated(self, noise: Floats) -> tuple[float, float]:
        """Return the doubly robust score's variance and its degrees of freedom.

        The variance is drawn towards the one that the log's probabilities let expect, as in
        :func:`~seqbatch.inference.estimates.estimate_wave`, from the residuals of all waves so far.
        """
        n, kurtosis = self.moments.count, float(self.moments.kurtosis[ROBUST])
        effective = self.noise[1] * n / self.cost if self.cost else float(n)
        df = degrees_of_freedom(n, kurtosis, effective)
        expected = noise[0] / max(noise[1], 1.0) / effective if effective else 0.0
        raw = float(self.moments.variance[ROBUST]) / n
        return (df * raw + PRIOR_DF * expected) / (df + PRIOR_DF), df

    def variances(self, ratio: float, mean: float) -> Floats:
        """Return the variance of each column's mean; that of the ratio in place of the weights'.

        The variance of the ratio is that of w (y - ratio) / mean w, to first order.
        """
        n, (plain, weight) = self.moments.count, self.moments.mean[:2].tolist()
        own = self.moments.variance / n
        covariance = (self.cross - n * plain * weight) / max(n - 1, 1) / n
        spread = own[PLAIN] + ratio**2 * own[WEIGHTS] - 2 * ratio * covariance
        own[WEIGHTS] = max(spread, 0.0) / mean**2
        return own


def _weighed(
    rows: Rows,
    wanted: Floats,
    returned: Floats,
    model: OutcomeModel,
    shift: CommonShift | None,
    limit: float,
) -> _Weighed:
    back, every = rows.returned, np.arange(rows.count)
    weights = np.where(back, wanted[every, rows.actions] / own_chances(rows, returned), 0.0)
    plain = weights * np.where(back, rows.outcomes, 0.0)
    made = score(rows, model, returned, shift)
    residuals = np.where(back, made.residuals, 0.0)
    robust = np.einsum("nk,nk->n", wanted, made.values)
    square = limit * limit
    used = (
        np.where(weights <= limit, weights, 0.0),
        square * weights / (weights * weights + square),
        np.minimum(weights, limit),
    )
    trusted = [robust - (weights - some) * residuals for some in used]
    columns = np.column_stack([plain, weights, robust, *trusted])
    unsupported = float(wanted[rows.probabilities == 0].sum())
    chances = np.where(wanted > 0, rows.probabilities, 1.0)
    with np.errstate(divide="ignore"):
        cost = float((wanted * wanted / chances).sum())
    return _Weighed(
        Moments.of(columns),
        float(plain @ weights),
        cost,
        np.array([residuals @ residuals, back.sum()], dtype=np.float64),
        float(weights.max(initial=0.0)),
        unsupported,
        None if rows.clusters is None else ClusterSums.of(rows.clusters, columns),
    )


def _evaluation(sums: Sequence[_Weighed], level: float, limit: float) -> Evaluation:
    sizes = np.array([one.moments.count for one in sums], dtype=np.float64)
    n, shares = int(sizes.sum()), sizes / sizes.sum()
    means = np.array([one.moments.mean for one in sums])
    plain, mean = (shares @ means)[:2].tolist()
    if not mean:
        raise InvalidArgumentError(
            "policy",
            "one that chooses actions with outcomes in the log",
            "one whose choices never occur in the log",
        )
    costs = np.array([one.cost for one in sums]) / sizes
    adaptive = sizes / np.sqrt(costs)
    some = adaptive.sum()
    asked = {
        "inverse probability": (PLAIN, shares),
        "self-normalised": (WEIGHTS, shares),
        "doubly robust": (ROBUST, shares),
        "switch": (SWITCHED, shares),
        "shrunk": (SHRUNK, shares),
        "clipped": (CLIPPED, shares),
        "adaptively weighted": (ROBUST, adaptive / some if some else shares),
    }
    unsupported = sum(one.unsupported for one in sums) / n
    note = f"{unsupported:.1%} of the policy's choices have probability 0 in the log."
    largest, made = max(one.largest for one in sums), {}
    for name, (column, weights) in asked.items():
        estimate = plain / mean if column == WEIGHTS else float(weights @ means[:, column])
        variance, df = _variance(
            sums, weights, column, plain / mean, mean, moderated=name == "adaptively weighted"
        )
        one: Interval = student(name, estimate, variance, df, level=level)
        # Waves without support have weight 0 in the last one.
        if unsupported > ROUNDING and (weights is shares or not some):
            one = replace(one, valid=False, note=note)
        elif column in (SWITCHED, SHRUNK, CLIPPED) and largest > limit:
            one = replace(one, valid=False, note=BIASED)
        made[name.replace(" ", "_").replace("-", "_")] = one
    squares = sum(float(one.moments.second[WEIGHTS]) for one in sums)
    squares += float(sizes @ means[:, WEIGHTS] ** 2)
    return Evaluation(
        **made,
        units=n,
        effective=(n * mean) ** 2 / squares,
        largest_weight=largest,
        unsupported=unsupported,
    )


def _variance(
    sums: Sequence[_Weighed],
    weights: Floats,
    column: int,
    ratio: float,
    mean: float,
    *,
    moderated: bool,
) -> tuple[float, float]:
    """Return the variance of a weighted mean of the waves' means, and its degrees of freedom."""
    names, away = [], []
    for one, weight in zip(sums, weights, strict=True):
        if one.clusters is not None:
            off = one.clusters.sums - one.clusters.counts[:, None] * one.moments.mean
            off[:, WEIGHTS] = (off[:, PLAIN] - ratio * off[:, WEIGHTS]) / mean
            names.append(one.clusters.names)
            away.append(weight / one.moments.count * off[:, column])
    if names:
        # A cluster may have units in several waves.
        _, places = np.unique(np.concatenate(names), return_inverse=True)
        total = np.bincount(places, weights=np.concatenate(away))
        df = max(len(total) - 1, 1)
        return float(total @ total) * len(total) / df, df
    freedom = [float(max(one.moments.count - 1, 1)) for one in sums]
    own = [float(one.variances(ratio, mean)[column]) for one in sums]
    if moderated:
        noise = np.cumsum([one.noise for one in sums], axis=0)
        better = [one.moderated(part) for one, part in zip(sums, noise, strict=True)]
        own, freedom = [variance for variance, _ in better], [df for _, df in better]
    parts = [float(weight**2) * part for weight, part in zip(weights, own, strict=True)]
    below = sum(part**2 / df for part, df in zip(parts, freedom, strict=True))
    return sum(parts), sum(parts) ** 2 / below if below else float(sum(freedom))


def _wanted(
    log: Wave, policy: Probabilities, waves: AnyArray | None
) -> Iterator[tuple[Rows, Floats]]:
    """Yield each piece with the policy's probabilities; of some waves, or all units with None."""
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
        if waves is None or rows.waves is None:
            yield rows, wanted
        elif (among := np.isin(rows.waves, waves)).any():
            yield rows.some(among), wanted[among]
