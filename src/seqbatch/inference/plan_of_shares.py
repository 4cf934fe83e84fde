"""The plan of shares: how much of the variance each wave contributes, fixed in advance.

Any shares fixed before the first outcome keep pooled estimates asymptotically normal. The costs
D_m only affect efficiency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

from seqbatch.core import arguments
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.rare_events import PlannedDesign

#: How a policy treats its preferred action: it settles on it, or draws it more and more often.
POLICIES = ("greedy", "thompson")


@dataclass(frozen=True, kw_only=True)
class PlanOfShares:
    """Shares of the variance by wave.

    Parameters
    ----------
    sizes
        The planned sizes of the waves.
    shares
        share_m; they sum to 1.
    designs
        What the plan says about each wave; rules about events count with it.
    """

    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    designs: tuple[PlannedDesign, ...]

    @property
    def costs(self) -> tuple[float, ...]:
        """D_m of one action: the planned mean of 1/p; a contrast of two costs twice that."""
        return tuple(design.cost for design in self.designs)

    @property
    def information(self) -> tuple[float, ...]:
        """t_m, the information fraction after each wave."""
        sums = list(accumulate(self.shares))
        return tuple(one / sums[-1] for one in sums)

    def tables(self) -> list[Table]:
        """Return the plan as a table."""
        columns = ("wave", "units", "planned 1/p", "share", "information")
        parts = zip(self.sizes, self.costs, self.shares, self.information, strict=True)
        rows = [(wave, *part) for wave, part in enumerate(parts, start=1)]
        return [Table("Shares fixed before the first outcome", columns, rows)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.shares)
        return f"Shares of the variance by wave: {shares}."


def plan_of_shares(
    sizes: Sequence[int],
    *,
    actions: int,
    randomised: float,
    floor: float,
    policy: str = "greedy",
    uniform: int = 1,
    ends_greedily: bool = False,
) -> PlanOfShares:
    """Fix each wave's share of the variance, before the first outcome.

    D_1 = K, if the first wave is uniform. Later waves have
    D_m = (1/K)/high + (1 - 1/K)/low, with low = h/K + (1-h) f and high = 1 - (K-1) low; under
    Thompson sampling, the geometric mean of K and this. share_m = (n_m/D_m) / sum_j (n_j/D_j).

    Parameters
    ----------
    sizes
        The planned number of units of each wave.
    actions
        K.
    randomised
        h, the share of units assigned uniformly at random.
    floor
        f, the minimum probability of an action for the other units.
    policy
        ``"greedy"`` for policies that prefer one action to all others, or ``"thompson"``.
    uniform
        The number of waves assigned uniformly at random before any outcome is known.
    ends_greedily
        Whether the last wave prefers one action to all others, whatever the policy.

    Examples
    --------
    >>> plan = plan_of_shares([1_000, 1_000, 1_000], actions=3, randomised=0.1, floor=0.02)
    >>> [round(2 * cost, 1) for cost in plan.costs], [round(share, 3) for share in plan.shares]
    ([6.0, 26.7, 26.7], [0.69, 0.155, 0.155])
    """
    K = arguments.integer("actions", actions, at_least=2)
    h = arguments.number("randomised", randomised, at_least=0, at_most=1)
    f = arguments.number("floor", floor, at_least=0, at_most=1 / K)
    arguments.choice("policy", policy, POLICIES)
    units = tuple(arguments.integer("sizes", size) for size in sizes)
    blind = min(arguments.integer("uniform", uniform, at_least=0), len(units))
    low = h / K + (1 - h) * f
    if low <= 0 and len(units) > blind:
        raise InvalidArgumentError(
            "randomised",
            "above 0 if floor is 0",
            h,
            "Otherwise nothing is learned about other actions after the first wave.",
        )
    drawn = [policy == "thompson"] * len(units)
    drawn[-1] &= not ends_greedily
    designs = [
        _design(size, K, 1 / K if wave < blind else low, thompson=drawn[wave])
        for wave, size in enumerate(units)
    ]
    information = [design.units / design.cost for design in designs]
    total = sum(information)
    return PlanOfShares(
        sizes=units, shares=tuple(one / total for one in information), designs=tuple(designs)
    )


def _design(units: int, actions: int, low: float, *, thompson: bool) -> PlannedDesign:
    """Return the plan of a wave; 1/K as the lowest probability means uniform assignment.

    A greedy policy prefers each action for 1/K of the units; the others have the lowest
    probability. Under Thompson sampling, costs are geometric means of this and uniform assignment.
    """
    K, high = actions, 1 - (actions - 1) * low
    cost = float(K) if low == 1 / K else (1 / K) / high + (1 - 1 / K) / low
    gain = (1 / K) * (1 - high) ** 2 / high + (1 - 1 / K) * (1 - low) ** 2 / low
    if thompson:
        cost, gain = sqrt(cost * K), sqrt(gain * (1 - 1 / K) ** 2 * K)
        low = sqrt(low / K)
    return PlannedDesign(units=units, actions=K, cost=cost, gain_cost=gain, least=low)


def share_when_assigned(
    *, spent: Sequence[float], units: int, cost: float, planned_rest: float
) -> float:
    """Set a wave's share when it is assigned, if sizes were not known in advance.

    It may depend on anything but the wave's own outcomes; shares already spent do not change.

    Parameters
    ----------
    spent
        The shares of earlier waves.
    units
        n_m.
    cost
        C_m, the mean of the contrast's 1/p over the units as assigned.
    planned_rest
        The sum of n_j/D_j over the waves planned after this one; 0 for the last.

    Examples
    --------
    >>> share_when_assigned(spent=[0.5], units=100, cost=10.0, planned_rest=30.0)
    0.125
    """
    information = units / cost
    return (1 - sum(spent)) * information / (information + planned_rest)
