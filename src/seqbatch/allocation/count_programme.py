"""The programme of expected counts whose roundings keep a budget, whatever is drawn.

A count n_a is drawn as n_a rounded up or down. Let f_a be whole, and z_a either 0, if n_a = f_a, or
1, if f_a <= n_a <= f_a + 1. As counts add up to N, exactly N - sum f_a of the counts with z_a = 1
are rounded up: in the worst draw the dearest of them. The most that this costs is

    sum_a c_a f_a + min_t [t (N - sum_a f_a) + sum_a max(c_a - t, 0) z_a],

and the minimum is reached where t is one of the costs. For a given t, a budget on it is linear.
Upper bounds on what tables are worth are linear in counts, too. A small programme in whole f and z
therefore has the best counts for each t.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from seqbatch.allocation.limits import SLACK, Bounds, patterns_of
from seqbatch.allocation.transport import Ceiling, Transport
from seqbatch.core.arrays import Floats

#: A whole-number programme is solved to this part of what counts may be worth,
EXACT = 1e-6
#: or until branch and bound has so many nodes. A node is a linear programme; the solver may add a
#: few for cuts and for guesses.
NODES = 500
#: All programmes of a wave have no more nodes than this, and there are no more of them,
ALL_NODES = 4_000
#: nor more nodes times cells than this, if there are many kinds of units.
WORK = 2_000_000


@dataclass(eq=False)
class CountProgramme:
    """The programme of a wave, which gains a row with each ceiling.

    Its variables are the units of each kind that get each action (a kind is a set of eligible
    actions; its pairs with actions are called cells), and then the counts, f, z and the worth.

    Parameters
    ----------
    task
        The problem.
    centre
        The best counts that keep the budget on average.
    ceilings
        Upper bounds on what tables are worth.
    """

    task: Transport
    centre: Floats
    ceilings: list[Ceiling]

    def __post_init__(self) -> None:
        #: How many nodes are left to all programmes.
        self.left = min(ALL_NODES, max(WORK // self._cells, 1))

    def best(self, threshold: float, reach: float = np.inf) -> tuple[float, Floats] | None:
        """Return the most that counts may be worth by one cost t, and their f and z; None if none.

        Counts are within `reach` of the centre, rounded. A search that is cut short returns a bound
        that still holds, with the best counts so far.
        """
        from scipy.optimize import Bounds as Between
        from scipy.optimize import LinearConstraint, milp

        actions, units = len(self.task.given), len(self.task.table)
        least = np.maximum(self.task.bounds.least, np.floor(self.centre) - reach)
        most = np.minimum(self.task.bounds.most, np.ceil(self.centre) + reach)
        if (least > most).any():
            return None
        sizes = [self._cells, actions, actions, actions, 1]
        low = np.repeat([0.0, 0.0, 0.0, 0.0, -np.inf], sizes)
        high = np.repeat([np.inf, 0.0, units, 1.0, np.inf], sizes)
        counts = slice(self._cells, self._cells + actions)
        low[counts], high[counts] = least - SLACK, most + SLACK
        flow, sent = self._flow
        found = milp(
            -np.eye(1, len(high), len(high) - 1)[0],
            constraints=[
                LinearConstraint(flow, sent, sent),
                LinearConstraint(*self._rows(threshold)),
            ],
            integrality=np.repeat([0, 0, 1, 1, 0], sizes),
            bounds=Between(low, high),
            options={"mip_rel_gap": EXACT, "node_limit": min(NODES, self.left)},
        )
        self.left -= max(found.mip_node_count or 0, 1)
        if found.x is None:
            return None
        return -float(found.mip_dual_bound), np.rint(found.x[counts.stop : -1])

    def limits(self, counts: Floats) -> Bounds:
        """Return the limits on expected counts with this f and z: all that keep them are sure."""
        low, width = np.split(counts, 2)
        high = low + width
        if not width.any():
            # The last count follows from the others; a limit on it would leave prices undetermined.
            last = low.argmax()
            low[last], high[last] = 0, np.inf
        return self.task.bounds.between(low, high)

    @property
    def _cells(self) -> int:
        return int(self._flow[0].shape[1]) - 3 * len(self.task.given) - 1

    @cached_property
    def _flow(self) -> tuple[Any, Floats]:
        """The equations: cells add up to the units of each kind, and to the counts."""
        from scipy.sparse import csr_array, eye_array, hstack, vstack

        patterns, masses = patterns_of(self.task.eligible, self.task.weights)
        kind, action = np.nonzero(patterns)
        kinds, actions = patterns.shape
        cells, ones = np.arange(len(kind)), np.ones(len(kind))
        units = csr_array((ones, (kind, cells)), shape=(kinds, len(cells) + 3 * actions + 1))
        counts = csr_array((-ones, (action, cells)), shape=(actions, len(cells)))
        none = csr_array((actions, 2 * actions + 1))
        flow = vstack([units, hstack([counts, eye_array(actions), none])]).tocsr()
        return flow, np.append(masses, self.task.given)

    def _rows(self, threshold: float) -> tuple[Any, float, Floats]:
        """Return the inequalities, each divided by its largest coefficient."""
        from scipy.sparse import csr_array, hstack

        bounds, units = self.task.bounds, len(self.task.table)
        costs, actions = bounds.costs, len(bounds.costs)
        none, one, no = np.zeros((actions, actions)), np.eye(actions), np.zeros(actions)
        dearer = np.maximum(costs - threshold, 0.0)
        # Each row: factors of counts, of f, of z and of the worth; what the sum is at most.
        blocks: list[tuple[Floats, Floats, Floats, Floats | float, Floats | float]] = [
            (-one, one, none, 0.0, no),
            (one, -one, -one, 0.0, no),
            (costs, no, no, 0.0, bounds.budget * (1 + SLACK)),
            (no, costs - threshold, dearer, 0.0,
             bounds.surely * (1 + SLACK) - threshold * units),
            (no, no + 1, no, 0.0, float(units)),
            *((-prices, no, no, 1.0, constant) for constant, prices in self.ceilings),
        ]  # fmt: skip
        worth = np.concatenate([np.full(np.size(block[4]), block[3]) for block in blocks])
        factors = [np.vstack([np.atleast_2d(block[n]) for block in blocks]) for n in range(3)]
        rows = np.column_stack([*factors, worth])
        room = np.concatenate([np.atleast_1d(block[4]) for block in blocks])
        scale = np.abs(rows).max(axis=1)
        kept = np.isfinite(room) & (scale > 0)
        rows, room = rows[kept] / scale[kept, None], room[kept] / scale[kept] + SLACK
        return hstack([csr_array((len(rows), self._cells)), rows]).tocsr(), -np.inf, room
