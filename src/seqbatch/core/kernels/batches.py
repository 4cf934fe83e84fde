"""Whole batches of SBUCB and SupSBUCB against a table of rewards."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS
from seqbatch.core.kernels.regression import accumulate, ridge_cells
from seqbatch.core.kernels.scoring import means_and_widths


@njit(**OPTIONS)
def winner(
    scores: Floats, draw: float, random_ties: bool, eligible: Bools | None, unit: int
) -> int:
    """Return the lowest of the highest scores, or the one on which the draw falls.

    Among the actions that row `unit` of eligible allows; None allows all, and is compiled apart.
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
    # A draw is below 1, but its product with a count may still round up to the count.
    skip = min(int(draw * tied), tied - 1)
    for action in range(best, scores.shape[0]):
        if eligible is not None and not eligible[unit, action]:
            continue
        if scores[action] == scores[best]:
            if skip == 0:
                return action
            skip -= 1
    return best


@njit(**OPTIONS)
def any_action(columns: int, draw: float, eligible: Bools | None, unit: int) -> int:
    """Return the action, of those that row `unit` of eligible allows, on which the draw falls."""
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


@njit(**OPTIONS)
def replay_ucb(
    rows: Floats,
    table: Floats,
    ends: Integers,
    gamma: float,
    penalty: float,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
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

    It makes the same calls in the same order as batch by batch from outside, to the same bits.
    """
    models, columns = theta.shape[0], table.shape[1]
    # Scratch for the longest batch, once: with batches of a few units, allocating would dominate.
    longest, start = 0, 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    means, widths = np.empty((longest, columns)), np.empty((longest, columns))
    chosen, rewards = np.empty((longest, rows.shape[2])), np.empty(longest)
    cells, scores = np.zeros(longest, dtype=np.int64), np.empty(columns)
    stale = np.empty(models, dtype=np.bool_)
    start = 0
    for stop in ends:
        size = stop - start
        means_and_widths(rows[start:stop], theta, root, means[:size], widths[:size])
        stale[:] = False
        for i in range(size):
            for a in range(columns):
                scores[a] = means[i, a] + gamma * widths[i, a]
            action = winner(scores, draws[start + i], random_ties, eligible, start + i)
            if random_first and start == 0:
                action = any_action(columns, draws[i], eligible, i)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            # Rows and models are one or K, whatever the layout; min takes the only one, or the own.
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            cells[i] = min(action, models - 1)
            stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop


@njit(**OPTIONS)
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
    """Apply rules (a), (b), (c) of SupSBUCB to the units still waiting; return who waits on.

    Row i of means, widths and candidates belongs to units[i]; candidates that rule (b) drops are
    dropped in place. What is returned are rows, not units. explore: 0 highest, 1 widest, 2 first.
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
                # What is not a candidate must not win, not even by a tie.
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


@njit(**OPTIONS)
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

    Statistics and estimates are those of all stages, one stage's models after another's. As in
    :func:`replay_ucb`, the calls are those made from outside, to the same bits.
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
    start = 0
    for stop in ends:
        size = left = stop - start
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
            # Closing ranks in place is safe: again[i] >= i, so nothing is read after it is lost.
            for i in range(left):
                units[i] = units[again[i]]
                waiting[i] = waiting[again[i]]
                candidates[i] = candidates[again[i]]
        stale[:] = False
        for i in range(size):
            action = winner(criterion[i], draws[start + i], random_ties, eligible, start + i)
            if random_first and start == 0:
                action = any_action(columns, draws[i], eligible, i)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            # Rule (a) learns nothing, or the stages' rewards would not be independent.
            cells[i] = -1
            if explored[i]:
                cells[i] = (stages[i] - 1) * models + min(action, models - 1)
                stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop
