"""The context vectors of units and their eligible actions, with one interface for all layouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import Bools, Floats, Integers, Places
from seqbatch.core.problem import Problem
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Contexts:
    """One context vector per unit and action, in any of the three layouts.

    Scores are computed by the same operations in the same order for every unit, wherever the unit
    is in the array and however many units there are. Splitting a batch into pieces therefore
    changes no bit of any score.

    Parameters
    ----------
    values
        Float64 in C order: (n, K, d), (n, K, p) or (n, p); see :class:`Problem`.
    problem
        The problem, which determines the layout.
    eligible
        Which actions each unit may get, shape (n, K), at least one per unit; None if every unit may
        get every action. Choices and probabilities depend on it, scores do not.
    """

    values: Floats
    problem: Problem
    eligible: Bools | None = None

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        problem: Problem,
        *,
        eligible: ArrayLike | None = None,
        name: str = "contexts",
    ) -> Contexts:
        """Validate contexts: shape, real and finite values, and one eligible action per unit.

        Examples
        --------
        >>> problem = Problem(ends=(2,), actions=2, dim=1, layout="block")
        >>> contexts = Contexts.of([[1.0], [2.0]], problem, eligible=[[True, True], [False, True]])
        >>> contexts.take(np.array([1])).eligible
        array([[False,  True]])
        """
        block = problem.layout == "block"
        shape = ("n", problem.dim) if block else ("n", problem.actions, problem.dim)
        advice = (
            "Contexts with one vector per action have the layout 'shared' or 'disjoint'."
            if block
            else "Contexts with one vector per unit, whatever the action, have the layout 'block'."
        )
        checked = arguments.floats(name, values, shape, advice=advice)
        return cls(checked, problem, eligible_of(eligible, len(checked), problem.actions))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, units: Places) -> Contexts:
        """Return the contexts of the given units."""
        kept = None if self.eligible is None else self.eligible[units]
        return Contexts(self.values[units], self.problem, kept)

    def chosen(self, actions: Integers) -> Floats:
        """Return each unit's vector under its action, shape (n, dim), as a new array."""
        # Always a copy, as indexing below is: feedback must not change with the caller's array.
        if self.problem.layout == "block":
            return self.values.copy()
        return self.values[np.arange(len(self)), actions]

    def means(self, theta: Floats) -> Floats:
        """Return <x, theta> for every unit and action, shape (n, K)."""
        self._check_theta(theta)
        out = np.empty((len(self), self.problem.actions))
        kernels.means(self.rows(), theta, out)
        return out

    def means_and_widths(self, theta: Floats, root: Floats) -> tuple[Floats, Floats]:
        """Return <x, theta> and |root x| = sqrt(x' A^-1 x), each of shape (n, K)."""
        self._check_theta(theta)
        means = np.empty((len(self), self.problem.actions))
        widths = np.empty_like(means)
        kernels.means_and_widths(self.rows(), theta, root, means, widths)
        return means, widths

    def best_shares(self, thetas: Floats, *, split_ties: bool) -> Floats:
        """Return the share of parameter draws under which each action is best, shape (n, K).

        `thetas` has shape (S, models, dim). Only a unit's eligible actions compete. A tie counts
        for the lowest action, or in equal parts for each if `split_ties`.
        """
        self._check_theta(thetas[0])
        shares = np.empty((len(self), self.problem.actions))
        kernels.best_shares(
            self.rows(), np.ascontiguousarray(thetas), split_ties, self.eligible, shares
        )
        return shares

    def mixture_shares(
        self, theta: Floats, quadratic: Floats, weights: Floats, *, split_ties: bool
    ) -> Floats:
        """Return the weight of the rules under which each action is best, shape (n, K).

        Rule r scores <x, theta> + x' Q_r x; `quadratic` has shape (rules, models, dim, dim).
        Eligibility and ties are as in :meth:`best_shares`.
        """
        self._check_theta(theta)
        wanted = (len(weights), *theta.shape, self.problem.dim)
        if quadratic.shape != wanted:
            raise InvalidArgumentError(
                "quadratic", f"of shape {wanted}", f"shape {quadratic.shape}"
            )
        shares = np.empty((len(self), self.problem.actions))
        kernels.mixture_shares(
            self.rows(),
            theta,
            np.ascontiguousarray(quadratic),
            np.ascontiguousarray(weights),
            split_ties,
            self.eligible,
            shares,
        )
        return shares

    def dense(self) -> Floats:
        """Return the contexts in the paper's notation, shape (n, K, parameters).

        In the disjoint and block layouts, action a's vector fills the a-th block of a long vector
        of zeros. Use this for checks and small cases only; the library never computes with it.
        """
        problem = self.problem
        if problem.layout == "shared":
            return self.values.copy()
        long = np.zeros((len(self), problem.actions, problem.actions, problem.dim))
        index = np.arange(problem.actions)
        long[:, index, index, :] = self.rows()
        return long.reshape(len(self), problem.actions, problem.parameters)

    def _check_theta(self, theta: Floats) -> None:
        # The kernels do not check bounds.
        wanted = (self.problem.models, self.problem.dim)
        if theta.shape != wanted:
            raise InvalidArgumentError("theta", f"of shape {wanted}", f"shape {theta.shape}")

    def rows(self) -> Floats:
        """Return the values as (n, 1 or K, dim), the form that the kernels take."""
        return self.values if self.values.ndim == 3 else self.values[:, None, :]


def eligible_of(eligible: ArrayLike | None, units: int, actions: int) -> Bools | None:
    """Validate which actions each unit may get: boolean, right shape, at least one per unit."""
    if eligible is None:
        return None
    checked = arguments.bools("eligible", eligible, (units, actions))
    nothing = np.flatnonzero(~checked.any(axis=1))
    if len(nothing):
        raise InvalidArgumentError(
            "eligible",
            "True for at least one action of every unit",
            f"none in row {nothing[0]}" + (f" ({len(nothing)} such rows)" * (len(nothing) > 1)),
            "Leave out units that may get nothing, or add an action that every unit may get.",
        )
    return checked
