"""The progress of a learner on its grid: which batch is open, and which call may come next."""

from dataclasses import dataclass, field

from seqbatch.document import Table
from seqbatch.errors import BatchRuleError
from seqbatch.grids import Grid


@dataclass
class BatchProgress:
    """How far a learner is.

    Parameters
    ----------
    grid
        Where batches end.
    batch
        The number of the open batch, from 1; M + 1 when all are closed.
    waiting
        How many units of the open batch are assigned.
    used
        For each observed batch, the batch at whose end its outcomes were used.

    Examples
    --------
    >>> from seqbatch import grids
    >>> progress = BatchProgress(grids.explicit([3, 6]), waiting=2)
    >>> progress.units_left, progress.closes(assigned=3, observed=1)
    (1, True)
    """

    grid: Grid
    batch: int = 1
    waiting: int = 0
    used: list[int] = field(default_factory=list)

    @property
    def observed(self) -> int:
        """The number of observed batches."""
        return len(self.used)

    @property
    def finished(self) -> bool:
        """Whether every batch has been observed."""
        return self.batch > self.grid.batches

    @property
    def units_left(self) -> int:
        """The number of units that the open batch still accepts; 0 while it awaits outcomes."""
        return 0 if self.finished else self.size(self.batch) - self.waiting

    def before(self, batch: int) -> int:
        """Return the number of units in the batches before this one."""
        return self.grid.ends[batch - 2] if batch > 1 else 0

    def size(self, batch: int) -> int:
        """Return the number of units in a batch."""
        return self.grid.ends[batch - 1] - self.before(batch)

    @property
    def sizes(self) -> list[int]:
        """The number of assigned units in each batch up to the open one."""
        return [*(self.size(batch) for batch in range(1, self.batch)), self.waiting]

    def closes(self, *, assigned: int, observed: int) -> bool:
        """Return whether the open batch ends: it is full, and what its end waits for is known."""
        batch, last = self.batch, self.grid.batches
        waits_for = last if batch == last else batch - self.grid.delay
        return assigned == self.size(batch) and observed >= waits_for

    def move(self, *, assigned: int, closes: bool) -> None:
        """Go on to so many assigned units of the open batch, or to the next batch."""
        self.batch, self.waiting = self.batch + closes, 0 if closes else assigned

    def tables(self) -> list[Table]:
        """Return the batches as a table: size, number of assigned units, and state."""
        rows = [
            (batch, size, self._assigned(batch), self._stage(batch))
            for batch, size in enumerate(self.grid.sizes, start=1)
        ]
        return [Table("Batches", ("batch", "size", "assigned", "state"), rows, words=("state",))]

    def _assigned(self, batch: int) -> int:
        whole = self.size(batch) if batch < self.batch else 0
        return self.waiting if batch == self.batch else whole

    def _stage(self, batch: int) -> str:
        if batch == self.batch:
            return "open" if self.units_left else "awaiting outcomes"
        if self.observed < batch < self.batch:
            return "awaiting outcomes"
        return "closed" if batch < self.batch else "to come"

    def require_room(self, units: int) -> None:
        """Refuse units beyond the end of the open batch."""
        if self.finished:
            raise BatchRuleError(
                f"contexts: all {self.grid.batches} batches are closed; received {units} more "
                "units. Start a new learner to continue.",
                code="finished",
                field="contexts",
            )
        if units > self.units_left:
            raise BatchRuleError(
                f"contexts: batch {self.batch} has room for {self.units_left} more units; received "
                f"{units}. Assign the first {self.units_left}, observe the batch's outcomes, then "
                "continue with the rest.",
                code="batch-full",
                field="contexts",
            )

    def next_observed(self) -> int:
        """Return the batch whose outcomes come next; refuse outcomes before all its units."""
        if self.finished:
            raise BatchRuleError(
                f"rewards: all {self.grid.batches} batches are already observed.",
                code="finished",
                field="rewards",
            )
        batch = self.observed + 1
        if batch == self.batch and self.waiting == 0:
            past = f"; batch {self.batch - 1} is already observed" if self.batch > 1 else ""
            raise BatchRuleError(
                f"rewards: no unit of batch {self.batch} is assigned{past}. Assign its "
                f"{self.units_left} units first.",
                code="no-units",
                field="rewards",
            )
        if batch == self.batch and self.units_left:
            raise BatchRuleError(
                f"rewards: batch {self.batch} ends after {self.size(self.batch)} units and "
                f"{self.waiting} are assigned. Assign the remaining {self.units_left} before "
                "observing any outcome.",
                code="batch-incomplete",
                field="rewards",
            )
        return batch

    def last_of(self, units: int) -> int:
        """Return the last of the whole batches that so many units fill; refuse any other number."""
        seen = self.before(self.batch)
        last, ends = seen + units, self.grid.ends
        whole = units and last <= self.grid.units and last == ends[self.grid.batch_of(last) - 1]
        if not whole or (self.grid.delay and last < self.grid.units):
            raise BatchRuleError(
                f"contexts: a replay must hold one or more whole batches, all that are left if "
                f"they overlap; received {units} units after {seen} of {self.grid.units}.",
                code="not-whole-batches",
                field="contexts",
            )
        return self.grid.batch_of(last)
