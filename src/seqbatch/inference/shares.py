"""The plan of shares: how much of the variance each wave may contribute, fixed in advance.

Whatever is fixed before the first outcome keeps pooled estimates normal; D only buys efficiency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

from seqbatch.core import arguments
from seqbatch.display import Table, shown
from seqbatch.errors import InvalidArgumentError

#: What a policy does with its preferred action: it settles on it, or draws it ever more often.
POLICIES = ("greedy", "thompson")


@dataclass(frozen=True, kw_only=True)
class PlanOfShares:
    """Shares of the variance, wave by wave.

    Parameters
    ----------
    sizes
        The planned sizes of the waves.
    costs
        D_m of one action: the planned mean of 1/p; a contrast of two actions costs twice that.
    shares
        share_m; they add up to 1.
    """

    sizes: tuple[int, ...]
    costs: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def information(self) -> tuple[float, ...]:
        """t_m, the fraction of the information that is in after each wave."""
        sums = list(accumulate(self.shares))
        return tuple(one / sums[-1] for one in sums)

    def tables(self) -> list[Table]:
        """Return the plan as people see it."""
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
) -> PlanOfShares:
    """Fix each wave's share of the variance, before the first outcome.

    D_1 = K, as the first wave is uniform; later waves D_m = (1/K)/high + (1 - 1/K)/low, with
    low = h/K + (1-h) f and high = 1 - (K-1) low; under Thompson sampling the geometric mean of
    both. share_m = (n_m/D_m) / sum_j (n_j/D_j).

    Parameters
    ----------
    sizes
        Planned units of each wave.
    actions
        K.
    randomised
        h, the share of units assigned uniformly at random.
    floor
        f, the least probability of an action among the others.
    policy
        ``"greedy"`` for whatever prefers one action to all others, ``"thompson"``.
    uniform
        How many waves are assigned uniformly at random before any outcome is known.

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
    blind = min(arguments.integer("uniform", uniform), len(units))
    low = h / K + (1 - h) * f
    if low <= 0 and len(units) > blind:
        raise InvalidArgumentError(
            "randomised",
            "above 0 where floor is 0",
            h,
            "Without either, actions that are not preferred teach nothing after the first wave.",
        )
    costs = [float(K)] * blind
    if len(units) > blind:
        later = (1 / K) / (1 - (K - 1) * low) + (1 - 1 / K) / low
        costs += [later if policy == "greedy" else sqrt(later * K)] * (len(units) - blind)
    information = [size / cost for size, cost in zip(units, costs, strict=True)]
    total = sum(information)
    return PlanOfShares(
        sizes=units, costs=tuple(costs), shares=tuple(one / total for one in information)
    )


def share_when_assigned(
    *, spent: Sequence[float], units: int, cost: float, planned_rest: float
) -> float:
    """Set a wave's share when it is assigned, where sizes were not known in advance.

    It may depend on anything but the wave's own outcomes; what is spent stays spent.

    Parameters
    ----------
    spent
        The shares of earlier waves.
    units
        n_m.
    cost
        C_m, the mean of the contrast's 1/p over the units as assigned.
    planned_rest
        The sum of n_j/D_j over the waves still planned after this one; 0 for the last.

    Examples
    --------
    >>> share_when_assigned(spent=[0.5], units=100, cost=10.0, planned_rest=30.0)
    0.125
    """
    information = units / cost
    return (1 - sum(spent)) * information / (information + planned_rest)
