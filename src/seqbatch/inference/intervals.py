"""Estimates with confidence intervals, and how they are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign, hypot, inf, isfinite, nan, sqrt, ulp
from typing import Protocol

from seqbatch.display import number
from seqbatch.document import Table, shown


@dataclass(frozen=True)
class FewEvents:
    """Why there is no interval: too few events.

    Parameters
    ----------
    expected
        How many events the plan's effective units have, at the rate so far of all actions.
    needed
        How many are needed.

    Examples
    --------
    >>> str(FewEvents(3.2, 5))
    'Too few events: about 3 of the 5 that are needed.'
    """

    expected: float
    needed: int

    def __str__(self) -> str:
        # Rounded down, so that it never reads as if there were enough.
        return f"Too few events: about {int(self.expected)} of the {self.needed} that are needed."


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its confidence interval.

    Parameters
    ----------
    about
        The name of the estimated quantity.
    estimate, error
        The estimate and its standard error.
    df
        Degrees of freedom of Student's t; infinite for the intervals of rare events.
    level
        The nominal coverage.
    low, high
        The interval.
    statistic
        The statistic of the hypothesis that the true value is 0, on the scale of a standard normal.
    valid
        Whether the coverage holds after an adaptive campaign.
    note
        A remark for the reader.
    few
        Why there is no interval, if events are too few.
    """

    about: str
    estimate: float
    error: float
    df: float
    level: float
    low: float
    high: float
    statistic: float = nan
    valid: bool = True
    note: str = ""
    few: FewEvents | None = None

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return isfinite(self.estimate)

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the hypothesis that the true value is 0."""
        return 2 * normal_tail(abs(self.statistic))

    @property
    def row(self) -> tuple[object, ...]:
        """The row of this interval in a table."""
        return (self.about, self.estimate, self.low, self.high, "yes" if self.valid else "NO")

    def tables(self) -> list[Table]:
        """Return the interval as a table."""
        return [interval_table(self.about, [self])]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        if not self.known:
            return f"{self.about}: unknown. {self.note}".rstrip()
        mark = "" if self.valid else "; NOT VALID"
        text = (
            f"{self.about}: {number(self.estimate, 3)} ({self.level:.0%} interval "
            f"{number(self.low, 3)} to {number(self.high, 3)}{mark})"
        )
        return f"{text}. {self.note}" if self.note else text


def interval_table(title: str, intervals: "list[Interval]") -> Table:
    """Return intervals as one table."""
    columns = ("about", "estimate", "low", "high", "valid")
    return Table(title, columns, [one.row for one in intervals], words=("about", "valid"))


# ----------------------------------------------------------------------
# The shape of an estimate: its limits for every tail probability.


class Shape(Protocol):
    """How far the true value may be from an estimate."""

    @property
    def estimate(self) -> float:
        """The estimate."""

    @property
    def error(self) -> float:
        """Its standard error."""

    @property
    def df(self) -> float:
        """Degrees of freedom of its standard error."""

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the limits that the true value is beyond with this probability on each side."""

    def statistic(self, value: float = 0.0) -> float:
        """Return the statistic of a hypothesis, on the scale of a standard normal."""


@dataclass(frozen=True)
class StudentShape:
    """Student's t around the estimate."""

    estimate: float
    error: float
    df: float

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the limits that the true value is beyond with this probability on each side."""
        half = quantile(tail, self.df) * self.error if tail > TINY else inf
        return self.estimate - half, self.estimate + half

    def statistic(self, value: float = 0.0) -> float:
        """Return (estimate - value)/error, converted to the normal with the same tail.

        It is finite: a tail below the smallest number (beyond about 38) counts as that number.

        >>> round(StudentShape(2.228, 1.0, 10).statistic(), 2)
        1.96
        """
        from scipy.special import ndtri, stdtr

        away = self.estimate - value
        if not self.error:
            return copysign(inf, away) if away else 0.0
        below = float(stdtr(self.df, -abs(away) / self.error))
        return copysign(-float(ndtri(max(below, ulp(0.0)))), away)


#: Beyond the smallest tail of a double, limits are infinite.
TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class Estimated(Interval):
    """An interval that knows its shape, so that other levels can be asked for."""

    shape: Shape

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the limits that the true value is beyond with this probability on each side."""
        return self.shape.limits(tail)


