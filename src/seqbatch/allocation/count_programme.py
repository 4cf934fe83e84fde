"""The programme of expected counts whose roundings keep a budget, whatever is drawn.

A count n_a is drawn as n_a rounded up or down. Let f_a be whole, and z_a either 0, if n_a = f_a, or
1, if f_a <= n_a <= f_a + 1. As counts add up to N, exactly N - sum f_a of the counts with z_a = 1
are rounded up: in the worst draw the dearest of them. The most that this costs is

    sum_a c_a f_a + min_t [t (N - sum_a f_a) + sum_a max(c_a - t, 0) z_a],

and the minimum is reached where t is one of the costs. For a given t, a budget on it is linear.
Upper bounds on what tables are worth are linear in counts, too. A small programme in whole f and z
therefore has the best counts for each t.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from seqbatch.allocation.limits import SLACK, Bounds, patterns_of
from seqbatch.allocation.transport import Ceiling, Transport
from seqbatch.core.arrays import Floats

#: The whole-number programme is solved to this part of what counts may be worth,
EXACT = 1e-6
#: or until so many linear programmes were solved.
NODES = 1_000


@dataclass(frozen=True, eq=False)
class CountProgramme:
    """The programme of a wave, which gains a row with each ceiling.

    Its variables are the units of each kind that get each action (a kind is a set of eligible
    actions), f, z and the worth.
    """

    task: Transport
    ceilings: list[Ceiling] = field(default_factory=list)

    def best(self, threshold: float) -> tuple[float, Floats] | None:
        """Return the most that counts may be worth by one cost t, and their f and z; None if none.

        A search that is cut short returns a bound that still holds, with the best counts so far.
        """
        from scipy.optimize import Bounds as Between
        from scipy.optimize import LinearConstraint, milp

        kinds, actions = self._kinds.shape[1], len(self.task.given)
        rows, room = self._rows(threshold)
        sizes = np.hstack([self._kinds, np.zeros((len(self._kinds), 2 * actions + 1))])
        high = np.repeat([np.inf, self._units, 1.0, np.inf], [kinds, actions, actions, 1])
        found = milp(
            -np.eye(len(high))[-1],
            constraints=[
                LinearConstraint(rows, -np.inf, room),
                LinearConstraint(sizes, self._masses, self._masses),
            ],
            integrality=np.repeat([0, 1, 0], [kinds, 2 * actions, 1]),
            bounds=Between(np.append(np.zeros(len(high) - 1), -np.inf), high),
            options={"mip_rel_gap": EXACT, "node_limit": NODES},
        )
        if found.x is None:
            return None
        return -float(found.mip_dual_bound), np.rint(found.x[kinds:-1])

    def limits(self, counts: Floats) -> Bounds:
        """Return the limits on expected counts with this f and z: all that keep them are sure."""
        low, width = np.split(counts, 2)
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
        blocks: list[tuple[Floats, Floats, Floats, Floats | float]] = [
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
