"""The stored random draws of trials, with importance sampling of rare events."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.environments.base import branch, generator
from seqbatch.planning.trials.conditions import masks
from seqbatch.planning.trials.greedy_runs import KnownPast

# ----------------------------------------------------------------------
# Stored draws: standard normals by purpose and batch, and their transformations.
#
# All random numbers are drawn once and stored by trial and batch number. Grids are thus compared on
# common random numbers, and a trial's regret is a continuous function of the batches' ends, which
# helps the optimiser.


#: The number of first batches whose draws are stored; later ones are drawn again each time. Most
#: grids of a search have no more batches, and memory stays bounded.
KEPT = 8
#: Above this many degrees of freedom a chi-square is approximated by a polynomial of a normal
#: (Cornish and Fisher), to about 0.001 up to 3.5 standard deviations.
MANY_FREE = 30
#: Up to this variance, binomial quantiles are exact.
MANY = 100


@dataclass(frozen=True, eq=False)
class KeptDraws:
    """Stored random numbers, by purpose and batch."""

    seed: SeedSequence

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], AnyArray]:
        return {}

    def normals(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normals; the same arguments give the same numbers."""
        return self._drawn((purpose, batch, shape), lambda random: random.standard_normal(shape))

    def below(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return matrices with standard normals below the diagonal and zeros elsewhere."""
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
        """Return rows drawn with replacement; the same arguments give the same rows.

        Draws are in the second last axis, or in the last one if `across`.
        """

        def draw(random: Generator) -> Floats:
            drawn = rows[random.integers(0, len(rows), shape)]
            return np.ascontiguousarray(np.swapaxes(drawn, -1, -2)) if across else drawn

        return self._drawn((purpose, batch, shape, "rows"), draw)

    def masks(
        self, purpose: int, batch: int, shape: tuple[int, int], eligible: tuple[float, ...]
    ) -> Bools:
        """Return which actions may be given, with each action's share; shape (*shape, K)."""

        def draw(random: Generator) -> Bools:
            return masks(random, shape[0] * shape[1], eligible).reshape(*shape, -1)

        return self._drawn((purpose, batch, shape, eligible), draw)

    def _drawn(self, key: tuple[Any, ...], draw: Callable[[Generator], AnyArray]) -> AnyArray:
        """Return the stored numbers of this key (purpose, batch, ...), or draw them."""
        if key in self._kept:
            return self._kept[key]
        drawn = draw(generator(branch(self.seed, *key[:2])))
        if key[1] < KEPT:
            self._kept[key] = drawn
        return drawn


def chi_squares(normals: Floats, freedom: Floats) -> Floats:
    """Transform standard normals to chi-squares, continuously in the degrees of freedom.

    The result is 0 if these are not positive.

    >>> chi_squares(np.zeros(3), np.array([-1.0, 1.0, 201.0])).round(3)
    array([  0.   ,   0.455, 200.334])
    """
    from scipy.special import gammaincinv, ndtr

    freedom = np.broadcast_to(freedom, normals.shape)
    # Entries without degrees of freedom are overwritten below; avoid dividing by zero until then.
    k, square = np.maximum(freedom, 1e-9), normals**2
    half = np.sqrt(k / 2)
    result: Floats = k + normals * (2 * half + (square - 7) / (18 * half))
    result += (square - 1) * (2 / 3) - ((6 * square + 14) * square - 32) / (405 * k)
    few = (freedom > 0) & (freedom <= MANY_FREE)
    # Exact quantiles are much slower: only for entries that need them.
    if few.any():
        result[few] = 2 * gammaincinv(freedom[few] / 2, ndtr(normals[few]))
    result[freedom <= 0] = 0.0
    return result


def binomials(
    normals: Floats, number: Floats, share: Floats | float, *, exact: float = MANY
) -> Floats:
    """Transform standard normals to binomials, by quantiles.

    For large variances it is the normal quantile, corrected for skewness and rounded.

    Parameters
    ----------
    normals
        Standard normals, shape (n,).
    number
        The number of draws, whole numbers, shape (n,).
    share
        The probability of success, a number or shape (n,).
    exact
        The variance up to which quantiles are exact.

    Examples
    --------
    >>> binomials(np.array([-9.0, 0.0, 9.0]), np.array([10.0, 10.0, 40_000.0]), 0.5)
    array([0.00e+00, 5.00e+00, 2.09e+04])
    """
    from scipy.special import ndtr

    share = np.broadcast_to(share, number.shape)
    mean, variance = number * share, number * share * (1 - share)
    # With probability 0 or 1 there is neither skewness nor randomness.
    skewed = (variance > 0) * (1 - 2 * share) * (normals**2 - 1) / 6
    result: Floats = np.clip(np.rint(mean + np.sqrt(variance) * normals + skewed), 0, number)
    few = np.flatnonzero((variance > 0) & (variance <= exact))
    if not len(few):
        return result
    # Exact quantiles from one table per distribution; the draws share few distributions.
    order = few[np.lexsort((share[few], number[few]))]
    counts, chances, levels = number[order], share[order], ndtr(normals[order])
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (counts[1:] != counts[:-1]) | (chances[1:] != chances[:-1])
    starts = [*np.flatnonzero(begins).tolist(), len(order)]
    for start, end in pairwise(starts):
        table = _distribution(int(counts[start]), float(chances[start]))
        result[order[start:end]] = table.searchsorted(levels[start:end])
    return result


@lru_cache(maxsize=4_096)
def _distribution(number: int, share: float) -> Floats:
    """Return P(X <= k) for k = 0, 1, ... below `number`.

    The table ends where the probabilities are 1 up to rounding.
    """
    from scipy.special import bdtr

    mean = number * share
    most = min(float(number), math.ceil(mean + 12 * math.sqrt(mean) + 30))
    chances: Floats = bdtr(np.arange(most), number, share)
    return chances


def wishart_factors(
    normals: Floats, diagonal: Floats, freedom: Floats, *, last: Floats | None = None
) -> Floats:
    """Return lower triangular L with L L' the Gram matrix of `freedom` standard normal vectors.

    Bartlett's decomposition: normals below a diagonal of chi variables. With fewer vectors than
    dimensions, columns beyond their number are 0, in line with the rank.

    Parameters
    ----------
    normals, diagonal
        Standard normals, below the diagonal and for it, shapes (..., dim, dim) and (..., dim).
    freedom
        The number of vectors, shape (...).
    last
        The last chi-square of the diagonal, if it is drawn elsewhere, shape (...).
    """
    places = np.arange(diagonal.shape[-1])
    chis = wishart_diagonal(diagonal, freedom)
    factors = normals * (chis > 0)[..., None, :]
    factors[..., places, places] = chis
    if last is not None:
        factors[..., -1, -1] = np.sqrt(last)
    return factors


def wishart_diagonal(normals: Floats, freedom: Floats) -> Floats:
    """Return the diagonal of such a root, with zeros at the end if there are fewer vectors."""
    left = freedom[..., None] - np.arange(normals.shape[-1])
    return np.sqrt(chi_squares(normals, left))


# ----------------------------------------------------------------------
# Parameters from their posterior: the actions' common part first, then each action around it.


def parameters_given(
    past: KnownPast, spreads: Floats, noises: Floats, normals: Floats, shared: Floats
) -> Floats:
    """Draw parameters given the data so far, shape (trials, models, dim).

    Parameters
    ----------
    past
        The sums of the data, and the standard deviation of the actions' common part.
    spreads, noises
        The standard deviations of parameters around their common part, and of rewards, in each
        trial.
    normals, shared
        Standard normals, for the actions and for their common part: shapes (trials, models, dim)
        and (trials, dim).
    """
    result = np.empty_like(normals)
    # Trials of the same scenario share their matrices.
    pairs, places = np.unique(np.column_stack([spreads, noises]), axis=0, return_inverse=True)
    for place, (spread, noise) in enumerate(pairs):
        own = np.flatnonzero(places == place)
        result[own] = _of_one(past, spread, noise, normals[own], shared[own])
    return result


def _of_one(
    past: KnownPast, spread: float, noise: float, normals: Floats, shared: Floats
) -> Floats:
    """Draw the parameters for trials of one scenario."""
    precision = past.gram / noise**2 + np.eye(past.gram.shape[-1]) / spread**2
    # With R R' the precision, the solution of R' x = z has covariance (R R')^-1.
    root = np.linalg.cholesky(precision)
    middle = _common(past, spread, noise, shared)
    pull = past.moment / noise**2 + middle[:, None] / spread**2
    mean = _solved(precision, pull)
    return mean + _solved(np.swapaxes(root, -1, -2), normals)


def _common(past: KnownPast, spread: float, noise: float, shared: Floats) -> Floats:
    """Draw the actions' common part, shape (trials, dim); 0 if there is none."""
    if not past.common:
        return np.zeros_like(shared)
    dim = shared.shape[1]
    system = past.gram + (noise / spread) ** 2 * np.eye(dim)
    precision = np.linalg.solve(system, past.gram).sum(axis=0) / spread**2
    precision = precision + np.eye(dim) / past.common**2
    # Rounding makes it slightly asymmetric.
    root = np.linalg.cholesky((precision + precision.T) / 2)
    pull = np.linalg.solve(system, past.moment[..., None])[..., 0].sum(axis=0) / spread**2
    drawn: Floats = np.linalg.solve(precision, pull) + np.linalg.solve(root.T, shared.T).T
    return drawn


def _solved(matrices: Floats, vectors: Floats) -> Floats:
    """Solve one system per model for the vectors of all trials, shape (trials, models, dim)."""
    solved = np.linalg.solve(matrices, np.moveaxis(vectors, 0, -1))
    return np.asarray(np.moveaxis(solved, -1, 0), dtype=np.float64)


# ----------------------------------------------------------------------
# The uniform first batch: the count of each action, with importance sampling of bad luck.
#
# A first batch is assigned at random; occasionally an action gets too few units to be estimated. At
# high signal that is the one way to lose much, but too rare to occur by chance in a few hundred
# trials. In some of them it is therefore drawn from a distribution under which it is common, and
# every trial is weighted by its likelihood under the true distribution relative to the mixture of
# both (importance sampling with a defensive mixture): the mean stays unbiased, and no weight
# exceeds 1 / (1 - BAD).


#: The share of trials in which bad luck is drawn on purpose.
BAD = 0.25
#: Failures that add less than this share to the cost of the first batch are left to chance.
NEGLIGIBLE = 1e-3
#: With this many more vectors than dimensions, a Gram matrix is practically never nearly singular.
PLENTY = 12
#: With more actions than this, every trial needs its own distributions, whose tables are slow; from
#: this variance on, a corrected normal is within a tenth of a unit.
FEW_ACTIONS, ENOUGH = 12, 9.0
#: The purposes of the stored normals.
COUNTS, WHETHER, WHICH = range(11, 14)
SQUARE, NEARLY, HOW_NEARLY = range(16, 19)
#: How close to singular square Gram matrices are drawn on purpose, and in which share of trials.
START_NEARNESS = 4.0 ** -np.arange(1, 8)
SINGULAR = 0.5


@dataclass(frozen=True, eq=False)
class Start:
    """Each action's number of outcomes in the first batch, and the weight of each trial."""

    count: Floats
    weight: Floats


def block_start(
    draws: KeptDraws, trials: int, *, size: int, later: int, shares: Floats, dim: int
) -> Start:
    """Draw the number of outcomes of each action in a uniform first batch, shape (trials, actions).

    Parameters
    ----------
    draws, trials
        The stored random numbers, and the number of trials.
    size, later
        The number of units in the first batch, and after it.
    shares
        The share of the batch's units with an outcome of each action, shape (actions,).
    dim
        The number of outcomes that an action needs.
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
    # The unlucky action comes first; the others share the rest as usual.
    first = np.where(unlucky, wanted[which], shares[which])
    count = np.empty((trials, actions))
    np.put_along_axis(count, order, _one_by_one(normals, size, shares[order], first), axis=1)
    # The likelihood ratio, averaged over the actions that may have been the unlucky one.
    ratio = count * np.log(wanted / shares)
    ratio += (size - count) * (np.log1p(-wanted) - np.log1p(-shares))
    return Start(count, defended(np.exp(np.minimum(ratio, 700.0)).mean(axis=1)))


def uniform_counts(normals: Floats, size: int, shares: Floats) -> Floats:
    """Return each action's count among `size` units with these shares, shape of the normals."""
    each = np.broadcast_to(shares, normals.shape)
    return _one_by_one(normals, size, each, each[..., 0])


def _one_by_one(normals: Floats, size: int, shares: Floats, first: Floats) -> Floats:
    """Draw each action's count given the earlier ones: a multinomial as a chain of binomials.

    `shares` refer to all units; the first action's is replaced by `first`, and the others follow
    given its count.
    """
    count = np.empty(normals.shape)
    left = np.full(normals.shape[:-1], float(size))
    rest = np.ones(normals.shape[:-1])
    exact = MANY if normals.shape[-1] <= FEW_ACTIONS else ENOUGH
    for action in range(normals.shape[-1]):
        given = first if action == 0 else shares[..., action] / rest
        # The last action gets all remaining units, up to rounding, if no outcomes are missing.
        given = np.where(given > 1 - 1e-9, 1.0, given)
        count[..., action] = binomials(normals[..., action], left, given, exact=exact)
        left = left - count[..., action]
        rest = rest - shares[..., action]
    return count


def shared_start(draws: KeptDraws, diagonal: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return the last squared diagonal of a Wishart root, and the weight of each trial.

    It is a chi-square with `freedom` degrees of freedom: the squared distance of the last vectors
    from the span of the others, which is small if the Gram matrix is nearly singular. In unlucky
    trials it has one degree of freedom.

    Parameters
    ----------
    draws
        The stored random numbers.
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

    An action with as many outcomes as parameters has a square design, whose last diagonal is the
    absolute value of one normal: often small enough to ruin the estimate. In some trials it is
    drawn smaller still.

    Parameters
    ----------
    draws
        The stored random numbers.
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
    """Return the log chi-square density, up to terms of the value alone."""
    from scipy.special import gammaln

    k = np.maximum(np.asarray(freedom, dtype=np.float64), 1.0) / 2
    value: Floats = k * np.log(np.maximum(squares, 1e-300) / 2) - gammaln(k)
    return value


def defended(ratio: Floats, share: float = BAD) -> Floats:
    """Return importance weights, given each trial's likelihood ratio under bad luck.

    `share` is the share of trials in which bad luck is drawn.
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
    """Return Chernoff's bound on the probability of at most `few` of `size` at this share.

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
# Parameters without features: importance sampling of near ties.
#
# If actions differ only by a constant, a long experiment loses only if its two best actions are
# nearly equal, so nearly that few trials would have such parameters by chance. In some trials, one
# action's parameter is therefore drawn close to another's (a single one close to zero), and every
# trial is weighted by the likelihood of its parameters under the true distribution.


#: The share of trials with a near tie.
CLOSE = 0.5
#: Standard deviations of the difference in near ties, relative to independent parameters.
TIE_NEARNESS = 4.0 ** -np.arange(1, 10)
#: With more actions than this, the two best are often close without help.
MOST_ACTIONS = 12


def with_near_ties(normals: Floats, random: Generator) -> tuple[Floats, Floats]:
    """Return parameters with near ties among them, and the weight of each trial.

    Parameters
    ----------
    normals
        Standard normals, shape (trials, models).
    random
        The generator that selects trials with a near tie, the models and the distance.
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
    """Return the likelihood ratio of the value near the centre and as a standard normal."""
    spread = scale * TIE_NEARNESS[:, None]
    exponent = (value**2 - ((value - centre) / spread) ** 2) / 2
    ratio: Floats = (np.exp(exponent) / spread).mean(axis=0)
    return ratio
