"""Batched least squares: coefficients that lean on the model, and say so."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seqbatch.core import arguments
from seqbatch.inference.action_fit import ActionFit, fit_action
from seqbatch.inference.coefficients import UNUSED, Coefficients, named_coefficients
from seqbatch.inference.contrasts import Lift
from seqbatch.inference.intervals import unknown
from seqbatch.inference.rows import Wave

ASSUMING = "Assuming the model: right only if outcomes are linear in the features."


def batched_least_squares(
    waves: Sequence[Wave],
    action: int,
    shares: Sequence[float],
    *,
    labels: Sequence[str] = (),
    level: float = 0.95,
) -> Coefficients:
    """Return the coefficients of a lift by unweighted least squares, marked as not valid.

    Narrower than :func:`~seqbatch.inference.coefficients.lift_coefficients`, and right only if the
    truth is linear. One noise level for each action, from all waves; weights sqrt(share_m)/se_m
    (Zhang, Janson and Murphy 2020). Of the last wave alone, or of the units that BPE keeps for its
    last estimate, it is ordinary least squares on fresh units, with the same restriction.

    Parameters
    ----------
    waves, action, shares, labels, level
        See :func:`~seqbatch.inference.coefficients.lift_coefficients`.
    """
    arguments.integer("action", action)
    lift, fits, parts = Lift(action), [], []
    for wave, share in zip(waves, shares, strict=False):
        own, control = (fit_action(wave, one, weighted=False) for one in (action, 0))
        if own is not None and control is not None:
            fits.append((own, control))
            parts.append(share)
    if not fits:
        nothing = replace(unknown(lift.name, level=level, note=UNUSED), valid=False)
        return Coefficients(about=lift.name, intervals=(nothing,), waves_used=0)
    levels = [_noise([pair[side] for pair in fits]) for side in (0, 1)]
    variances = sum(
        noise * np.array([np.diag(pair[side].inverse) for pair in fits])
        for side, (noise, _) in enumerate(levels)
    )
    gaps = np.array([own.coefficients - control.coefficients for own, control in fits])
    weights = np.sqrt(np.array(parts)[:, None] / variances)
    total = weights.sum(axis=0)
    made = named_coefficients(
        lift.name,
        (weights * gaps).sum(axis=0) / total,
        sum(parts) / total**2,
        min(df for _, df in levels),
        labels,
        level=level,
        used=len(fits),
        note=ASSUMING,
    )
    return replace(made, intervals=tuple(replace(one, valid=False) for one in made.intervals))


def _noise(fits: Sequence[ActionFit]) -> tuple[float, float]:
    """Return an action's noise variance from all waves, and its degrees of freedom."""
    df = sum(fit.count - len(fit.coefficients) for fit in fits)
    return sum(fit.residual_squares for fit in fits) / df, float(df)
