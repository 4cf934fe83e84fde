"""Can a wave of the planned size keep to what was declared? The numbers that clash are named."""

import math
from collections.abc import Iterator

from seqbatch.campaign.design.constraint_checks import known_strata
from seqbatch.campaign.record.situation import Situation
from seqbatch.errors import InvalidSpecError


def require_possible(now: Situation) -> None:
    """Refuse capacities, budgets and strata that no wave of the planned sizes can keep to."""
    if now.spec.grid.calendar:
        return
    ahead = range(now.wave, len(now.sizes) + 1)
    for problem in (p for wave in ahead for p in _problems(now, wave)):
        raise InvalidSpecError(problem)
    for problem in _totals(now):
        raise InvalidSpecError(problem)


def _problems(now: Situation, wave: int) -> Iterator[str]:
    size = now.sizes[wave - 1]
    names = [now.actions[number].name for number in now.active]
    capacities = {name: now.spec.capacity[name] for name in names if name in now.spec.capacity}
    where = f"wave {wave} has {size:,} units"
    least = {name: each.at_least for name, each in capacities.items() if each.at_least}
    if sum(least.values()) > size:
        yield (f"capacity: {_listed('at_least', least)} make {sum(least.values()):,}, but {where}")
    most = {name: each.each_wave for name, each in capacities.items() if each.each_wave is not None}
    if len(most) == len(names) and sum(most.values()) < size:
        yield (
            f"capacity: {_listed('each_wave', most)} make {sum(most.values()):,}, but {where}: "
            "some would get no action. Leave one action without a limit"
        )
    if not now.spec.eligible:
        yield from _by_chance(now, most, size=size, where=where)
        yield from _too_dear(now, size=size, where=where)
    if (strata := known_strata(now.spec)) > size:
        yield (
            f"strata: {', '.join(now.spec.strata)} have {strata:,} combinations of levels, but "
            f"{where}: most strata would have no unit. Use fewer columns"
        )


def chance(now: Situation) -> float:
    """Return the share of units that each action gets by randomisation and the floor alone."""
    share, options = now.spec.randomised, len(now.active)
    return share / options + (1 - share) * now.floor


def _by_chance(now: Situation, most: dict[str, int], *, size: int, where: str) -> Iterator[str]:
    """Yield the capacities that randomisation and the floor alone would exceed."""
    needed = chance(now) * size
    for name, limit in most.items():
        # Rounding must not refuse what fits exactly.
        if needed > limit + 1e-6:
            yield (
                f"capacity.{name} = {limit:,} is too little: {where}, of which randomised = "
                f"{now.spec.randomised:g} and floor = {now.floor:g} give {name} to "
                f"{math.ceil(needed - 1e-6):,}. Raise the capacity, or lower randomised or floor"
            )


def _too_dear(now: Situation, *, size: int, where: str) -> Iterator[str]:
    budget = now.spec.budget
    if budget is None or budget.each_wave is None:
        return
    if (needed := size * _least_cost(now)) > budget.each_wave * (1 + 1e-9):
        yield (
            f"budget.each_wave = {budget.each_wave:g} is too little: {where}, which cost at least "
            f"{needed:g} with randomised = {now.spec.randomised:g} and floor = {now.floor:g}"
        )


def _least_cost(now: Situation) -> float:
    """Return what a unit costs at least: its chances, and the cheapest action for the rest."""
    costs = [now.actions[number].cost for number in now.active]
    share = chance(now)
    return share * sum(costs) + (1 - share * len(costs)) * min(costs)


def _totals(now: Situation) -> Iterator[str]:
    """Yield the limits of the whole campaign that cannot be kept."""
    left = sum(now.sizes) - now.assigned
    names = [now.actions[number].name for number in now.active]
    for name in names:
        capacity = now.spec.capacity.get(name)
        if capacity is None or capacity.total is None:
            continue
        rest = capacity.total - now.in_all.get(name, 0)
        if not now.spec.eligible and (needed := chance(now) * left) > rest + 1e-6:
            yield (
                f"capacity.{name}.total = {capacity.total:,} is too little: {left:,} units are to "
                f"come, of which randomised = {now.spec.randomised:g} and floor = {now.floor:g} "
                f"give {name} to {math.ceil(needed - 1e-6):,}"
            )
        waves = len(now.sizes) - now.wave + 1
        if capacity.at_least * waves > capacity.total:
            yield (
                f"capacity.{name}: at_least = {capacity.at_least:,} in each of {waves} waves make "
                f"{capacity.at_least * waves:,}, but total = {capacity.total:,}"
            )
    budget = now.spec.budget
    if budget is not None and budget.total is not None and not now.spec.eligible:
        needed = left * _least_cost(now)
        if needed > budget.total * (1 + 1e-9):
            yield (
                f"budget.total = {budget.total:g} is too little: {left:,} units cost at least "
                f"{needed:g} with randomised = {now.spec.randomised:g} and floor = {now.floor:g}"
            )


def _listed(what: str, numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {what} = {number:,}" for name, number in numbers.items())
