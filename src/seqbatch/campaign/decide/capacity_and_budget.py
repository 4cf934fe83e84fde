"""Compute remaining capacities and budget, and check that planned waves can respect them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.checks import known_strata
from seqbatch.campaign.spec.limits import Capacity
from seqbatch.core.arrays import Floats
from seqbatch.display import cell
from seqbatch.document import Table
from seqbatch.errors import InvalidSpecError

if TYPE_CHECKING:
    from seqbatch.allocation import Limits

# ----------------------------------------------------------------------
# The remaining capacities and budget for the units of one file.
#
# If the number of units still to come is known, the rest is spread over them: a file with n of the
# N remaining units may use the share n / N. What it does not use is available to later files. If
# that share is not feasible for a file, quotas are left to later files first; if that is not
# enough, the file may use everything that is left.


def limits_left(now: Situation, count: int) -> Iterator["Limits"]:
    """Yield how often each action may and must be given to these units, preferred limits first.

    The first limits are the file's share of everything. The next leave quotas to later files, as
    far as these have room. The last allow everything that is left.

    Parameters
    ----------
    now
        The campaign's current state.
    count
        How many units the file has.
    """
    left = _Left(now, count)
    yield left.limits(spread=True, waiting=False)
    yield left.limits(spread=True, waiting=True)
    yield left.limits(spread=False, waiting=True)


@dataclass(frozen=True)
class _Left:
    """The remaining limits for a file of `count` units."""

    now: Situation
    count: int

    def limits(self, *, spread: bool, waiting: bool) -> "Limits":
        """Return limits: the file's share or everything; all quotas or only those due now."""
        from seqbatch.allocation import Limits

        now = self.now
        actions = [now.actions[number] for number in now.active]
        pairs = [self._of_action(action.name, spread=spread, waiting=waiting) for action in actions]
        at_least, at_most = (np.array(side) for side in zip(*pairs, strict=True))
        names = [action.name for action in actions]
        if now.spec.budget is None:
            return Limits(at_most=at_most, at_least=at_least, names=names)
        costs = np.array([action.cost for action in actions])
        budget, share = self._budget(costs)
        # An action that costs more than the remaining budget cannot be given.
        at_most[(costs > budget * (1 + 1e-12)) & (at_least == 0)] = 0
        return Limits(
            at_most=at_most, at_least=at_least, costs=costs, budget=budget,
            on_average=share if spread else None, names=names,
        )  # fmt: skip

    def _of_action(self, name: str, *, spread: bool, waiting: bool) -> tuple[float, float]:
        """Return the fewest and the most units of an action."""
        now = self.now
        capacity = now.spec.capacity.get(name)
        if capacity is None:
            return 0.0, math.inf
        given = now.in_wave.get(name, 0)
        missing = max(capacity.at_least - given, 0)
        share = missing * self.count / (self.count + self._later_in_wave)
        least = float(max(missing - self._later_in_wave, 0)) if waiting else share
        most = self._most(capacity, name, spread=False)
        own = self._most(capacity, name, spread=True) if spread else most
        least = min(least, self.count, most)
        return least, max(own, least)

    def _most(self, capacity: Capacity, name: str, *, spread: bool) -> float:
        now, most = self.now, math.inf
        if capacity.each_wave is not None:
            left = max(capacity.each_wave - now.in_wave.get(name, 0), 0)
            most = left * share_of_wave(now, self.count) if spread else left
        if capacity.total is not None:
            left = max(capacity.total - now.in_all.get(name, 0), 0)
            # Reserve the quotas of later waves.
            kept = capacity.at_least * max(len(now.sizes) - now.wave, 0)
            own = left * share_of_campaign(now, self.count) if spread else left
            most = min(most, own, max(left - kept, 0))
        return most

    @property
    def _later_in_wave(self) -> float:
        """How many units of the wave are expected in later files."""
        now = self.now
        size = float(now.sizes[now.wave - 1])
        if now.spec.grid.calendar:
            size = (now.spec.grid.units or 0) / len(now.sizes)
        return max(size - now.units[now.wave - 1] - self.count, 0)

    def _budget(self, costs: Floats) -> tuple[float, float]:
        """Return the most that these units may cost, and their share of the budget.

        Later units cost at least the cheapest action; that amount is reserved for them.
        """
        now, budget = self.now, self.now.spec.budget
        assert budget is not None
        surely, share = math.inf, math.inf
        parts = (
            (budget.each_wave, now.in_wave, share_of_wave(now, self.count)),
            (budget.total, now.in_all, share_of_campaign(now, self.count)),
        )
        for amount, counts, part in parts:
            if amount is None:
                continue
            left = max(amount - spent(now, counts), 0.0)
            later = self.count / part - self.count
            surely = min(surely, max(left - later * float(costs.min()), left * part))
            share = min(share, left * part)
        return surely, min(share, surely)


