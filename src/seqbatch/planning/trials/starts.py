"""The uniform first batch: how many units each action gets, bad luck drawn on purpose.

A first batch is assigned at random, so that now and then an action gets too few units to be
estimated. At high signal that is the one way to lose much, and it is too rare to be met by chance
in some hundred trials. A part of them is therefore drawn from a law under which it is common, and
every trial counts by how likely it is under the true law beside the mixture of both (importance
sampling with a defensive mixture): the mean stays right, and no weight exceeds 1 / (1 - BAD).
"""

import math
from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.planning.trials.draws import MANY, Draws, binomials, chi_squares

#: The share of trials in which bad luck is drawn on purpose.
BAD = 0.25
#: Failures that add less than this share to the cost of the first batch are left to chance.
NEGLIGIBLE = 1e-3
#: With so many vectors more than dimensions a gram is not nearly singular by chance.
PLENTY = 12
#: With more actions than these every trial needs laws of its own, whose tables take long; from this
#: variance on a corrected normal law is within a tenth of a unit.
FEW_ACTIONS, ENOUGH = 12, 9.0
#: What the kept normals are used for.
COUNTS, WHETHER, WHICH = range(11, 14)
SQUARE, NEARLY, HOW_NEARLY = range(16, 19)
#: How near to singular square grams are drawn on purpose, and in which share of the trials.
NEARNESS = 4.0 ** -np.arange(1, 8)
SINGULAR = 0.5


@dataclass(frozen=True, eq=False)
class Start:
    """How many outcomes of each action the first batch brings, and how much each trial counts."""

    count: Floats
    weight: Floats


def block_start(
    draws: Draws, trials: int, *, size: int, later: int, shares: Floats, dim: int
) -> Start:
    """Draw the outcomes of each action in a uniform first batch, shape (trials, actions).

    Parameters
    ----------
    draws, trials
        Where the randomness comes from, and for how many trials.
    size, later
        How many units the first batch holds, and how many come after it.
    shares
        The share of the batch's units that each action has outcomes of, shape (actions,).
    dim
        How many outcomes an action needs.
    """
    actions = len(shares)
    wanted = np.minimum(float(dim), size * shares) / size
    normals = draws.normals(COUNTS, 0, (trials, actions))
    failing = sum(_chance_of_few(size, share, dim) for share in shares.tolist())
    if later * failing < NEGLIGIBLE * size:
        return Start(uniform_counts(normals, size, shares), np.ones(trials))
    unlucky = unlucky_trials(draws, trials)
    which = _picked(draws, trials, actions)
    order = (np.arange(actions) + which[:, None]) % actions
    # Whoever is unlucky comes first; the others share what is left as they always do.
    first = np.where(unlucky, wanted[which], shares[which])
    count = np.empty((trials, actions))
    np.put_along_axis(count, order, _one_by_one(normals, size, shares[order], first), axis=1)
    # A ratio of likelihoods for each action that may have been the unlucky one.
    ratio = count * np.log(wanted / shares)
    ratio += (size - count) * (np.log1p(-wanted) - np.log1p(-shares))
    return Start(count, defended(np.exp(np.minimum(ratio, 700.0)).mean(axis=1)))


def uniform_counts(normals: Floats, size: int, shares: Floats) -> Floats:
    """Return how many of `size` units each action gets with these shares, shape of the normals."""
    each = np.broadcast_to(shares, normals.shape)
    return _one_by_one(normals, size, each, each[..., 0])


def _one_by_one(normals: Floats, size: int, shares: Floats, first: Floats) -> Floats:
    """Draw each action's count given those of the earlier ones: a multinomial as binomials.

    `shares` are of all units, but that of the first action is `first`; the others are what they
    are given that one's count.
    """
    count = np.empty(normals.shape)
    left = np.full(normals.shape[:-1], float(size))
    rest = np.ones(normals.shape[:-1])
    exact = MANY if normals.shape[-1] <= FEW_ACTIONS else ENOUGH
    for action in range(normals.shape[-1]):
        given = first if action == 0 else shares[..., action] / rest
        # All that are left, but for rounding, where none are lost.
        given = np.where(given > 1 - 1e-9, 1.0, given)
        count[..., action] = binomials(normals[..., action], left, given, exact=exact)
        left = left - count[..., action]
        rest = rest - shares[..., action]
    return count


