"""Evidence: sums over units from which models are fitted and events are counted."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.logged_units import Rows, Wave, pieces


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over units; they can be added over pieces and waves in any order.

    Parameters
    ----------
    statistics
        Gram matrix and moment of the units with outcomes, one cell per action.
    gone
        The same of the units without outcomes, whose moments are 0.
    cubes
        The sum of y^3 of each action.
    zeros, ones
        How many outcomes of each action are 0, and how many are 1.
    logs
        The number of positive outcomes, and the sums of their logarithms and of the squares.
    lowest, highest
        The smallest and the largest outcome.
    """

    statistics: Statistics
    gone: Statistics
    cubes: Floats
    zeros: Integers
    ones: Integers
    logs: Floats
    lowest: float = inf
    highest: float = -inf

    @classmethod
    def zero(cls, actions: int, columns: int) -> "Evidence":
        """Return the evidence of no units."""
        none = Statistics.zero(actions, columns)
        count = np.zeros(actions, dtype=np.int64)
        return cls(none, none, np.zeros(actions), count, count, np.zeros(3))

    def with_rows(self, rows: Rows) -> "Evidence":
        """Return the evidence with these units added."""
        back, actions = rows.returned, len(self.zeros)
        outcomes = np.where(back, rows.outcomes, 0.0)
        known, given = rows.outcomes[back], rows.actions[back]
        gone = self.gone
        if len(known) < rows.count:
            gone = gone.add(rows.features, np.zeros(rows.count), np.where(back, -1, rows.actions))
        return Evidence(
            self.statistics.add(rows.features, outcomes, np.where(back, rows.actions, -1)),
            gone,
            self.cubes + np.bincount(given, weights=known**3, minlength=actions),
            self.zeros + np.bincount(given[known == 0], minlength=actions),
            self.ones + np.bincount(given[known == 1], minlength=actions),
            self.logs + _logs(known),
            min(self.lowest, float(known.min(initial=inf))),
            max(self.highest, float(known.max(initial=-inf))),
        )

    def merge(self, other: "Evidence") -> "Evidence":
        """Return the evidence of both sets of units."""
        return Evidence(
            self.statistics.merge(other.statistics),
            self.gone.merge(other.gone),
            self.cubes + other.cubes,
            self.zeros + other.zeros,
            self.ones + other.ones,
            self.logs + other.logs,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )

    def without(self, other: "Evidence") -> "Evidence":
        """Return the evidence without units that are part of it; the extremes are unchanged."""
        return replace(
            self,
            statistics=self.statistics.subtract(other.statistics),
            gone=self.gone.subtract(other.gone),
            cubes=self.cubes - other.cubes,
            zeros=self.zeros - other.zeros,
            ones=self.ones - other.ones,
            logs=self.logs - other.logs,
        )

    @property
    def outcomes(self) -> int:
        """The number of outcomes."""
        return int(self.statistics.count.sum())

    @property
    def assigned(self) -> Integers:
        """The number of units of each action, with or without an outcome."""
        return self.statistics.count + self.gone.count

    @property
    def all_equal(self) -> bool:
        """Whether all outcomes so far are equal, in which case there is nothing to analyse."""
        return not self.lowest < self.highest

    @property
    def share_returned(self) -> float:
        """The share of units with an outcome."""
        return float(self.outcomes / max(self.assigned.sum(), 1))

    @property
    def binary(self) -> bool:
        """Whether all outcomes are 0 or 1."""
        return int(self.zeros.sum() + self.ones.sum()) == self.outcomes

    @property
    def usual(self) -> float:
        """The usual outcome: 1 if outcomes are 0 or 1 and most are 1, else 0."""
        return float(self.binary and self.ones.sum() > self.zeros.sum())

    def events(self, usual: float) -> "Events":
        """Return the events: outcomes that differ from the usual one, 0 or 1."""
        sums = self.statistics
        first, second, third = sums.moment[:, 0], sums.squares, self.cubes
        if usual:
            first, second, third = (
                sums.count - first,
                sums.count - 2 * first + second,
                sums.count - 3 * first + 3 * second - third,
            )
        away = sums.count - (self.ones if usual else self.zeros)
        least = 1 - self.highest if usual else self.lowest
        return Events(
            sums.count, away, first, second, third, least, self.binary, self._log_spread()
        )

    def _log_spread(self) -> float | None:
        """Return the standard deviation of the logarithms of amounts, if outcomes are amounts."""
        count, total, squares = self.logs.tolist()
        if self.binary or count < 2:
            return None
        return sqrt(max(squares - total * total / count, 0.0) / (count - 1))


@dataclass(frozen=True, eq=False)
class Events:
    """The events of each action, and the sums of their sizes.

    Parameters
    ----------
    outcomes, counts
        The number of outcomes, and of those that are events.
    first, second, third
        The sums of the sizes of events, of their squares and of their cubes.
    least
        The smallest size; below 0 if some events are on the other side of the usual outcome.
    binary
        Whether every size is 1.
    log_spread
        The standard deviation of the logarithms of the sizes; None if outcomes are 0 or 1.
    """

    outcomes: Integers
    counts: Integers
    first: Floats
    second: Floats
    third: Floats
    least: float
    binary: bool
    log_spread: float | None = None

    @cached_property
    def share(self) -> float:
        """The share of outcomes that are events."""
        return float(self.counts.sum() / max(self.outcomes.sum(), 1))

    @cached_property
    def rare(self) -> bool:
        """Whether at most half of the outcomes are events."""
        return bool(self.counts.sum()) and self.share <= 0.5

    @property
    def positive(self) -> bool:
        """Whether no event has a negative size."""
        return self.least >= 0

    @cached_property
    def ratios(self) -> tuple[float, float]:
        """The sums of squares over those of sizes, and of cubes over squares; 1 without events."""
        if not self.counts.any():
            # Events of yes/no outcomes have the size 1.
            return 1.0, 1.0
        first, second = self.first.sum(), self.second.sum()
        return float(second / first), float(self.third.sum() / second)

    @cached_property
    def means(self) -> Floats:
        """Each action's mean, drawn towards that of all; 1 for all without events."""
        if not self.counts.any():
            return np.ones(len(self.outcomes))
        overall = float(self.first.sum() / self.outcomes.sum())
        made: Floats = (self.first + overall) / (self.outcomes + 1)
        return made


#: Penalties of all regressions on the evidence: tiny on the constant, 1 on standardised columns.
ON_CONSTANT, ON_COLUMNS = 0.001, 1.0


def penalty(columns: int) -> Floats:
    """Return the penalty matrix of a regression."""
    made = np.full(columns, ON_COLUMNS)
    made[0] = ON_CONSTANT
    return np.diag(made)


def _logs(outcomes: Floats) -> Floats:
    logs = np.log(outcomes[outcomes > 0])
    return np.array([len(logs), logs.sum(), logs @ logs])


def gathered(wave: Wave, earlier: Evidence | None = None) -> Evidence:
    """Return the evidence of a wave, added to that of earlier waves."""
    evidence = earlier
    for piece in pieces(wave):
        if evidence is None:
            evidence = Evidence.zero(piece.actions_number, piece.features.shape[1])
        evidence = evidence.with_rows(piece)
    if evidence is None:
        raise InvalidArgumentError("waves", "of at least one unit each", "a wave without units")
    return evidence