def share_of_wave(now: Situation, count: int) -> float:
    """Return the share of `count` units in the rest of the open wave; 1 if its size is unknown."""
    return 1.0 if not now.left else count / max(now.left, count)


def share_of_campaign(now: Situation, count: int) -> float:
    """Return the share of `count` units in all units still to come."""
    expected = now.spec.grid.units if now.spec.grid.calendar else sum(now.sizes)
    return count / max((expected or 0) - now.assigned, count)


def spent(now: Situation, counts: dict[str, int]) -> float:
    """Return the total cost of these numbers of units by action."""
    costs = {action.name: action.cost for action in now.actions}
    return math.fsum(costs[name] * number for name, number in counts.items())


# ----------------------------------------------------------------------
# Check that waves of the planned sizes can respect the declared limits; errors name the numbers.


def require_possible(now: Situation) -> None:
    """Refuse capacities, budgets and strata that waves of the planned sizes cannot respect."""
    if now.spec.grid.calendar:
        return
    ahead = range(now.wave, len(now.sizes) + 1)
    for problem in (p for wave in ahead for p in _problems(now, wave)):
        raise problem
    for problem in _totals(now):
        raise problem


def _problems(now: Situation, wave: int) -> Iterator[InvalidSpecError]:
    size = now.sizes[wave - 1]
    names = [now.actions[number].name for number in now.active]
    capacities = {name: now.spec.capacity[name] for name in names if name in now.spec.capacity}
    where = f"wave {wave} has {size:,} units"
    least = {name: each.at_least for name, each in capacities.items() if each.at_least}
    if sum(least.values()) > size:
        yield InvalidSpecError.at(
            ("capacity",),
            f"capacity: {_listed('at_least', least)} add up to {sum(least.values()):,}, but "
            f"{where}",
        )
    most = {name: each.each_wave for name, each in capacities.items() if each.each_wave is not None}
    if len(most) == len(names) and sum(most.values()) < size:
        yield InvalidSpecError.at(
            ("capacity",),
            f"capacity: {_listed('each_wave', most)} add up to {sum(most.values()):,}, but "
            f"{where}: some units would get no action. Leave one action without a limit",
        )
    if not now.spec.eligible:
        yield from _by_chance(now, most, size=size, where=where)
        yield from _too_dear(now, size=size, where=where)
    # Minimisation balances the columns one by one, and never their combinations.
    if now.spec.draw != "minimise" and (strata := known_strata(now.spec)) > size:
        yield InvalidSpecError.at(
            ("strata",),
            f"strata: {', '.join(now.spec.strata)} have {strata:,} combinations of levels, but "
            f"{where}: most strata would have no units. Use fewer columns",
        )


def chance(now: Situation) -> float:
    """Return the share of units that each action gets from randomisation and the floor alone."""
    share, options = now.spec.randomised, len(now.active)
    return share / options + (1 - share) * now.floor


def _by_chance(
    now: Situation, most: dict[str, int], *, size: int, where: str
) -> Iterator[InvalidSpecError]:
    """Yield the capacities that randomisation and the floor alone would exceed."""
    needed = chance(now) * size
    for name, limit in most.items():
        # Tolerate rounding errors if the capacity fits exactly.
        if needed > limit + 1e-6:
            yield InvalidSpecError.at(
                ("capacity", name),
                f"capacity.{name} = {limit:,} is too little: {where}, of which randomised = "
                f"{now.spec.randomised:g} and floor = {now.floor:g} give {name} to "
                f"{math.ceil(needed - 1e-6):,}. Raise the capacity, or lower randomised or floor",
            )


def _too_dear(now: Situation, *, size: int, where: str) -> Iterator[InvalidSpecError]:
    budget = now.spec.budget
    if budget is None or budget.each_wave is None:
        return
    if (needed := size * _least_cost(now)) > budget.each_wave * (1 + 1e-9):
        yield InvalidSpecError.at(
            ("budget", "each_wave"),
            f"budget.each_wave = {budget.each_wave:g} is too little: {where}, which cost at least "
            f"{needed:g} with randomised = {now.spec.randomised:g} and floor = {now.floor:g}",
        )


def _least_cost(now: Situation) -> float:
    """Return a unit's minimum expected cost: randomisation and floor, then the cheapest action."""
    costs = [now.actions[number].cost for number in now.active]
    share = chance(now)
    return share * sum(costs) + (1 - share * len(costs)) * min(costs)


