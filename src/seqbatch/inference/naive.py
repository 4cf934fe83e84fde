"""The interval that most tools print, for comparison: it does not hold after adaptive waves."""

from dataclasses import replace
from math import nan

from seqbatch.inference.contrasts import Lift
from seqbatch.inference.intervals import Interval, student, unknown
from seqbatch.inference.model import Evidence

WARNING = (
    "Difference in means over all waves, as if units had been assigned at random: biased by whom "
    "the policy chose, and too sure of itself."
)


def naive_lift(evidence: Evidence, action: int, *, over: int = 0, level: float = 0.95) -> Interval:
    """Return the difference of two actions' mean outcomes with Welch's interval, marked not valid.

    Parameters
    ----------
    evidence
        Of all waves: that of the last wave's summary.
    action, over
        The actions.
    level
        The coverage that it claims.
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
