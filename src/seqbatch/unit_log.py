"""The log of an experiment: contexts, decisions and outcomes, as rows for inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.core import Contexts, Problem
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.policies import Decision, Policy

if TYPE_CHECKING:
    from seqbatch.inference import Rows

#: Logs of more waves do not say what a unit would have got in the others.
MOST_WAVES = 20


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
    def none(cls, problem: Problem) -> LoggedUnits:
        """Return no units."""
        K, dim = problem.actions, problem.dim
        shape = (0, dim) if problem.layout == "block" else (0, K, dim)
        whole, chances = np.empty(0, dtype=np.int64), np.empty((0, K))
        could = np.empty((0, K), dtype=np.bool_)
        return cls(np.empty(shape), whole, chances, could, whole, np.empty(0))

    @classmethod
    def joined(cls, pieces: Sequence[LoggedUnits]) -> LoggedUnits:
        """Return the units of all pieces, of which there is at least one."""
        names = [one.name for one in fields(cls)]
        return cls(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names))

    def rows(self, by_wave: Floats | None = None) -> Rows:
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
            contexts=self.contexts,
            by_wave=by_wave,
        )


@dataclass
class UnitLog:
    """A log that grows with the experiment.

    Parameters
    ----------
    policy, problem
        The policy that decides, and the problem that it was started with.
    opened
        The policy's state at the beginning of each batch; None where it does not tell what units of
        other batches would get: with limits on how many get an action, and with many batches.
    pieces, known
        Units, and outcomes of units by their numbers, in the order in which they were added.

    Examples
    --------
    >>> from seqbatch.core import Problem
    >>> from seqbatch.policies import UniformRandom
    >>> problem = Problem(ends=(2,), actions=2, dim=1, layout="block")
    >>> shares = np.full((2, 2), 0.5)
    >>> decision = Decision(np.array([0, 1]), shares, shares, shares, None, np.zeros(2, np.int64))
    >>> log = UnitLog(UniformRandom(), problem)
    >>> log.open(UniformRandom().begin(problem))
    >>> log.add(Contexts.of([[3.0], [5.0]], problem), decision, wave=1)
    >>> log.know(np.array([1]), np.array([7.0]))
    >>> rows = log.rows()
    >>> rows.features.tolist(), rows.outcomes.tolist(), rows.by_wave.tolist()
    ([[1.0, -1.0], [1.0, 1.0]], [nan, 7.0], [[[0.5, 0.5]], [[0.5, 0.5]]])
    """

    policy: Policy
    problem: Problem
    opened: tuple[Any, ...] | None = ()
    pieces: list[LoggedUnits] = field(default_factory=list)
    known: list[tuple[Integers, Floats]] = field(default_factory=list)

    def open(self, state: Any) -> None:
        """Add the state at the beginning of a batch."""
        if self.problem.batches > MOST_WAVES:
            self.opened = None
        if self.opened is not None and len(self.opened) < self.problem.batches:
            self.opened = (*self.opened, state)

    def add(
        self, contexts: Contexts, decision: Decision, *, wave: int, limited: bool = False
    ) -> None:
        """Add units and what was decided, copied: the caller may modify both."""
        self.opened = None if limited else self.opened
        chances, count = decision.probabilities.copy(), len(contexts)
        eligible = contexts.eligible
        could = np.ones(chances.shape, dtype=np.bool_) if eligible is None else eligible.copy()
        units = (contexts.values.copy(), decision.actions.copy(), chances, could)
        self.pieces.append(LoggedUnits(*units, np.full(count, wave), np.full(count, np.nan)))

    def know(self, units: Integers, rewards: Floats) -> None:
        """Add outcomes of units, by their numbers from 0."""
        self.known.append((units, rewards))

    def __len__(self) -> int:
        return sum(len(piece.actions) for piece in self.pieces)

    @property
    def units(self) -> LoggedUnits:
        """The units so far."""
        made = LoggedUnits.joined([LoggedUnits.none(self.problem), *self.pieces])
        outcomes = made.outcomes
        for units, rewards in self.known:
            outcomes[units] = rewards
        self.pieces, self.known = [replace(made, outcomes=outcomes)], []
        return self.pieces[0]

    def rows(self) -> Rows:
        """Return the units so far for inference."""
        units = self.units
        return units.rows(None if self.opened is None else self._by_wave(units, self.opened))

    def _by_wave(self, units: LoggedUnits, opened: tuple[Any, ...]) -> Floats:
        """Return what each unit would have got in each batch: probabilities (n, batches, K)."""
        eligible = None if units.eligible.all() else units.eligible
        contexts = Contexts(units.contexts, self.problem, eligible)
        draws, places = np.zeros(len(contexts)), np.zeros(len(contexts), dtype=np.int64)
        decided = (self.policy.assign(state, contexts, draws, places) for state in opened)
        return np.stack([decision.probabilities for decision in decided], axis=1)

    def copy(self) -> UnitLog:
        """Return a log that grows by itself."""
        return UnitLog(self.policy, self.problem, self.opened, list(self.pieces), list(self.known))
