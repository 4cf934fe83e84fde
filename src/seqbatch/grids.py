"""Batch grids: where batches end, the grids of the paper, and how many batches to use.

A :class:`Grid` is a list of ends 0 < t_1 < ... < t_M = T: batch m holds the units t_{m-1} + 1 to
t_m, numbered from 1 as in the paper (Han et al., *Sequential Batch Learning in Finite-Action
Linear Contextual Bandits*), and its outcomes become visible at t_m.

>>> from seqbatch import grids
>>> grids.minimax(units=10_000, dim=5, batches=3)
Grid(units=10000, batches=3, ends=[767, 4248, 10000])
>>> grids.uniform(units=10, batches=3).sizes
(3, 3, 4)
"""

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise

from seqbatch.core import arguments
from seqbatch.display import counted
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError, InvalidGridError

__all__ = [
    "Grid",
    "GridRule",
    "adversarial_batches",
    "explicit",
    "geometric",
    "minimax",
    "online",
    "problem_dependent_batches",
    "sparse",
    "stochastic_batches",
    "uniform",
]


def __dir__() -> list[str]:
    return __all__


# ----------------------------------------------------------------------
# A grid: the ends of the batches.


@dataclass(frozen=True, repr=False)
class Grid:
    """The ends of the batches; create one with the functions of :mod:`seqbatch.grids`.

    Parameters
    ----------
    ends
        Number of units by the end of each batch, strictly increasing whole numbers.
    delay
        How many batches later the outcomes of a batch are known: with 1, batches overlap, as the
        next one is assigned before they are. The last batch ends when all outcomes are known.

    Examples
    --------
    >>> Grid((500, 2_000))
    Grid(units=2000, batches=2, ends=[500, 2000])
    """

    ends: tuple[int, ...]
    delay: int = 0

    def __post_init__(self) -> None:
        try:
            ends = tuple(operator.index(end) for end in self.ends)
        except TypeError:
            raise InvalidGridError("ends", "whole numbers", repr(self.ends)) from None
        if min(ends, default=1) < 1:
            raise InvalidGridError("ends", "whole numbers of at least 1", min(ends))
        if not ends:
            raise InvalidGridError("ends", "at least one batch end", "none")
        for m, (before, after) in enumerate(pairwise(ends), start=2):
            if after <= before:
                raise InvalidGridError(
                    "ends", "strictly increasing", f"{before} then {after} at batch {m}"
                )
        object.__setattr__(self, "ends", ends)
        delay = arguments.integer("delay", self.delay, at_least=0)
        object.__setattr__(self, "delay", delay)

    def known(self, batch: int) -> int:
        """Return the batch at whose end the outcomes of `batch` are known.

        >>> overlapping = explicit([100, 200, 300], delay=1)
        >>> overlapping.known(1), overlapping.known(2), overlapping.known(3)
        (2, 3, 3)
        """
        return min(batch + self.delay, self.batches)

    def __repr__(self) -> str:
        shown = [str(end) for end in self.ends]
        if len(shown) > 8:
            shown = [*shown[:4], "...", *shown[-2:]]
        late = f", delay={self.delay}" if self.delay else ""
        return f"Grid(units={self.units}, batches={self.batches}, ends=[{', '.join(shown)}]{late})"

    @property
    def units(self) -> int:
        """T, the number of units in all batches."""
        return self.ends[-1]

    @property
    def batches(self) -> int:
        """M, the number of batches."""
        return len(self.ends)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of units in each batch."""
        return tuple(after - before for before, after in pairwise((0, *self.ends)))

    def tables(self) -> list[Table]:
        """Return the batches as a table: first and last unit, size, and share of all units.

        >>> explicit([500, 2_000]).tables()[0].cells()
        [['1', '1', '500', '500', '25.00%'], ['2', '501', '2,000', '1,500', '75.00%']]
        """
        rows = [
            (m, end - size + 1, end, size, f"{size / self.units:.2%}")
            for m, (end, size) in enumerate(zip(self.ends, self.sizes, strict=True), start=1)
        ]
        title = f"{counted(self.units, 'unit')} in {counted(self.batches, 'batch')}"
        return [Table(title, ("batch", "from", "to", "size", "share"), rows)]

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())

    def batch_of(self, unit: int) -> int:
        """Return the number (1 to M) of the batch that holds unit number `unit` (1 to T).

        >>> explicit([3, 6, 10]).batch_of(4)
        2
        """
        if not 1 <= arguments.integer("unit", unit) <= self.units:
            raise InvalidGridError("unit", f"between 1 and {self.units}", unit)
        return bisect_left(self.ends, unit) + 1


def explicit(ends: Iterable[int], *, delay: int = 0) -> Grid:
    """Return the grid with these ends, for example the waves of a calendar.

    With a `delay`, outcomes are known so many batches later; see :class:`Grid`.

    >>> explicit([500, 2_000, 10_000]).sizes
    (500, 1500, 8000)
    """
    if not isinstance(ends, Iterable):
        raise InvalidGridError("ends", "a list of whole numbers", repr(ends))
    return Grid(tuple(ends), delay)


# ----------------------------------------------------------------------
# The grids of the paper, and its numbers of batches.


def uniform(units: int, *, batches: int) -> Grid:
    """Return batches of equal size, t_m = floor(m T / M): optimal for arbitrary contexts (Thm. 1).

    >>> uniform(units=8_124, batches=3_131).ends[:3]
    (2, 5, 7)
    """
    T, M = _sizes(units, batches)
    return Grid(tuple(m * T // M for m in range(1, M + 1)))


def online(units: int) -> Grid:
    """Return a grid with one unit per batch, M = T: the fully sequential setting."""
    T, _ = _sizes(units, 1)
    return Grid(tuple(range(1, T + 1)))


def minimax(units: int, *, dim: int, batches: int, scale: float | None = None) -> Grid:
    """Return the grid that is near-optimal for stochastic contexts (Thm. 2, Section 4.1).

    t_1 = beta d and t_m = beta sqrt(t_{m-1}), rounded down: every batch adds about the same regret.

    Parameters
    ----------
    units, dim, batches
        T, d and M, with T >= d^2 (Assumption 1).
    scale
        None solves the recursion exactly: unrounded, it ends at T for
        beta = sqrt(T) (T / d^2)^(1 / (2 (2^M - 1))), and each end is its term rounded down. A
        number gives the grid of Section 6.2 (with 0.4): beta is multiplied by it, each end is
        rounded before the next is computed from it, and the last end is set to T.

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


