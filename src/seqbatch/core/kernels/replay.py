"""Kernels that replay whole policies against a table of rewards: SBUCB, SupSBUCB, LinUCB."""

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import kernel
from seqbatch.core.kernels.regression import accumulate, factorise, ridge_cells, solve
from seqbatch.core.kernels.scoring import means_and_widths

# ----------------------------------------------------------------------
# Whole batches of SBUCB and SupSBUCB.


@kernel()
def winner(
    scores: Floats, draw: float, random_ties: bool, eligible: Bools | None, unit: int
) -> int:
    """Return the lowest of the highest scores, or the one selected by the draw.

    Only actions that row `unit` of eligible allows compete; None allows all and is compiled
    separately.
    """
    best, tied = -1, 1
    for action in range(scores.shape[0]):
        if eligible is not None and not eligible[unit, action]:
            continue
        if best < 0 or scores[action] > scores[best]:
            best, tied = action, 1
        elif scores[action] == scores[best]:
            tied += 1
    if not random_ties or tied == 1:
        return best
    # A draw is below 1, but its product with a count may round up to the count.
    skip = min(int(draw * tied), tied - 1)
    for action in range(best, scores.shape[0]):
        if eligible is not None and not eligible[unit, action]:
            continue
        if scores[action] == scores[best]:
            if skip == 0:
                return action
            skip -= 1
    return best


@kernel()
def any_action(columns: int, draw: float, eligible: Bools | None, unit: int) -> int:
    """Return the action selected by the draw among those that row `unit` of eligible allows."""
    if eligible is None:
        return min(int(draw * columns), columns - 1)
    allowed = 0
    for action in range(columns):
        allowed += eligible[unit, action]
    skip = min(int(draw * allowed), allowed - 1)
    for action in range(columns):
        if eligible[unit, action]:
            if skip == 0:
                return action
            skip -= 1
    return 0


@kernel()
def may_try(untried: Bools, eligible: Bools | None, unit: int) -> bool:
    """Return whether row `unit` of eligible allows an action that is untried."""
    for action in range(untried.shape[0]):
        if eligible is not None and not eligible[unit, action]:
            continue
        if untried[action]:
            return True
    return False


@kernel()
def without_outcomes(count: Integers, models: int, untried: Bools) -> bool:
    """Mark the actions without outcomes in any group of models; return whether there is one."""
    some = False
    for action in range(untried.shape[0]):
        outcomes = 0
        for cell in range(min(action, models - 1), count.shape[0], models):
            outcomes += count[cell]
        untried[action] = outcomes == 0
        some = some or outcomes == 0
    return some


