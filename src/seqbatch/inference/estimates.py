"""Estimates of contrasts: for one wave, over all waves, naive, and anytime-valid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from math import inf, log, nan, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast, Lift
from seqbatch.inference.evidence import Evidence
from seqbatch.inference.intervals import (
    Estimated,
    FewEvents,
    Interval,
    Shape,
    StudentShape,
    estimated,
    interval_table,
    student,
    unknown,
)
from seqbatch.inference.plan_of_shares import PlanOfShares
from seqbatch.inference.rare_events import few_events, rare_shape
from seqbatch.inference.score_sums import ClusterSums, ResidualSums, ScoreSums, shared_covariance
from seqbatch.inference.summary import Segment, WaveSummary

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
        theta_m, the mean of the scores, less the costs of actions.
    raw_variance
        v_m, from the scores alone.
    variance
        v~_m, moderated towards the variance expected from the logged probabilities.
    cost
        C_m, the mean of the contrast's 1/p.
    df
        The degrees of freedom of v_m.
    effective
        The effective number of outcomes, arms n_m / mean of 1/(p q): the number per action in a
        trial in which all `arms` actions are equally likely.
    clustering
        The design effect of clusters, 1 without them.
    made
        Makes the shape.
    """

    about: str
    units: int
    estimate: float
    raw_variance: float
    variance: float
    cost: float
    df: float
    effective: float
    clustering: float
    made: Callable[[], Shape] = field(repr=False, compare=False)

    @cached_property
    def shape(self) -> Shape:
        """The shape of the estimate from this wave alone, which few ask for."""
        return self.made()

    def interval(self, level: float = 0.95) -> Estimated:
        """Return the confidence interval of this wave alone."""
        return estimated(self.about, self.shape, level=level)


def degrees_of_freedom(units: float, kurtosis: float, effective: float) -> float:
    """Return min(2 n/(kurtosis - 1), effective), at least 1."""
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
    key = contrast, segment
    if key not in summary.estimates:
        summary.estimates[key] = _estimate(summary, contrast, segment)
    made: WaveEstimate | None = summary.estimates[key]
    return made


def _estimate(
    summary: WaveSummary, contrast: Contrast, segment: Segment | None
) -> WaveEstimate | None:
    place = summary.place(contrast, segment)
    tally = summary.tally(segment)
    if tally is None or not tally.outcomes or not np.isfinite(tally.costs[place]):
        return None
    return estimate_tally(tally, place, contrast, summary)


def estimate_tally(
    tally: ScoreSums, place: int, contrast: Contrast, summary: WaveSummary
) -> WaveEstimate:
    """Return the estimate of one column from sums over units of a wave.

    Parameters
    ----------
    tally
        The sums, with at least one outcome.
    place
        The column.
    contrast
        The contrast in this column.
    summary
        The wave's summary, for noise, events and costs of actions.
    """
    units, noise = tally.units, summary.residuals
    design = tally.design[place]
    # A cost of 0 means that control is compared with itself: gain and uncertainty are 0.
    weights = design[:, 1].sum(axis=0)
    total = float(weights.sum() / units)
    effective = contrast.arms**2 * units / total if total else float(units)
    theta = float(tally.moments.mean[place])
    expected = float(weights @ noise.by_action) / units**2
    raw, kurtosis, effect = _spread(tally, place, theta, negligible=ROUNDING * expected)
    independent = units if tally.clusters is None else len(tally.clusters.names)
    df = degrees_of_freedom(independent, kurtosis, effective)
    trusted = degrees_of_freedom(independent, kurtosis, effective * _by_events(noise))
    variance = (trusted * raw + PRIOR_DF * effect * expected) / (trusted + PRIOR_DF)
    charged = float((design[0, 0] - design[1, 0]) @ summary.charges / units)
    return WaveEstimate(
        about=contrast.name,
        units=units,
        estimate=theta - charged,
        raw_variance=raw,
        variance=variance,
        cost=float(tally.costs[place] / units),
        df=df,
        effective=effective / contrast.arms,
        clustering=effect,
        made=partial(
            _alone, tally, place, effect, contrast, summary,
            StudentShape(theta - charged, sqrt(variance), df),
        ),
    )  # fmt: skip


