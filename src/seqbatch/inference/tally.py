"""All that is kept of some units of a wave, whatever is asked about them later."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Bools, Floats
from seqbatch.inference.clusters import ClusterSums
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.moments import Moments
from seqbatch.inference.rows import Rows


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over some units of a wave; they add up over pieces.

    Parameters
    ----------
    outcomes
        How many outcomes came back.
    moments
        Of the scores s_i, one column for each contrast.
    costs
        Sums of the contrasts' costs.
    clusters
        Sums over clusters; None where all units are independent.
    """

    outcomes: int
    moments: Moments
    costs: Floats
    clusters: ClusterSums | None = None

    @property
    def units(self) -> int:
        """How many units."""
        return self.moments.count

    @property
    def share_returned(self) -> float:
        """The share of outcomes that came back."""
        return self.outcomes / self.units

    def merge(self, other: "Tally") -> "Tally":
        """Return the sums over both sets of units."""
        clusters = self.clusters
        if clusters is not None and other.clusters is not None:
            clusters = clusters.merge(other.clusters)
        return Tally(
            self.outcomes + other.outcomes,
            self.moments.merge(other.moments),
            self.costs + other.costs,
            clusters,
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """Scores and costs of a piece, one column for each contrast, before they are summed."""

    rows: Rows
    scores: Floats
    costs: Floats

    @classmethod
    def of(cls, rows: Rows, values: Floats, contrasts: Sequence[Contrast]) -> "Columns":
        """Ask each contrast about each unit.

        What a unit could not get is neither known nor 0: it has NaN in place of a score and of a
        probability, and so has every contrast that asks for it.
        """
        p = rows.probabilities
        if rows.eligible is not None:
            p = np.where(rows.eligible, p, np.nan)
            values = np.where(rows.eligible, values, np.nan)
        return cls(
            rows,
            np.column_stack([contrast.of(values, p) for contrast in contrasts]),
            np.column_stack([contrast.costs(p) for contrast in contrasts]),
        )

    def tally(self, among: Bools | None = None) -> Tally:
        """Sum over all units, or some."""
        part = slice(None) if among is None else among
        scores, names = self.scores[part], self.rows.clusters
        return Tally(
            int(self.rows.returned[part].sum()),
            Moments.of(scores),
            self.costs[part].sum(axis=0),
            None if names is None else ClusterSums.of(names[part], scores),
        )