def shared_start(draws: Draws, diagonal: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return the last squared diagonal of a Wishart's root, and how much each trial counts.

    It is a chi-square of `freedom`: the square of what the last vectors add to the others' span,
    which is small where the gram is nearly singular. In unlucky trials it has one degree of
    freedom.

    Parameters
    ----------
    draws
        Where the randomness comes from.
    diagonal, freedom
        Standard normals and degrees of freedom, shape (trials,).
    """
    tilted = (freedom > 1) & (freedom <= PLENTY)
    unlucky = unlucky_trials(draws, len(diagonal)) & tilted
    squares = chi_squares(diagonal, np.where(unlucky, 1.0, freedom))
    ratio = np.where(tilted, np.exp(_log_chi(squares, 1.0) - _log_chi(squares, freedom)), 1.0)
    return squares, defended(ratio)


def square_start(draws: Draws, diagonal: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return the last squared diagonals of each action's Wishart root, and weights.

    An action with as many outcomes as parameters has a square gram, whose last diagonal is the
    size of one normal: often small enough to ruin the estimate. In a part of the trials it is
    drawn smaller still.

    Parameters
    ----------
    draws
        Where the randomness comes from.
    diagonal, freedom
        Standard normals and degrees of freedom, shape (trials, actions).
    """
    from scipy.special import ndtr

    trials, square = len(freedom), freedom == 1
    nearly = ndtr(draws.normals(NEARLY, 0, (trials,))) < SINGULAR
    place = (ndtr(draws.normals(HOW_NEARLY, 0, (trials,))) * len(NEARNESS)).astype(np.int64)
    near = np.where(nearly, NEARNESS[np.minimum(place, len(NEARNESS) - 1)], 1.0)
    values = near[:, None] * draws.normals(SQUARE, 0, freedom.shape)
    squares = np.where(square, values**2, chi_squares(diagonal, freedom))
    size, count = (np.where(square, values, 0.0) ** 2).sum(axis=1), square.sum(axis=1)
    ratios = [
        np.exp(size / 2 * (1 - near**-2.0) - count * math.log(near)) for near in NEARNESS.tolist()
    ]
    return squares, defended(np.mean(ratios, axis=0), SINGULAR)


def _log_chi(squares: Floats, freedom: Floats | float) -> Floats:
    """Return the logarithm of the chi-square density, but for terms of the value alone."""
    from scipy.special import gammaln

    k = np.maximum(np.asarray(freedom, dtype=np.float64), 1.0) / 2
    value: Floats = k * np.log(np.maximum(squares, 1e-300) / 2) - gammaln(k)
    return value


def defended(ratio: Floats, share: float = BAD) -> Floats:
    """Return weights, given how much likelier each trial is where bad luck is drawn.

    `share` is that of the trials in which it is.
    """
    weight: Floats = 1 / (1 - share + share * ratio)
    return weight


def unlucky_trials(draws: Draws, trials: int) -> Bools:
    """Return the trials in which bad luck is drawn on purpose."""
    from scipy.special import ndtr

    unlucky: Bools = ndtr(draws.normals(WHETHER, 0, (trials,))) < BAD
    return unlucky


def _picked(draws: Draws, trials: int, options: int) -> Integers:
    from scipy.special import ndtr

    drawn = ndtr(draws.normals(WHICH, 0, (trials,))) * options
    picked: Integers = np.minimum(drawn.astype(np.int64), options - 1)
    return picked


def _chance_of_few(size: int, share: float, few: int) -> float:
    """Return Chernoff's bound for the chance of at most `few` of `size` at this share.

    >>> _chance_of_few(10, 0.5, 5), round(_chance_of_few(100, 0.5, 10), 17)
    (1.0, 1e-16)
    """
    found = few / size
    if found >= share:
        return 1.0
    gap = (1 - found) * math.log((1 - found) / (1 - share))
    if found > 0:
        gap += found * math.log(found / share)
    return math.exp(-size * gap)
