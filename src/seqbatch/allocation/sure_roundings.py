"""The roundings of expected counts that keep a budget, and upper bounds of what they are worth."""

from collections.abc import Sequence

import numpy as np

from seqbatch.allocation.limits import SLACK, Bounds
from seqbatch.allocation.transport import Ceiling, Transport
from seqbatch.allocation.whole_table import ONE
from seqbatch.core.arrays import Bools, Floats

#: At most so many ways are listed; the cheapest actions are then rounded in one way only.
MOST = 20_000


class SureRoundings:
    """The roundings of a table's counts that keep a budget, whatever is drawn.

    Each count is rounded to a whole number nearby, or may be a fraction: `down` is then the whole
    number below it. As the counts add up to the number of units, it is known how many fractions are
    rounded `up` in a draw. At worst they are the dearest.

    Parameters
    ----------
    totals
        The table's counts, in multiples of 2^-52.
    bounds
        The limits of the table; the roundings keep them.
    task
        The problem, whose budget the roundings keep.
    """

    def __init__(self, totals: Sequence[int], bounds: Bounds, task: Transport) -> None:
        units, self._asked = round(sum(totals) / ONE), task.bounds
        down, uneven = _listed(_ways(totals, bounds.between(task.given, bounds.most), self._asked.costs))
        up, number = units - down.sum(axis=1), uneven.sum(axis=1)
        possible = np.where(number == 0, up == 0, (up > 0) & (up < number))
        self.down, self.uneven, self.up = down[possible], uneven[possible], up[possible]
        self._ceilings, self._known = np.full(len(self.down), np.inf), 0
        costs, spent = self._asked.costs, self.down @ self._asked.costs
        surely = spent + self._rounded_up(costs)
        least = spent - self._rounded_up(-costs)
        low, high = self.down - task.given, self.down + self.uneven - task.given
        possible = task.reach.allows(np.maximum(low, 0.0), high)
        affordable = surely <= self._asked.surely * (1 + SLACK)
        self._keep(possible & affordable & (least <= self._asked.budget * (1 + SLACK)))

    def __len__(self) -> int:
        return len(self.down)

    def worth(self, ceilings: Sequence[Ceiling]) -> float:
        """Return the highest value that one of the roundings may have."""
        for constant, prices in ceilings[self._known :]:
            most = constant + self.down @ prices + self._rounded_up(prices)
            self._ceilings = np.minimum(self._ceilings, most)
        self._known = len(ceilings)
        return float(self._ceilings.max())

    def take(self) -> Bounds:
        """Remove the rounding that may be worth most; return its limits on counts."""
        place = int(self._ceilings.argmax())
        low, high = self.down[place].copy(), self.down[place] + self.uneven[place]
        if not self.uneven[place].any():
            # The last count follows from the others; a limit on it would leave prices undetermined.
            last = low.argmax()
            low[last], high[last] = 0, np.inf
        self._keep(np.arange(len(self)) != place)
        return self._asked.between(low, high)

    def _rounded_up(self, prices: Floats) -> Floats:
        """Return the most that the counts that are rounded up may add."""
        order = np.argsort(-prices, kind="stable")
        uneven = self.uneven[:, order]
        first = uneven & (uneven.cumsum(axis=1) <= self.up[:, None])
        added: Floats = first @ prices[order]
        return added

    def _keep(self, which: Bools) -> None:
        self.down, self.uneven, self.up = self.down[which], self.uneven[which], self.up[which]
        self._ceilings = self._ceilings[which]


def _ways(totals: Sequence[int], bounds: Bounds, costs: Floats) -> list[Floats]:
    """Return the ways to round each count: a whole number, and 1 if a fraction is added, else 0."""
    found, listed = [np.empty((0, 2))] * len(totals), 1
    largest = max(range(len(totals)), key=totals.__getitem__)
    for action in np.argsort(-costs, kind="stable").tolist():
        # The largest count makes up for the others.
        far = len(totals) if action == largest else 0
        ways = _near(totals[action], far, bounds.least[action], bounds.most[action])
        if listed * len(ways) > MOST:
            whole, fraction = divmod(totals[action], ONE)
            ways = ways[(ways == [whole, fraction > 0]).all(axis=1)]
        found[action], listed = ways, listed * len(ways)
    return found


def _near(total: int, far: int, least: float, most: float) -> Floats:
    """Return the ways to round a count to whole numbers nearby, or to stay between two of them."""
    whole, fraction = divmod(total, ONE)
    if fraction:
        numbers = np.arange(whole - far, whole + far + 2.0)
    else:
        numbers = np.arange(whole - far - 1, whole + far + 2.0)
    even = numbers[(numbers >= least - SLACK) & (numbers <= most + SLACK)]
    between = numbers[:-1][(numbers[1:] > least) & (numbers[:-1] < most)]
    return np.column_stack(
        [np.append(even, between), np.repeat([0.0, 1.0], [len(even), len(between)])]
    )


def _listed(ways: list[Floats]) -> tuple[Floats, Bools]:
    """Return all combinations of ways: whole numbers, and which counts are fractions; (n, K)."""
    places = np.indices([len(one) for one in ways]).reshape(len(ways), -1)
    listed = np.stack([one[place] for one, place in zip(ways, places, strict=True)], axis=1)
    return listed[..., 0], listed[..., 1] > 0
