"""Lists of units by marks of their ids: who may enter a wave, and who had an earlier one."""

from dataclasses import dataclass

import numpy as np

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.core.arrays import AnyArray, Bools

#: The marks of no unit.
NOBODY = np.empty((0, 2), dtype="<u8")


@dataclass(frozen=True)
class WaveList:
    """Units by 128 bits of their ids, with their lots: who may enter a wave, or had an earlier one.

    Parameters
    ----------
    marks
        Their marks, shape (n, 2).
    lots
        The order in which they enter the open wave, shape (n,).
    """

    marks: AnyArray
    lots: AnyArray

    @classmethod
    def empty(cls) -> "WaveList":
        """Return a list of no units."""
        return cls(NOBODY, np.empty(0, dtype="<u8"))

    def merged(self, other: "WaveList") -> "WaveList":
        """Return the units of both lists."""
        return WaveList(
            np.concatenate([self.marks, other.marks]), np.concatenate([self.lots, other.lots])
        )

    def among(self, marks: AnyArray) -> Bools:
        """Return which of these marks are on the list."""
        return held(ordered(self.marks), marks)

    def altered(self, now: Situation) -> bool:
        """Return whether these are not exactly the units of the earlier waves on record."""
        if now.spec.rows == "here":
            return False
        count = sum(now.units[: now.wave - 1])
        return len(self.marks) != count or mark_sums(self.marks) != list(now.marks)


def mark_sums(marks: AnyArray) -> list[int]:
    """Return the four sums of the 32-bit parts of marks."""
    halves = (marks[:, 0] >> np.uint64(32), marks[:, 0], marks[:, 1] >> np.uint64(32), marks[:, 1])
    low = np.uint64(2**32 - 1)
    return [int((half & low).sum(dtype=np.uint64)) for half in halves]


def ordered(marks: AnyArray) -> AnyArray:
    """Return marks in one order; each of the two words is contiguous, for fast searches."""
    return np.asfortranarray(marks[np.lexsort((marks[:, 1], marks[:, 0]))])


def count_repeated(marks: AnyArray) -> int:
    """Return how many marks are copies of others."""
    firsts = np.sort(marks[:, 0])
    # Sorting both words takes longer, and is needed only where first words are equal.
    if not (firsts[1:] == firsts[:-1]).any():
        return 0
    placed = ordered(marks)
    return int((placed[1:] == placed[:-1]).all(axis=1).sum())


def held(placed: AnyArray, marks: AnyArray) -> Bools:
    """Return which marks are among ordered ones."""
    found, rows = np.zeros(len(marks), dtype=np.bool_), np.arange(len(marks))
    # Searched for in their order, neighbours are found near each other.
    order, place = np.argsort(marks[:, 0]), np.empty(len(marks), dtype=np.int64)
    place[order] = np.searchsorted(placed[:, 0], marks[order, 0])
    # Two ids may have the same first 64 bits.
    while len(rows := rows[place[rows] < len(placed)]):
        rows = rows[placed[place[rows], 0] == marks[rows, 0]]
        same = placed[place[rows], 1] == marks[rows, 1]
        found[rows[same]] = True
        rows = rows[~same]
        place[rows] += 1
    return found
