"""What one wave says about a contrast: mean, moderated variance, degrees of freedom."""

from dataclasses import dataclass
from math import inf

import numpy as np

from seqbatch.inference.clusters import ClusterSums
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.intervals import Interval, student
from seqbatch.inference.summary import Segment, WaveSummary
from seqbatch.inference.tally import Tally

#: How many degrees of freedom the variance expected from the logged probabilities counts for.
PRIOR_DF = 10.0
#: A variance below this part of the expected one is none.
ROUNDING = 1e-20


@dataclass(frozen=True, kw_only=True)
class WaveEstimate:
    """A contrast in one wave.

    Parameters
    ----------
    about
        What is estimated.
    units
        n_m.
    estimate
        theta_m, the mean of the scores.
    raw_variance
        v_m, by the scores alone.
    variance
        v~_m, moderated by what the logged probabilities lead one to expect.
    cost
        C_m, the mean of the contrast's 1/p.
    df
        Degrees of freedom of v_m.
    effective
        How many outcomes the wave is worth: r n_m arms / C_m, those of an action in a trial in
        which each of `arms` actions is as likely.
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
        """Return the wave's own interval."""
        return student(self.about, self.estimate, self.variance, self.df, level=level)


def moderated(raw: float, df: float, expected: float) -> float:
    """Return a variance pulled to the expected one, as if by ten more degrees of freedom."""
    return (df * raw + PRIOR_DF * expected) / (df + PRIOR_DF)


def degrees_of_freedom(units: float, kurtosis: float, effective: float) -> float:
    """Return min(2 n/(kurtosis - 1), arms^2 r n/C), at least 1."""
    by_kurtosis = 2 * units / (kurtosis - 1) if kurtosis > 1 else inf
    return max(min(by_kurtosis, effective), 1.0)


def estimate_wave(
    summary: WaveSummary, contrast: Contrast, segment: Segment | None = None
) -> WaveEstimate | None:
    """Return what a wave says about a contrast, or None where it says nothing.

    It does not where no outcome came back, where the segment has no unit, and where one of the
    contrast's actions could not be given to some unit.

    Parameters
    ----------
    summary
        The wave.
    contrast
        The question, one of those that were summed up.
    segment
        A partition and a level, for the units of one segment.
    """
    place = summary.place(contrast)
    tally = summary.overall if segment is None else summary.segments.get(segment)
    if tally is None or not tally.outcomes or not np.isfinite(tally.costs[place]):
        return None
    return estimate_tally(
        tally, place, about=contrast.name, arms=contrast.arms, noise=summary.noise
    )


def estimate_tally(
    tally: Tally, place: int, *, about: str, arms: int, noise: float
) -> WaveEstimate:
    """Return what the sums over some units of a wave say about one column.

    Parameters
    ----------
    tally
        The sums; some outcome must have come back.
    place
        The column.
    about, arms
        What is estimated, and how many actions it compares.
    noise
        sigma^2.
    """
    units, cost = tally.units, float(tally.costs[place] / tally.units)
    # What costs nothing compares control with itself: there is neither a gain nor doubt about it.
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
    tally: Tally, place: int, theta: float, *, negligible: float
) -> tuple[float, float, float]:
    """Return v_m, the kurtosis of what it sums, and how much clusters widen it."""
    moments = tally.moments
    alone = float(moments.variance[place] / moments.count)
    if alone <= negligible:
        # Equal but for rounding, as the gains of a uniform wave over random assignment.
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
