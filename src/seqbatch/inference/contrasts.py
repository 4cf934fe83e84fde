"""The contrasts to estimate: means, lifts, and the value and gains of the campaign as run.

Each contrast turns a unit's scores into one number and has a cost, known before any outcome: the
noise that the inverse probabilities add.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from seqbatch.core.arrays import Floats


class Contrast(Protocol):
    """A quantity to estimate from the units' scores."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def arms(self) -> int:
        """The number of actions compared."""

    def of(self, scores: Floats, probabilities: Floats) -> Floats:
        """Return s_i of each unit, from G_i(a) and p_i(a), both of shape (n, K)."""

    def costs(self, probabilities: Floats) -> Floats:
        """Return the sum of 1/p_i over the contrast's actions; infinite if a probability is 0."""


@dataclass(frozen=True)
class Mean:
    """The mean outcome if every unit got one action."""

    action: int
    arms: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Its name."""
        return f"mean of action {self.action}"

    def of(self, scores: Floats, probabilities: Floats) -> Floats:  # noqa: ARG002
        """Return G_i(a)."""
        return scores[:, self.action]

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a)."""
        return _inverse(probabilities[:, self.action])


@dataclass(frozen=True)
class Lift:
    """The difference in mean outcome between two actions; over control by default."""

    action: int
    over: int = 0
    arms: ClassVar[int] = 2

    @property
    def name(self) -> str:
        """Its name."""
        return f"lift of action {self.action} over action {self.over}"

    def of(self, scores: Floats, probabilities: Floats) -> Floats:  # noqa: ARG002
        """Return G_i(a) - G_i(0)."""
        return scores[:, self.action] - scores[:, self.over]

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a) + 1/p_i(0)."""
        return _inverse(probabilities[:, self.action]) + _inverse(probabilities[:, self.over])


@dataclass(frozen=True)
class AsRun:
    """The mean outcome of the campaign as it was run."""

    arms: ClassVar[int] = 1
    name: ClassVar[str] = "value as run"

    def of(self, scores: Floats, probabilities: Floats) -> Floats:
        """Return V_i = sum_a p_i(a) G_i(a)."""
        return as_run(scores, probabilities)

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1: outcomes of the run itself need no weights."""
        return np.ones(len(probabilities))


@dataclass(frozen=True)
class Gain:
    """The gain of the campaign as run over giving one action to all units."""

    over: int = 0
    arms: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Its name."""
        return f"gain of the run over action {self.over}"

    def of(self, scores: Floats, probabilities: Floats) -> Floats:
        """Return V_i - G_i(a)."""
        return as_run(scores, probabilities) - scores[:, self.over]

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p_i(a)."""
        return _inverse(probabilities[:, self.over])


@dataclass(frozen=True)
class GainOverRandom:
    """The gain of the campaign as run over assigning every unit uniformly at random.

    `among` restricts random assignment to some actions; each unit gets only eligible ones.
    """

    among: tuple[int, ...] | None = None
    arms: ClassVar[int] = 1
    name: ClassVar[str] = "gain of the run over random assignment"

    def of(self, scores: Floats, probabilities: Floats) -> Floats:
        """Return V_i minus the mean of G_i(a) over actions."""
        some = self._some(scores)
        random: Floats = some.mean(axis=1)
        if np.isnan(random).any():
            with np.errstate(invalid="ignore"):
                random = np.nansum(some, axis=1) / (~np.isnan(some)).sum(axis=1)
        return as_run(scores, probabilities) - random

    def costs(self, probabilities: Floats) -> Floats:
        """Return sum_a 1/p_i(a) / K^2, the noise of the mean over actions."""
        inverse = _inverse(self._some(probabilities))
        with np.errstate(invalid="ignore"):
            total: Floats = np.nansum(inverse, axis=1) / (~np.isnan(inverse)).sum(axis=1) ** 2
        return total

    def _some(self, columns: Floats) -> Floats:
        return columns if self.among is None else columns[:, list(self.among)]


def all_contrasts(actions: int) -> tuple[Contrast, ...]:
    """Return every contrast of this many actions: 3K + 1 of them."""
    means = [Mean(action) for action in range(actions)]
    lifts = [Lift(action) for action in range(1, actions)]
    gains = [Gain(action) for action in range(actions)]
    return (*means, *lifts, AsRun(), *gains, GainOverRandom())


def as_run(scores: Floats, probabilities: Floats) -> Floats:
    """Return V_i = sum_a p_i(a) G_i(a) of each unit."""
    could = ~np.isnan(probabilities)
    if not could.all():
        scores, probabilities = np.where(could, scores, 0.0), np.where(could, probabilities, 0.0)
    value: Floats = np.einsum("nk,nk->n", scores, probabilities)
    return value


def _inverse(probabilities: Floats) -> Floats:
    """Return 1/p, infinite if p is 0."""
    with np.errstate(divide="ignore"):
        return 1 / probabilities
