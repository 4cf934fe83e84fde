"""Drift: tests whether lifts, the level of outcomes and features are the same in every wave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import Lift, Mean
from seqbatch.inference.estimates import PRIOR_DF, WaveEstimate, estimate_wave, same_in_all
from seqbatch.inference.multiplicity import holm
from seqbatch.inference.summary import Segment, WaveSummary


@dataclass(frozen=True, kw_only=True)
class SameInAllWaves:
    """A test that a quantity is the same in all waves.

    Parameters
    ----------
    about
        The quantity.
    statistic
        Q of a lift, F of the level, or the largest standardised difference of a feature between a
        wave and the first.
    p_value
        For lifts and features adjusted by Holm's method over the tests of their kind.
    """

    about: str
    statistic: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Tests for changes between waves.

    Parameters
    ----------
    lifts
        One test for each lift that two waves or more can estimate.
    level
        The test that outcomes did not move in common, under all actions; None if it cannot be made.
    features
        Tests of feature means.
    """

    lifts: tuple[SameInAllWaves, ...]
    level: SameInAllWaves | None
    features: tuple[SameInAllWaves, ...]

    @property
    def tests(self) -> tuple[SameInAllWaves, ...]:
        """All tests."""
        return (*self.lifts, *((self.level,) if self.level else ()), *self.features)

    def found(self, alpha: float = 0.05) -> list[str]:
        """Return what differs between waves; `alpha` is the overall error rate."""
        return [one.about for one in self.tests if one.p_value < alpha / 3]

    def tables(self) -> list[Table]:
        """Return the tests as one table."""
        rows = [(one.about, one.statistic, one.p_value) for one in self.tests]
        columns = ("about", "statistic", "p")
        return [Table("The same in all waves?", columns, rows, words=("about",))]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        found = self.found()
        return f"Differs between waves: {', '.join(found)}." if found else "No sign of drift."


#: The name of the test that outcomes of all actions moved in common.
LEVEL = "level of outcomes"


def drift(
    summaries: Sequence[WaveSummary],
    *,
    labels: Sequence[str] = (),
    segments: Mapping[int, Segment] | None = None,
) -> Drift:
    """Test whether lifts, the level of outcomes and features are the same in all waves.

    If lifts differ, one number does not describe them: show the waves. A level that moves for all
    actions alike leaves the lifts unchanged.

    Parameters
    ----------
    summaries
        The waves.
    labels
        The names of the features, the constant first.
    segments
        The units among whom the lift of an action is tested, such as those who may get it; all
        units if there are none.
    """
    among = segments or {}
    every = map(Lift, range(1, len(summaries[0].evidence.zeros)))
    lifts = [
        (lift.name, *change)
        for lift in every
        if (change := lift_change(summaries, lift, among.get(lift.action))) is not None
    ]
    adjusted = holm([p for _, _, p in lifts])
    return Drift(
        lifts=tuple(
            SameInAllWaves(about=name, statistic=Q, p_value=p)
            for (name, Q, _), p in zip(lifts, adjusted, strict=True)
        ),
        level=level_change(summaries),
        features=_features(summaries, labels),
    )


def lift_change(
    summaries: Sequence[WaveSummary], lift: Lift, segment: Segment | None = None
) -> tuple[float, float] | None:
    """Return Q and its p-value: whether a lift is the same in all waves that have it.

    There is nothing to compare, and None, if fewer than two waves have it.
    """
    found = [estimate_wave(one, lift, segment) for one in summaries]
    waves = [wave for wave in found if wave is not None]
    if len(waves) < 2:
        return None
    theta, variances = (
        np.array([getattr(wave, name) for wave in waves]) for name in ("estimate", "variance")
    )
    return same_in_all(theta, variances)


def level_change(summaries: Sequence[WaveSummary]) -> SameInAllWaves | None:
    """Test whether outcomes moved in common between waves, under all actions.

    A least-squares fit of the means of actions in waves, on actions and waves, with weights n/C,
    which do not depend on outcomes; then an F test that all waves have the same level.
    """
    from scipy.special import fdtrc

    actions = len(summaries[0].evidence.zeros)
    cells: list[tuple[int, int, WaveEstimate]] = []
    for wave, summary in enumerate(summaries):
        found = [(action, estimate_wave(summary, Mean(action))) for action in range(actions)]
        cells += [(wave, action, one) for action, one in found if one is not None]
    waves = sorted({wave for wave, _, _ in cells})
    given = sorted({action for _, action, _ in cells})
    design = np.array(
        [[float(action == a) for a in given] + [float(wave == w) for w in waves[1:]]
         for wave, action, _ in cells]
    )  # fmt: skip
    if len(waves) < 2 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    weights = np.array([one.units / one.cost for _, _, one in cells])
    fit = np.linalg.solve((design * weights[:, None]).T @ design, (design * weights[:, None]).T)
    contrast = fit[len(given) :]
    covariance = _covariance(cells, summaries)
    shift = contrast @ np.array([one.estimate for _, _, one in cells])
    spread = contrast @ covariance @ contrast.T
    if not np.all(np.isfinite(spread)) or np.linalg.matrix_rank(spread) < len(shift):
        return None
    statistic = float(shift @ np.linalg.solve(spread, shift) / len(shift))
    df = _smallest_df(contrast, cells)
    return SameInAllWaves(
        about=LEVEL, statistic=statistic, p_value=float(fdtrc(len(shift), df, max(statistic, 0.0)))
    )


def _covariance(
    cells: Sequence[tuple[int, int, WaveEstimate]], summaries: Sequence[WaveSummary]
) -> Floats:
    """Return the covariance of the cells' means; different waves are independent."""
    made = np.zeros((len(cells), len(cells)))
    for row, (wave, action, one) in enumerate(cells):
        made[row, row] = one.variance
        for column, (other_wave, other, _) in enumerate(cells):
            if wave == other_wave and action != other:
                made[row, column] = _covariance_of(summaries[wave], action, other)
    return made


def _covariance_of(summary: WaveSummary, action: int, other: int) -> float:
    """Return the covariance of two actions' means in a wave, between clusters if there are any."""
    clusters, joint = summary.overall.clusters, summary.joint
    if clusters is None:
        return float(joint.covariance[action, other] / joint.count)
    one, two = (
        clusters.deviations(place, float(summary.overall.moments.mean[place]))
        for place in (summary.place(Mean(action)), summary.place(Mean(other)))
    )
    count = len(one)
    return float(one @ two / clusters.counts.sum() ** 2 * count / max(count - 1, 1))


def _smallest_df(contrast: Floats, cells: Sequence[tuple[int, int, WaveEstimate]]) -> float:
    """Return the lowest Satterthwaite degrees of freedom of the waves' levels."""
    lowest = inf
    for row in contrast:
        parts = row**2 * np.array([one.variance for _, _, one in cells])
        below = (parts**2 / np.array([one.df + PRIOR_DF for _, _, one in cells])).sum()
        lowest = min(lowest, float(parts.sum() ** 2 / below) if below > 0 else inf)
    return lowest


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
