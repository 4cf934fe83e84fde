"""How likely an outcome comes back: by action, or by action and features."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.inference.model import ON_COLUMNS, ON_CONSTANT, Evidence
from seqbatch.inference.rows import Rows

#: Newton's method on a strictly convex function settles in a few steps; these are plenty.
STEPS, SETTLED = 50, 1e-10


class Returned(Protocol):
    """Says how likely the outcome of each unit was to come back, under the action it got."""

    def of(self, rows: Rows) -> Floats:
        """Return q of each unit."""


@dataclass(frozen=True, eq=False)
class ReturnedByAction:
    """q_a: the share of outcomes back among units of an action.

    One prior observation at the overall share keeps it above 0.
    """

    shares: Floats

    @classmethod
    def fitted(cls, evidence: Evidence) -> "ReturnedByAction":
        """Count over all waves so far."""
        # Where nothing came back at all, no outcome is weighted: any share above 0 will do.
        back, prior = evidence.statistics.count, evidence.share_returned or 1.0
        return cls((back + prior) / (evidence.assigned + 1))

    def of(self, rows: Rows) -> Floats:
        """Return q of each unit."""
        return self.shares[rows.actions]


@dataclass(frozen=True, eq=False)
class ReturnedByFeatures:
    """q_a(x): a ridge logistic regression for each action.

    For outcomes that may be missing by feature. Sums do not suffice here: every step of Newton's
    method goes through all waves so far again.
    """

    coefficients: Floats

    @classmethod
    def fitted(cls, rows: Iterable[Rows], evidence: Evidence) -> "ReturnedByFeatures":
        """Fit to whether outcomes came back, over all waves so far."""
        actions, columns = len(evidence.assigned), evidence.statistics.dim
        penalty = np.full(columns, ON_COLUMNS)
        penalty[0] = ON_CONSTANT
        b = np.zeros((actions, columns))
        for _ in range(STEPS):
            slope, curvature = -penalty * b, np.tile(np.diag(penalty), (actions, 1, 1))
            for piece in rows:
                for action in range(actions):
                    here = piece.actions == action
                    x = piece.features[here]
                    q = _logistic(x @ b[action])
                    slope[action] += x.T @ (piece.returned[here] - q)
                    curvature[action] += (x * (q * (1 - q))[:, None]).T @ x
            step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
            # Where all or none came back the constant runs off; a bounded step keeps it finite.
            step *= np.minimum(1, 5 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
            b = b + step
            if np.abs(step).max() < SETTLED:
                break
        return cls(b)

    def of(self, rows: Rows) -> Floats:
        """Return q of each unit."""
        return _logistic(np.einsum("np,np->n", rows.features, self.coefficients[rows.actions]))


def _logistic(z: Floats) -> Floats:
    from scipy.special import expit

    q: Floats = expit(z)
    return q
