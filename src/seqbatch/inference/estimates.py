"""Estimates of contrasts: for one wave, pooled over waves, naive, and anytime-valid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from math import inf, log, nan, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast, Lift
from seqbatch.inference.doubly_robust_scores import Evidence
from seqbatch.inference.intervals import Interval, interval_table, student, unknown
from seqbatch.inference.logged_units import ClusterSums, ScoreSums, shared_covariance
from seqbatch.inference.summary import Segment, WaveSummary

# ----------------------------------------------------------------------
# The plan of shares: how much of the variance each wave contributes, fixed in advance.
#
# Any shares fixed before the first outcome keep pooled estimates asymptotically normal. The costs
# D_m only affect efficiency.


#: How a policy treats its preferred action: it settles on it, or draws it more and more often.
POLICIES = ("greedy", "thompson")


@dataclass(frozen=True, kw_only=True)
class PlanOfShares:
    """Shares of the variance by wave.

    Parameters
    ----------
    sizes
        The planned sizes of the waves.
    costs
        D_m of one action: the planned mean of 1/p; a contrast of two actions costs twice that.
    shares
        share_m; they sum to 1.
    """

    sizes: tuple[int, ...]
    costs: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def information(self) -> tuple[float, ...]:
        """t_m, the information fraction after each wave."""
        sums = list(accumulate(self.shares))
        return tuple(one / sums[-1] for one in sums)

    def tables(self) -> list[Table]:
        """Return the plan as a table."""
        columns = ("wave", "units", "planned 1/p", "share", "information")
        parts = zip(self.sizes, self.costs, self.shares, self.information, strict=True)
        rows = [(wave, *part) for wave, part in enumerate(parts, start=1)]
        return [Table("Shares fixed before the first outcome", columns, rows)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.shares)
        return f"Shares of the variance by wave: {shares}."


def plan_of_shares(
    sizes: Sequence[int],
    *,
    actions: int,
    randomised: float,
    floor: float,
    policy: str = "greedy",
    uniform: int = 1,
) -> PlanOfShares:
    """Fix each wave's share of the variance, before the first outcome.

    D_1 = K, because the first wave is uniform. Later waves have
    D_m = (1/K)/high + (1 - 1/K)/low, with low = h/K + (1-h) f and high = 1 - (K-1) low; under
    Thompson sampling, the geometric mean of K and this. share_m = (n_m/D_m) / sum_j (n_j/D_j).

    Parameters
    ----------
    sizes
        The planned number of units of each wave.
    actions
        K.
    randomised
        h, the share of units assigned uniformly at random.
    floor
        f, the minimum probability of an action for the other units.
    policy
        ``"greedy"`` for policies that prefer one action to all others, or ``"thompson"``.
    uniform
        The number of waves assigned uniformly at random before any outcome is known.

    Examples
    --------
    >>> plan = plan_of_shares([1_000, 1_000, 1_000], actions=3, randomised=0.1, floor=0.02)
    >>> [round(2 * cost, 1) for cost in plan.costs], [round(share, 3) for share in plan.shares]
    ([6.0, 26.7, 26.7], [0.69, 0.155, 0.155])
    """
    K = arguments.integer("actions", actions, at_least=2)
    h = arguments.number("randomised", randomised, at_least=0, at_most=1)
    f = arguments.number("floor", floor, at_least=0, at_most=1 / K)
    arguments.choice("policy", policy, POLICIES)
    units = tuple(arguments.integer("sizes", size) for size in sizes)
    blind = min(arguments.integer("uniform", uniform), len(units))
    low = h / K + (1 - h) * f
    if low <= 0 and len(units) > blind:
        raise InvalidArgumentError(
            "randomised",
            "above 0 if floor is 0",
            h,
            "Otherwise nothing is learned about other actions after the first wave.",
        )
    costs = [float(K)] * blind
    if len(units) > blind:
        later = (1 / K) / (1 - (K - 1) * low) + (1 - 1 / K) / low
        costs += [later if policy == "greedy" else sqrt(later * K)] * (len(units) - blind)
    information = [size / cost for size, cost in zip(units, costs, strict=True)]
    total = sum(information)
    return PlanOfShares(
        sizes=units, costs=tuple(costs), shares=tuple(one / total for one in information)
    )


def share_when_assigned(
    *, spent: Sequence[float], units: int, cost: float, planned_rest: float
) -> float:
    """Set a wave's share when it is assigned, if sizes were not known in advance.

    It may depend on anything but the wave's own outcomes; shares already spent do not change.

    Parameters
    ----------
    spent
        The shares of earlier waves.
    units
        n_m.
    cost
        C_m, the mean of the contrast's 1/p over the units as assigned.
    planned_rest
        The sum of n_j/D_j over the waves planned after this one; 0 for the last.

    Examples
    --------
    >>> share_when_assigned(spent=[0.5], units=100, cost=10.0, planned_rest=30.0)
    0.125
    """
    information = units / cost
    return (1 - sum(spent)) * information / (information + planned_rest)


# ----------------------------------------------------------------------
# One wave: mean, moderated variance, degrees of freedom.


#: The degrees of freedom given to the variance expected from the logged probabilities.
PRIOR_DF = 10.0
#: A variance below this fraction of the expected one counts as 0.
ROUNDING = 1e-20


@dataclass(frozen=True, kw_only=True)
class WaveEstimate:
    """The estimate of a contrast from one wave.

    Parameters
    ----------
    about
        The name of the contrast.
    units
        n_m.
    estimate
        theta_m, the mean of the scores.
    raw_variance
        v_m, from the scores alone.
    variance
        v~_m, moderated towards the variance expected from the logged probabilities.
    cost
        C_m, the mean of the contrast's 1/p.
    df
        The degrees of freedom of v_m.
    effective
        The effective number of outcomes, r n_m arms / C_m: the number per action in a trial in
        which all `arms` actions are equally likely.
    """

    about: str
    units: int
    estimate: float
    raw_variance: float
    variance: float
    cost: float
    df: float
    effective: float

    def interval(self, level: float = 0.95) -> Interval:
        """Return the confidence interval of this wave alone."""
        return student(self.about, self.estimate, self.variance, self.df, level=level)


def moderated(raw: float, df: float, expected: float) -> float:
    """Return a variance shrunk towards the expected one, as if by ten more degrees of freedom."""
    return (df * raw + PRIOR_DF * expected) / (df + PRIOR_DF)


def degrees_of_freedom(units: float, kurtosis: float, effective: float) -> float:
    """Return min(2 n/(kurtosis - 1), arms^2 r n/C), at least 1."""
    by_kurtosis = 2 * units / (kurtosis - 1) if kurtosis > 1 else inf
    return max(min(by_kurtosis, effective), 1.0)


def estimate_wave(
    summary: WaveSummary, contrast: Contrast, segment: Segment | None = None
) -> WaveEstimate | None:
    """Return a wave's estimate of a contrast, or None if there is none.

    There is none if no outcome came back, if the segment has no unit, or if some unit could not get
    one of the contrast's actions.

    Parameters
    ----------
    summary
        The wave.
    contrast
        One of the contrasts in the summary.
    segment
        A partition and a level, to use only the units of one segment.
    """
    place = summary.place(contrast)
    tally = summary.overall if segment is None else summary.segments.get(segment)
    if tally is None or not tally.outcomes or not np.isfinite(tally.costs[place]):
        return None
    return estimate_tally(
        tally, place, about=contrast.name, arms=contrast.arms, noise=summary.noise
    )


def estimate_tally(
    tally: ScoreSums, place: int, *, about: str, arms: int, noise: float
) -> WaveEstimate:
    """Return the estimate of one column from sums over units of a wave.

    Parameters
    ----------
    tally
        The sums, with at least one outcome.
    place
        The column.
    about, arms
        The name of the contrast, and the number of actions that it compares.
    noise
        sigma^2.
    """
    units, cost = tally.units, float(tally.costs[place] / tally.units)
    # A cost of 0 means that control is compared with itself: gain and uncertainty are 0.
    effective = arms**2 * tally.share_returned * units / cost if cost else float(units)
    theta = float(tally.moments.mean[place])
    expected = noise * cost / (tally.share_returned * units)
    raw, kurtosis, design_effect = _spread(tally, place, theta, negligible=ROUNDING * expected)
    independent = units if tally.clusters is None else len(tally.clusters.names)
    df = degrees_of_freedom(independent, kurtosis, effective)
    return WaveEstimate(
        about=about,
        units=units,
        estimate=theta,
        raw_variance=raw,
        variance=moderated(raw, df, design_effect * expected),
        cost=cost,
        df=df,
        effective=effective / arms,
    )


def _spread(
    tally: ScoreSums, place: int, theta: float, *, negligible: float
) -> tuple[float, float, float]:
    """Return v_m, the kurtosis of its terms, and the design effect of clusters."""
    moments = tally.moments
    alone = float(moments.variance[place] / moments.count)
    if alone <= negligible:
        # Equal up to rounding, for example the gain over random assignment in a uniform wave.
        return 0.0, 1.0, 1.0
    if tally.clusters is None:
        return alone, float(moments.kurtosis[place]), 1.0
    raw, kurtosis = _of_clusters(tally.clusters, place, theta)
    return raw, kurtosis, max(raw / alone, 1.0)


def _of_clusters(clusters: ClusterSums, place: int, theta: float) -> tuple[float, float]:
    """Return the variance of the mean between clusters, and the kurtosis of their sums."""
    sums = clusters.deviations(place, theta)
    count, squares = len(sums), sums @ sums
    kurtosis = count * (sums**2 @ sums**2) / squares**2 if squares > 0 else 1.0
    return float(squares / clusters.counts.sum() ** 2 * count / max(count - 1, 1)), float(kurtosis)


# ----------------------------------------------------------------------
# All waves: pooled estimates whose variance shares were fixed in advance.


#: With fewer effective outcomes in a wave, coverage has not been demonstrated.
ENOUGH = 30
FEW = f"Fewer than {ENOUGH} effective outcomes in some wave: coverage has not been verified."
EQUAL = "All outcomes so far are equal, so their noise is unknown."
NOTHING = "No wave has outcomes and a positive probability for every action compared."


@dataclass(frozen=True, kw_only=True)
class Pooled(Interval):
    """A contrast over all waves.

    Parameters
    ----------
    waves
        The estimates of the waves used.
    weights
        Their weights, which sum to 1.
    heterogeneity, same_p
        Q, and the p-value of the hypothesis that all waves have the same value.
    by_size
        The average of the waves weighted by size, to show if they differ.
    """

    waves: tuple[WaveEstimate, ...]
    weights: tuple[float, ...]
    heterogeneity: float
    same_p: float
    by_size: float

    def tables(self) -> list[Table]:
        """Return the pooled interval, and the estimate of each wave."""
        columns = ("wave used", "units", "estimate", "low", "high", "weight", "effective outcomes")
        own = [wave.interval(self.level) for wave in self.waves]
        rows = [
            (place, wave.units, one.estimate, one.low, one.high, weight, wave.effective)
            for place, (wave, one, weight) in enumerate(
                zip(self.waves, own, self.weights, strict=True), start=1
            )
        ]
        return [interval_table(self.about, [self]), Table("Wave by wave", columns, rows)]


def pool(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    *,
    level: float = 0.95,
    segment: Segment | None = None,
) -> Interval:
    """Return a mean or lift over all waves, with an interval that is valid after adaptive waves.

    The weights are sqrt(share_m n_m / C_m): each wave's part of the variance is then its planned
    share, whatever the policy did. Weights that are merely known before the wave's outcomes would
    not suffice. The result is a :class:`Pooled`, or an unknown interval with the reason.

    Parameters
    ----------
    summaries
        The waves so far, from :func:`summarise`.
    contrast
        A mean or a lift.
    shares
        The planned share of each wave; shares of later waves are ignored.
    level
        The coverage.
    segment
        A partition and a level, to use only the units of one segment.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    if len(shares) < len(summaries):
        rule = f"at least {len(summaries)}, one per wave"
        raise InvalidArgumentError("shares", rule, len(shares))
    found = [estimate_wave(one, contrast, segment) for one in summaries]
    weights = [
        0.0 if wave is None else pooling_weight(share, wave)
        for share, wave in zip(shares, found, strict=False)
    ]
    return combined(summaries, contrast, found, weights, level=level, segment=segment)