def estimated(about: str, shape: Shape, *, level: float, note: str = "") -> Estimated:
    """Return the two-sided interval of an estimate."""
    low, high = shape.limits((1 - level) / 2)
    return Estimated(
        about=about,
        estimate=shape.estimate,
        error=shape.error,
        df=shape.df,
        level=level,
        low=low,
        high=high,
        statistic=shape.statistic(),
        note=note,
        shape=shape,
    )


def student(
    about: str, estimate: float, variance: float, df: float, *, level: float, note: str = ""
) -> Estimated:
    """Return the two-sided Student t interval of an estimate."""
    return estimated(about, StudentShape(estimate, sqrt(variance), df), level=level, note=note)


def unknown(about: str, *, level: float, note: str, few: FewEvents | None = None) -> Interval:
    """Return an unknown interval with the reason."""
    return Interval(
        about=about, estimate=nan, error=nan, df=nan, level=level, low=nan, high=nan, note=note,
        few=few,
    )  # fmt: skip


def quantile(tail: float, df: float) -> float:
    """Return the quantile of Student's t with this probability above it.

    >>> round(quantile(0.025, float("inf")), 3), round(quantile(0.025, 10), 3)
    (1.96, 2.228)
    """
    from scipy.special import ndtri, stdtrit

    # stdtrit is slow and inexact for large df, where the normal agrees to all digits.
    return -float(ndtri(tail) if df > 1e8 else stdtrit(df, tail))


def difference_limits(
    one: float, own: tuple[float, float], other: float, others: tuple[float, float]
) -> tuple[float, float]:
    """Return the limits of a difference, from the distances of both estimates to theirs (MOVER).

    >>> low, high = difference_limits(0.03, (0.015, 0.055), 0.02, (0.008, 0.041))
    >>> round(low, 8), round(high, 8)
    (-0.01580698, 0.03773085)
    """
    (low, high), (below, above) = own, others
    gap = one - other
    return (
        gap - hypot(max(one - low, 0.0), max(above - other, 0.0)),
        gap + hypot(max(high - one, 0.0), max(other - below, 0.0)),
    )


#: The largest statistic that is told apart.
FARTHEST = 64.0


#: How far beyond the ends of a narrow bracket rounding errors reach, as a share of z.
NOISE = 2e-14


def crossing(
    limits: Callable[[float], tuple[float, float]], estimate: float, value: float
) -> float:
    """Return the smallest z at which limits hold a value; negative if it is above the estimate.

    The limits must not come closer as z grows.
    """
    side = 1.0 if estimate >= value else -1.0

    def slack(z: float) -> float:
        """Return how far inside the limits the value is; below 0 if it is outside."""
        low, high = limits(z)
        return min(value - low, high - value)

    if slack(0.0) >= 0:
        return 0.0
    near, far = 0.0, 1.0
    while far < FARTHEST and slack(far) < 0:
        near, far = far, 2 * far
    # The result is that of bisection, which need not ask where the answer is known.
    outside, inside = _narrowed(slack, near, far)
    while near < (middle := (near + far) / 2) < far:
        if middle <= outside or (middle < inside and slack(middle) < 0):
            near = middle
        else:
            far = middle
    return side * far


def _narrowed(slack: Callable[[float], float], near: float, far: float) -> tuple[float, float]:
    """Return one z outside and one inside, close to each other, by false position (Illinois)."""
    outside, inside = slack(near), slack(far)
    if inside < 0:
        return far, far
    last = 0.0
    while far - near > NOISE * far and outside < 0 < inside:
        share = outside / (outside - inside) if inside < inf else 0.5
        guess = near + (far - near) * share
        if not near < guess < far:
            break
        found = slack(guess)
        # If the same end moves twice, the weight of the other one is halved.
        if found < 0:
            inside *= 0.5 if last < 0 else 1.0
            near, outside = guess, found
        else:
            outside *= 0.5 if last > 0 else 1.0
            far, inside = guess, found
        last = found
    return near - NOISE * far, far + NOISE * far


def student_tail(t: float, df: float) -> float:
    """Return the probability of Student's t above t.

    >>> round(student_tail(2.228, 10), 3), round(student_tail(1.96, float("inf")), 3)
    (0.025, 0.025)
    """
    from scipy.special import stdtr

    return normal_tail(t) if df > 1e8 else float(stdtr(df, -t))


def normal_tail(z: float) -> float:
    """Return the probability of a standard normal above z.

    >>> round(normal_tail(1.96), 3)
    0.025
    """
    from scipy.special import ndtr

    return float(ndtr(-z))
