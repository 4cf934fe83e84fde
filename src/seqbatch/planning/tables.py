"""The rows of a plan's tables: grids, policies, wrong guesses."""

from dataclasses import dataclass

from seqbatch.policies.base import LinearPolicy


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a number of batches costs; NaN where a column has no meaning.

    Parameters
    ----------
    batches
        M; None for fully online, with new estimates after every unit.
    sizes
        How many units each batch holds.
    regret, error
        Expected regret under pure exploitation, and its Monte Carlo standard error: the mean over
        the law of effects and all parameters.
    median
        The regret that half of the cases stay below, given effect and parameters.
    of_online
        Regret divided by that of fully online.
    earned
        The share of the possible gain that is earned: 1 is a perfect assignment, 0 a random one.
    best_share
        The share of units that get their best action.
    lower_bound
        The regret that no method with these batches can go below.
    rate
        The theorem's rate, without its constants and logarithms; comparable between rows.
    total_cost
        Regret plus the cost of the batches.
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


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy on the recommended grid.

    Parameters
    ----------
    name, policy
        Which one.
    regret, error
        Its mean regret, and the standard error: the row's for the first candidate, and for the
        others what they lose more on top of it.
    excess, excess_error
        How much more it loses than the first candidate in the same trials, with standard error.
    """

    name: str
    policy: LinearPolicy
    regret: float
    error: float
    excess: float
    excess_error: float


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What the recommended grid costs if the true effect differs from the assumed one.

    Parameters
    ----------
    factor
        The true effect divided by the stated one.
    regret
        The recommended grid's regret in that case.
    paper
        That of the paper's grid (the better of its two).
    best
        That of the grid tuned to the true effect.
    """

    factor: float
    regret: float
    paper: float
    best: float