def pooling_weight(share: float, wave: WaveEstimate) -> float:
    """Return sqrt(share_m n_m / C_m), which is n_m / sqrt(D_m C_m) if sizes are as planned."""
    return sqrt(share * wave.units / wave.cost)


def pool_by_size(
    summaries: Sequence[WaveSummary], contrast: Contrast, *, level: float = 0.95
) -> Interval:
    """Return the value or gain of the campaign as run, with every wave weighted by its units."""
    found = [estimate_wave(one, contrast) for one in summaries]
    weights = [0.0 if wave is None else float(wave.units) for wave in found]
    return combined(summaries, contrast, found, weights, level=level)


def combined(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    found: Sequence[WaveEstimate | None],
    weights: Sequence[float],
    *,
    level: float,
    segment: Segment | None = None,
) -> Interval:
    """Return the weighted mean of the waves that have an estimate."""
    used = [place for place, wave in enumerate(found) if wave is not None and weights[place] > 0]
    waves = [wave for place in used if (wave := found[place]) is not None]
    if not waves or summaries[-1].evidence.all_equal:
        return unknown(contrast.name, level=level, note=EQUAL if waves else NOTHING)
    share = np.array([weights[place] for place in used])
    share = share / share.sum()
    theta = np.array([wave.estimate for wave in waves])
    variances = np.array([wave.variance for wave in waves])
    parts = share**2 * variances
    clusters = [_clusters(summaries[place], segment) for place in used]
    column = summaries[used[0]].place(contrast)
    variance = parts.sum() + _between(clusters, column, share, theta)
    df = pooled_df(parts, np.array([wave.df for wave in waves]))
    few = FEW if min(wave.effective for wave in waves) < ENOUGH else ""
    base = student(contrast.name, float(share @ theta), float(variance), df, level=level, note=few)
    Q, p = _same(theta, base.estimate, variances)
    sizes = np.array([wave.units for wave in waves])
    return Pooled(
        **vars(base),
        waves=tuple(waves),
        weights=tuple(share.tolist()),
        heterogeneity=Q,
        same_p=p,
        by_size=float(sizes @ theta / sizes.sum()),
    )