def sparse(units: int, *, sparsity: int, batches: int) -> Grid:
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


def geometric(units: int, *, dim: int, batches: int) -> Grid:
    """Return the grid for problem-dependent regret (Section 5): t_m = floor(d^2 b^m).

    b = (T / d^2)^(1 / M) is the ratio of consecutive ends.

    >>> geometric(units=100_000, dim=10, batches=3)
    Grid(units=100000, batches=3, ends=[1000, 10000, 100000])
    """
    T, M = _sizes(units, batches)
    d = arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    growth = math.log(T / d**2)
    ends = [_floor(d**2 * math.exp(growth * m / M)) for m in range(1, M + 1)]
    return _pinned(ends, T)


def adversarial_batches(units: int, *, dim: int) -> int:
    """Return M = max(1, floor(sqrt(d ln(1 + T/d) T / ln 2))), as in Section 6.1.

    It is never more than T. For Covertype (T = 581,012, d = 378) it is 48,219; the paper
    prints 4,821.

    >>> adversarial_batches(units=8_124, dim=234)
    3131
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    return min(T, max(1, math.floor(math.sqrt(d * math.log1p(T / d) * T / math.log(2)))))


def stochastic_batches(units: int, *, dim: int) -> int:
    """Return M = max(2, ceil(0.2 log2 log2(T / d^2))), as in Section 6.2; never more than T.

    >>> stochastic_batches(units=100_000, dim=10)
    2
    """
    T, d = arguments.integer("units", units), arguments.integer("dim", dim)
    _require_ratio(T, d * d, "dim^2")
    inner = math.log2(T / d**2)
    # The double logarithm is undefined up to log2(T / d^2) = 1; the rule's minimum of 2 applies.
    return min(T, max(2, math.ceil(0.2 * math.log2(inner))) if inner > 1 else 2)


def problem_dependent_batches(units: int, *, dim: int) -> int:
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
            "With fewer units, use the uniform grid or explicit ends.",
        )


def _root_growth(units: int, ratio: float, batches: int) -> float:
    """Return sqrt(T) ratio^(1 / (2 (2^M - 1))); the exponent vanishes long before 2^M overflows."""
    exponent = 0.5 / (2.0 ** min(batches, 1000) - 1)
    return math.sqrt(units) * math.pow(ratio, exponent)


def _rooted(first: int, growth: float, batches: int) -> list[int]:
    """Return t_1 and t_m = floor(growth sqrt(t_{m-1})), as Section 6.2 computes them."""
    ends = [first]
    while len(ends) < batches:
        ends.append(_floor(growth * math.sqrt(max(ends[-1], 1))))
    return ends


def _floor(value: float) -> int:
    """Round down, except from a value that rounding errors left just below a whole number."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= 1e-12 * value else math.floor(value)


def _pinned(ends: list[int], units: int) -> Grid:
    """Return a strictly increasing grid that ends at T, with at least one unit per batch."""
    batches, kept = len(ends), [0]
    for m, end in enumerate(ends, start=1):
        kept.append(min(max(end, kept[-1] + 1), units - (batches - m)))
    return Grid((*kept[1:-1], units))


