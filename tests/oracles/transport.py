"""The transportation problem as a linear or whole-number programme, a variable a cell, by HiGHS."""

from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack


def best_value(scores, eligible, *, least, most, costs=None, budget=None):
    """Return the highest sum of scores within limits, or None where there is no such table."""
    units, actions = scores.shape
    rows = kron(eye_array(units), np.ones((1, actions))).tocsr()
    columns = kron(np.ones((1, units)), eye_array(actions)).tocsr()
    capped = np.isfinite(most)
    parts, room = [columns[capped], -columns], [most[capped], -np.asarray(least)]
    if budget is not None:
        parts.append(csr_array(np.tile(costs, units)[None]))
        room.append([budget])
    found = linprog(
        -scores.ravel(),
        A_ub=vstack(parts),
        b_ub=np.concatenate(room),
        A_eq=rows,
        b_eq=np.ones(units),
        bounds=[(0, float(may)) for may in eligible.ravel()],
    )
    return -found.fun if found.status == 0 else None


def best_assignment(scores, eligible, *, least, most, costs, budget):
    """Return the highest sum of scores of one action for each unit, or None if there is none."""
    units, actions = scores.shape
    rows = kron(eye_array(units), np.ones((1, actions))).tocsr()
    columns = kron(np.ones((1, units)), eye_array(actions)).tocsr()
    spent = csr_array(np.tile(costs, units)[None])
    found = milp(
        -scores.ravel(),
        constraints=[
            LinearConstraint(rows, 1, 1),
            LinearConstraint(columns, least, most),
            LinearConstraint(spent, -np.inf, budget),
        ],
        integrality=np.ones(units * actions),
        bounds=Bounds(0, eligible.ravel().astype(float)),
        options={"mip_rel_gap": 0},
    )
    return -found.fun if found.status == 0 else None


def best_table(scores, eligible, floor, *, least, most, costs, budget, on_average=None):
    """Return the highest expected sum of scores of a table that may be drawn from, or None.

    Every cell has at least its floor. Counts are drawn as column sums rounded up or down: for each
    set of actions whose sums may be fractions, and each number of them that are rounded up, one
    programme lets the dearest of the set be rounded up.
    """
    average = budget if on_average is None else min(budget, on_average)
    found = []
    for size in (0, *range(2, scores.shape[1] + 1)):
        for uneven in combinations(range(scores.shape[1]), size):
            dearest = sorted(costs[list(uneven)], reverse=True)
            for up in range(1, size) or (0,):
                # A programme of its own for whole counts, whose cost is certain.
                room = budget - sum(dearest[:up])
                found.append(
                    _best_within(
                        scores, eligible, floor, least, most, costs, average, uneven, up, room
                    )
                )
    values = [value for value in found if value is not None]
    return max(values) if values else None


def _best_within(scores, eligible, floor, least, most, costs, average, uneven, up, room):
    """Return the highest value if these sums are fractions and so many of them are rounded up."""
    units, actions = scores.shape
    cells = units * actions
    rows = kron(eye_array(units), np.ones((1, actions))).tocsr()
    columns = kron(np.ones((1, units)), eye_array(actions)).tocsr()
    # The variables are the cells, and each column's sum rounded down.
    width = np.isin(np.arange(actions), uneven).astype(float)
    zeros = csr_array((units, actions))
    spent = csr_array(np.tile(costs, units)[None])
    found = milp(
        np.append(-scores.ravel(), np.zeros(actions)),
        constraints=[
            LinearConstraint(hstack([rows, zeros]), 1, 1),
            LinearConstraint(hstack([columns, csr_array((actions, actions))]), least, most),
            LinearConstraint(hstack([columns, -eye_array(actions)]), 0, width),
            LinearConstraint(hstack([spent, csr_array((1, actions))]), -np.inf, average),
            LinearConstraint(np.append(np.zeros(cells), costs)[None], -np.inf, room),
            LinearConstraint(np.append(np.zeros(cells), np.ones(actions))[None], units - up),
        ],
        integrality=np.append(np.zeros(cells), np.ones(actions)),
        bounds=Bounds(
            np.append(floor.ravel(), np.zeros(actions)),
            np.append(eligible.ravel().astype(float), np.full(actions, float(units))),
        ),
        options={"mip_rel_gap": 0},
    )
    return -found.fun if found.status == 0 else None
