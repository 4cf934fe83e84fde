"""Linear coefficients of a lift in the features: estimated by wave, then pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import Lift
from seqbatch.inference.doubly_robust_scores import fit_action
from seqbatch.inference.intervals import Interval, interval_table, student, unknown
from seqbatch.inference.logged_units import Wave, pieces

# ----------------------------------------------------------------------
# Coefficients that are valid without assuming that the model is right.


PROJECTION = "The best linear approximation of the lift, whether or not it is linear."
UNUSED = "No wave has enough outcomes of both actions."


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """How an action's lift over control depends on the features.

    Parameters
    ----------
    about
        The lift.
    intervals
        One per column of the model, the constant first.
    waves_used
        The number of waves with enough outcomes of both actions.
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
    """Return the coefficients of an action's lift over control, valid even if it is not linear.

    Least squares weighted by 1/p targets the same population in every wave. The waves are pooled
    with the weights of the lift itself.

    Parameters
    ----------
    waves
        All waves.
    action
        The action.
    shares
        The planned share of each wave.
    labels
        The names of the features, the constant first.
    level
        The coverage of each interval.
    """
    arguments.integer("action", action)
    lift, parts, df = Lift(action), [], 0.0
    for wave, share in zip(waves, shares, strict=False):
        own, control = (fit_action(wave, one) for one in (action, 0))
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
    intervals = _named(estimates, variances, df, labels, level=level)
    return Coefficients(about=lift.name, intervals=intervals, waves_used=len(parts))


def _named(
    estimates: Floats, variances: Floats, df: float, labels: Sequence[str], *, level: float
) -> tuple[Interval, ...]:
    """Return an interval for each coefficient, with the feature's name."""
    names = ["constant", *(f"column {place}" for place in range(1, len(estimates)))]
    names[: len(labels)] = labels
    return tuple(
        student(name, float(estimate), float(variance), df, level=level, note=PROJECTION)
        for name, estimate, variance in zip(names, estimates, variances, strict=True)
    )


def _size_and_costs(wave: Wave, lift: Lift) -> tuple[int, float]:
    """Return n_m and the sum of the lift's 1/p over the wave's units."""
    units, costs = 0, 0.0
    for rows in pieces(wave):
        units += rows.count
        costs += float(lift.costs(rows.probabilities).sum())
    return units, costs
