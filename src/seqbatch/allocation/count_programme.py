"""The linear programme of expected counts whose roundings keep a budget, whatever is drawn.

A count n_a is drawn as n_a rounded up or down. Let f_a be whole, and z_a either 0, if n_a = f_a, or
1, if f_a <= n_a <= f_a + 1. As counts add up to N, exactly N - sum f_a of the counts with z_a = 1
are rounded up: in the worst draw the dearest of them. The most that this costs is

    sum_a c_a f_a + min_t [t (N - sum_a f_a) + sum_a max(c_a - t, 0) z_a],

and the minimum is reached where t is one of the costs. For a given t, a budget on it is linear.
Upper bounds on what tables are worth are linear in counts, too.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from seqbatch.allocation.limits import SLACK, Bounds, patterns_of
from seqbatch.allocation.transport import Ceiling, Transport
from seqbatch.core.arrays import Floats

#: A variable this close to a whole number is whole.
WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class Part:
    """Part of all counts: those with f and z, one after the other, between `low` and `high`.

    `threshold` is the cost t.
    """

    threshold: float
    low: Floats
    high: Floats

    def split(self, place: int, value: float) -> list["Part"]:
        """Return the part below and the part above a value of one variable."""
        high, low = self.high.copy(), self.low.copy()
        high[place], low[place] = np.floor(value), np.floor(value) + 1
        return [Part(self.threshold, self.low, high), Part(self.threshold, low, self.high)]


@dataclass(frozen=True, eq=False)
class CountProgramme:
    """The programme of a wave, which gains a row with each ceiling.

    Its variables are the units of each kind that get each action (a kind is a set of eligible
    actions), f, z and the worth.
    """

    task: Transport
    ceilings: list[Ceiling] = field(default_factory=list)

    def parts(self) -> list[Part]:
        """Return all counts: a part for each threshold."""
        actions = len(self.task.bounds.costs)
        low, high = np.zeros(2 * actions), np.repeat([float(self._units), 1.0], actions)
        return [Part(cost, low, high) for cost in np.unique(self.task.bounds.costs).tolist()]

    def best(self, part: Part) -> tuple[float, Floats] | None:
        """Return the most that counts of a part may be worth, and their f and z; None if none."""
        from scipy.optimize import linprog

        kinds, actions = self._kinds.shape[1], len(part.low) // 2
        rows, room = self._rows(part.threshold)
        endless = np.full(kinds, np.inf)
        low = np.concatenate([np.zeros(kinds), part.low, [-np.inf]])
        found = linprog(
            -np.eye(kinds + 2 * actions + 1)[-1],
            A_ub=rows,
            b_ub=room,
            A_eq=np.hstack([self._kinds, np.zeros((len(self._kinds), 2 * actions + 1))]),
            b_eq=self._masses,
            bounds=np.column_stack([low, np.concatenate([endless, part.high, [np.inf]])]),
        )
        if found.status != 0:
            return None
        return -float(found.fun), np.asarray(found.x[kinds:-1], dtype=np.float64)

    def uneven(self, counts: Floats) -> int | None:
        """Return the variable to decide next, f and z of the dearest action first; None if whole.

        Parameters
        ----------
        counts
            f and z.
        """
        order = np.argsort(-self.task.bounds.costs, kind="stable")
        places = np.append(order, len(order) + order)
        open_ones = places[np.abs(counts - np.rint(counts))[places] > WHOLE]
        return int(open_ones[0]) if len(open_ones) else None

    def limits(self, counts: Floats) -> Bounds:
        """Return the limits on expected counts with this f and z: all that keep them are sure."""
        low, width = np.split(np.rint(counts), 2)
        high = low + width
        if not width.any():
            # The last count follows from the others; a limit on it would leave prices undetermined.
            last = low.argmax()
            low[last], high[last] = 0, np.inf
        return self.task.bounds.between(low, high)

    def _rows(self, threshold: float) -> tuple[Floats, Floats]:
        """Return the inequalities, each divided by its largest coefficient."""
        bounds, given, counts = self.task.bounds, self.task.given, self._counts
        actions = len(given)
        none, one = np.zeros((actions, actions)), np.eye(actions)
        costs, last = bounds.costs, np.ones((len(self.ceilings), 1))
        prices = np.array([ceiling.prices for ceiling in self.ceilings])
        constants = np.array([ceiling.constant for ceiling in self.ceilings])
        dearer = np.maximum(costs - threshold, 0.0)
        # Each row: factors of counts, of f, of z and of the worth; what the sum is at most.
        blocks = [
            (one, none, none, bounds.most),
            (-one, none, none, -bounds.least),
            (-one, one, none, np.zeros(actions)),
            (one, -one, -one, np.zeros(actions)),
            (costs, 0 * costs, 0 * costs, bounds.budget * (1 + SLACK)),
            (0 * costs, costs - threshold, dearer,
             bounds.surely * (1 + SLACK) - threshold * self._units),
            (0 * costs, np.ones(actions), 0 * costs, float(self._units)),
        ]  # fmt: skip
        factors = [np.vstack([np.atleast_2d(block[n]) for block in blocks]) for n in range(3)]
        room = np.concatenate([np.atleast_1d(block[3]) for block in blocks])
        room = np.append(room - factors[0] @ given, constants + prices @ given)
        rows = np.block([
            [factors[0] @ counts, factors[1], factors[2], np.zeros((len(factors[0]), 1))],
            [-prices @ counts, np.zeros((len(prices), 2 * actions)), last],
        ])  # fmt: skip
        scale = np.abs(rows).max(axis=1)
        kept = np.isfinite(room) & (scale > 0)
        return rows[kept] / scale[kept, None], room[kept] / scale[kept] + SLACK

    @cached_property
    def _units(self) -> int:
        return len(self.task.table)

    @cached_property
    def _cells(self) -> tuple[Floats, Floats, Floats]:
        """The kinds' and the actions' incidence with cells (kind, action), and the kinds' sizes."""
        patterns, masses = patterns_of(self.task.eligible, self.task.weights)
        kind, action = np.nonzero(patterns)
        return np.eye(len(patterns))[:, kind], np.eye(patterns.shape[1])[:, action], masses

    @property
    def _kinds(self) -> Floats:
        return self._cells[0]

    @property
    def _counts(self) -> Floats:
        return self._cells[1]

    @property
    def _masses(self) -> Floats:
        return self._cells[2]
