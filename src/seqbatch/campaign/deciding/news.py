"""What became known since the last estimate: new outcomes, and those that were corrected."""

from dataclasses import dataclass, replace

import numpy as np

from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader
from seqbatch.core.arrays import Bools, Floats, Integers

#: A corrected value may be this much larger than all that are left. Taking a larger one out of sums
#: would leave its rounding errors in them; the waves are then learned again from nothing.
LARGEST_CORRECTION = 1e8


@dataclass(frozen=True)
class News:
    """What became known since the last estimate, one row a unit.

    Parameters
    ----------
    fresh
        Outcomes of units that had none.
    corrected
        Outcomes of units that had another one then.
    before, was_absent
        What these had, in the same order, and whether it was no record but what they counted as.
    until
        The newest event that counts.
    """

    fresh: Ledger
    corrected: Ledger
    before: Floats
    was_absent: Bools
    until: int

    def counting(self, absent: Ledger) -> "News":
        """Return the same with units that count as absent."""
        return replace(self, fresh=self.fresh.joined(absent))

    def numbers_before(self, number: int) -> Integers:
        """Return those of the units concerned that have a lower number, in order."""
        some = [each[each < number] for each in (self.fresh.numbers, self.corrected.numbers)]
        return np.union1d(*some)

    @property
    def loses_precision(self) -> bool:
        """Whether a value that was corrected is too large to be taken out of sums."""
        if not len(self.before):
            return False
        left = np.abs(np.concatenate([self.fresh.values, self.corrected.values]))
        gone = np.abs(self.before).max()
        return bool(gone > LARGEST_CORRECTION * max(left.mean() if len(left) else 0.0, 1e-300))

    @classmethod
    def since(cls, reader: Reader, now: Situation, event: int, *, parts: int = 0) -> "News":
        """Read what was recorded after one event, up to where the campaign stands."""
        chunks = reader.outcome_chunks(after_event=event, until_event=now.sequence)
        rows = Ledger.of(chunks, parts=parts, room=now.assigned)
        newest = rows.known()
        # Of the open wave nobody had an outcome before its first; of a closed one some counted as
        # absent.
        late = newest.numbers < sum(now.units[: now.wave - 1])
        asked = newest.numbers[late | ~rows.firsts(newest, now.assigned)]
        had: dict[int, tuple[int, float]] = {}
        for number, version, cells, when in reader.outcome_versions(asked):
            if when <= event and version >= had.get(number, (0, 0.0))[0]:
                had[number] = (version, cells[0])
        if not had:
            return cls(newest, newest.take(slice(0)), np.zeros(0), np.zeros(0, dtype=np.bool_),
                       now.sequence)  # fmt: skip
        again = np.isin(newest.numbers, np.array(list(had), dtype=np.int64))
        corrected = newest.take(np.flatnonzero(again))
        before = [had[number] for number in corrected.numbers.tolist()]
        return cls(
            fresh=newest.take(np.flatnonzero(~again)),
            corrected=corrected,
            before=np.array([value for _, value in before], dtype=np.float64),
            was_absent=np.array([version == 0 for version, _ in before], dtype=np.bool_),
            until=now.sequence,
        )
