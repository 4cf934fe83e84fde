"""The anytime alternative: an interval that holds at any look, without a plan, at a price.

A normal mixture boundary (Robbins 1970): valid whatever the policy made of the variance. At the
end it is about half as wide again as the pooled interval.
"""

from collections.abc import Sequence
from math import log, nan, sqrt

from seqbatch.core import arguments
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.intervals import Interval, unknown
from seqbatch.inference.pooling import NOTHING
from seqbatch.inference.shares import PlanOfShares
from seqbatch.inference.summary import WaveSummary
from seqbatch.inference.wave_estimate import estimate_wave


def anytime(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    plan: PlanOfShares,
    *,
    level: float = 0.95,
) -> Interval:
    """Return the interval after the waves so far, valid at all looks together.

    w_m = n_m/C_m, S = sum w_m (theta_m - theta), V = sum w_m^2 v~_m; theta is inside while
    |S| <= sqrt((V + rho) ln((V + rho)/(rho alpha^2))).

    Parameters
    ----------
    summaries
        The waves so far.
    contrast
        A mean or a lift.
    plan
        Where the interval is tightest: at the end of this plan. It holds without it being kept.
    level
        The coverage.
    """
    alpha = 1 - arguments.number("level", level, above=0, at_most=1 - 1e-9)
    waves = [one for summary in summaries if (one := estimate_wave(summary, contrast)) is not None]
    if not waves:
        return unknown(contrast.name, level=level, note=NOTHING)
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
        note="Anytime interval: covers at all looks together, planned or not.",
    )


def _variance_at_end(first: WaveSummary, contrast: Contrast, plan: PlanOfShares) -> float:
    """Return V_end = sigma_1^2/r sum n_m/D_m, by the first wave's noise."""
    sizes = zip(plan.sizes, plan.costs, strict=True)
    information = sum(size / (contrast.arms * cost) for size, cost in sizes)
    # Without any noise in the first wave, any scale will do.
    return (first.noise or 1.0) / first.overall.share_returned * information


def _tightest(variance: float, alpha: float) -> float:
    """Return rho, at which the boundary is tightest when V reaches this variance."""
    return variance / (-2 * log(alpha) + log(-2 * log(alpha)) + 1)
