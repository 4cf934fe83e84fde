"""The log of an experiment: contexts, decisions and outcomes, as rows for inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from seqbatch.core import Contexts
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.policies import Decision

if TYPE_CHECKING:
    from seqbatch.inference import Rows


@dataclass(frozen=True, eq=False)
class LoggedUnits:
    """Units in the order of assignment.

    Parameters
    ----------
    contexts
        In the layout of the problem.
    actions, probabilities, eligible
        What each unit got, with which probabilities, and what it could get.
    waves
        The batch of each unit, from 1.
    outcomes
        Their outcomes, NaN where unknown.
    """

    contexts: Floats
    actions: Integers
    probabilities: Floats
    eligible: Bools
    waves: Integers
    outcomes: Floats

    @classmethod
    def joined(cls, pieces: Sequence[LoggedUnits]) -> LoggedUnits:
        """Return the units of all pieces, of which there is at least one."""
        names = [one.name for one in fields(cls)]
        return cls(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names))

    def rows(self) -> Rows:
        """Return the units for inference: features are a constant and the standardised contexts."""
        # Imported on first use, like the other subpackages.
        from seqbatch.inference import Rows

        flat = self.contexts.reshape(len(self.actions), -1)
        spread = flat.std(axis=0)
        varies = spread > 0
        standardised = (flat[:, varies] - flat[:, varies].mean(axis=0)) / spread[varies]
        return Rows.of(
            np.column_stack([np.ones(len(flat)), standardised]),
            self.actions,
            self.probabilities,
            self.outcomes,
            eligible=None if self.eligible.all() else self.eligible,
            waves=self.waves,
        )


@dataclass
class UnitLog:
    """A log that grows with the experiment.

    Examples
    --------
    >>> from seqbatch.core import Problem
    >>> problem = Problem(ends=(2,), actions=2, dim=1, layout="block")
    >>> shares = np.full((2, 2), 0.5)
    >>> decision = Decision(np.array([0, 1]), shares, shares, shares, None, np.zeros(2, np.int64))
    >>> log = UnitLog()
    >>> log.add(Contexts.of([[3.0], [5.0]], problem), decision, wave=1)
    >>> log.know(np.array([1]), np.array([7.0]))
    >>> log.units.rows().features.tolist(), log.units.outcomes.tolist()
    ([[1.0, -1.0], [1.0, 1.0]], [nan, 7.0])
    """

    pieces: list[LoggedUnits] = field(default_factory=list)
    known: list[tuple[Integers, Floats]] = field(default_factory=list)

    def add(self, contexts: Contexts, decision: Decision, *, wave: int) -> None:
        """Add units and what was decided, copied: the caller may modify both."""
        chances, count = decision.probabilities.copy(), len(contexts)
        eligible = contexts.eligible
        could = np.ones(chances.shape, dtype=np.bool_) if eligible is None else eligible.copy()
        units = (contexts.values.copy(), decision.actions.copy(), chances, could)
        self.pieces.append(LoggedUnits(*units, np.full(count, wave), np.full(count, np.nan)))

    def know(self, units: Integers, rewards: Floats) -> None:
        """Add outcomes of units, by their numbers from 0."""
        self.known.append((units, rewards))

    @property
    def units(self) -> LoggedUnits:
        """The units so far, of which there is at least one."""
        made = LoggedUnits.joined(self.pieces)
        outcomes = made.outcomes
        for units, rewards in self.known:
            outcomes[units] = rewards
        self.pieces, self.known = [replace(made, outcomes=outcomes)], []
        return self.pieces[0]

    def copy(self) -> UnitLog:
        """Return a log that grows by itself."""
        return UnitLog(list(self.pieces), list(self.known))