@kernel()
def replay_ucb(
    rows: Floats,
    table: Floats,
    ends: Integers,
    gamma: float,
    penalty: float,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    until_tried: bool,
    eligible: Bools | None,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play whole batches of SBUCB against a table of rewards; statistics and estimates in place.

    The calls and their order are the same as batch by batch from outside, with identical bits.
    """
    models, columns = theta.shape[0], table.shape[1]
    # Allocate scratch once, for the longest batch: with tiny batches, allocation would dominate.
    longest, start = 0, 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    means, widths = np.empty((longest, columns)), np.empty((longest, columns))
    chosen, rewards = np.empty((longest, rows.shape[2])), np.empty(longest)
    cells, scores = np.zeros(longest, dtype=np.int64), np.empty(columns)
    stale = np.empty(models, dtype=np.bool_)
    untried, some = np.zeros(columns, dtype=np.bool_), until_tried
    start = 0
    for stop in ends:
        size = stop - start
        some = some and without_outcomes(count, models, untried)
        means_and_widths(rows[start:stop], theta, root, means[:size], widths[:size])
        stale[:] = False
        for i in range(size):
            for a in range(columns):
                scores[a] = means[i, a] + gamma * widths[i, a]
            action = winner(scores, draws[start + i], random_ties, eligible, start + i)
            if (random_first and start == 0) or (some and may_try(untried, eligible, start + i)):
                action = any_action(columns, draws[start + i], eligible, start + i)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            # There are 1 or K rows and models, by layout; min selects the only one or the own one.
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            cells[i] = min(action, models - 1)
            stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop


@kernel()
def pass_stage(
    means: Floats,
    widths: Floats,
    gamma: float,
    stage: int,
    enough: float,
    explore: int,
    candidates: Bools,
    units: Integers,
    criterion: Floats,
    stages: Integers,
    explored: Bools,
) -> Integers:
    """Apply rules (a), (b), (c) of SupSBUCB to the waiting units; return those that still wait.

    Row i of means, widths and candidates belongs to units[i]; rule (b) drops candidates in place.
    Returns rows, not units. explore: 0 highest, 1 widest, 2 first.
    """
    level, slack = 2.0**-stage, 2.0 ** (1 - stage)
    waiting = np.empty(units.shape[0], dtype=np.int64)
    left = 0
    for i in range(units.shape[0]):
        widest, highest = 0.0, -np.inf
        for a in range(means.shape[1]):
            if candidates[i, a]:
                widest = max(widest, gamma * widths[i, a])
                highest = max(highest, means[i, a] + gamma * widths[i, a])
        # Rule (a) comes before rule (c): in late stages 2^-s is below 1/sqrt(T).
        exploring = widest > level and widest > enough
        if widest <= enough or exploring:
            stages[units[i]] = stage
            explored[units[i]] = exploring
            for a in range(means.shape[1]):
                width = gamma * widths[i, a]
                # A non-candidate must not win, not even by a tie.
                value = -np.inf
                if candidates[i, a] and (not exploring or width > level):
                    value = means[i, a] + width
                    if exploring and explore == 1:
                        value = width
                    elif exploring and explore == 2:
                        value = -float(a)
                criterion[units[i], a] = value
        else:
            for a in range(means.shape[1]):
                if means[i, a] + gamma * widths[i, a] < highest - slack:
                    candidates[i, a] = False
            waiting[left] = i
            left += 1
    return waiting[:left]


@kernel()
def replay_stages(
    rows: Floats,
    table: Floats,
    ends: Integers,
    gamma: float,
    penalty: float,
    enough: float,
    explore: int,
    models: int,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    until_tried: bool,
    eligible: Bools | None,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play whole batches of SupSBUCB against a table of rewards; all in place.

    Statistics and estimates are concatenated over stages. As in :func:`replay_ucb`, the calls are
    the same as from outside, with identical bits.
    """
    columns, dim = table.shape[1], rows.shape[2]
    number = theta.shape[0] // models
    longest, start = 0, 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    means, widths = np.empty((longest, columns)), np.empty((longest, columns))
    criterion, candidates = np.empty((longest, columns)), np.empty((longest, columns), np.bool_)
    stages, explored = np.empty(longest, np.int64), np.empty(longest, np.bool_)
    units, waiting = np.empty(longest, np.int64), np.empty((longest, rows.shape[1], dim))
    chosen, rewards, cells = (
        np.empty((longest, dim)),
        np.empty(longest),
        np.empty(longest, np.int64),
    )
    stale = np.empty(theta.shape[0], np.bool_)
    untried, some = np.zeros(columns, dtype=np.bool_), until_tried
    start = 0
    for stop in ends:
        size = left = stop - start
        some = some and without_outcomes(count, models, untried)
        for i in range(size):
            units[i] = i
            waiting[i] = rows[start + i]
            candidates[i] = True
            if eligible is not None:
                candidates[i] = eligible[start + i]
        for stage in range(number):
            first, last = stage * models, (stage + 1) * models
            means_and_widths(
                waiting[:left], theta[first:last], root[first:last], means[:left], widths[:left]
            )
            again = pass_stage(
                means[:left],
                widths[:left],
                gamma,
                stage + 1,
                enough,
                explore,
                candidates[:left],
                units[:left],
                criterion,
                stages,
                explored,
            )
            left = again.shape[0]
            if left == 0:
                break
            # Compacting in place is safe: again[i] >= i, so nothing is overwritten before it is
            # read.
            for i in range(left):
                units[i] = units[again[i]]
                waiting[i] = waiting[again[i]]
                candidates[i] = candidates[again[i]]
        stale[:] = False
        for i in range(size):
            action = winner(criterion[i], draws[start + i], random_ties, eligible, start + i)
            if (random_first and start == 0) or (some and may_try(untried, eligible, start + i)):
                action = any_action(columns, draws[start + i], eligible, start + i)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            # Rule (a) learns nothing; otherwise the stages' rewards would not be independent.
            cells[i] = -1
            if explored[i]:
                cells[i] = (stages[i] - 1) * models + min(action, models - 1)
                stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop


# ----------------------------------------------------------------------
# LinUCB, one unit per batch, by rank-one updates.


#: Rank-one updates of a root before it is recomputed from the Gram matrix, well before drift shows.
REFRESH = 256


@kernel()
def _nonzeros(x: Floats, places: Integers) -> int:
    # Written every time and kept only if nonzero: a branch would often be mispredicted.
    found = 0
    for j in range(x.shape[0]):
        places[found] = j
        found += x[j] != 0.0
    return found


@kernel()
def _image(columns: Floats, x: Floats, places: Integers, found: int, out: Floats) -> None:
    # root x from the root's columns, four at a time, skipping the zeros of x. Loops start at 0,
    # through known zeros: a start that the compiler cannot bound would prevent vectorisation.
    dim, whole = x.shape[0], found - found % 4
    for j in range(dim):
        out[j] = 0.0
    for k in range(0, whole, 4):
        j0, j1, j2, j3 = places[k], places[k + 1], places[k + 2], places[k + 3]
        x0, x1, x2, x3 = x[j0], x[j1], x[j2], x[j3]
        for i in range(dim):
            total = (out[i] + x0 * columns[j0, i]) + x1 * columns[j1, i]
            out[i] = (total + x2 * columns[j2, i]) + x3 * columns[j3, i]
    for k in range(whole, found):
        j0 = places[k]
        x0 = x[j0]
        for i in range(dim):
            out[i] += x0 * columns[j0, i]


@kernel()
def _update_root(root: Floats, z: Floats, passed: Floats, gain: Floats) -> float:
    """Update root for A + x x', where z = root x; fill gain with A^-1 x; return 1 + x' A^-1 x.

    The new root is C^-1 root with C C' = I + z z'. C has a closed form: each new row needs only the
    old one and a running sum of those above; four rows are processed at a time.
    """
    dim = z.shape[0]
    whole = dim - dim % 4
    for j in range(dim):
        passed[j] = gain[j] = 0.0
    t0 = 1.0
    for i in range(0, whole, 4):
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        t1 = t0 + z0 * z0
        t2 = t1 + z1 * z1
        t3 = t2 + z2 * z2
        t4 = t3 + z3 * z3
        # Square roots and reciprocals once per row; everything else is products.
        g0, g1, g2 = 1.0 / np.sqrt(t0), 1.0 / np.sqrt(t1), 1.0 / np.sqrt(t2)
        g3, g4 = 1.0 / np.sqrt(t3), 1.0 / np.sqrt(t4)
        c0, c1, c2, c3 = t0 * g0 * g1, t1 * g1 * g2, t2 * g2 * g3, t3 * g3 * g4
        w0, w1, w2, w3 = z0 * g0 * g1, z1 * g1 * g2, z2 * g2 * g3, z3 * g3 * g4
        for j in range(i + 4):
            p, a, b, c, d = passed[j], root[i, j], root[i + 1, j], root[i + 2, j], root[i + 3, j]
            gain[j] = (((gain[j] + z0 * a) + z1 * b) + z2 * c) + z3 * d
            a = (a - z0 * p) * c0
            p = p + w0 * a
            b = (b - z1 * p) * c1
            p = p + w1 * b
            c = (c - z2 * p) * c2
            p = p + w2 * c
            d = (d - z3 * p) * c3
            root[i, j], root[i + 1, j], root[i + 2, j], root[i + 3, j] = a, b, c, d
            passed[j] = p + w3 * d
        t0 = t4
    for i in range(whole, dim):
        t1 = t0 + z[i] * z[i]
        g0, g1 = 1.0 / np.sqrt(t0), 1.0 / np.sqrt(t1)
        z0, c0, w0 = z[i], t0 * g0 * g1, z[i] * g0 * g1
        for j in range(i + 1):
            gain[j] += z0 * root[i, j]
            root[i, j] = (root[i, j] - z0 * passed[j]) * c0
            passed[j] += w0 * root[i, j]
        t0 = t1
    return t0


@kernel()
def _flip(root: Floats, columns: Floats) -> None:
    # Four rows at a time, to write contiguous memory.
    dim = root.shape[0]
    whole = dim - dim % 4
    for i in range(0, whole, 4):
        for j in range(i + 4):
            columns[j, i] = root[i, j]
            columns[j, i + 1] = root[i + 1, j]
            columns[j, i + 2] = root[i + 2, j]
            columns[j, i + 3] = root[i + 3, j]
    for i in range(whole, dim):
        for j in range(i + 1):
            columns[j, i] = root[i, j]


@kernel()
def replay_online_ucb(
    rows: Floats,
    table: Floats,
    gamma: float,
    penalty: float,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    until_tried: bool,
    eligible: Bools | None,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play LinUCB against a table of rewards, one unit per batch; all in place.

    The root of the chosen model is updated for x x' by the Cholesky factor of I + z z', z = root x,
    and recomputed from the Gram matrix every REFRESH updates, which keeps rounding from building
    up.
    """
    models, columns, dim = theta.shape[0], table.shape[1], rows.shape[2]
    images, scores, predicted = np.empty((columns, dim)), np.empty(columns), np.empty(columns)
    passed, gain, upper = np.empty(dim), np.empty(dim), np.empty((dim, dim))
    updates, places = np.zeros(models, dtype=np.int64), np.empty(dim + 1, dtype=np.int64)
    found = 0
    untried, some = np.zeros(columns, dtype=np.bool_), until_tried
    # The roots by columns as well: products with a unit's vector then need no sums across lanes.
    flipped = np.empty_like(root)
    for model in range(models):
        flipped[model] = 0.0
        _flip(root[model], flipped[model])
    for t in range(rows.shape[0]):
        some = some and without_outcomes(count, models, untried)
        for a in range(columns):
            slot, model, image = min(a, rows.shape[1] - 1), min(a, models - 1), images[a]
            x = rows[t, slot]
            # In the block layout all actions share one row, whose zeros are located once.
            if a == slot:
                found = _nonzeros(x, places)
            _image(flipped[model], x, places, found, image)
            beta, square, mean = theta[model], 0.0, 0.0
            for i in range(dim):
                square += image[i] * image[i]
                mean += beta[i] * x[i]
            predicted[a] = mean
            scores[a] = mean + gamma * np.sqrt(square)
        action = winner(scores, draws[t], random_ties, eligible, t)
        if (random_first and t == 0) or (some and may_try(untried, eligible, t)):
            action = any_action(columns, draws[t], eligible, t)
        actions[t] = action
        model, reward = min(action, models - 1), table[t, action]
        x, z, matrix = rows[t, min(action, rows.shape[1] - 1)], images[action], root[model]
        # Rows of encoded categories are mostly zeros.
        for i in range(dim):
            if x[i] != 0.0:
                for j in range(dim):
                    gram[model, i, j] += x[i] * x[j]
                moment[model, i] += reward * x[i]
        squares[model] += reward * reward
        count[model] += 1
        # Sherman-Morrison: theta moves along A^-1 x by the residual over 1 + x' A^-1 x.
        step = (reward - predicted[action]) / _update_root(matrix, z, passed, gain)
        for j in range(dim):
            theta[model, j] += step * gain[j]
        updates[model] += 1
        if updates[model] == REFRESH:
            updates[model] = 0
            factorise(gram[model], penalty, upper, matrix)
            solve(matrix, moment[model], theta[model])
        _flip(matrix, flipped[model])
