"""How a lift depends on the features: coefficients by wave, then pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import Lift
from seqbatch.inference.intervals import Interval, interval_table, student, unknown
from seqbatch.inference.model import ActionFit, fit_action
from seqbatch.inference.rows import Wave, pieces

# ----------------------------------------------------------------------
# How the lift depends on the features: coefficients, wave by wave, then pooled.


PROJECTION = "The best linear description of the lift, whether or not it is linear."
UNUSED = "No wave has enough outcomes of both actions."


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """How an action's lift over control depends on the features.

    Parameters
    ----------
    about
        The lift.
    intervals
        One for each column of the model, the constant first.
    waves_used
        How many waves had enough outcomes of both actions.
    """

    about: str
    intervals: tuple[Interval, ...]
    waves_used: int

    def tables(self) -> list[Table]:
        """Return the coefficients as one table."""
        return [interval_table(f"Coefficients of the {self.about}", list(self.intervals))]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return "\n".join(map(str, self.intervals))


def lift_coefficients(
    waves: Sequence[Wave],
    action: int,
    shares: Sequence[float],
    *,
    labels: Sequence[str] = (),
    level: float = 0.95,
) -> Coefficients:
    """Return the coefficients of an action's lift over control, valid whatever the truth is like.

    Least squares weighted by 1/p describe the same population in every wave. Pooled with the
    weights of the lift itself.

    Parameters
    ----------
    waves
        All waves.
    action
        Which action.
    shares
        The plan's share of each wave.
    labels
        The features' names, the constant's first.
    level
        The coverage of each.
    """
    arguments.integer("action", action)
    lift, parts, df = Lift(action), [], 0.0
    for wave, share in zip(waves, shares, strict=False):
        own, control = (fit_action(wave, one, weighted=True) for one in (action, 0))
        units, costs = _size_and_costs(wave, lift)
        if own is None or control is None or not np.isfinite(costs):
            continue
        gap = own.coefficients - control.coefficients
        variance = np.diag(own.covariance) + np.diag(control.covariance)
        parts.append((np.sqrt(share * units * units / costs), gap, variance))
        df += min(own.count, control.count) / 2
    if not parts:
        nothing = unknown(lift.name, level=level, note=UNUSED)
        return Coefficients(about=lift.name, intervals=(nothing,), waves_used=0)
    weights = np.array([part[0] for part in parts])
    weights = weights / weights.sum()
    estimates = weights @ np.array([part[1] for part in parts])
    variances = weights**2 @ np.array([part[2] for part in parts])
    return named_coefficients(
        lift.name, estimates, variances, df, labels, level=level, used=len(parts), note=PROJECTION
    )


def named_coefficients(
    about: str,
    estimates: Floats,
    variances: Floats,
    df: float,
    labels: Sequence[str],
    *,
    level: float,
    used: int,
    note: str,
) -> Coefficients:
    """Return an interval for each coefficient, with the feature's name."""
    names = ["constant", *(f"column {place}" for place in range(1, len(estimates)))]
    names[: len(labels)] = labels
    intervals = tuple(
        student(name, float(estimate), float(variance), df, level=level, note=note)
        for name, estimate, variance in zip(names, estimates, variances, strict=True)
    )
    return Coefficients(about=about, intervals=intervals, waves_used=used)


def _size_and_costs(wave: Wave, lift: Lift) -> tuple[int, float]:
    """Return n_m and the sum of the lift's 1/p over the wave's units."""
    units, costs = 0, 0.0
    for rows in pieces(wave):
        units += rows.count
        costs += float(lift.costs(rows.probabilities).sum())
    return units, costs


# ----------------------------------------------------------------------
# Batched least squares: coefficients that lean on the model, and say so.


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
