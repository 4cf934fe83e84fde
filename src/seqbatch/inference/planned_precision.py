"""The precision of a planned campaign: expected standard errors and the detectable lift."""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from math import inf, sqrt

from seqbatch.core import arguments
from seqbatch.inference.intervals import quantile
from seqbatch.inference.multiplicity import dunnett_critical
from seqbatch.inference.plan_of_shares import PlanOfShares, plan_of_shares


def planned_error(
    sizes: Sequence[int],
    *,
    actions: int,
    randomised: float,
    floor: float,
    columns: int,
    noise: float,
    returned: float = 1.0,
    lift_variance: float = 0.0,
    uniform: int = 1,
) -> float:
    """Return the approximate standard error of a pooled lift over control.

    It is the last of :func:`planned_path`, for a policy that prefers one action.

    Parameters
    ----------
    sizes, actions, randomised, floor, uniform
        See :func:`~seqbatch.inference.estimates.plan_of_shares`.
    columns, noise, returned, lift_variance
        See :func:`planned_path`.

    Examples
    --------
    >>> error = planned_error(
    ...     [1_000, 1_000, 1_000], actions=3, randomised=1.0, floor=0.0, columns=4, noise=1.0,
    ...     returned=0.8,
    ... )
    >>> round(error, 3), round(detectable_lift(error), 2)
    (0.05, 0.14)
    """
    plan = plan_of_shares(
        sizes, actions=actions, randomised=randomised, floor=floor, uniform=uniform
    )
    path = planned_path(
        plan,
        actions=actions,
        columns=columns,
        noise=noise,
        returned=returned,
        lift_variance=lift_variance,
    )
    return path[-1]


def planned_path(
    plan: PlanOfShares,
    *,
    actions: int,
    columns: int,
    noise: float,
    returned: float = 1.0,
    lift_variance: float = 0.0,
) -> tuple[float, ...]:
    """Return the approximate standard error of a pooled lift over control after each wave.

    v_m = (sigma^2 C_m (1 + d_m)/r + V)/n_m, where d_m = P/max(N_m - P - 1, P) is the cost of a
    model fitted to N_m = r (n_1 + ... + n_m)/K outcomes. A wave's part of the variance is its
    share, hence after m waves se = sqrt(t_m) / (sqrt(share_1/v_1) + ... + sqrt(share_m/v_m)).

    Parameters
    ----------
    plan
        The sizes, costs and shares of the waves.
    actions
        K.
    columns
        P, the number of columns of the model.
    noise
        The standard deviation of outcomes around the model.
    returned
        r, the share of outcomes that come back.
    lift_variance
        V, the variance of the lift between units.
    """
    total, errors = 0.0, []
    variances = planned_variances(
        plan, actions=actions, columns=columns, noise=noise, returned=returned,
        lift_variance=lift_variance,
    )  # fmt: skip
    for share, variance, information in zip(plan.shares, variances, plan.information, strict=True):
        total += sqrt(share / variance) if variance else float("inf")
        errors.append(sqrt(information) / total)
    return tuple(errors)


def planned_variances(
    plan: PlanOfShares,
    *,
    actions: int,
    columns: int,
    noise: float,
    returned: float = 1.0,
    lift_variance: float = 0.0,
) -> list[float]:
    """Return v_m, the approximate variance of a lift over control in each wave by itself.

    See :func:`planned_path`.
    """
    arguments.integer("columns", columns)
    arguments.number("noise", noise, at_least=0)
    r = arguments.number("returned", returned, above=0, at_most=1)
    variances = []
    for size, so_far, cost in zip(plan.sizes, accumulate(plan.sizes), plan.costs, strict=True):
        fitted = r * so_far / actions
        price = columns / max(fitted - columns - 1, columns)
        variances.append((noise**2 * 2 * cost * (1 + price) / r + lift_variance) / size)
    return variances


def average_error(sizes: Sequence[int], variances: Sequence[float]) -> float:
    """Return the standard error of a lift averaged over all units, as findings state it.

    sqrt(n_1^2 v_1 + ... + n_M^2 v_M) / (n_1 + ... + n_M). The pooled lift of the looks, which
    weights precise waves more, has a smaller one: the last of :func:`planned_path`.

    >>> average_error([1_000, 3_000], [0.01, 0.02])
    0.10897247358851683
    """
    parts = sum(size**2 * own for size, own in zip(sizes, variances, strict=True))
    return sqrt(parts) / sum(sizes)


def detectable_lift(
    error: float, *, level: float = 0.95, power: float = 0.8, comparisons: int = 1
) -> float:
    """Return the lift that is detected with this power, given its standard error.

    Parameters
    ----------
    error
        The standard error, for example from :func:`planned_error`.
    level
        The coverage of the interval that must exclude 0.
    power
        The probability of detecting the lift.
    comparisons
        The number of lifts over one control that intervals cover jointly, by Dunnett's method, as
        in a campaign's findings.

    Examples
    --------
    >>> [round(detectable_lift(1.0, comparisons=count), 2) for count in (1, 2, 3)]
    [2.8, 3.05, 3.19]
    """
    arguments.number("error", error, at_least=0)
    arguments.number("power", power, above=0, at_most=1 - 1e-9)
    count = arguments.integer("comparisons", comparisons)
    return error * (_critical(count, level) + quantile(1 - power, inf))


@cache
def _critical(comparisons: int, level: float) -> float:
    """Return the bound of each statistic if every action has as many units as the control."""
    return dunnett_critical([0.5**0.5] * comparisons, level=level)
