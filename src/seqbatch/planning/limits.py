"""The limits on batches: their sizes, calendar waves, and the grids that keep to both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from seqbatch.errors import InvalidGridError

Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the user allows.

    Parameters
    ----------
    units
        How many units are still to come.
    smallest, largest
        The size of a batch.
    first
        The size of the first batch, where it is given.
    waves
        Sizes of calendar waves; batches end where waves end. They add up to `units`.
    seen
        Units already assigned, in an experiment under way.
    """

    units: int
    smallest: int = 1
    largest: int | None = None
    first: int | None = None
    waves: tuple[int, ...] | None = None
    seen: int = 0

    def allows(self, batches: int) -> bool:
        """Say whether any grid of this many batches keeps to the limits."""
        if self.waves is not None:
            return batches <= len(self.waves)
        if self.first is not None:
            if batches == 1:
                return self.first == self.units
            rest = self.units - self.first
            return self._spans(rest, batches - 1)
        return self._spans(self.units, batches)

    def _spans(self, units: int, batches: int) -> bool:
        most = units if self.largest is None else self.largest
        return self.smallest * batches <= units <= most * batches

    @property
    def fewest(self) -> int:
        """The smallest number of batches that the largest size allows."""
        if self.largest is None or self.waves is not None:
            return 1
        if self.first is not None and self.first < self.units:
            return 1 + -(-(self.units - self.first) // self.largest)
        return -(-self.units // self.largest)

    def fit(self, ends: Sequence[float]) -> Sizes:
        """Return the sizes nearest to these ends that keep to the limits."""
        if self.waves is not None:
            return self._on_waves(ends)
        largest, kept, batches = self.largest or self.units, [0], len(ends)
        for m, end in enumerate(ends, start=1):
            if m == 1 and self.first is not None:
                kept.append(self.first)
                continue
            # Leave the batches to come no more units than they can hold, nor fewer than they need.
            left = batches - m
            low = max(kept[-1] + self.smallest, self.units - left * largest)
            high = min(kept[-1] + largest, self.units - left * self.smallest)
            kept.append(min(max(round(end), low), high))
        return tuple(after - before for before, after in pairwise(kept))

    def _on_waves(self, ends: Sequence[float]) -> Sizes:
        """Move each end to the nearest wave's end that leaves room for the others."""
        stops = self.stops
        chosen, lowest = [0], 0
        for m, end in enumerate(ends, start=1):
            left = len(ends) - m
            free = range(lowest, len(stops) - left)
            place = len(stops) - 1 if left == 0 else min(free, key=lambda i: abs(stops[i] - end))
            chosen.append(stops[place])
            lowest = place + 1
        return tuple(after - before for before, after in pairwise(chosen))

    @property
    def stops(self) -> list[int]:
        """Where waves end."""
        total, stops = 0, []
        for wave in self.waves or ():
            total += wave
            stops.append(total)
        return stops


def feasible(limits: Limits, batches: Sequence[int]) -> list[int]:
    """Return the numbers of batches that the limits allow; raise where there are none."""
    allowed = [number for number in batches if limits.allows(number)]
    if not allowed:
        rules = {
            "min_batch": limits.smallest if limits.smallest > 1 else None,
            "max_batch": limits.largest,
            "first_batch": limits.first,
            "waves": limits.waves,
        }
        stated = ", ".join(f"{name} = {rule}" for name, rule in rules.items() if rule is not None)
        wanted = f"{batches[0]}" if len(batches) == 1 else f"{min(batches)} to {max(batches)}"
        raise InvalidGridError(
            "batches",
            f"possible for {limits.units} units" + (f" with {stated}" if stated else ""),
            wanted,
            "Loosen a limit, or ask for a different number of batches.",
        )
    return allowed