# ----------------------------------------------------------------------
# Grid rules: a kind of grid and a number of batches, for any horizon.


KINDS = ("uniform", "online", "minimax", "sparse", "geometric", "explicit")
COUNTS: dict[str, Callable[..., int]] = {
    "adversarial": adversarial_batches,
    "stochastic": stochastic_batches,
    "problem-dependent": problem_dependent_batches,
}
#: Kinds that determine their number of batches, with the reason.
COUNTED = {"online": "It has one batch per unit.", "explicit": "It has one batch per share."}


@dataclass(frozen=True)
class GridRule:
    """A rule that makes a grid for any horizon: the kind of grid and the number of batches.

    Parameters
    ----------
    kind
        ``"uniform"``, ``"online"``, ``"minimax"``, ``"sparse"``, ``"geometric"`` or ``"explicit"``.
    batches
        A number, 2 by default, or a rule: ``"adversarial"``, ``"stochastic"`` or
        ``"problem-dependent"``. None for online and explicit grids, which have one batch per unit
        and one per share.
    divide
        Divide the number of batches by this, rounding down.
    scale
        For the minimax grid; see :func:`~seqbatch.grids.minimax`.
    shares
        For the explicit grid: the share of all units by the end of each batch; the last one is 1.
    delay
        How many batches later outcomes are known; see :class:`Grid`.

    Examples
    --------
    >>> GridRule("minimax", batches="stochastic", scale=0.4).grid(100_000, 10)
    Grid(units=100000, batches=2, ends=[4000, 100000])
    """

    kind: str
    _: KW_ONLY
    batches: int | str | None = None
    divide: int = 1
    scale: float | None = None
    shares: tuple[float, ...] = ()
    delay: int = 0

    def __post_init__(self) -> None:
        arguments.choice("kind", self.kind, KINDS)
        self._settle_shares()
        self._settle_count()
        arguments.integer("delay", self.delay, at_least=0)
        if self.scale is not None and self.kind != "minimax":
            rule = 'given only with kind "minimax"'
            raise InvalidArgumentError("scale", rule, f"{self.scale!r} with {self.kind!r}")

    def _settle_shares(self) -> None:
        """Check the shares, which only an explicit grid has."""
        if not isinstance(self.shares, Iterable) or isinstance(self.shares, str):
            raise InvalidArgumentError(
                "shares", "numbers, for example [0.1, 0.4, 1]", repr(self.shares)
            )
        shares = tuple(
            arguments.number("shares", share, above=0, at_most=1) for share in self.shares
        )
        if self.kind == "explicit":
            if shares[-1:] != (1,) or list(shares) != sorted(set(shares)):
                rule = "the share of all units by the end of each batch, increasing, the last one 1"
                advice = "For example [0.1, 0.4, 1]."
                raise InvalidArgumentError("shares", rule, list(shares) or "none", advice)
        elif shares:
            rule = 'given only with kind "explicit"'
            raise InvalidArgumentError("shares", rule, f"{list(shares)} with {self.kind!r}")
        object.__setattr__(self, "shares", shares)

    def _settle_count(self) -> None:
        """Check the number of batches; 2 is the default for kinds that need one."""
        arguments.integer("divide", self.divide)
        if self.kind in COUNTED:
            divide = None if self.divide == 1 else self.divide
            for name, given in (("batches", self.batches), ("divide", divide)):
                if given is not None:
                    rule = f'left out with kind "{self.kind}"'
                    raise InvalidArgumentError(name, rule, repr(given), COUNTED[self.kind])
        elif self.batches is None:
            object.__setattr__(self, "batches", 2)
        elif isinstance(self.batches, str):
            if self.batches not in COUNTS:
                rule = f"a whole number, or one of {', '.join(map(repr, COUNTS))}"
                raise InvalidArgumentError("batches", rule, repr(self.batches))
        else:
            arguments.integer("batches", self.batches)

    def grid(self, units: int, dim: int) -> Grid:
        """Return the grid for `units` units and the paper's dimension d."""
        return replace(self._without_delay(units, dim), delay=self.delay)

    def _without_delay(self, units: int, dim: int) -> Grid:
        if self.kind == "online":
            return online(units=units)
        if self.kind == "explicit":
            return explicit(round(share * units) for share in self.shares)
        assert self.batches is not None
        rule = COUNTS.get(str(self.batches))
        count = rule(units=units, dim=dim) if rule else int(self.batches)
        batches = max(1, count // self.divide)
        if self.kind == "uniform":
            return uniform(units=units, batches=batches)
        if self.kind == "sparse":
            return sparse(units=units, sparsity=dim, batches=batches)
        if self.kind == "geometric":
            return geometric(units=units, dim=dim, batches=batches)
        return minimax(units=units, dim=dim, batches=batches, scale=self.scale)
