"""All waves together: a pooled estimate whose parts of the variance were fixed in advance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.display import Table
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.clusters import ClusterSums, shared_covariance
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.intervals import Interval, interval_table, student, unknown
from seqbatch.inference.summary import Segment, WaveSummary
from seqbatch.inference.wave_estimate import WaveEstimate, estimate_wave

#: Below this many effective outcomes in a wave, coverage has not been shown.
ENOUGH = 30
FEW = f"Fewer than {ENOUGH} effective outcomes in some wave: coverage is not shown for so few."
NOTHING = "No wave has outcomes and a chance of every action compared."


@dataclass(frozen=True, kw_only=True)
class Pooled(Interval):
    """A contrast over all waves.

    Parameters
    ----------
    waves
        What each used wave says.
    weights
        Their weights, which add up to 1.
    heterogeneity, same_p
        Q, and its p-value: one value in all waves.
    by_size
        The average of the waves by their sizes, to be shown where they differ.
    """

    waves: tuple[WaveEstimate, ...]
    weights: tuple[float, ...]
    heterogeneity: float
    same_p: float
    by_size: float

    def tables(self) -> list[Table]:
        """Return the pooled interval, and what each wave says."""
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
    """Return a mean or lift over all waves, with an interval that holds after adaptive waves.

    The weights are sqrt(share_m n_m / C_m), so that each wave's part of the variance is what the
    plan says, whatever the policy did; weights that are merely known before the wave's outcomes
    would not do. The result is a :class:`Pooled`, or says why nothing is known.

    Parameters
    ----------
    summaries
        The waves so far, as :func:`summarise` returns them.
    contrast
        A mean or a lift.
    shares
        The plan's share of each wave; those of later waves do no harm.
    level
        The coverage.
    segment
        A partition and a level, for the units of one segment.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    if len(shares) < len(summaries):
        rule = f"at least {len(summaries)}, one for each wave"
        raise InvalidArgumentError("shares", rule, len(shares))
    found = [estimate_wave(one, contrast, segment) for one in summaries]
    weights = [
        0.0 if wave is None else pooling_weight(share, wave)
        for share, wave in zip(shares, found, strict=False)
    ]
    return combined(summaries, contrast, found, weights, level=level, segment=segment)


def pooling_weight(share: float, wave: WaveEstimate) -> float:
    """Return sqrt(share_m n_m / C_m); it is n_m / sqrt(D_m C_m) where sizes are as planned."""
    return sqrt(share * wave.units / wave.cost)


def pool_by_size(
    summaries: Sequence[WaveSummary], contrast: Contrast, *, level: float = 0.95
) -> Interval:
    """Return a value or gain of the campaign as run: every wave counts by its units."""
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
    """Return the weighted mean of the waves that say something."""
    used = [place for place, wave in enumerate(found) if wave is not None and weights[place] > 0]
    waves = [wave for place in used if (wave := found[place]) is not None]
    if not waves:
        return unknown(contrast.name, level=level, note=NOTHING)
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
    """Return Q = sum (theta_m - theta)^2 / v~_m and its p-value by chi-square of M - 1."""
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
    """Return what clusters that are in several waves add to the variance of the weighted mean."""
    total = 0.0
    for one, other in combinations(range(len(clusters)), 2):
        first, second = clusters[one], clusters[other]
        if first is not None and second is not None:
            means = float(theta[one]), float(theta[other])
            covariance = shared_covariance(first, second, column, means)
            total += 2 * float(share[one] * share[other]) * covariance
    # Units that share a cluster resemble one another: less than nothing would be chance.
    return max(total, 0.0)
