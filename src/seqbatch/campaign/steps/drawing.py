"""Draw a wave's units from a list of everybody, whatever the order of the list.

Every unit without an action has a lot, a keyed hash of its id, and those with the lowest lots are
drawn, as many as the wave has room for. The list is read twice: to find the highest lot that is
drawn, and to take the units.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.draws import lots
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Change
from seqbatch.campaign.tables.units import Piece, Units
from seqbatch.core.arrays import AnyArray, Integers
from seqbatch.errors import CampaignStateError


class Drawing:
    """One draw within the transaction of its assign.

    Parameters
    ----------
    change, now
        The transaction, and where the campaign stood before it.
    everybody
        The checked list.
    """

    def __init__(self, change: Change, now: Situation, everybody: Units) -> None:
        self._change = change
        self._now = now
        self._everybody = everybody
        #: Units without an action, and units of earlier waves, which are passed over.
        self.fresh = self.earlier = 0
        #: The highest lot that is drawn; None where nobody is.
        self.limit: int | None = None
        # Where no wave is open, an empty file of answers would look like a wave.
        now.require_open()
        self._room = _room(now)
        # Units of the open wave get their answers again: who lost the file may make the call again.
        self._first = sum(now.units[: now.wave - 1])
        self._find_limit()

    @property
    def drawn(self) -> int:
        """How many units are drawn."""
        return min(self.fresh, self._room)

    def pieces(self) -> Iterator[Piece]:
        """Yield the units that are drawn, and those that the open wave has already."""
        left = self.drawn
        for units, given in self._everybody.pieces():
            numbers = self._change.numbers(units)
            fresh = np.flatnonzero(numbers < 0)
            chosen = fresh[:0]
            if self.limit is not None:
                chosen = fresh[self._lots(units, fresh) <= np.uint64(self.limit)]
            # Two lots are the same once in 2^64 times; the wave's size is exact all the same.
            chosen = chosen[:left]
            left -= len(chosen)
            kept = np.sort(np.concatenate([chosen, np.flatnonzero(numbers >= self._first)]))
            if len(kept):
                yield units.take(kept), given.take(kept)

    def _find_limit(self) -> None:
        lowest = np.zeros(0, dtype=np.uint64)
        for units, _ in self._everybody.pieces():
            numbers = self._change.numbers(units)
            fresh = np.flatnonzero(numbers < 0)
            self.fresh += len(fresh)
            self.earlier += int(((numbers >= 0) & (numbers < self._first)).sum())
            lowest = np.concatenate([lowest, self._lots(units, fresh)])
            if len(lowest) > self._room:
                # No more than a wave is ever kept of a list of any length.
                lowest = np.partition(lowest, max(self._room - 1, 0))[: self._room]
        if len(lowest):
            self.limit = int(lowest.max())

    def _lots(self, units: pa.Array, rows: Integers) -> AnyArray:
        spec, before = self._now.spec, self._now.assigned
        return lots(spec.seed, self._now.name, units.take(rows), before=before)


def _room(now: Situation) -> int:
    """Return how many units the open wave still takes."""
    if now.left is None:
        raise CampaignStateError(
            f"campaign {now.name} has calendar waves, which have no size: nothing says how many "
            "units to draw. Hand over the units of this wave, without draw=True."
        )
    return now.left
