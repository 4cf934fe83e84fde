"""Regret bounds of the paper as numbers: lower bounds of any method, rates of the algorithms.

Every function cites its theorem in Han et al., *Sequential Batch Learning in Finite-Action Linear
Contextual Bandits*. Functions named ``..._bound`` include the paper's explicit constants; functions
named ``..._rate`` omit constants and logarithms that the paper does not state, and are meant for
comparing growth. |theta| <= 1 throughout. The lower bounds for stochastic contexts assume standard
Gaussian noise. A bound "on" a grid takes the grid or its ends.

>>> from seqbatch import theory
>>> round(theory.expected_maximum(10), 6)
1.538753
>>> round(theory.adversarial_lower_bound(units=10_000, dim=20, batches=100), 3)
158.114
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Protocol

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

__all__ = [
    "HasEnds",
    "adversarial_batches_for_online",
    "adversarial_exponent",
    "adversarial_lower_bound",
    "adversarial_lower_bound_on",
    "certified_lower_bound_on",
    "confidence_multiplier",
    "expected_largest_norm",
    "expected_maximum",
    "maximum_moment",
    "prior_lower_bound_after",
    "prior_lower_bound_on",
    "problem_dependent_batches_for_online",
    "problem_dependent_exponent",
    "problem_dependent_lower_bound",
    "problem_dependent_lower_bound_on",
    "problem_dependent_upper_rate",
    "sbucb_upper_bound",
    "stochastic_batches_for_online",
    "stochastic_exponent",
    "stochastic_lower_bound",
    "stochastic_lower_bound_on",
    "stochastic_upper_rate",
]


def __dir__() -> list[str]:
    return __all__


class HasEnds(Protocol):
    """An object with batch ends, such as a grid."""

    @property
    def ends(self) -> tuple[int, ...]:
        """Number of units by the end of each batch."""


Ends = Sequence[int] | HasEnds

#: The constant of the stochastic lower bounds: 0.027 / 2 and 0.054 / 4 in the proofs of Thms. 2, 3.
LOWER_BOUND_CONSTANT = 0.0135


def confidence_multiplier(units: int, *, actions: int, delta: float | None = None) -> float:
    """Return gamma = 1 + sqrt(ln(2 K T / delta) / 2), delta = 1/T by default (Lemma 1).

    The constant under the root is that of the paper, derived for rewards between 0 and 1. With
    standard Gaussian noise, the same confidence would need four times this constant.
    """
    T, K = arguments.integer("units", units), arguments.integer("actions", actions)
    failure = 1 / T if delta is None else arguments.number("delta", delta, above=0, at_most=1)
    return 1 + math.sqrt(math.log(2 * K * T / failure) / 2)


@cache
def expected_maximum(actions: int) -> float:
    """Return C_K, the mean of the largest of K standard normals.

    >>> round(expected_maximum(2) * math.sqrt(math.pi), 12)
    1.0
    """
    return maximum_moment(actions, 1)


@cache
def maximum_moment(actions: int, power: int) -> float:
    """Return the expectation of a power of the largest of K standard normals.

    The second moment is C~_K in the proof of Thm. 3: how much information a greedy choice adds
    along its direction.
    """
    K = arguments.integer("actions", actions)
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    def density(x: float) -> float:
        log = math.log(K) + (K - 1) * float(log_ndtr(x)) - x * x / 2
        return x**power * math.exp(log) / math.sqrt(2 * math.pi)

    # The maximum concentrates near sqrt(2 ln K); splitting there keeps quad from missing it.
    centre = math.sqrt(2 * math.log(K)) if K > 1 else 0.0
    cuts = [-40.0, centre - 4, centre, centre + 4, 40.0]
    parts = [
        quad(density, low, high, epsabs=1e-14, epsrel=1e-13)[0] for low, high in pairwise(cuts)
    ]
    return float(sum(parts))


@cache
def expected_largest_norm(actions: int, dim: int) -> float:
    """Return gamma_K, the expected largest of K squared norms of N(0, I/d) (Lemma 10)."""
    from scipy.integrate import quad
    from scipy.special import gammainc

    K, d = arguments.integer("actions", actions), arguments.integer("dim", dim)

    def survival(x: float) -> float:
        return 1 - float(gammainc(d / 2, d * x / 2)) ** K

    # A chi-square mean exceeds 1 + 2 sqrt(2u/d) + 4u/d with probability below e^-u. The survival
    # function falls from 1 to 0 within a narrow range; short pieces cannot miss it.
    u = 40 + math.log(K)
    cuts = np.linspace(0.0, 1 + 2 * math.sqrt(2 * u / d) + 4 * u / d, 41)
    pieces = [
        quad(survival, low, high, epsabs=1e-12, epsrel=1e-10)[0] for low, high in pairwise(cuts)
    ]
    return float(sum(pieces))


def sbucb_upper_bound(units: int, *, dim: int, actions: int, batches: int) -> float:
    """Return the regret bound of SBUCB on the uniform grid (Thm. 1, statement 1, explicit form).

    2 (1 + sqrt(ln(2 K T^2) / 2)) ln(T + 1) sqrt(T/M) (sqrt(M d) + d sqrt(T/M)), for contexts of
    norm at most 1, integer T/M and ridge 1, with probability 1 - 1/T. The proof assumes rewards
    that are independent given the contexts; SupSBUCB, which ensures that, adds a factor of order
    ln T.
    """
    T, d, K, M = _counts(units, dim, actions, batches)
    width = confidence_multiplier(units=T, actions=K)
    step = math.sqrt(T / M)
    return 2 * width * math.log(T + 1) * step * (math.sqrt(M * d) + d * step)


def adversarial_lower_bound(units: int, *, dim: int, batches: int) -> float:
    """Return a lower bound on the worst-case regret of any method (Thm. 1, statement 2).

    T sqrt(d) / (2 sqrt(2) M) if M >= d/2, and T / (2 sqrt(M)) if M < d/2; an odd d counts as
    d - 1, as in the proof. Two actions suffice. The online term of order sqrt(d T) has no stated
    constant and is omitted.
    """
    T, d, _, M = _counts(units, dim, 2, batches)
    pairs = d // 2
    return T / (2 * math.sqrt(M)) if pairs > M else T * math.sqrt(pairs) / (2 * M)


def adversarial_lower_bound_on(ends: Ends, *, dim: int) -> float:
    """Return the adversarial lower bound for one grid, with the pairs on the largest batches.

    It is half the units of these batches over sqrt(pairs), for the best number of pairs up to d/2
    (Section 3.4), and never below :func:`adversarial_lower_bound` for as many batches.
    """
    d = arguments.integer("dim", dim)
    sizes = np.sort(np.diff(np.concatenate([[0.0], _checked(ends)])))[::-1]
    pairs = np.arange(1, min(d // 2, len(sizes)) + 1)
    if not pairs.size:
        return 0.0
    return float((np.cumsum(sizes)[: pairs.size] / (2 * np.sqrt(pairs))).max())


def stochastic_lower_bound_on(ends: Ends, *, dim: int, actions: int) -> float:
    """Return a lower bound on the worst-case regret of any policy on this grid (proof of Thm. 2).

    c_0 C_K / sqrt(gamma_K) max{t_s / sqrt(d), sqrt(d) t_{s+1} / sqrt(t_s), ...}, where t_s is the
    first end of at least d^2. It holds for independent N(0, I/d) contexts.
    """
    d, K, kept = _kept_ends(ends, dim, actions)
    terms = [kept[0] / math.sqrt(d)]
    terms += [math.sqrt(d) * after / math.sqrt(before) for before, after in pairwise(kept)]
    return _lower_constant(K, d) * max(terms)


def stochastic_lower_bound(units: int, *, dim: int, actions: int, batches: int) -> float:
    """Return a lower bound on the worst-case regret for any grid of M batches (Thm. 2, st. 2)."""
    T, d, K, M = _counts(units, dim, actions, batches, least_dim=2)
    _require_long_horizon(T, d)
    return _lower_constant(K, d) * math.sqrt(d * T) * _stochastic_growth(T, d, M)


def certified_lower_bound_on(ends: Ends, *, dim: int, actions: int) -> float:
    """Return the sharpest bound that the proof of Thm. 2 gives for this grid, numerically.

    It is the bound of :func:`prior_lower_bound_on` with the prior truncated at |theta| <= c nu <=
    1, maximised over nu and c on a fine mesh. Every mesh point gives a valid bound, so the result
    is certified for any mesh; it is never below :func:`stochastic_lower_bound_on`.
    """
    d, K, _ = _kept_ends(ends, dim, actions)
    edges = np.concatenate([[0.0], _checked(ends)])
    best = stochastic_lower_bound_on(ends, dim=dim, actions=actions)
    smallest = d / math.sqrt(expected_largest_norm(K, d) * edges[-1]) / 100
    for cut in _CUTS:
        spreads = np.geomspace(smallest, 1 / cut, 400)
        total = _prior_bounds(edges[:-1], np.diff(edges), spreads, cut, d, K)
        best = max(best, float(total.max()))
    return best


def prior_lower_bound_on(ends: Ends, *, dim: int, actions: int, spread: float) -> float:
    """Return a lower bound on the mean regret of any method on this grid, theta ~ N(0, nu^2 I/d).

    Every unit of a batch that starts after t units has, for any c > 0, a regret of at least

        C_K / (2 c nu sqrt(d)) ((d-1)^2 / (d^2 / nu^2 + gamma_K t) - nu^2 P(chi2_{d+2} > c^2 d)),

    which is the step in the proof of Thm. 2 before the prior is truncated. It holds for independent
    N(0, I/d) contexts and standard Gaussian noise; `spread` is nu.
    """
    edges = np.concatenate([[0.0], _checked(ends)])
    return prior_lower_bound_after(
        edges[:-1].tolist(), np.diff(edges).tolist(), dim=dim, actions=actions, spread=spread
    )


def prior_lower_bound_after(
    seen: Sequence[float], units: Sequence[float], *, dim: int, actions: int, spread: float
) -> float:
    """Return the bound of :func:`prior_lower_bound_on` for any batch sizes and outcome counts.

    Parameters
    ----------
    seen
        The number of outcomes known when each batch is assigned; its mean if it is random.
    units
        The number of units in each batch.
    dim, actions, spread
        See :func:`prior_lower_bound_on`.
    """
    nu = np.array([arguments.number("spread", spread, above=0)])
    d = arguments.integer("dim", dim, at_least=2)
    K = arguments.integer("actions", actions, at_least=2)
    before = arguments.floats("seen", seen, ("batches",))
    sizes = arguments.floats("units", units, (len(before),))
    return max(float(_prior_bounds(before, sizes, nu, cut, d, K)[0]) for cut in _CUTS)


#: Where the prior of the lower bounds is truncated, in multiples of its spread.
_CUTS = (1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0)


def _prior_bounds(
    seen: Floats, sizes: Floats, spreads: Floats, cut: float, d: int, K: int
) -> Floats:
    """Return the bound of :func:`prior_lower_bound_on` for each spread."""
    from scipy.special import gammaincc

    gamma, height = expected_largest_norm(K, d), expected_maximum(K)
    tail = float(gammaincc(d / 2 + 1, cut**2 * d / 2))
    nu = spreads[:, None]
    total = np.zeros(len(nu))
    for first in range(0, len(seen), 1_000):  # limits memory on grids with many batches
        piece = slice(first, first + 1_000)
        margin = (d - 1) ** 2 / (d**2 / nu**2 + gamma * seen[piece]) - nu**2 * tail
        unit = height / (2 * cut * nu * math.sqrt(d)) * np.maximum(margin, 0.0)
        total += (unit * sizes[piece]).sum(axis=1)
    return total


def stochastic_upper_rate(
    *, units: int, dim: int, actions: int, batches: int, kappa: float = 1.0
) -> float:
    """Return sqrt(d T ln K / kappa) (T / d^2)^(1 / (2 (2^M - 1))) (Thm. 2, statement 1)."""
    T, d, K, M = _counts(units, dim, actions, batches)
    _require_long_horizon(T, d)
    spread = arguments.number("kappa", kappa, above=0, at_most=1)
    return math.sqrt(d * T * math.log(K) / spread) * _stochastic_growth(T, d, M)


def problem_dependent_lower_bound_on(ends: Ends, *, dim: int, actions: int) -> float:
    """Return a lower bound on the worst case of |theta| times regret on this grid (Thm. 3).

    c_0 C_K / gamma_K max{t_s / sqrt(d), d^(3/2) t_{s+1} / t_s, ...}. The proof does not state the
    constant of the first term; with nu^2 = 1 / (4 gamma_K) its argument gives the same
    c_0 / gamma_K.
    """
    d, K, kept = _kept_ends(ends, dim, actions)
    terms = [kept[0] / math.sqrt(d)]
    terms += [math.pow(d, 1.5) * after / before for before, after in pairwise(kept)]
    return _scaled_constant(K, d) * max(terms)


def problem_dependent_lower_bound(units: int, *, dim: int, actions: int, batches: int) -> float:
    """Return a lower bound on the worst case of |theta| times regret for any grid (Thm. 3, st. 2).

    c_0 C_K / gamma_K d^(3/2) (T / d^2)^(1/M). The theorem assumes T / d^2 >= 2^M; its proof uses
    only T >= d^2.
    """
    T, d, K, M = _counts(units, dim, actions, batches, least_dim=2)
    _require_long_horizon(T, d)
    return _scaled_constant(K, d) * math.pow(d, 1.5) * math.pow(T / d**2, 1 / M)


def problem_dependent_upper_rate(
    *,
    units: int,
    dim: int,
    actions: int,
    batches: int,
    norm: float = 1.0,
    kappa: float = 1.0,
) -> float:
    """Return sqrt(ln K / kappa) d^(3/2) / |theta| (T / d^2)^(1/M) (Thm. 3, statement 1)."""
    T, d, K, M = _counts(units, dim, actions, batches)
    _require_long_horizon(T, d)
    size = arguments.number("norm", norm, above=0, at_most=1)
    spread = arguments.number("kappa", kappa, above=0, at_most=1)
    return math.sqrt(math.log(K) / spread) * math.pow(d, 1.5) / size * math.pow(T / d**2, 1 / M)


def adversarial_batches_for_online(units: int, *, dim: int) -> int:
    """Return the least M with d T / M <= sqrt(d T): order sqrt(d T) batches suffice (Cor. 1)."""
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    return min(T, math.ceil(math.sqrt(d * T)))


def stochastic_batches_for_online(units: int, *, dim: int, factor: float = 2.0) -> int:
    """Return the least M whose rate is within `factor` of the online rate (Cor. 2).

    (T / d^2)^(1 / (2 (2^M - 1))) <= factor: order ln ln(T / d^2) batches.

    >>> stochastic_batches_for_online(units=1_000_000, dim=10)
    3
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    _require_long_horizon(T, d)
    slack = arguments.number("factor", factor, above=1)
    needed = 1 + math.log(T / d**2) / (2 * math.log(slack))
    return min(T, max(1, math.ceil(math.log2(needed) - 1e-12)))


