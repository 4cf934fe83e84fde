"""A rule that says which action a unit gets: the one with the highest prediction."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference.model import Evidence, Model


@dataclass(frozen=True, eq=False)
class GreedyRule:
    """To each unit the action with the highest prediction, the lowest among equals.

    Parameters
    ----------
    coefficients
        b_a of each action, shape (K, P).
    known
        Which actions have outcomes; the others are never given.
    """

    coefficients: Floats
    known: Bools

    @classmethod
    def fitted(cls, evidence: Evidence) -> "GreedyRule":
        """Fit the rule to all outcomes."""
        return cls(Model.fitted(evidence).coefficients, evidence.statistics.count > 0)

    def predictions(self, features: Floats) -> Floats:
        """Return mu_a(x) of every action, shape (n, K)."""
        return features @ self.coefficients.T

    def actions(self, features: Floats, eligible: Bools | None = None) -> Integers:
        """Return the action of each unit, among those that it may get."""
        allowed = self.known if eligible is None else self.known & eligible
        usable = np.where(allowed, self.predictions(features), -np.inf)
        best: Integers = usable.argmax(axis=1)
        return best
