"""The paper's grids, and its numbers of batches."""

import math

from seqbatch.core import arguments
from seqbatch.errors import InvalidGridError
from seqbatch.grids.grid import Grid


def uniform(*, units: int, batches: int) -> Grid:
    """Return batches of equal size, t_m = floor(m T / M): optimal for arbitrary contexts (Thm. 1).

    >>> uniform(units=8_124, batches=3_131).ends[:3]
    (2, 5, 7)
    """
    T, M = _sizes(units, batches)
    return Grid(tuple(m * T // M for m in range(1, M + 1)))


def online(*, units: int) -> Grid:
    """Return one unit per batch, M = T: the fully sequential setting."""
    T, _ = _sizes(units, 1)
    return Grid(tuple(range(1, T + 1)))


def minimax(*, units: int, dim: int, batches: int, scale: float | None = None) -> Grid:
    """Return the grid that is near-optimal for stochastic contexts (Thm. 2, Section 4.1).

    t_1 = beta d and t_m = beta sqrt(t_{m-1}), rounded down: every batch costs about the same.

    Parameters
    ----------
    units, dim, batches
        T, d and M, with T >= d^2 (Assumption 1).
    scale
        None solves the recursion exactly: unrounded, it ends at T for
        beta = sqrt(T) (T / d^2)^(1 / (2 (2^M - 1))), and each end is its term rounded down. A
        number gives the grid of Section 6.2 instead: that beta times the number, each end rounded
        before the next is computed from it, and the last one pinned to T. It is 0.4 there.

    Examples
    --------
    >>> minimax(units=100_000, dim=10, batches=2, scale=0.4)
    Grid(units=100000, batches=2, ends=[4000, 100000])
    """
    T, M = _sizes(units, batches)
    d = arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    beta = _root_growth(T, T / d**2, M)
    if scale is not None:
        rho = arguments.number("scale", scale, above=0) * beta
        return _pinned(_rooted(_floor(rho * d), rho, M), T)
    # The first end is beta d = beta sqrt(d^2), so the recursion starts from t_0 = d^2.
    ends, end = [], float(d * d)
    for _ in range(M):
        end = beta * math.sqrt(end)
        ends.append(_floor(end))
    return _pinned(ends, T)


def sparse(*, units: int, sparsity: int, batches: int) -> Grid:
    """Return the grid of Ren and Zhou for sparse parameters, as in Section 6.2 (there s = d).

    t_1 = floor(b sqrt(s)) and t_m = floor(b sqrt(t_{m-1})), with
    b = sqrt(T) (T / s)^(1 / (2 (2^M - 1))).

    >>> sparse(units=100_000, sparsity=10, batches=2)
    Grid(units=100000, batches=2, ends=[4641, 100000])
    """
    T, M = _sizes(units, batches)
    s = arguments.integer("sparsity", sparsity)
    _require_ratio(T, s, "sparsity")
    growth = _root_growth(T, T / s, M)
    return _pinned(_rooted(_floor(growth * math.sqrt(s)), growth, M), T)


def geometric(*, units: int, dim: int, batches: int) -> Grid:
    """Return the grid for problem-dependent regret (Section 5): t_m = floor(d^2 b^m).

    b = (T / d^2)^(1 / M): every end is b times the one before it.

    >>> geometric(units=100_000, dim=10, batches=3)
    Grid(units=100000, batches=3, ends=[1000, 10000, 100000])
    """
    T, M = _sizes(units, batches)
    d = arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    growth = math.log(T / d**2)
    ends = [_floor(d**2 * math.exp(growth * m / M)) for m in range(1, M + 1)]
    return _pinned(ends, T)


def adversarial_batches(*, units: int, dim: int) -> int:
    """Return M = max(1, floor(sqrt(d ln(1 + T/d) T / ln 2))), as in Section 6.1.

    Never more than T. For Covertype (T = 581,012 and d = 378) that is 48,219, where the paper
    prints 4,821.

    >>> adversarial_batches(units=8_124, dim=234)
    3131
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    return min(T, max(1, math.floor(math.sqrt(d * math.log1p(T / d) * T / math.log(2)))))


def stochastic_batches(*, units: int, dim: int) -> int:
    """Return M = max(2, ceil(0.2 log2 log2(T / d^2))), as in Section 6.2; never more than T.

    >>> stochastic_batches(units=100_000, dim=10)
    2
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    inner = math.log2(T / d**2)
    # The double logarithm means nothing before log2(T / d^2) passes 1; the rule's floor of 2 does.
    return min(T, max(2, math.ceil(0.2 * math.log2(inner))) if inner > 1 else 2)


def problem_dependent_batches(*, units: int, dim: int) -> int:
    """Return M = max(2, ceil(ln(T / d^2))), as in Section 6.3; never more than T.

    >>> problem_dependent_batches(units=40_428_967, dim=40)
    11
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    return min(T, max(2, math.ceil(math.log(T / d**2))))


def _sizes(units: int, batches: int) -> tuple[int, int]:
    T, M = arguments.integer("units", units), arguments.integer("batches", batches)
    if M > T:
        raise InvalidGridError("batches", f"at most units = {T}", M)
    return T, M


def _require_ratio(units: int, divisor: int, name: str) -> None:
    if units < divisor:
        raise InvalidGridError(
            "units",
            f"at least {name} = {divisor} for this grid",
            units,
            "With fewer units use the uniform grid, or ends of your own.",
        )


def _root_growth(units: int, ratio: float, batches: int) -> float:
    """Return sqrt(T) ratio^(1 / (2 (2^M - 1))); the exponent is 0 long before 2^M overflows."""
    exponent = 0.5 / (2.0 ** min(batches, 1000) - 1)
    return math.sqrt(units) * math.pow(ratio, exponent)


def _rooted(first: int, growth: float, batches: int) -> list[int]:
    """Return t_1 and t_m = floor(growth sqrt(t_{m-1})), as Section 6.2 computes them."""
    ends = [first]
    while len(ends) < batches:
        ends.append(_floor(growth * math.sqrt(max(ends[-1], 1))))
    return ends


def _floor(value: float) -> int:
    """Round down, but not from a whole number that rounding left a hair short."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= 1e-12 * value else math.floor(value)


def _pinned(ends: list[int], units: int) -> Grid:
    """Keep ends strictly increasing with room for those to come, and the last one at T."""
    batches, kept = len(ends), [0]
    for m, end in enumerate(ends, start=1):
        kept.append(min(max(end, kept[-1] + 1), units - (batches - m)))
    return Grid((*kept[1:-1], units))
