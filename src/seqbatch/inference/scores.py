"""Doubly robust scores: what each action would have brought a unit, without bias of the policy."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.inference.model import Model
from seqbatch.inference.returned import Returned
from seqbatch.inference.rows import Rows


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some units.

    Parameters
    ----------
    values
        G_i(a), shape (n, K): the model's prediction, corrected by the unit's own outcome where
        the unit got action a.
    residuals
        e_i, the outcome less its leave-one-out prediction; NaN where no outcome came back.
    """

    values: Floats
    residuals: Floats


def score(rows: Rows, model: Model, returned: Returned) -> Scores:
    """Return G_i(a) = mu_a(x_i) + 1{A_i = a} R_i e_i / (p_i(a) q_a).

    The model may have seen the units' own outcomes: a unit's residual, and its prediction of the
    action it got, are those of the regression without that unit, which its leverage gives at once.

    Parameters
    ----------
    rows
        The units.
    model
        Fitted to all waves up to theirs.
    returned
        How likely their outcomes were to come back.
    """
    values = model.predictions(rows)
    own = np.arange(rows.count), rows.actions
    residuals = (rows.outcomes - values[own]) / (1 - model.leverages(rows))
    back = rows.returned
    known = residuals[back]
    weights = inverse_weights(rows, returned)[back]
    values[back, rows.actions[back]] = rows.outcomes[back] - known + known * weights
    return Scores(values, residuals)


def inverse_weights(rows: Rows, returned: Returned) -> Floats:
    """Return 1 / (p q) of each unit at the action it got."""
    return 1 / (rows.taken * returned.of(rows))
