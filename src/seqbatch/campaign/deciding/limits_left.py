"""What is left of capacities and of the budget, for the units of one file.

What is left is spread over the units still to come, where their number is known: a file of n units,
of N still to come, may use the share n / N. What it does not use is there for the next one.
"""

import math

import numpy as np

from seqbatch.allocation import Limits
from seqbatch.campaign.record.situation import Situation


def limits_left(now: Situation, count: int) -> Limits | None:
    """Return how often each action that is given may and must be given to these units.

    Parameters
    ----------
    now
        Where the campaign stands.
    count
        How many units the file has.
    """
    if not now.spec.limited:
        return None
    names = [now.actions[number].name for number in now.active]
    at_most, at_least = np.full(len(names), math.inf), np.zeros(len(names))
    in_wave, in_all = share_of_wave(now, count), share_of_campaign(now, count)
    for place, name in enumerate(names):
        if (capacity := now.spec.capacity.get(name)) is None:
            continue
        given = now.in_wave.get(name, 0)
        if capacity.each_wave is not None:
            at_most[place] = max(capacity.each_wave - given, 0) * in_wave
        if capacity.total is not None:
            left = max(capacity.total - now.in_all.get(name, 0), 0)
            at_most[place] = min(at_most[place], left * in_all)
        at_least[place] = min(max(capacity.at_least - given, 0) * in_wave, count)
    costs = np.array([now.actions[number].cost for number in now.active])
    return Limits(
        at_most=at_most,
        at_least=at_least,
        costs=None if now.spec.budget is None else costs,
        budget=budget_left(now, count),
    )


def share_of_wave(now: Situation, count: int) -> float:
    """Return the share that units have in what is left of the open wave; 1 where that is open."""
    return 1.0 if not now.left else count / max(now.left, count)


def share_of_campaign(now: Situation, count: int) -> float:
    """Return the share that units have in all that are still to come."""
    expected = now.spec.grid.units if now.spec.grid.calendar else sum(now.sizes)
    return count / max((expected or 0) - now.assigned, count)


def budget_left(now: Situation, count: int) -> float | None:
    """Return what these units may cost; None where there is no budget."""
    budget = now.spec.budget
    if budget is None:
        return None
    left = math.inf
    if budget.each_wave is not None:
        left = max(budget.each_wave - spent(now, now.in_wave), 0.0) * share_of_wave(now, count)
    if budget.total is not None:
        rest = max(budget.total - spent(now, now.in_all), 0.0)
        left = min(left, rest * share_of_campaign(now, count))
    return left


def spent(now: Situation, counts: dict[str, int]) -> float:
    """Return what so many units of each action cost."""
    costs = {action.name: action.cost for action in now.actions}
    return math.fsum(costs[name] * number for name, number in counts.items())
