"""A wave counted: its units by action, those with an outcome, those absent, and its metrics."""

from dataclasses import dataclass

import numpy as np

from seqbatch.campaign.deciding.balance import Allocation, ChiSquare, missingness
from seqbatch.campaign.deciding.judging import metric_cells
from seqbatch.campaign.deciding.metrics import MetricSums
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader, UnitChunk
from seqbatch.campaign.tables.ahead import over
from seqbatch.campaign.tables.assignments import probabilities_of
from seqbatch.core.arrays import Integers


@dataclass(frozen=True)
class Tally:
    """Units of one wave with an outcome, absent ones among them, and without, by action."""

    seen: Allocation
    missing: Allocation
    absent: Integers
    metrics: MetricSums

    @property
    def allocation(self) -> Allocation:
        """All units."""
        return self.seen + self.missing

    @property
    def assigned(self) -> Integers:
        """Units."""
        return self.seen.counts + self.missing.counts

    @property
    def observed(self) -> Integers:
        """Recorded outcomes."""
        return self.seen.counts - self.absent

    def tests(self) -> dict[str, ChiSquare]:
        """Return the two tests by name."""
        return {
            "missingness": missingness(self.seen, self.missing),
            "allocation": self.allocation.test(),
        }

    @classmethod
    def zero(cls, now: Situation) -> "Tally":
        """Return the tally of nobody."""
        actions = len(now.actions)
        return cls(
            seen=Allocation(actions),
            missing=Allocation(actions),
            absent=np.zeros(actions, dtype=np.int64),
            metrics=MetricSums(now.spec.metrics, actions),
        )

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.seen + other.seen,
            self.missing + other.missing,
            self.absent + other.absent,
            self.metrics + other.metrics,
        )


def tally(reader: Reader, now: Situation, known: Ledger, wave: int) -> Tally:
    """Count a wave's units and outcomes."""
    chunks = [extent.chunk for extent in reader.extents(wave=wave)]
    pieces = reader.unit_chunks(given=False, chunks=chunks)
    total = Tally.zero(now)
    for part in over(lambda chunk: counted_chunk(now, chunk, known), pieces):
        total += part
    return total


def columns_counted(now: Situation) -> list[str]:
    """Return the columns of decisions that are counted."""
    return ["action", *(f"p{action}" for action in range(len(now.actions)))]


def counted_chunk(now: Situation, chunk: UnitChunk, known: Ledger) -> Tally:
    """Count the units and outcomes of one chunk."""
    counted, count = Tally.zero(now), len(now.actions)
    decided = unpack(chunk.decided, columns_counted(now))
    actions = decided["action"].to_numpy().astype(np.int64)
    probabilities = probabilities_of(decided, count)
    here = known.within(chunk.first, chunk.first + chunk.count)
    whole = len(here) == chunk.count
    rows: slice | Integers = slice(None) if whole else here.numbers - chunk.first
    own, absent = actions[rows], here.absent
    counted.absent[:] = np.bincount(own[absent], minlength=count)
    recorded = ~absent if absent.any() else slice(None)
    counted.metrics.add(own[recorded], metric_cells(now.spec, here.parts[recorded]))
    if whole:
        counted.seen.add(actions, probabilities)
        return counted
    seen = np.zeros(chunk.count, dtype=np.bool_)
    seen[rows] = True
    counted.seen.add(actions[seen], probabilities[seen])
    counted.missing.add(actions[~seen], probabilities[~seen])
    return counted
