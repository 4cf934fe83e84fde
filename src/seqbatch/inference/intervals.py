"""Estimates with confidence intervals, and how they are shown."""

from dataclasses import dataclass
from math import isfinite, nan, sqrt

from seqbatch.display import number
from seqbatch.document import Table, shown


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
        Degrees of freedom of Student's t.
    level
        The nominal coverage.
    low, high
        The interval.
    valid
        Whether the coverage holds after an adaptive campaign.
    note
        A remark for the reader.
    """

    about: str
    estimate: float
    error: float
    df: float
    level: float
    low: float
    high: float
    valid: bool = True
    note: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return isfinite(self.estimate)

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the hypothesis that the true value is 0."""
        from scipy.special import stdtr

        if not self.known or not self.error:
            return nan if not self.known else float(self.estimate == 0)
        return 2 * float(stdtr(self.df, -abs(self.estimate) / self.error))

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


def quantile(tail: float, df: float) -> float:
    """Return the quantile of Student's t with this probability above it.

    >>> round(quantile(0.025, float("inf")), 3), round(quantile(0.025, 10), 3)
    (1.96, 2.228)
    """
    from scipy.special import ndtri, stdtrit

    # stdtrit is slow and inexact for large df, where the normal agrees to all digits.
    return -float(ndtri(tail) if df > 1e8 else stdtrit(df, tail))


def student(
    about: str, estimate: float, variance: float, df: float, *, level: float, note: str = ""
) -> Interval:
    """Return the two-sided Student t interval of an estimate."""
    error = sqrt(variance)
    half = quantile((1 - level) / 2, df) * error
    return Interval(
        about=about,
        estimate=estimate,
        error=error,
        df=df,
        level=level,
        low=estimate - half,
        high=estimate + half,
        note=note,
    )


def unknown(about: str, *, level: float, note: str) -> Interval:
    """Return an unknown interval with the reason."""
    return Interval(
        about=about, estimate=nan, error=nan, df=nan, level=level, low=nan, high=nan, note=note
    )
