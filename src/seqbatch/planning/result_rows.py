"""The rows of a plan's tables: grids, candidate policies, sensitivity to wrong guesses."""

import math
from dataclasses import dataclass

from seqbatch.policies.base import BasePolicy


@dataclass(frozen=True, kw_only=True)
class Row:
    """The costs for one number of batches; NaN if a column does not apply.

    Parameters
    ----------
    batches
        M; None for fully online, with new estimates after every unit.
    sizes
        The number of units in each batch.
    regret, error
        Expected regret under pure exploitation over the prior, and its Monte Carlo standard error.
        If one action is chosen for all units at the end: what a unit is expected to lose by it.
    median
        The median regret over effects and parameters.
    of_online
        Regret divided by that of fully online.
    earned
        The share of the possible gain that is earned: 1 for a perfect assignment, 0 for a random
        one.
    best_share
        The share of units that get their best action; the probability that the chosen action is
        the best one.
    lower_bound
        A lower bound on the regret of any method with these batches.
    rate
        The theorem's rate, without constants and logarithms; comparable between rows.
    total_cost
        Regret plus the cost of the batches.
    equal
        The simple regret of equal batches, if one action is chosen at the end; otherwise NaN.
    final
        What a unit of the roll-out loses under the final rule; NaN without a roll-out.
    """

    batches: int | None
    sizes: tuple[int, ...]
    regret: float
    error: float
    median: float
    of_online: float
    earned: float
    best_share: float
    lower_bound: float
    rate: float
    total_cost: float
    final: float = math.nan
    equal: float = math.nan


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy on the recommended grid.

    Parameters
    ----------
    name, policy
        The name and the policy.
    regret, error
        Its mean regret and standard error: the row's for the first candidate, plus the excess for
        the others.
    excess, excess_error
        How much more it loses than the first candidate in the same trials, with standard error.
    """

    name: str
    policy: BasePolicy
    regret: float
    error: float
    excess: float
    excess_error: float


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The cost of the recommended grid if the true effect differs from the assumed one.

    Parameters
    ----------
    factor
        The true effect divided by the stated one.
    regret
        The recommended grid's regret in that case.
    paper
        The regret of the better of the paper's two grids.
    best
        The regret of the grid tuned to the true effect.
    """

    factor: float
    regret: float
    paper: float
    best: float