def pooled_df(parts: Floats, df: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances."""
    below = float((parts**2 / df).sum())
    return float(parts.sum() ** 2 / below) if below > 0 else float(df.sum())


def _same(theta: Floats, pooled: float, variances: Floats) -> tuple[float, float]:
    """Return Q = sum (theta_m - theta)^2 / v~_m and its chi-square p-value, with M - 1 df."""
    from scipy.special import chdtrc

    if len(theta) < 2 or not variances.all():
        return 0.0, 1.0
    Q = float(((theta - pooled) ** 2 / variances).sum())
    return Q, float(chdtrc(len(theta) - 1, Q))


def _clusters(summary: WaveSummary, segment: Segment | None) -> ClusterSums | None:
    return (summary.overall if segment is None else summary.segments[segment]).clusters


def _between(
    clusters: Sequence[ClusterSums | None], column: int, share: Floats, theta: Floats
) -> float:
    """Return the covariance between waves that share clusters, in the weighted mean's variance."""
    total = 0.0
    for one, other in combinations(range(len(clusters)), 2):
        first, second = clusters[one], clusters[other]
        if first is not None and second is not None:
            means = float(theta[one]), float(theta[other])
            covariance = shared_covariance(first, second, column, means)
            total += 2 * float(share[one] * share[other]) * covariance
    # Units of a cluster resemble one another: a negative sum would be chance.
    return max(total, 0.0)


# ----------------------------------------------------------------------
# The interval that most tools print, for comparison: it is not valid after adaptive waves.


WARNING = (
    "Difference in means over all waves, as if units had been assigned at random: biased by the "
    "policy's choices, and too narrow."
)


def naive_lift(evidence: Evidence, action: int, *, over: int = 0, level: float = 0.95) -> Interval:
    """Return the difference of two actions' means with Welch's interval, marked as not valid.

    Parameters
    ----------
    evidence
        The evidence of all waves, from the last wave's summary.
    action, over
        The two actions.
    level
        The nominal coverage.
    """
    about = f"naive {Lift(action, over).name}"
    means, variances, counts = zip(*(_mean(evidence, one) for one in (action, over)), strict=True)
    if min(counts) < 2:
        note = "Too few outcomes of an action."
        return replace(unknown(about, level=level, note=note), valid=False)
    total = sum(variances)
    parts = [part**2 / (count - 1) for part, count in zip(variances, counts, strict=True)]
    df = total**2 / sum(parts) if total else float(min(counts) - 1)
    made = student(about, means[0] - means[1], total, df, level=level, note=WARNING)
    return replace(made, valid=False)


def _mean(evidence: Evidence, action: int) -> tuple[float, float, int]:
    """Return mean outcome, its variance and the count, from sums whose first column is constant."""
    count = int(evidence.statistics.count[action])
    if count < 2:
        return nan, nan, count
    mean = float(evidence.statistics.moment[action, 0]) / count
    squares = float(evidence.statistics.squares[action]) - count * mean**2
    return mean, max(squares, 0.0) / (count - 1) / count, count


# ----------------------------------------------------------------------
# The anytime interval, which is valid at any look and without a plan, but wider.
#
# It is a normal mixture boundary (Robbins 1970), valid for any variance that the policy induces. At
# the end it is about 1.5 times as wide as the pooled interval.


def anytime(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    plan: PlanOfShares,
    *,
    level: float = 0.95,
) -> Interval:
    """Return the interval after the waves so far, valid simultaneously at all looks.

    w_m = n_m/C_m, S = sum w_m (theta_m - theta), V = sum w_m^2 v~_m; theta is inside while
    |S| <= sqrt((V + rho) ln((V + rho)/(rho alpha^2))).

    Parameters
    ----------
    summaries
        The waves so far.
    contrast
        A mean or a lift.
    plan
        The plan at whose end the interval is tightest; it is valid even if the plan is not kept.
    level
        The coverage.
    """
    alpha = 1 - arguments.number("level", level, above=0, at_most=1 - 1e-9)
    waves = [one for summary in summaries if (one := estimate_wave(summary, contrast)) is not None]
    if not waves or summaries[-1].evidence.all_equal:
        return unknown(contrast.name, level=level, note=EQUAL if waves else NOTHING)
    weights = [wave.units / wave.cost for wave in waves]
    total = sum(weights)
    V = sum(weight**2 * wave.variance for weight, wave in zip(weights, waves, strict=True))
    theta = sum(weight * wave.estimate for weight, wave in zip(weights, waves, strict=True)) / total
    rho = _tightest(_variance_at_end(summaries[0], contrast, plan), alpha)
    half = sqrt((V + rho) * log((V + rho) / (rho * alpha**2))) / total
    return Interval(
        about=contrast.name,
        estimate=theta,
        error=sqrt(V) / total,
        df=nan,
        level=level,
        low=theta - half,
        high=theta + half,
        note="Anytime interval: valid at all looks together, planned or not.",
    )


def _variance_at_end(first: WaveSummary, contrast: Contrast, plan: PlanOfShares) -> float:
    """Return V_end = sigma_1^2/r sum n_m/D_m, with the first wave's noise."""
    sizes = zip(plan.sizes, plan.costs, strict=True)
    information = sum(size / (contrast.arms * cost) for size, cost in sizes)
    # If the first wave has no noise, any scale will do.
    return (first.noise or 1.0) / first.overall.share_returned * information


def _tightest(variance: float, alpha: float) -> float:
    """Return the rho for which the boundary is tightest when V reaches this variance."""
    return variance / (-2 * log(alpha) + log(-2 * log(alpha)) + 1)