def _alone(
    tally: ScoreSums,
    place: int,
    effect: float,
    contrast: Contrast,
    summary: WaveSummary,
    usual: StudentShape,
) -> Shape:
    """Return the shape of the estimate from one wave: the usual one unless events are rare."""
    rare = _rare_shape([tally], [place], np.ones(1), [effect], contrast, summary)
    return rare or usual


def estimate_tallies(
    whole: ScoreSums, folds: Sequence[ScoreSums], contrast: Contrast, summary: WaveSummary
) -> Shape:
    """Return the shape of a cross-fitted contrast: for rare events, folds count as waves.

    Folds share the data that choose the rule, so their scores are correlated where actions are
    equal. The contrast's widening allows for that, whatever the outcomes are like.

    Parameters
    ----------
    whole, folds
        The sums over all units, and over those of each fold; the contrast is the only column.
    contrast, summary
        The contrast and the wave's summary.
    """
    estimate = estimate_tally(whole, 0, contrast, summary)
    shares = np.array([fold.units for fold in folds]) / whole.units
    effects = [estimate.clustering] * len(folds)
    rare = _rare_shape(folds, [0] * len(folds), shares, effects, contrast, summary)
    wide = sqrt(contrast.widening * estimate.variance)
    return rare or StudentShape(estimate.estimate, wide, estimate.df)


def _by_events(noise: ResidualSums) -> float:
    """Return how much of a variance estimate's weight remains if few residuals are large."""
    excess = noise.kurtosis - 1
    return min(1.0, 2 / excess) if excess > 0 else 1.0


