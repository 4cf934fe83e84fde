"""What trials lose in all their batches: the mean, its error, the median, each scenario's part."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqbatch.core.arrays import Floats

#: An error below this share of the value is rounding: the value is exact.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Totals:
    """What each trial loses in all its batches.

    Parameters
    ----------
    lost, best
        The regret, and how many units get their best action; shape (trials,).
    weight, luck, uniform
        See :class:`~seqbatch.planning.trials.greedy.Rates`.
    chance
        How many units chance alone assigns, in each stratum; shape (strata,).
    gain
        What each stratum adds to the mean of `uniform`, where it is known exactly.
    strata
        The scenarios that the trials are of, by number, one trial after the other, over and over.
    """

    lost: Floats
    best: Floats
    weight: Floats
    luck: Floats
    uniform: Floats
    chance: Floats
    gain: Floats | None
    strata: tuple[int, ...]

    def mean(self) -> tuple[float, float]:
        """Return the mean over trials of what is lost, and its standard error.

        What is lost by chance alone is known exactly and has no error.
        """
        weighted, known = self._beside_chance()
        mean = float(known.sum()) + float(weighted.mean())
        # Each scenario has its share of the trials, so that the differences between are no chance.
        spread = self._apart_from_luck(weighted, weighted.mean()).std(axis=0, ddof=1)
        error = math.sqrt(float((spread**2).mean()) / weighted.size)
        return mean, error if error > ROUNDING * abs(mean) else 0.0

    def by_scenario(self) -> Floats:
        """Return what each scenario adds to the mean: its regret times its probability."""
        weighted, known = self._beside_chance()
        means = weighted.mean(axis=0) / len(self.strata)
        return np.asarray(np.bincount(self.strata, weights=means + known), dtype=np.float64)

    def errors_by_scenario(self) -> Floats:
        """Return the standard errors of what each scenario adds."""
        weighted, _ = self._beside_chance()
        spread = self._apart_from_luck(weighted, weighted.mean(axis=0)).std(axis=0, ddof=1)
        squares = (spread / len(self.strata)) ** 2 / len(weighted)
        return np.sqrt(np.bincount(self.strata, weights=squares))

    def _apart_from_luck(self, weighted: Floats, mean: Floats | float) -> Floats:
        """Return what the trials add to the error of a mean.

        A trial that counts more takes from what all others count, as the mean of the luck is 1.
        """
        return weighted - mean * self.luck.reshape(weighted.shape)

    def _beside_chance(self) -> tuple[Floats, Floats]:
        """Return what is lost beside chance, by trial and stratum, and what chance alone loses."""
        number = len(self.strata)
        if self.gain is None:
            return (self.weight * self.lost).reshape(-1, number), np.zeros(number)
        beside = self.lost.reshape(-1, number) - self.chance * self.uniform.reshape(-1, number)
        return self.weight.reshape(-1, number) * beside, self.chance * self.gain

    def median(self) -> float:
        """Return what half of the cases lose less than."""
        order = np.argsort(self.lost)
        passed = np.cumsum(self.weight[order])
        return float(self.lost[order[np.searchsorted(passed, passed[-1] / 2)]])

    def best_units(self) -> float:
        """Return how many units get their best action, on average."""
        return float(self.weight @ self.best / self.weight.sum())


def least(options: Sequence[Totals], picked: Sequence[int]) -> Totals:
    """Return the totals of trials each of which follows the option picked for its scenario.

    Parameters
    ----------
    options
        Totals of the same trials.
    picked
        The place of one of them, for each scenario.
    """
    first = options[0]
    own = np.array([picked[scenario] for scenario in first.strata])
    trial = np.resize(own, len(first.lost)), np.arange(len(first.lost))
    return replace(
        first,
        lost=np.stack([one.lost for one in options])[trial],
        best=np.stack([one.best for one in options])[trial],
        weight=np.stack([one.weight for one in options])[trial],
        luck=np.stack([one.luck for one in options])[trial],
        chance=np.stack([one.chance for one in options])[own, np.arange(len(own))],
    )
