"""The random draws of trials: contexts, parameters, near ties, the first batch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.environments.base import branch, generator
from seqbatch.planning.trials.conduct import masks
from seqbatch.planning.trials.runs import KnownPast

# ----------------------------------------------------------------------
# Draws that are kept: standard normals by purpose and batch, and what is made of them.
#
# All randomness is drawn once and kept, by trial and batch number. Two grids are therefore
# compared on common random numbers, and a trial's regret is a continuous function of the batches'
# ends, as an optimiser wants it.


#: The draws of so many first batches are kept; those of later ones are drawn again each time.
#: Most grids that a search tries have no more batches, and memory stays bounded.
KEPT = 8
#: Beyond so many degrees of freedom a chi-square is a polynomial of a normal (Cornish and Fisher),
#: to about a thousandth, as far out as 3.5 standard deviations.
MANY_FREE = 30
#: Up to this variance, quantiles of binomials are exact.
MANY = 100


@dataclass(frozen=True, eq=False)
class KeptDraws:
    """Kept random numbers, by a name and a set."""

    seed: SeedSequence

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], AnyArray]:
        return {}

    def normals(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normals, the same ones whenever they are asked for."""
        return self._drawn((purpose, batch, shape), lambda random: random.standard_normal(shape))

    def below(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normals below the diagonals of square matrices, and zeros."""
        return self._drawn(
            (purpose, batch, shape, "below"),
            lambda random: np.tril(random.standard_normal(shape), -1),
        )

    def taken(
        self,
        rows: Floats,
        purpose: int,
        batch: int,
        shape: tuple[int, ...],
        *,
        across: bool = False,
    ) -> Floats:
        """Return rows taken at random, with replacement, the same ones whenever asked for.

        They lie side by side in the last axis but one, or `across` in the last one.
        """

        def draw(random: Generator) -> Floats:
            drawn = rows[random.integers(0, len(rows), shape)]
            return np.ascontiguousarray(np.swapaxes(drawn, -1, -2)) if across else drawn

        return self._drawn((purpose, batch, shape, "rows"), draw)

    def masks(
        self, purpose: int, batch: int, shape: tuple[int, int], eligible: tuple[float, ...]
    ) -> Bools:
        """Return who may get what, given each action's share; shape (*shape, K)."""

        def draw(random: Generator) -> Bools:
            return masks(random, shape[0] * shape[1], eligible).reshape(*shape, -1)

        return self._drawn((purpose, batch, shape, eligible), draw)

    def _drawn(self, key: tuple[Any, ...], draw: Callable[[Generator], AnyArray]) -> AnyArray:
        """Return what was drawn under this key of purpose, batch and more, or draw it."""
        if key in self._kept:
            return self._kept[key]
        drawn = draw(generator(branch(self.seed, *key[:2])))
        if key[1] < KEPT:
            self._kept[key] = drawn
        return drawn


def chi_squares(normals: Floats, freedom: Floats) -> Floats:
    """Turn standard normals into chi-squares, continuously in the degrees of freedom.

    Where these are not positive, the answer is 0.

    >>> chi_squares(np.zeros(3), np.array([-1.0, 1.0, 201.0])).round(3)
    array([  0.   ,   0.455, 200.334])
    """
    from scipy.special import gammaincinv, ndtr

    freedom = np.broadcast_to(freedom, normals.shape)
    # Entries without freedom are overwritten below; until then they must not divide by zero.
    k, square = np.maximum(freedom, 1e-9), normals**2
    half = np.sqrt(k / 2)
    result: Floats = k + normals * (2 * half + (square - 7) / (18 * half))
    result += (square - 1) * (2 / 3) - ((6 * square + 14) * square - 32) / (405 * k)
    few = (freedom > 0) & (freedom <= MANY_FREE)
    # Exact quantiles take far longer, so only those that need them get them.
    if few.any():
        result[few] = 2 * gammaincinv(freedom[few] / 2, ndtr(normals[few]))
    result[freedom <= 0] = 0.0
    return result


def binomials(
    normals: Floats, number: Floats, share: Floats | float, *, exact: float = MANY
) -> Floats:
    """Turn standard normals into binomials, by their quantiles.

    Where many are expected it is the normal law's quantile, corrected for skewness and rounded.

    Parameters
    ----------
    normals
        Standard normals, shape (n,).
    number
        How many draws, whole numbers, shape (n,).
    share
        The chance of each, a number or shape (n,).
    exact
        Up to which variance the quantiles are exact.

    Examples
    --------
    >>> binomials(np.array([-9.0, 0.0, 9.0]), np.array([10.0, 10.0, 40_000.0]), 0.5)
    array([0.00e+00, 5.00e+00, 2.09e+04])
    """
    from scipy.special import ndtr

    share = np.broadcast_to(share, number.shape)
    mean, variance = number * share, number * share * (1 - share)
    # Nothing is skewed, nor random at all, where the chance is 0 or 1.
    skewed = (variance > 0) * (1 - 2 * share) * (normals**2 - 1) / 6
    result: Floats = np.clip(np.rint(mean + np.sqrt(variance) * normals + skewed), 0, number)
    few = np.flatnonzero((variance > 0) & (variance <= exact))
    if not len(few):
        return result
    # Exact quantiles by one table for each law; few laws share all of the draws.
    laws, law = np.unique(np.stack([number[few], share[few]]), axis=1, return_inverse=True)
    order = np.argsort(law.ravel(), kind="stable")
    starts = np.searchsorted(law.ravel()[order], np.arange(laws.shape[1] + 1))
    for place, (count, chance) in enumerate(laws.T):
        mine = few[order[starts[place] : starts[place + 1]]]
        result[mine] = np.searchsorted(
            _distribution(int(count), float(chance)), ndtr(normals[mine])
        )
    return result


@lru_cache(maxsize=4_096)
def _distribution(number: int, share: float) -> Floats:
    """Return the probabilities of at most 0, 1, ... up to one less than `number`.

    They end where they are 1 but for rounding.
    """
    from scipy.special import bdtr

    mean = number * share
    most = min(float(number), math.ceil(mean + 12 * math.sqrt(mean) + 30))
    chances: Floats = bdtr(np.arange(most), number, share)
    return chances


def wishart_factors(
    normals: Floats, diagonal: Floats, freedom: Floats, *, last: Floats | None = None
) -> Floats:
    """Return lower triangular L with L L' the gram of `freedom` standard normal vectors.

    Bartlett's: normals below a diagonal of chi variables. With fewer vectors than dimensions the
    columns beyond their number are 0, as the gram's rank wants it.

    Parameters
    ----------
    normals, diagonal
        Standard normals, below the diagonal and for it, shapes (..., dim, dim) and (..., dim).
    freedom
        How many vectors, shape (...).
    last
        The last chi-square of the diagonal, where it is drawn elsewhere, shape (...).
    """
    places = np.arange(diagonal.shape[-1])
    chis = wishart_diagonal(diagonal, freedom)
    factors = normals * (chis > 0)[..., None, :]
    factors[..., places, places] = chis
    if last is not None:
        factors[..., -1, -1] = np.sqrt(last)
    return factors


def wishart_diagonal(normals: Floats, freedom: Floats) -> Floats:
    """Return the diagonal of such a root; zeros at its end where vectors are fewer."""
    left = freedom[..., None] - np.arange(normals.shape[-1])
    return np.sqrt(chi_squares(normals, left))


# ----------------------------------------------------------------------
# Parameters drawn from what is known: the actions' common part first, then each around it.


def parameters_given(
    past: KnownPast, spreads: Floats, noises: Floats, normals: Floats, shared: Floats
) -> Floats:
    """Draw parameters given what is known, shape (trials, models, dim).

    Parameters
    ----------
    past
        The sums of what is known, and how wide the law of the actions' common part is.
    spreads, noises
        The standard deviations of parameters around their common part, and of rewards, in each
        trial.
    normals, shared
        Standard normals, for the actions and for their common part: shapes (trials, models, dim)
        and (trials, dim).
    """
    result = np.empty_like(normals)
    # Trials of one scenario share their matrices.
    pairs, places = np.unique(np.column_stack([spreads, noises]), axis=0, return_inverse=True)
    for place, (spread, noise) in enumerate(pairs):
        own = np.flatnonzero(places == place)
        result[own] = _of_one(past, spread, noise, normals[own], shared[own])
    return result


def _of_one(
    past: KnownPast, spread: float, noise: float, normals: Floats, shared: Floats
) -> Floats:
    """Draw for trials of one scenario."""
    precision = past.gram / noise**2 + np.eye(past.gram.shape[-1]) / spread**2
    # With R R' the precision, the solution of R' x = z has covariance (R R')^-1.
    root = np.linalg.cholesky(precision)
    middle = _common(past, spread, noise, shared)
    pull = past.moment / noise**2 + middle[:, None] / spread**2
    mean = _solved(precision, pull)
    return mean + _solved(np.swapaxes(root, -1, -2), normals)


def _common(past: KnownPast, spread: float, noise: float, shared: Floats) -> Floats:
    """Draw the actions' common part, shape (trials, dim); 0 where there is none."""
    if not past.common:
        return np.zeros_like(shared)
    dim = shared.shape[1]
    system = past.gram + (noise / spread) ** 2 * np.eye(dim)
    precision = np.linalg.solve(system, past.gram).sum(axis=0) / spread**2
    precision = precision + np.eye(dim) / past.common**2
    # Rounding leaves it a little unsymmetric.
    root = np.linalg.cholesky((precision + precision.T) / 2)
    pull = np.linalg.solve(system, past.moment[..., None])[..., 0].sum(axis=0) / spread**2
    drawn: Floats = np.linalg.solve(precision, pull) + np.linalg.solve(root.T, shared.T).T
    return drawn


def _solved(matrices: Floats, vectors: Floats) -> Floats:
    """Solve one system a model for the vectors of all trials, shape (trials, models, dim)."""
    solved = np.linalg.solve(matrices, np.moveaxis(vectors, 0, -1))
    return np.asarray(np.moveaxis(solved, -1, 0), dtype=np.float64)


# ----------------------------------------------------------------------
# The uniform first batch: how many units each action gets, bad luck drawn on purpose.
#
# A first batch is assigned at random, so that now and then an action gets too few units to be
# estimated. At high signal that is the one way to lose much, and it is too rare to be met by
# chance in some hundred trials. A part of them is therefore drawn from a law under which it is
# common, and every trial counts by how likely it is under the true law beside the mixture of both
# (importance sampling with a defensive mixture): the mean stays right, and no weight exceeds 1 /
# (1 - BAD).


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
START_NEARNESS = 4.0 ** -np.arange(1, 8)
SINGULAR = 0.5


@dataclass(frozen=True, eq=False)
class Start:
    """How many outcomes of each action the first batch brings, and how much each trial counts."""

    count: Floats
    weight: Floats


def block_start(
    draws: KeptDraws, trials: int, *, size: int, later: int, shares: Floats, dim: int
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


def shared_start(draws: KeptDraws, diagonal: Floats, freedom: Floats) -> tuple[Floats, Floats]:
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


def square_start(draws: KeptDraws, diagonal: Floats, freedom: Floats) -> tuple[Floats, Floats]:
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
    place = (ndtr(draws.normals(HOW_NEARLY, 0, (trials,))) * len(START_NEARNESS)).astype(np.int64)
    near = np.where(nearly, START_NEARNESS[np.minimum(place, len(START_NEARNESS) - 1)], 1.0)
    values = near[:, None] * draws.normals(SQUARE, 0, freedom.shape)
    squares = np.where(square, values**2, chi_squares(diagonal, freedom))
    size, count = (np.where(square, values, 0.0) ** 2).sum(axis=1), square.sum(axis=1)
    ratios = [
        np.exp(size / 2 * (1 - near**-2.0) - count * math.log(near))
        for near in START_NEARNESS.tolist()
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


def unlucky_trials(draws: KeptDraws, trials: int) -> Bools:
    """Return the trials in which bad luck is drawn on purpose."""
    from scipy.special import ndtr

    unlucky: Bools = ndtr(draws.normals(WHETHER, 0, (trials,))) < BAD
    return unlucky


def _picked(draws: KeptDraws, trials: int, options: int) -> Integers:
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


# ----------------------------------------------------------------------
# Parameters without features: near ties drawn on purpose.
#
# Where actions differ by a constant alone, a long experiment loses only if its best two actions
# are nearly alike, so nearly that few trials would have such parameters by chance. In a part of
# the trials one action's parameter is therefore drawn close to another's (a single one close to
# zero), and every trial counts by how likely its parameters are under the true law.


#: The share of trials with a near tie.
CLOSE = 0.5
#: How near: standard deviations of the difference, beside that of independent parameters.
TIE_NEARNESS = 4.0 ** -np.arange(1, 10)
#: With more actions than these the best two are often close by themselves.
MOST_ACTIONS = 12


def with_near_ties(normals: Floats, random: Generator) -> tuple[Floats, Floats]:
    """Return parameters with near ties among them, and how much each trial counts.

    Parameters
    ----------
    normals
        Standard normals, shape (trials, models).
    random
        Draws which trials have a near tie, between which models, and how near.
    """
    trials, models = normals.shape
    if models > MOST_ACTIONS:
        return normals, np.ones(trials)
    close = random.random(trials) < CLOSE
    near = random.choice(TIE_NEARNESS, trials)
    drawn = normals.copy()
    if models == 1:
        drawn[close] *= near[close, None]
        ratio = _mean_ratio(drawn[:, 0], np.zeros(trials), 1.0)
        return drawn, defended(ratio, CLOSE)
    one, other = _pairs(models)
    rows = np.flatnonzero(close)
    place = random.integers(0, len(one), len(rows))
    moved, towards = one[place], other[place]
    step = math.sqrt(2) * near[rows] * normals[rows, moved]
    drawn[rows, moved] = normals[rows, towards] + step
    ratios = [
        _mean_ratio(drawn[:, i], drawn[:, j], math.sqrt(2)) for i, j in zip(one, other, strict=True)
    ]
    return drawn, defended(np.mean(ratios, axis=0), CLOSE)


def _pairs(models: int) -> tuple[Integers, Integers]:
    """Return all ordered pairs of different models."""
    one, other = np.divmod(np.arange(models**2), models)
    return one[one != other], other[one != other]


def _mean_ratio(value: Floats, centre: Floats, scale: float) -> Floats:
    """Return how much likelier the value is near the centre than where it is standard normal."""
    spread = scale * TIE_NEARNESS[:, None]
    exponent = (value**2 - ((value - centre) / spread) ** 2) / 2
    ratio: Floats = (np.exp(exponent) / spread).mean(axis=0)
    return ratio
