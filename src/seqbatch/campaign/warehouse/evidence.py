"""The evidence of closed waves from a database: what outcome models are fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.campaign.decide.campaign_waves import ModelColumns
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.warehouse.closed_wave import Group, UnitStages
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference.evidence import Evidence
from seqbatch.inference.score_sums import Moments

#: The sums after the products: of squares and cubes of outcomes, of zeros, ones and positive
#: outcomes, of logarithms and their squares; and the extremes.
OF_OUTCOMES = (
    "SUM(y * y)", "SUM(y * y * y)", "SUM(CASE WHEN y = 0 THEN 1 ELSE 0 END)",
    "SUM(CASE WHEN y = 1 THEN 1 ELSE 0 END)", "SUM(CASE WHEN y > 0 THEN 1 ELSE 0 END)",
    "SUM(CASE WHEN y > 0 THEN LN(y) END)", "SUM(CASE WHEN y > 0 THEN LN(y) * LN(y) END)",
    "MIN(y)", "MAX(y)",
)  # fmt: skip


def evidence_sums(units: UnitStages) -> list[str]:
    """Return the sums of a wave: products of the model's numbers, also with the outcome."""
    v = units.vector
    pairs = [f"SUM({v[i]} * {v[j]})" for i in range(len(v)) for j in range(i, len(v))]
    return [*pairs, *(f"SUM({each} * y)" for each in v), *OF_OUTCOMES]


@dataclass(frozen=True, eq=False)
class Products:
    """The sums of products over some groups, before the model's numbers are standardised.

    Parameters
    ----------
    gram
        By whether outcomes are known (no, yes) and by action, shape (2, K, P, P).
    moment
        By action, shape (K, P).
    outcomes
        The other sums by action, in the order of `OF_OUTCOMES`.
    count
        Units by whether outcomes are known and by action.
    """

    gram: Floats
    moment: Floats
    outcomes: Floats
    count: Integers

    @classmethod
    def of(cls, groups: Sequence[Group], *, actions: int, wide: int) -> "Products":
        """Add up groups of a wave."""
        gram, moment = np.zeros((2, actions, wide, wide)), np.zeros((actions, wide))
        outcomes = np.zeros((actions, len(OF_OUTCOMES)))
        outcomes[:, -2:] = np.inf, -np.inf
        count = np.zeros((2, actions), dtype=np.int64)
        above, ends = np.triu_indices(wide), np.cumsum([wide * (wide + 1) // 2, wide])
        for one in groups:
            pairs, own, rest = np.split(one.sums[: ends[1] + len(OF_OUTCOMES)], ends)
            gram[one.seen, one.action][above] += pairs
            count[one.seen, one.action] += one.units
            if one.seen:
                moment[one.action] += own
                outcomes[one.action, :-2] += np.nan_to_num(rest[:-2])
                low, high = outcomes[one.action, -2:]
                outcomes[one.action, -2:] = min(low, rest[-2]), max(high, rest[-1])
        below = np.tril_indices(wide, -1)
        gram[..., below[0], below[1]] = gram[..., below[1], below[0]]
        return cls(gram, moment, outcomes, count)

    def columns(self, encoder: Encoder) -> ModelColumns:
        """Return the model's columns, standardised with these units."""
        own = self.gram.sum(axis=(0, 1))
        lead = own.shape[0] - len(encoder.names)
        n, mean = own[0, 0], own[0, lead:] / own[0, 0]
        second = np.maximum(np.diagonal(own)[lead:] - n * mean**2, 0.0)
        spread = np.sqrt(second / max(n - 1, 1))
        # Of a constant, sums of squares leave the root of a rounding error.
        places = np.flatnonzero(spread > 1e-7 * (1 + np.abs(mean)))
        return ModelColumns.of(encoder, places, mean[places], spread[places])

    def evidence(self, turn: Floats) -> Evidence:
        """Return the evidence in standardised columns; `turn` is what standardises."""
        gone, seen = turn @ self.gram @ turn.T
        zero, low, high = np.zeros_like(seen[:, 0]), self.outcomes[:, -2], self.outcomes[:, -1]
        squares, cubes, zeros, ones, *logs = self.outcomes[:, :-2].T
        return Evidence(
            Statistics(seen, self.moment @ turn.T, squares, self.count[1]),
            Statistics(gone, zero, np.zeros_like(squares), self.count[0]),
            cubes,
            zeros.astype(np.int64),
            ones.astype(np.int64),
            np.array([each.sum() for each in logs]),
            float(low.min()),
            float(high.max()),
        )

    def features(self, turn: Floats) -> Moments:
        """Return the mean and variance of the standardised columns; no higher moments."""
        own = turn @ self.gram.sum(axis=(0, 1)) @ turn.T
        n = int(self.count.sum())
        mean = own[0] / n
        second = np.diagonal(own) - n * mean**2
        return Moments(n, mean, second, np.zeros_like(mean), np.zeros_like(mean))


def turn_of(columns: ModelColumns, wide: int, width: int) -> Floats:
    """Return the matrix that standardises the model's numbers, the constant first.

    Parameters
    ----------
    columns
        The model's columns.
    wide, width
        How many numbers a statement sums, and how many the encoder has.
    """
    made = np.zeros((1 + len(columns.places), wide))
    made[0, 0] = 1.0
    for row, (place, mean, spread) in enumerate(
        zip(columns.places.tolist(), columns.mean, columns.spread, strict=True), start=1
    ):
        made[row, 0] -= mean / spread
        made[row, place + wide - width] += 1 / spread
    return made
