"""A grid: the ends of the batches."""

import operator
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from seqbatch.core import arguments
from seqbatch.display import Table, counted, shown
from seqbatch.errors import InvalidGridError


@dataclass(frozen=True, repr=False)
class Grid:
    """The ends of the batches; make one with the functions of :mod:`seqbatch.grids`.

    Parameters
    ----------
    ends
        Units seen by the end of each batch, strictly increasing whole numbers.

    Examples
    --------
    >>> Grid((500, 2_000))
    Grid(units=2000, batches=2, ends=[500, 2000])
    """

    ends: tuple[int, ...]

    def __post_init__(self) -> None:
        try:
            ends = tuple(operator.index(end) for end in self.ends)
        except TypeError:
            raise InvalidGridError("ends", "whole numbers", repr(self.ends)) from None
        if min(ends, default=1) < 1:
            raise InvalidGridError("ends", "whole numbers of at least 1", min(ends))
        if not ends:
            raise InvalidGridError("ends", "at least one batch end", "none")
        for m, (before, after) in enumerate(pairwise(ends), start=2):
            if after <= before:
                raise InvalidGridError(
                    "ends", "strictly increasing", f"{before} then {after} at batch {m}"
                )
        object.__setattr__(self, "ends", ends)

    def __repr__(self) -> str:
        shown = [str(end) for end in self.ends]
        if len(shown) > 8:
            shown = [*shown[:4], "...", *shown[-2:]]
        return f"Grid(units={self.units}, batches={self.batches}, ends=[{', '.join(shown)}])"

    @property
    def units(self) -> int:
        """T, the number of units in all batches."""
        return self.ends[-1]

    @property
    def batches(self) -> int:
        """M, the number of batches."""
        return len(self.ends)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many units each batch holds."""
        return tuple(after - before for before, after in pairwise((0, *self.ends)))

    def tables(self) -> list[Table]:
        """Return the batches: their first and last units, sizes, and shares of all units.

        >>> explicit([500, 2_000]).tables()[0].cells()
        [['1', '1', '500', '500', '25.00%'], ['2', '501', '2,000', '1,500', '75.00%']]
        """
        rows = [
            (m, end - size + 1, end, size, f"{size / self.units:.2%}")
            for m, (end, size) in enumerate(zip(self.ends, self.sizes, strict=True), start=1)
        ]
        title = f"{counted(self.units, 'unit')} in {counted(self.batches, 'batch')}"
        return [Table(title, ("batch", "from", "to", "size", "share"), rows)]

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())

    def batch_of(self, unit: int) -> int:
        """Return the number (1 to M) of the batch that holds unit number `unit` (1 to T).

        >>> explicit([3, 6, 10]).batch_of(4)
        2
        """
        if not 1 <= arguments.integer("unit", unit) <= self.units:
            raise InvalidGridError("unit", f"between 1 and {self.units}", unit)
        return bisect_left(self.ends, unit) + 1


def explicit(ends: Iterable[int]) -> Grid:
    """Return the grid with these ends: calendar waves, or any others.

    >>> explicit([500, 2_000, 10_000]).sizes
    (500, 1500, 8000)
    """
    if not isinstance(ends, Iterable):
        raise InvalidGridError("ends", "a list of whole numbers", repr(ends))
    return Grid(tuple(ends))
