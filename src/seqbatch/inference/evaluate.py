"""Off-policy evaluation: the value of another policy, from any log with probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.estimates import PRIOR_DF, degrees_of_freedom
from seqbatch.inference.evidence import Evidence, gathered
from seqbatch.inference.intervals import Interval, interval_table, student
from seqbatch.inference.logged_units import ROUNDING, Rows, Wave, pieces
from seqbatch.inference.return_model import ReturnModel, own_chances
from seqbatch.inference.score_sums import ClusterSums, Moments


class Recommends(Protocol):
    """What has a rule for further units, such as a :class:`~seqbatch.Learner`."""

    def recommend(self, contexts: ArrayLike, *, eligible: Bools | None = None) -> Floats:
        """Return the probability of every action for every unit."""


#: A policy: the number of an action for every unit, the probability of every action for every unit,
#: a function that returns these, or what has learned a rule.
Evaluated = int | Floats | Callable[[Rows], Floats] | Recommends

#: Waves of fewer units are joined with the next: of a few, the variance is not known.
FEWEST = 50
BIASED = "The interval leaves out the bias of the model, which is trusted where weights are large."
#: The columns of the sums, each a mean of units.
PLAIN, WEIGHTS, ROBUST, SWITCHED, SHRUNK, CLIPPED, CONTEXTUAL = range(7)


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
    contextually_weighted
        The same with C of each unit by itself: a wave has more weight for units to which it gave
        the policy's choices more often (Zhan et al. 2021, contextual weights). None without
        `Rows.by_wave`, which logs of a learner and of a simulation have. Narrower, but with small
        waves its intervals may cover too little.
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
    contextually_weighted: Interval | None
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
    log: Wave, policy: Evaluated, *, level: float = 0.95, limit: float = 10.0
) -> Evaluation:
    """Estimate the mean outcome of a policy on the units of a log.

    The intervals assume that units, or clusters, are independent given the waves before. In an
    adaptive log, whose probabilities depend on outcomes of earlier waves, `Rows.waves` says which
    unit is of which wave: each wave then has its own model and its own variance. The weights of
    `adaptively_weighted` make waves contribute equally to the variance, whatever the earlier ones
    showed; the others weigh every unit equally, and their intervals are narrow by chance.

    Parameters
    ----------
    log
        Rows, or a re-iterable of pieces.
    policy
        The number of an action, for every unit; probabilities of shape (n, K) for a single piece; a
        function from rows to probabilities; or a :class:`~seqbatch.Learner`, for the rule that it
        recommends after what it has learned. A learner that learned from this very log looks
        better than it is.
    level
        The coverage.
    limit
        From which weight on `switch`, `shrunk` and `clipped` trust the model: less noise, and the
        model's bias, which their intervals leave out.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows.of(np.ones((4, 1)), [0, 1, 1, 0], np.full((4, 2), 0.5), [1.0, 3.0, 5.0, 1.0])
    >>> result = evaluate(rows, 1)
    >>> result.inverse_probability.estimate, result.self_normalised.estimate, result.effective
    (4.0, 4.0, 2.0)
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    arguments.number("limit", limit, above=0)
    sums: list[_Weighed] = []
    evidence: Evidence | None = None
    returned: ReturnModel | None = None
    counts = _counts(log)
    sizes = _sizes(counts)
    waves: Sequence[AnyArray | None] = _together(counts) or [None]
    for names in waves:
        parts = list(_wanted(log, policy, names))
        units = [rows for rows, _ in parts]
        before, earlier = returned, evidence
        evidence = gathered(units, earlier)
        model = OutcomeModel.fitted(evidence)
        returned = ReturnModel.fitted(units, evidence, earlier=earlier, before=before)
        own = evidence if earlier is None else evidence.without(earlier)
        shift = CommonShift.of(own.statistics, model) if len(waves) > 1 else None
        weighed = (
            _weighed(*part, returned.of(part[0]), model, shift, limit, sizes) for part in parts
        )
        sums.append(reduce(_Weighed.merge, weighed))
    return _evaluation(sums, level, limit)


def _counts(log: Wave) -> Mapping[int, int]:
    """Return the number of units of each wave; none if waves are not known."""
    counts: dict[int, int] = {}
    for rows in pieces(log):
        if rows.waves is None:
            return {}
        for wave, units in zip(*np.unique(rows.waves, return_counts=True), strict=True):
            counts[int(wave)] = counts.get(int(wave), 0) + int(units)
    return counts


def _sizes(counts: Mapping[int, int]) -> Floats:
    """Return the sizes of waves that are numbered from 1."""
    return np.array([counts.get(wave, 0) for wave in range(1, max(counts, default=0) + 1)], float)