def problem_dependent_batches_for_online(units: int, *, dim: int, factor: float = math.e) -> int:
    """Return the least M with (T / d^2)^(1/M) <= factor: order ln(T / d^2) batches (Cor. 3)."""
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    _require_long_horizon(T, d)
    slack = arguments.number("factor", factor, above=1)
    return min(T, max(1, math.ceil(math.log(T / d**2) / math.log(slack) - 1e-12)))


def adversarial_exponent(*, online: bool) -> float:
    """Return the slope of log regret in log T: 1/2 with order sqrt(d T) batches, 1 with few."""
    return 0.5 if online else 1.0


def stochastic_exponent(batches: int) -> float:
    """Return the slope of log regret in log T with M batches: 1/2 + 1 / (2 (2^M - 1)) (Thm. 2)."""
    M = arguments.integer("batches", batches)
    return 0.5 + 0.5 / (2.0 ** min(M, 1000) - 1)


def problem_dependent_exponent(batches: int) -> float:
    """Return the slope of log regret in log T with M batches at a fixed theta: 1/M (Thm. 3)."""
    return 1 / arguments.integer("batches", batches)


def _counts(
    units: int, dim: int, actions: int, batches: int, *, least_dim: int = 1
) -> tuple[int, int, int, int]:
    T, M = arguments.integer("units", units), arguments.integer("batches", batches)
    if M > T:
        raise InvalidArgumentError("batches", f"at most units = {T}", M)
    d = arguments.integer("dim", dim, at_least=least_dim)
    return T, d, arguments.integer("actions", actions, at_least=2), M