def _totals(now: Situation) -> Iterator[InvalidSpecError]:
    """Yield errors for limits of the whole campaign that cannot be respected."""
    left = sum(now.sizes) - now.assigned
    names = [now.actions[number].name for number in now.active]
    for name in names:
        capacity = now.spec.capacity.get(name)
        if capacity is None or capacity.total is None:
            continue
        rest = capacity.total - now.in_all.get(name, 0)
        if not now.spec.eligible and (needed := chance(now) * left) > rest + 1e-6:
            yield InvalidSpecError.at(
                ("capacity", name),
                f"capacity.{name}.total = {capacity.total:,} is too little: {left:,} units are to "
                f"come, of which randomised = {now.spec.randomised:g} and floor = {now.floor:g} "
                f"give {name} to {math.ceil(needed - 1e-6):,}",
            )
        waves = len(now.sizes) - now.wave + 1
        if capacity.at_least * waves > capacity.total:
            yield InvalidSpecError.at(
                ("capacity", name),
                f"capacity.{name}: at_least = {capacity.at_least:,} in each of {waves} waves "
                f"add up to {capacity.at_least * waves:,}, but total = {capacity.total:,}",
            )
    budget = now.spec.budget
    if budget is not None and budget.total is not None and not now.spec.eligible:
        needed = left * _least_cost(now)
        if needed > budget.total * (1 + 1e-9):
            yield InvalidSpecError.at(
                ("budget", "total"),
                f"budget.total = {budget.total:g} is too little: {left:,} units cost at least "
                f"{needed:g} with randomised = {now.spec.randomised:g} and floor = {now.floor:g}",
            )


def _listed(what: str, numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {what} = {number:,}" for name, number in numbers.items())


# ----------------------------------------------------------------------
# The use of capacities and budget, and the value of one more unit of each.


@dataclass(frozen=True)
class LimitRow:
    """One limit: the capacity of an action, or the budget.

    Parameters
    ----------
    of
        The action, or "budget".
    within
        "this wave" or "campaign".
    used, at_most, at_least
        Units so far, or their cost; the maximum (None without one); and the minimum.
    """

    of: str
    within: str
    used: float
    at_most: float | None
    at_least: float = 0


def limit_rows(now: Situation) -> tuple[LimitRow, ...]:
    """Return every limit of a campaign, and how much of it is used.

    Limits per wave are left out once all waves are closed.
    """
    rows = []
    given = {now.actions[number].name for number in now.active}
    for name, capacity in now.spec.capacity.items():
        # A retired action is not given any more, so it has no quota to reach.
        if name in given and (capacity.each_wave is not None or capacity.at_least):
            used = now.in_wave.get(name, 0)
            rows.append(LimitRow(name, "this wave", used, capacity.each_wave, capacity.at_least))
        if capacity.total is not None:
            rows.append(LimitRow(name, "campaign", now.in_all.get(name, 0), capacity.total))
    if (budget := now.spec.budget) is not None:
        if budget.each_wave is not None:
            cost = spent(now, now.in_wave)
            rows.append(LimitRow("budget", "this wave", cost, budget.each_wave))
        if budget.total is not None:
            rows.append(LimitRow("budget", "campaign", spent(now, now.in_all), budget.total))
    return tuple(row for row in rows if row.within == "campaign" or not now.finished)


def limits_table(rows: tuple[LimitRow, ...]) -> Table:
    """Return the limits as a table to display."""
    shown = [
        (row.of, row.within, cell(row.used), "" if row.at_most is None else cell(row.at_most),
         cell(row.at_least) if row.at_least else "")
        for row in rows
    ]  # fmt: skip
    columns = ("limit of", "within", "used", "at most", "at least")
    return Table("Limits", columns, shown, words=("limit of", "within"), keys=2)


def worth(now: Situation, limits: dict[str, Any] | None) -> list[str]:
    """Describe the value of one more unit of each limit that was reached, one line each.

    Parameters
    ----------
    now
        The campaign's current state.
    limits
        The assignment event's entry on limits; None without limits.
    """
    if limits is None:
        return []
    if limits["prices_in"] == "log":
        return _drawn(limits)
    unit = f" {now.spec.reward.unit}" if now.spec.reward.unit else ""
    money = f" {now.spec.money}" if now.spec.money else ""
    how = ", by the policy's optimistic scores" if now.made_policy().optimistic else ""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(f"{name} is at its limit: one more would be worth {price:.3g}{unit}{how}.")
        elif price < 0:
            said.append(
                f"{name} is at its minimum: one fewer would be worth {-price:.3g}{unit}{how}."
            )
    if limits["budget_price"]:
        said.append(
            f"The budget is at its limit: one more{money} in it would be worth "
            f"{limits['budget_price']:.3g}{unit}{how}."
        )
    return said


def _drawn(limits: dict[str, Any]) -> list[str]:
    """Describe limits that changed the probabilities of actions drawn at random."""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(
                f"{name}: given less often than the policy would, to keep within its limit."
            )
        elif price < 0:
            said.append(f"{name}: given more often than the policy would, to reach its minimum.")
    if limits["budget_price"]:
        said.append(
            "The budget is at its limit: costly actions are given less often than the policy would."
        )
    return said
