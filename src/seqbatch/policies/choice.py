"""Choosing actions: by the highest criterion, uniformly, or by given probabilities.

Each function returns every unit's action and every action's probability. Eligibility is a boolean
array (n, K), or None if every unit may get every action.
"""

from typing import Literal

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers, Places
from seqbatch.errors import InvalidArgumentError

Ties = Literal["lowest", "random"]


def highest(
    criterion: Floats, ties: Ties, draws: Floats, eligible: Bools | None = None
) -> tuple[Integers, Floats]:
    """Choose the eligible action with the highest criterion."""
    if eligible is not None:
        criterion = np.where(eligible, criterion, -np.inf)
    if ties == "random":
        equals = np.empty(criterion.shape, dtype=np.bool_)
        kernels.mark_highest(np.ascontiguousarray(criterion), equals)
        return among(equals, draws)
    return surely(criterion.argmax(axis=1), criterion.shape[1])


def surely(chosen: Places, actions: int) -> tuple[Integers, Floats]:
    """Return the chosen actions with probability 1."""
    probabilities = np.zeros((len(chosen), actions))
    probabilities[np.arange(len(chosen)), chosen] = 1.0
    return chosen, probabilities


def uniformly(
    units: int, actions: int, draws: Floats, eligible: Bools | None = None
) -> tuple[Integers, Floats]:
    """Choose every action, or every eligible one, with the same probability.

    >>> uniformly(2, 3, np.array([0.4, 0.4]), np.array([[True, True, True], [True, False, True]]))
    (array([1, 0]), array([[0.33333333, 0.33333333, 0.33333333],
           [0.5       , 0.        , 0.5       ]]))
    """
    if eligible is not None:
        return among(eligible, draws)
    chosen = np.minimum((draws * actions).astype(np.int64), actions - 1)
    return chosen, np.full((units, actions), 1 / actions)


def among(allowed: Bools, draws: Floats) -> tuple[Integers, Floats]:
    """Choose each of a unit's allowed actions with the same probability."""
    chosen = np.empty(len(allowed), dtype=np.int64)
    probabilities = np.empty(allowed.shape)
    kernels.choose_among(
        np.ascontiguousarray(allowed), np.ascontiguousarray(draws), chosen, probabilities
    )
    return chosen, probabilities


def pick(probabilities: Floats, draws: Floats) -> tuple[Integers, Floats]:
    """Choose the action in whose share of [0, 1) the unit's draw falls."""
    chosen = np.empty(len(probabilities), dtype=np.int64)
    kernels.choose_by_shares(
        np.ascontiguousarray(probabilities), np.ascontiguousarray(draws), chosen
    )
    return chosen, probabilities


def contested(shares: Floats) -> Floats:
    """Return p (1 - p) divided by its sum, for each unit's shares p; p where one of them is 1.

    The sum is added up action by action, as on a device.

    >>> contested(np.array([[0.9, 0.1, 0.0], [0.6, 0.2, 0.2], [0.0, 1.0, 0.0]])).round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.429, 0.286, 0.286],
           [0.   , 1.   , 0.   ]])
    """
    doubt = shares * (1 - shares)
    total = doubt[:, 0].copy()
    for action in range(1, shares.shape[1]):
        total += doubt[:, action]
    sure = (shares == 1).any(axis=1) | (total <= 0)
    scaled: Floats = doubt / np.where(sure, 1.0, total)[:, None]
    return np.where(sure[:, None], shares, scaled)


def require_eligible(
    policy: str, actions: Integers, probabilities: Floats, eligible: Bools | None
) -> None:
    """Refuse decisions that give a unit an action for which it is not eligible."""
    if eligible is None:
        return
    wrong = ~eligible[np.arange(len(actions)), actions]
    likely = (np.where(eligible, 0.0, probabilities) != 0).any(axis=1)
    for name, units in (("actions", wrong), ("probabilities", likely)):
        if units.any():
            unit = int(units.argmax())
            chosen = f"action {actions[unit]}" if name == "actions" else f"{probabilities[unit]}"
            raise InvalidArgumentError(
                f"{policy}'s {name}",
                "among the actions that each unit may get",
                f"{chosen} for unit {unit}, which may get "
                f"{np.flatnonzero(eligible[unit]).tolist()}",
                "A policy must respect contexts.eligible; seqbatch.checks.check_policy shows where "
                "it does not.",
            )
