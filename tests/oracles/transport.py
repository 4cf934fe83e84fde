"""The transportation problem as a linear programme, one variable for each cell, by HiGHS."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack


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
