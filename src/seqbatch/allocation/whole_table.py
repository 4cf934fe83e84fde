"""A table of whole numbers whose column sums are moved until all limits hold exactly.

Cells are integer multiples of 2^-52.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from seqbatch.allocation.limits import Bounds
from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers

ONE = 1 << 52
#: A unit gives up at most one part in this many of a cell, unless the others have no more to give.
PART = 1 << 12
#: Columns closer than this to a limit are moved onto it.
NEAR = 1e-6
#: What a cell may be below its floor if limits cannot hold otherwise.
LAST_BITS = 2.0**-51


def sums(whole: Integers) -> list[int]:
    """Return the column sums of an integer table, without overflow."""
    limbs = np.zeros((2, whole.shape[1]), dtype=np.int64)
    kernels.whole_sums(whole, limbs)
    return [(int(high) << 26) + int(low) for high, low in limbs.T]


class WholeTable:
    """An integer table whose column sums are moved into their limits.

    Parameters
    ----------
    whole
        The table, modified in place.
    floor
        The minimum of each cell, (n, K), or an empty array.
    eligible
        Which actions each unit may get.
    """

    def __init__(self, whole: Integers, floor: Floats, eligible: Bools) -> None:
        self.whole, self.floor, self.eligible = whole, floor, eligible
        self.sums = sums(whole)

    def repair(self, bounds: Bounds) -> bool:
        """Move excess mass out of columns and missing mass in; return whether all limits hold."""
        most = [int(limit * ONE) if np.isfinite(limit) else None for limit in bounds.most]
        least = [-int(-limit * ONE) for limit in bounds.least]
        held = self._settle(least, most)
        if not held and len(self.floor):
            # Rounded to multiples of 2^-52, floors may add up to slightly more than a limit.
            self.floor = np.maximum(self.floor - LAST_BITS, 0.0)
            held = self._settle(least, most)
        if held:
            # Columns that nearly reach a limit are moved onto it: their counts are then certain.
            tight = [self._tightened(a, least[a], most[a]) for a in range(len(least))]
            self._settle([low for low, _ in tight], [high for _, high in tight])
        return held

    def _tightened(self, action: int, low: int, high: int | None) -> tuple[int, int | None]:
        for limit in (low, high):
            if limit is not None and abs(self.sums[action] - limit) < NEAR * ONE:
                return limit, limit
        return low, high

    def _settle(self, least: list[int], most: list[int | None]) -> bool:
        held = True
        for action, (low, high) in enumerate(zip(least, most, strict=True)):
            while high is not None and self.sums[action] > high:
                room = [_room(most[a], self.sums[a]) for a in range(len(least))]
                if not self._send(action, self.sums[action] - high, room, forward=True):
                    held = False
                    break
            while self.sums[action] < low:
                spare = [max(self.sums[a] - least[a], 0) for a in range(len(least))]
                if not self._send(action, low - self.sums[action], spare, forward=False):
                    held = False
                    break
        return held

    def _send(self, action: int, amount: int, other: list[int], *, forward: bool) -> bool:
        """Move an amount from an action to others with room, or to it from others with spare."""
        for open_to in (np.empty((0, 0), dtype=np.bool_), self.eligible):
            found = np.zeros((len(other), len(other)), dtype=np.int64)
            kernels.movable(self.whole, self.floor, open_to, min(amount, ONE), found)
            path = _path(found if forward else found.T, action, lambda a: other[a] > 0)
            if path is None:
                continue
            steps = list(pairwise(path))
            if not forward:
                steps = [(b, a) for a, b in steps]
            available = min(int(found[a, b]) for a, b in steps)
            self._along(steps, min(amount, available, other[path[-1]]), open_to)
            return True
        return False

    def _along(self, steps: list[tuple[int, int]], amount: int, open_to: Bools) -> None:
        for origin, target in reversed(steps):
            left = amount
            for part in (PART, 1):
                left = kernels.move(
                    self.whole, self.floor, open_to, origin, target, left, part
                )  # fmt: skip
            self.sums[origin] -= amount - left
            self.sums[target] += amount - left


def _room(most: int | None, total: int) -> int:
    return 1 << 100 if most is None else max(most - total, 0)


def _path(found: Integers, start: int, ends: Callable[[int], bool]) -> list[int] | None:
    """Return the shortest path from an action to one that satisfies `ends`."""
    ways, seen = [[start]], {start}
    for way in ways:
        for following in np.flatnonzero(found[way[-1]] > 0).tolist():
            if following in seen:
                continue
            if ends(following):
                return [*way, following]
            seen.add(following)
            ways.append([*way, following])
    return None
