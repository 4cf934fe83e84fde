"""Drift: tests whether lifts, means and features are the same in every wave."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import Contrast, Lift, Mean
from seqbatch.inference.estimates import Pooled, pool
from seqbatch.inference.multiplicity import holm
from seqbatch.inference.summary import WaveSummary


@dataclass(frozen=True, kw_only=True)
class SameInAllWaves:
    """A test that a quantity is the same in all waves.

    Parameters
    ----------
    about
        The quantity.
    statistic
        Q, or the largest standardised difference of a feature between a wave and the first.
    p_value
        Adjusted by Holm's method over the tests of its kind.
    """

    about: str
    statistic: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Tests for changes between waves.

    Parameters
    ----------
    outcomes
        Tests of means and lifts.
    features
        Tests of feature means.
    """

    outcomes: tuple[SameInAllWaves, ...]
    features: tuple[SameInAllWaves, ...]

    def found(self, alpha: float = 0.05) -> list[str]:
        """Return the quantities that differ between waves; `alpha` is the overall error rate."""
        return [one.about for one in (*self.outcomes, *self.features) if one.p_value < alpha / 2]

    def tables(self) -> list[Table]:
        """Return the tests as one table."""
        rows = [(one.about, one.statistic, one.p_value) for one in (*self.outcomes, *self.features)]
        columns = ("about", "statistic", "p (Holm)")
        return [Table("The same in all waves?", columns, rows, words=("about",))]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        found = self.found()
        return f"Differs between waves: {', '.join(found)}." if found else "No sign of drift."


def drift(
    summaries: Sequence[WaveSummary], shares: Sequence[float], *, labels: Sequence[str] = ()
) -> Drift:
    """Test whether means, lifts and features are the same in all waves.

    If lifts differ, one number does not describe them: show the waves. Means that change equally
    for all actions leave the lifts unchanged.

    Parameters
    ----------
    summaries
        The waves.
    shares
        The planned share of each wave.
    labels
        The names of the features, the constant first.
    """
    actions = len(summaries[0].evidence.assigned)
    contrasts: list[Contrast] = [Mean(action) for action in range(actions)]
    contrasts += [Lift(action) for action in range(1, actions)]
    pooled = [pool(summaries, contrast, shares) for contrast in contrasts]
    known = [one for one in pooled if isinstance(one, Pooled)]
    adjusted = holm([one.same_p for one in known])
    return Drift(
        outcomes=tuple(
            SameInAllWaves(about=one.about, statistic=one.heterogeneity, p_value=p)
            for one, p in zip(known, adjusted, strict=True)
        ),
        features=_features(summaries, labels),
    )


def _features(
    summaries: Sequence[WaveSummary], labels: Sequence[str]
) -> tuple[SameInAllWaves, ...]:
    """Compare each feature's mean in every later wave with the first wave."""
    from scipy.special import ndtr

    first, later = summaries[0].features, [one.features for one in summaries[1:]]
    columns = range(1, len(first.mean))
    sizes, raw = [], []
    for column in columns:
        spread = float(np.sqrt(first.variance[column]))
        gaps = [float(one.mean[column] - first.mean[column]) for one in later]
        errors = [
            float(np.sqrt(one.variance[column] / one.count + spread**2 / first.count))
            for one in later
        ]
        largest = max((abs(g) / e for g, e in zip(gaps, errors, strict=True) if e), default=0.0)
        sizes.append(max(map(abs, gaps), default=0.0) / (spread or 1.0))
        raw.append(min(1.0, 2 * float(ndtr(-largest)) * len(later)))
    return tuple(
        SameInAllWaves(
            about=labels[column] if column < len(labels) else f"column {column}",
            statistic=size,
            p_value=p,
        )
        for column, size, p in zip(columns, sizes, holm(raw), strict=True)
    )
