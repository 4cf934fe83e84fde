"""What is left of capacities and of the budget, for the units of one file.

What is left is spread over the units still to come, where their number is known: a file of n units,
of N still to come, may use the share n / N. What it does not use is there for the next one. A file
whose own units cannot keep to that share may wait with quotas, and then use all that is left.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.allocation import Limits
from seqbatch.campaign.design.constraints import Capacity
from seqbatch.campaign.record.situation import Situation
from seqbatch.core.arrays import Floats


def limits_left(now: Situation, count: int) -> Iterator[Limits]:
    """Yield how often each action may and must be given to these units, the best to keep first.

    First by the file's share of everything; then with quotas left to later files, as far as these
    have room for them; then with all that is left.

    Parameters
    ----------
    now
        Where the campaign stands.
    count
        How many units the file has.
    """
    left = _Left(now, count)
    yield left.limits(spread=True, waiting=False)
    yield left.limits(spread=True, waiting=True)
    yield left.limits(spread=False, waiting=True)


@dataclass(frozen=True)
class _Left:
    """What is left when a file of `count` units comes."""

    now: Situation
    count: int

    def limits(self, *, spread: bool, waiting: bool) -> Limits:
        """Return limits: of the file's share or of all; with all quotas or what cannot wait."""
        now = self.now
        actions = [now.actions[number] for number in now.active]
        pairs = [self._of_action(action.name, spread=spread, waiting=waiting) for action in actions]
        at_least, at_most = (np.array(side) for side in zip(*pairs, strict=True))
        names = [action.name for action in actions]
        if now.spec.budget is None:
            return Limits(at_most=at_most, at_least=at_least, names=names)
        costs = np.array([action.cost for action in actions])
        budget, share = self._budget(costs)
        # Nobody can get what is dearer than all that is left.
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
            # Quotas of later waves are kept for them.
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
        """Return what these units may cost surely, and their share of the budget.

        Units still to come cost what is cheapest, at least: that much is not there for these.
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
    """Return the share that units have in what is left of the open wave; 1 where that is open."""
    return 1.0 if not now.left else count / max(now.left, count)


def share_of_campaign(now: Situation, count: int) -> float:
    """Return the share that units have in all that are still to come."""
    expected = now.spec.grid.units if now.spec.grid.calendar else sum(now.sizes)
    return count / max((expected or 0) - now.assigned, count)


def spent(now: Situation, counts: dict[str, int]) -> float:
    """Return what so many units of each action cost."""
    costs = {action.name: action.cost for action in now.actions}
    return math.fsum(costs[name] * number for name, number in counts.items())