def _together(counts: Mapping[int, int]) -> list[AnyArray]:
    """Return the numbers of the waves in order, small ones together."""
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

    `cost` is the sum of p'^2 / p, and that with contextual weights; infinite where the log had no
    chance of a choice. `noise` has the sum of squared residuals and their number; `lost` is the
    number of units to which no wave gave the policy's choices, None without the rules of the waves.
    """

    moments: Moments
    cross: float
    cost: Floats
    noise: Floats
    largest: float
    unsupported: float
    lost: int | None
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
            None if self.lost is None or other.lost is None else self.lost + other.lost,
            clusters,
        )

    def moderated(self, column: int, noise: Floats) -> tuple[float, float]:
        """Return the variance of a column's mean and its degrees of freedom.

        The variance is drawn towards the one that the log's probabilities let expect, as in
        :func:`~seqbatch.inference.estimates.estimate_wave`, from the residuals of all waves so far.
        """
        n, kurtosis = self.moments.count, float(self.moments.kurtosis[column])
        cost = float(self.cost[int(column == CONTEXTUAL)])
        effective = self.noise[1] * n / cost if cost else float(n)
        df = degrees_of_freedom(n, kurtosis, effective)
        expected = noise[0] / max(noise[1], 1.0) / effective if effective else 0.0
        raw = float(self.moments.variance[column]) / n
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
    sizes: Floats,
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
    shares, lost = _contextual(rows, wanted, sizes)
    columns = np.column_stack([plain, weights, robust, *trusted, shares * robust])
    unsupported = float(wanted[rows.probabilities == 0].sum())
    costs = _costs(wanted, rows.probabilities)
    return _Weighed(
        Moments.of(columns),
        float(plain @ weights),
        np.array([costs.sum(), shares**2 @ np.where(shares > 0, costs, 0.0)]),
        np.array([residuals @ residuals, back.sum()], dtype=np.float64),
        float(weights.max(initial=0.0)),
        unsupported,
        lost,
        None if rows.clusters is None else ClusterSums.of(rows.clusters, columns),
    )


def _costs(wanted: Floats, chances: Floats) -> Floats:
    """Return each unit's sum of p'^2 / p over actions; infinite where a choice has no chance."""
    with np.errstate(divide="ignore"):
        costs: Floats = (wanted * wanted / np.where(wanted > 0, chances, 1.0)).sum(axis=-1)
    return costs


def _contextual(rows: Rows, wanted: Floats, sizes: Floats) -> tuple[Floats, int | None]:
    """Return each unit's contextual weight, 1 on average, and for how many no wave has weight.

    The weight of wave m for contexts x is h_m(x) / sum over waves of n h(x), with
    h = 1 / sqrt(sum of p'^2 / p).
    """
    if rows.by_wave is None or rows.waves is None:
        return np.zeros(rows.count), None
    table = 1 / np.sqrt(_costs(wanted[:, None, :], rows.by_wave[:, : len(sizes)]))
    total = table @ sizes
    own = table[np.arange(rows.count), rows.waves - 1]
    shares = np.where(total > 0, sizes.sum() * own / np.where(total > 0, total, 1.0), 0.0)
    return shares, int((total == 0).sum())


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
    costs = np.array([one.cost[0] for one in sums]) / sizes
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
    lost = [one.lost for one in sums]
    if all(one is not None for one in lost):
        asked["contextually weighted"] = (CONTEXTUAL, shares)
    unsupported = sum(one.unsupported for one in sums) / n
    note = f"{unsupported:.1%} of the policy's choices have probability 0 in the log."
    largest = max(one.largest for one in sums)
    made: dict[str, Any] = {"contextually_weighted": None}
    for name, (column, weights) in asked.items():
        estimate = plain / mean if column == WEIGHTS else float(weights @ means[:, column])
        variance, df = _variance(
            sums, weights, column, plain / mean, mean, moderated=name.endswith("ly weighted")
        )
        one: Interval = student(name, estimate, variance, df, level=level)
        # Waves without support have weight 0 in these two.
        supported = {"adaptively weighted": bool(some), "contextually weighted": not any(lost)}
        if unsupported > ROUNDING and not supported.get(name, False):
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
        better = [one.moderated(column, part) for one, part in zip(sums, noise, strict=True)]
        own, freedom = [variance for variance, _ in better], [df for _, df in better]
    parts = [float(weight**2) * part for weight, part in zip(weights, own, strict=True)]
    below = sum(part**2 / df for part, df in zip(parts, freedom, strict=True))
    return sum(parts), sum(parts) ** 2 / below if below else float(sum(freedom))


def _wanted(log: Wave, policy: Evaluated, waves: AnyArray | None) -> Iterator[tuple[Rows, Floats]]:
    """Yield each piece with the policy's probabilities; of some waves, or all units with None."""
    for rows in pieces(log):
        given = _given(rows, policy, whole=rows is log)
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


def _given(rows: Rows, policy: Evaluated, *, whole: bool) -> Floats:
    """Return the probabilities of a policy, in whatever form it is given."""
    if isinstance(policy, int | np.integer) and not isinstance(policy, bool):
        every = rows.actions_number
        if not 0 <= policy < every:
            raise InvalidArgumentError("policy", f"an action from 0 to {every - 1}", repr(policy))
        return np.tile(np.eye(every)[policy], (rows.count, 1))
    if hasattr(policy, "recommend"):
        if rows.contexts is None:
            raise InvalidArgumentError(
                "log",
                "one with contexts if a learner is evaluated",
                "one without",
                "Learner.log() and simulate(..., keep_log=True) have them; Rows.of takes them.",
            )
        return policy.recommend(rows.contexts, eligible=rows.eligible)
    if callable(policy):
        return policy(rows)
    if not whole or not isinstance(policy, np.ndarray | list | tuple):
        rule = "the number of an action, a function from rows to probabilities, or a Learner"
        rule += ", if the log comes in pieces" if not whole else ", or an array of probabilities"
        raise InvalidArgumentError("policy", rule, type(policy).__name__)
    return np.asarray(policy)