def _require_long_horizon(units: int, dim: int) -> None:
    if units < dim**2:
        raise InvalidArgumentError("units", f"at least dim^2 = {dim**2} (Assumption 1)", units)


def _checked(ends: Ends) -> Floats:
    """Return the ends of a grid, or a list of ends, as increasing floats."""
    array = np.asarray(getattr(ends, "ends", ends))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise InvalidArgumentError("ends", "a grid, or a list of whole numbers", repr(ends))
    if array[0] < 1 or (np.diff(array) <= 0).any():
        raise InvalidArgumentError("ends", "at least 1 and strictly increasing", repr(ends))
    return array.astype(np.float64)


def _kept_ends(ends: Ends, dim: int, actions: int) -> tuple[int, int, list[int]]:
    """Return d, K and the ends from t_s on, the first of at least d^2."""
    d = arguments.integer("dim", dim, at_least=2)
    K = arguments.integer("actions", actions, at_least=2)
    known = [int(end) for end in _checked(ends)]
    _require_long_horizon(known[-1], d)
    return d, K, [end for end in known if end >= d**2]


def _lower_constant(K: int, d: int) -> float:
    return LOWER_BOUND_CONSTANT * expected_maximum(K) / math.sqrt(expected_largest_norm(K, d))


def _scaled_constant(K: int, d: int) -> float:
    return LOWER_BOUND_CONSTANT * expected_maximum(K) / expected_largest_norm(K, d)


def _stochastic_growth(T: int, d: int, M: int) -> float:
    return math.pow(T / d**2, 0.5 / (2.0 ** min(M, 1000) - 1))
