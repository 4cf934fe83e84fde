"""Points that choose between the actions they may get, while there is room for them."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS
from seqbatch.core.kernels.points import _added_up, _line

#: The score of an action that a point may not get.
NEVER = -1e300
#: Prices are raised in so many rounds at most, one action after the other.
ROUNDS = 60
#: One in so many points may get an action beyond its room.
SPARE = 256


@njit(**OPTIONS)
def choose_restricted_points(
    points: Floats,
    guess: Floats,
    truth: Floats,
    eligible: Bools,
    room: Floats,
    own_room: Floats,
    weights: Floats,
    used: int,
    regret: Floats,
    best: Floats,
    gram: Floats,
    count: Integers,
) -> None:
    """Let each point take the action of highest guessed score less price, and add up what follows.

    Parameters
    ----------
    points, guess, truth, used
        As for :func:`~seqbatch.core.kernels.choose_points`.
    eligible
        Which actions each point may get, shape (trials, points, K).
    room
        The most points that may get each action, as a share of all; what is lost is against the
        best assignment within it. Shape (K,).
    own_room
        The same for the choice by guessed scores.
    weights
        Where points choose by chance instead: how likely each action is, to be divided by the sum
        over those that the point may get. Shape (K,), or (0,) where they choose by scores.
    regret, best, gram, count
        Filled, as for the other kernel; by chance, neither gram nor count are.
    """
    trials, _, number = points.shape
    actions = truth.shape[1] + 1
    true, score = np.empty((actions, number)), np.empty((actions, number))
    right = np.empty(number, dtype=np.int64)
    chosen = np.empty(number, dtype=np.int64)
    rows = np.empty((gram.shape[2], number))
    for trial in range(trials):
        _scores(truth[trial], points[trial], eligible[trial], true)
        assign_within(true, room, right)
        lost, hits = 0.0, 0.0
        if len(weights):
            for i in range(number):
                value, total = 0.0, 0.0
                for a in range(actions):
                    if eligible[trial, i, a]:
                        value += weights[a] * true[a, i]
                        total += weights[a]
                lost += true[right[i], i] - value / total
                hits += weights[right[i]] / total
        else:
            _scores(guess[trial], points[trial], eligible[trial], score)
            assign_within(score, own_room, chosen)
            for i in range(number):
                lost += true[right[i], i] - true[chosen[i], i]
                hits += right[i] == chosen[i]
            _added_up(points[trial], chosen[:used], rows, gram[trial], count[trial])
        regret[trial], best[trial] = lost / number, hits / number


@njit(**OPTIONS)
def _scores(slopes: Floats, points: Floats, eligible: Bools, score: Floats) -> None:
    """Fill in each action's scores, those above the first action's, where points may get it."""
    score[0] = 0.0
    for a in range(len(slopes)):
        _line(slopes[a], points, score[a + 1])
    for a in range(len(score)):
        for i in range(score.shape[1]):
            if not eligible[i, a]:
                score[a, i] = NEVER


@njit(**OPTIONS)
def assign_within(score: Floats, room: Floats, chosen: Integers) -> None:
    """Give each point its action of highest score less price, at the lowest prices that clear.

    From 0, each price in turn is raised to where the action has as many takers as there is room
    for. Raising one never makes another too high, so that they settle from below; a few takers too
    many are let be.

    Parameters
    ----------
    score
        Shape (K, points); :data:`NEVER` where a point may not get an action.
    room
        The most points that may get each action, as a share of all; shape (K,).
    chosen
        Filled: each point's action.
    """
    actions, number = score.shape
    price, margin = np.zeros(actions), np.empty(number)
    spare = number // SPARE
    for _ in range(ROUNDS):
        moved = False
        for a in range(actions):
            places = int(room[a] * number + 1e-9)
            if places + spare >= number:
                continue
            takers, widest = _margins(score, price, a, margin)
            if takers > places + spare:
                price[a] = _clearing(margin, places, widest)
                moved = True
        if not moved:
            break
    for i in range(number):
        top = 2 * NEVER
        for a in range(actions):
            if score[a, i] > NEVER / 2 and score[a, i] - price[a] > top:
                top, chosen[i] = score[a, i] - price[a], a


@njit(**OPTIONS)
def _margins(score: Floats, price: Floats, action: int, margin: Floats) -> tuple[int, float]:
    """Fill in what each point would pay for an action; return how many pay its price.

    Who may get nothing else pays any price; the most that anybody else pays is returned, too.
    """
    takers, widest = 0, 0.0
    for i in range(len(margin)):
        other = NEVER
        for b in range(len(score)):
            if b != action:
                other = max(other, score[b, i] - price[b])
        margin[i] = score[action, i] - other
        if margin[i] < -NEVER / 2:
            widest = max(widest, margin[i])
        takers += margin[i] > price[action]
    return takers, widest


@njit(**OPTIONS)
def _clearing(margin: Floats, places: int, widest: float) -> float:
    """Return a price that so many points pay: between what the last pays and the next would."""
    number = len(margin)
    ordered = np.partition(margin, number - places - 1)
    next_one = ordered[number - places - 1]
    last = ordered[number - places :].min() if places else next_one + 1.0
    price: float = min((last + next_one) / 2, widest + 1.0)
    return price
