"""The return model: the probability that a unit's outcome comes back, by action and features.

Missing outcomes may depend on features, and differently under each action: pooled over actions,
opposite directions cancel. So every action with missing outcomes has its own logistic regression,
always. It is fitted from sums that can be added over pieces and waves: a start from sums alone,
then one Newton step whose sums take one pass over the wave; earlier waves are not read again.
"""

from dataclasses import dataclass
from math import log

import numpy as np

from seqbatch.core.arrays import Bools, Floats
from seqbatch.inference.evidence import Evidence, penalty
from seqbatch.inference.logged_units import Rows, Wave, pieces

#: The lowest probability of an outcome; below it, weights would rest on a few units.
LEAST = 0.05
#: Bounds of the share from which a regression starts, of its R^2, and of its linear predictor.
LOWEST, HIGHEST, MOST_EXPLAINED, FARTHEST = 0.02, 0.98, 0.8, 8.0
#: Below this probability hardly any outcome of such units comes back.
SCARCE = 0.1


@dataclass(frozen=True, eq=False)
class ReturnModel:
    """q_a(x): for each action a share, or a logistic regression if outcomes are missing.

    Parameters
    ----------
    shares
        The share of each action's units with an outcome, with one prior unit at the overall share.
    missing
        Which actions have a regression.
    coefficients
        b of each action, shape (K, P).
    curvature, target
        The sums H and c of the Newton steps of all waves so far, shapes (K, P, P) and (K, P).
    """

    shares: Floats
    missing: Bools
    coefficients: Floats
    curvature: Floats
    target: Floats

    @classmethod
    def by_action(cls, evidence: Evidence) -> "ReturnModel":
        """Return the shares by action alone."""
        back, prior = evidence.statistics.count, _prior(evidence)
        K, P = evidence.statistics.moment.shape
        return cls(
            (back + prior) / (evidence.assigned + 1),
            np.zeros(K, dtype=bool),
            np.zeros((K, P)),
            np.zeros((K, P, P)),
            np.zeros((K, P)),
        )

    @classmethod
    def fitted(
        cls,
        wave: Wave,
        evidence: Evidence,
        *,
        earlier: Evidence | None = None,
        before: "ReturnModel | None" = None,
    ) -> "ReturnModel":
        """Fit the model of a wave.

        Parameters
        ----------
        wave
            The wave's units.
        evidence
            The evidence of all waves up to this one.
        earlier, before
            The evidence and the model of the waves before it; None for the first wave.
        """
        curvature, target, starts = cls.begun(evidence, earlier=earlier, before=before)
        if starts:
            for piece in pieces(wave):
                for action, start in starts.items():
                    H, c = _newton(piece, action, start)
                    curvature[action] += H
                    target[action] += c
        return cls.of_sums(evidence, curvature, target)

    @classmethod
    def begun(
        cls, evidence: Evidence, *, earlier: Evidence | None, before: "ReturnModel | None"
    ) -> tuple[Floats, Floats, dict[int, Floats]]:
        """Return the sums H and c of earlier waves, and where each Newton step starts, by action.

        There is a step for every action with missing outcomes. The parameters are those of
        :meth:`fitted`.
        """
        K, P = evidence.statistics.moment.shape
        curvature, target, starts = np.zeros((K, P, P)), np.zeros((K, P)), {}
        missing = (evidence.gone.count > 0) & (P > 1)
        for action in np.flatnonzero(missing).tolist():
            starts[action] = _start(evidence, action)
            if before is not None and before.missing[action]:
                curvature[action], target[action] = before.curvature[action], before.target[action]
            elif earlier is not None:
                curvature[action], target[action] = _all_back(earlier.statistics.gram[action])
        return curvature, target, starts

    @classmethod
    def of_sums(cls, evidence: Evidence, curvature: Floats, target: Floats) -> "ReturnModel":
        """Return the model whose Newton steps have these sums."""
        made = cls.by_action(evidence)
        missing = (evidence.gone.count > 0) & (evidence.statistics.dim > 1)
        b = made.coefficients.copy()
        for action in np.flatnonzero(missing):
            b[action] = np.linalg.solve(
                curvature[action] + penalty(len(target[action])), target[action]
            )
        return cls(made.shares, missing, b, curvature, target)

    def of(self, rows: Rows) -> Floats:
        """Return q_a(x_i) of every unit and action, shape (n, K); (1, K) without regressions."""
        if not self.missing.any():
            return self.shares[None, :]
        q = np.repeat(self.shares[None, :], rows.count, axis=0)
        some = np.flatnonzero(self.missing)
        q[:, some] = np.clip(_logistic(rows.features @ self.coefficients[some].T), LEAST, 1.0)
        return q


def own_chances(rows: Rows, returned: Floats) -> Floats:
    """Return p q of each unit for the action that it got."""
    q = returned[0] if len(returned) == 1 else None
    own = q[rows.actions] if q is not None else returned[np.arange(rows.count), rows.actions]
    chances: Floats = rows.taken * own
    return chances


def _prior(evidence: Evidence) -> float:
    """Return the share of outcomes that are back; 1 if none is, because it must be positive."""
    return evidence.share_returned or 1.0


def _start(evidence: Evidence, action: int) -> Floats:
    """Return the regression from sums alone: one step from the share, corrected for its R^2.

    For normal columns this is the discriminant function of the units with and without outcomes.
    """
    back, gone = evidence.statistics, evidence.gone
    n1, n0 = int(back.count[action]), int(gone.count[action])
    S = back.gram[action] + gone.gram[action]
    u, rest = back.gram[action][0], gone.gram[action][0]
    q0 = (n1 + _prior(evidence)) / (n1 + n0 + 1)
    q0 = min(max(q0, LOWEST), HIGHEST)
    k = q0 * (1 - q0)
    g: Floats = np.linalg.solve(k * S + penalty(len(u)), u - q0 * S[0])
    g[0] = 0.0
    if not n1:
        g[0] = log(q0 / (1 - q0))
        return g
    m1, m0 = u / n1, rest / n0
    explained = min(max(float(k * (m1 - m0) @ g), 0.0), MOST_EXPLAINED)
    h = g / (1 - explained)
    h[0] = log(q0 / (1 - q0)) - float((m1 + m0) @ h) / 2
    return h


def _newton(piece: Rows, action: int, start: Floats) -> tuple[Floats, Floats]:
    """Return H and c of a Newton step from `start`, over the units of an action."""
    here = piece.actions == action
    x = piece.features[here]
    f = _logistic(np.clip(x @ start, -FARTHEST, FARTHEST))
    H = (x * (f * (1 - f))[:, None]).T @ x
    return H, H @ start + x.T @ (piece.returned[here] - f)


def _all_back(gram: Floats) -> tuple[Floats, Floats]:
    """Return H and c of units whose outcomes are all back, from their sums."""
    H = HIGHEST * (1 - HIGHEST) * gram
    start = np.zeros(len(gram))
    start[0] = log(HIGHEST / (1 - HIGHEST))
    return H, H @ start + (1 - HIGHEST) * gram[0]


def _logistic(z: Floats) -> Floats:
    from scipy.special import expit

    q: Floats = expit(z)
    return q