def _rare_shape(
    tallies: Sequence[ScoreSums],
    places: Sequence[int],
    weights: Floats,
    effects: Sequence[float],
    contrast: Contrast,
    summary: WaveSummary,
    *,
    yes_no: bool = False,
) -> Shape | None:
    """Return the shape for rare events, or None if events are not rare or some are negative."""
    events = summary.events
    rare = events.rare or (yes_no and not events.counts.any())
    if not (rare and events.positive) or not any(
        tally.design[place].any() for tally, place in zip(tallies, places, strict=True)
    ):
        return None
    return rare_shape(
        tallies,
        places,
        weights,
        effects,
        events,
        widening=contrast.widening,
        mirrored=bool(summary.usual),
        charges=summary.charges,
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
# All waves together: weighted by size, or by shares of the variance that were fixed in advance.
#
# Weights by size estimate the average over the campaign's units, whatever changed between waves.
# Weights by shares are narrower and estimate the same only if nothing changed; looks use them,
# because their statistic has the canonical distribution over waves.


#: With fewer effective outcomes in a wave, coverage has not been demonstrated.
ENOUGH = 30
FEW = f"Fewer than {ENOUGH} effective outcomes in some wave: coverage has not been verified."
EQUAL = "All outcomes so far are equal, so their noise is unknown."
NOTHING = "No wave has outcomes and a positive probability for every action compared."


@dataclass(frozen=True, kw_only=True)
class Pooled(Estimated):
    """A contrast over all waves.

    Parameters
    ----------
    waves
        The estimates of the waves used.
    weights
        Their weights, which sum to 1.
    heterogeneity, same_p
        Q, and the p-value of the hypothesis that all waves have the same value.
    """

    waves: tuple[WaveEstimate, ...]
    weights: tuple[float, ...]
    heterogeneity: float
    same_p: float

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


def pool_by_size(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    *,
    level: float = 0.95,
    segment: Segment | None = None,
    planned: float | None = None,
    yes_no: bool = False,
    rate: float = 0.0,
) -> Interval:
    """Return a contrast over all waves, weighted by wave size: the average over all units.

    It is valid after adaptive waves, and whatever changed between them. The result is a
    :class:`Pooled`, or an unknown interval with the reason.

    Parameters
    ----------
    summaries
        The waves so far, from :func:`summarise`.
    contrast
        The contrast.
    level
        The coverage.
    segment
        A partition and a level, to use only the units of one segment.
    planned
        The planned effective units of the contrast, from
        :func:`~seqbatch.inference.rare_events.planned_units`; if events are too few for them, there
        is no interval. None does without this rule.
    yes_no
        Whether outcomes are declared to be yes or no. The noise is then known even if no event was
        seen yet.
    rate
        The rate of events that a hypothesis implies, for the rule of events if fewer were seen.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    found = [estimate_wave(one, contrast, segment) for one in summaries]
    weights = _sizes(found)
    few = None if planned is None else _few(summaries[-1], planned, yes_no=yes_no, rate=rate)
    return _combined(summaries, contrast, found, weights, level, segment, few, yes_no=yes_no)


def pool(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    *,
    level: float = 0.95,
    segment: Segment | None = None,
    planned: float | None = None,
) -> Interval:
    """Return a mean or lift over all waves, if it was the same in every wave.

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
    level, segment, planned
        See :func:`pool_by_size`.
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
    few = None if planned is None else _few(summaries[-1], planned)
    return _combined(summaries, contrast, found, weights, level, segment, few)


def pooling_weight(share: float, wave: WaveEstimate) -> float:
    """Return sqrt(share_m n_m / C_m), which is n_m / sqrt(D_m C_m) if sizes are as planned."""
    return sqrt(share * wave.units / wave.cost)


def _sizes(found: Sequence[WaveEstimate | None]) -> list[float]:
    """Return the weights of an average over units: the sizes of the waves with an estimate."""
    return [0.0 if wave is None else float(wave.units) for wave in found]


def _combined(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    found: Sequence[WaveEstimate | None],
    weights: Sequence[float],
    level: float,
    segment: Segment | None,
    few: FewEvents | None,
    *,
    yes_no: bool = False,
) -> Interval:
    """Return the weighted mean of the waves that have an estimate."""
    used = [place for place, wave in enumerate(found) if wave is not None and weights[place] > 0]
    waves = [wave for place in used if (wave := found[place]) is not None]
    last = summaries[-1]
    if not waves or (last.evidence.all_equal and not yes_no):
        return unknown(contrast.name, level=level, note=EQUAL if waves else NOTHING)
    if few is not None:
        return unknown(contrast.name, level=level, note=str(few), few=few)
    share, shape = _shape(summaries, contrast, waves, used, weights, segment, yes_no=yes_no)
    few_outcomes = FEW if min(wave.effective for wave in waves) < ENOUGH else ""
    Q, p = same_in_all(
        np.array([wave.estimate for wave in waves]), np.array([wave.variance for wave in waves])
    )
    return Pooled(
        **vars(estimated(contrast.name, shape, level=level, note=few_outcomes)),
        waves=tuple(waves),
        weights=tuple(share.tolist()),
        heterogeneity=Q,
        same_p=p,
    )


def _shape(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    waves: Sequence[WaveEstimate],
    used: Sequence[int],
    weights: Sequence[float],
    segment: Segment | None,
    *,
    yes_no: bool,
) -> tuple[Floats, Shape]:
    """Return the weights of the waves that have an estimate, and the shape of their mean."""
    share = np.array([weights[place] for place in used])
    share = share / share.sum()
    theta = np.array([wave.estimate for wave in waves])
    tallies = [tally for place in used if (tally := summaries[place].tally(segment)) is not None]
    columns = [summaries[place].place(contrast, segment) for place in used]
    parts = share**2 * np.array([wave.variance for wave in waves])
    between = _between(tallies, columns[0], share)
    more = 1 + between / parts.sum() if between else 1.0
    effects = [wave.clustering * more for wave in waves]
    last = summaries[-1]
    shape = _rare_shape(tallies, columns, share, effects, contrast, last, yes_no=yes_no)
    if shape is None:
        df = pooled_df(parts, np.array([wave.df for wave in waves]))
        shape = StudentShape(float(share @ theta), sqrt(float(parts.sum()) + between), df)
    return share, shape


def shape_by_size(
    summaries: Sequence[WaveSummary], contrast: Contrast, segment: Segment | None = None
) -> Shape | None:
    """Return the shape of :func:`pool_by_size`, without an interval; None if it is unknown."""
    found = [estimate_wave(one, contrast, segment) for one in summaries]
    used = [place for place, wave in enumerate(found) if wave is not None and wave.units > 0]
    if not used or summaries[-1].evidence.all_equal:
        return None
    waves = [wave for place in used if (wave := found[place]) is not None]
    weights = _sizes(found)
    return _shape(summaries, contrast, waves, used, weights, segment, yes_no=False)[1]


def _few(
    last: WaveSummary, planned: float, *, yes_no: bool = False, rate: float = 0.0
) -> FewEvents | None:
    """Return how many events there are if they are too few for the planned effective units."""
    back = last.evidence.share_returned
    return few_events(last.events, planned, share_returned=back, yes_no=yes_no, rate=rate)


def pooled_df(parts: Floats, df: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances."""
    below = float((parts**2 / df).sum())
    return float(parts.sum() ** 2 / below) if below > 0 else float(df.sum())


def same_in_all(theta: Floats, variances: Floats) -> tuple[float, float]:
    """Return Q = sum (theta_m - c)^2 / v~_m and its chi-square p-value, with M - 1 df.

    c is the mean weighted by inverse variances, which makes Q smallest.
    """
    from scipy.special import chdtrc

    if len(theta) < 2 or not variances.all():
        return 0.0, 1.0
    centre = (theta / variances).sum() / (1 / variances).sum()
    Q = float(((theta - centre) ** 2 / variances).sum())
    return Q, float(chdtrc(len(theta) - 1, Q))


def _between(tallies: Sequence[ScoreSums], column: int, share: Floats) -> float:
    """Return the covariance between waves that share clusters, in the weighted mean's variance."""
    total = 0.0
    for one, other in combinations(range(len(tallies)), 2):
        first, second = tallies[one].clusters, tallies[other].clusters
        if first is not None and second is not None:
            # Means of scores, before costs of actions: sums over clusters are gross too.
            means = (
                float(tallies[one].moments.mean[column]),
                float(tallies[other].moments.mean[column]),
            )
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


def naive_lift(
    summary: WaveSummary, action: int, *, over: int = 0, level: float = 0.95
) -> Interval:
    """Return the difference of two actions' means with Welch's interval, marked as not valid.

    Parameters
    ----------
    summary
        The last wave's summary, whose evidence is that of all waves.
    action, over
        The two actions.
    level
        The nominal coverage.
    """
    about = f"naive {Lift(action, over).name}"
    both = (action, over)
    means, variances, counts = zip(*(_mean(summary.evidence, a) for a in both), strict=True)
    if min(counts) < 2:
        note = "Too few outcomes of an action."
        return replace(unknown(about, level=level, note=note), valid=False)
    total = sum(variances)
    parts = [part**2 / (count - 1) for part, count in zip(variances, counts, strict=True)]
    df = total**2 / sum(parts) if total else float(min(counts) - 1)
    charged = float(summary.charges[action] - summary.charges[over])
    made = student(about, means[0] - means[1] - charged, total, df, level=level, note=WARNING)
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
    first = next(one for one in summaries if one.overall.outcomes)
    rho = _tightest(_variance_at_end(first, contrast, plan), alpha)
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
    """Return V_end = sigma_1^2/r sum n_m/D_m, with the noise of the first wave with outcomes."""
    sizes = zip(plan.sizes, plan.costs, strict=True)
    information = sum(size / (contrast.arms * cost) for size, cost in sizes)
    # If the first wave has no noise, any scale will do.
    return (first.residuals.variance or 1.0) / first.overall.share_returned * information


def _tightest(variance: float, alpha: float) -> float:
    """Return the rho for which the boundary is tightest when V reaches this variance."""
    return variance / (-2 * log(alpha) + log(-2 * log(alpha)) + 1)
