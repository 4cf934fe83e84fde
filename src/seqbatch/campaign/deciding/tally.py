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
from seqbatch.campaign.tables.assignments import Decided
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


def _decided_of(chunk: UnitChunk) -> tuple[UnitChunk, Decided]:
    return chunk, Decided.of(unpack(chunk.decided))


def tally(reader: Reader, now: Situation, known: Ledger, wave: int) -> Tally:
    """Count a wave's units and outcomes."""
    actions, spec = len(now.actions), now.spec
    counted = Tally(
        seen=Allocation(actions),
        missing=Allocation(actions),
        absent=np.zeros(actions, dtype=np.int64),
        metrics=MetricSums(spec.metrics, actions),
    )
    chunks = [extent.chunk for extent in reader.extents(wave=wave)]
    for chunk, decided in over(_decided_of, reader.unit_chunks(given=False, chunks=chunks)):
        here = known.within(chunk.first, chunk.first + chunk.count)
        rows = here.numbers - chunk.first
        seen = np.zeros(chunk.count, dtype=np.bool_)
        seen[rows] = True
        absent, recorded = here.absent, ~here.absent
        counted.absent[:] += np.bincount(decided.actions[rows[absent]], minlength=actions)
        counted.metrics.add(
            decided.actions[rows[recorded]], metric_cells(spec, here.parts[recorded])
        )
        counted.seen.add(decided.actions[seen], decided.probabilities[seen])
        counted.missing.add(decided.actions[~seen], decided.probabilities[~seen])
    return counted
