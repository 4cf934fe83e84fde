"""A line of a study: a policy with its own rule that makes its grids."""

from dataclasses import dataclass
from typing import Protocol

from seqbatch.grids import Grid
from seqbatch.policies import Policy


class MakesGrids(Protocol):
    """Your own grid rule, as an alternative to :class:`~seqbatch.grids.GridRule`."""

    def grid(self, units: int, dim: int) -> Grid:
        """Return the grid for `units` units and the paper's dimension d."""


@dataclass(frozen=True)
class Line:
    """A policy with its own rule that makes its grids."""

    policy: Policy
    rule: MakesGrids
