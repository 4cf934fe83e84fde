"""Units whose outcomes a learner awaits, and its record of which outcome was used when."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers, Places
from seqbatch.display import counted
from seqbatch.document import Frames, Table, shown


@dataclass(frozen=True)
class AwaitedUnits:
    """Units that are assigned and whose outcomes are not known yet.

    Parameters
    ----------
    units
        Their numbers, in the order of assignment over all batches, from 0.
    vectors, actions, groups
        What the policy learns from besides their outcomes.
    """

    units: Integers
    vectors: Floats
    actions: Integers
    groups: Integers

    @classmethod
    def none(cls, dim: int) -> "AwaitedUnits":
        """Return no units."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, np.empty((0, dim)), nothing, nothing)

    @classmethod
    def joined(cls, pieces: "Sequence[AwaitedUnits]") -> "AwaitedUnits":
        """Return the units of all pieces, of which there is at least one."""
        if len(pieces) == 1:
            return pieces[0]
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names))

    def __len__(self) -> int:
        return len(self.units)

    def take(self, rows: "Bools | Places | slice") -> "AwaitedUnits":
        """Return some of the units."""
        return AwaitedUnits(
            self.units[rows], self.vectors[rows], self.actions[rows], self.groups[rows]
        )


@dataclass(frozen=True)
class LateOutcomes:
    """Outcomes that were known after their batch had closed.

    Parameters
    ----------
    units
        The numbers of their units.
    used
        The batch at whose end each was first used.
    """

    units: Integers
    used: Integers

    def plus(self, units: Integers, batch: int) -> "LateOutcomes":
        """Return these and further ones, used at the end of `batch`."""
        return LateOutcomes(
            np.concatenate([self.units, units]),
            np.concatenate([self.used, np.full(len(units), batch)]),
        )


@dataclass(frozen=True)
class OutcomeRecord(Frames):
    """When each unit was assigned, and when its outcome was used, in the order of assignment.

    Parameters
    ----------
    assigned
        The batch of each unit, from 1.
    used
        The batch at whose end its outcome was first used; 0 if it is not known yet.
    """

    assigned: Integers
    used: Integers

    @classmethod
    def of(
        cls, sizes: Sequence[int], times: Sequence[int], missing: AwaitedUnits, late: LateOutcomes
    ) -> "OutcomeRecord":
        """Return the record of batches of these sizes, the first of which were used at `times`."""
        assigned = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        used = np.array([*times, *[0] * (len(sizes) - len(times))])[assigned - 1]
        used[missing.units] = 0
        used[late.units] = late.used
        return cls(assigned, used)

    @property
    def awaited(self) -> Integers:
        """The numbers of the units whose outcomes are not known yet."""
        return np.flatnonzero(self.used == 0)

    def tables(self) -> list[Table]:
        """Return, for each batch, how many outcomes were used in time, later, and not yet."""
        rows = []
        for batch in np.unique(self.assigned).tolist():
            used = self.used[self.assigned == batch]
            own, waits = int((used == batch).sum()), int((used == 0).sum())
            rows.append((batch, len(used), own, len(used) - own - waits, waits))
        columns = ("batch", "units", "used at its end", "used later", "not known yet")
        return [Table("Outcomes", columns, rows)]

    def __repr__(self) -> str:
        late = int((self.used > self.assigned).sum())
        return (
            f"<OutcomeRecord: {counted(len(self.used), 'unit')}; {late} used late, "
            f"{len(self.awaited)} not known yet>"
        )

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())
