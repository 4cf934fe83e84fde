"""The paper's claims beside what was measured, decided only where the measurement can."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot, inf, isnan, nan, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what was measured.

    Parameters
    ----------
    source
        Where the paper says it.
    text
        What it says.
    measured
        What was found.
    held
        Whether that bears it out; None where this run cannot decide.
    """

    source: str
    text: str
    measured: str
    held: bool | None


@dataclass(frozen=True)
class Estimate:
    """A mean over trials, or what was computed from means.

    Parameters
    ----------
    value, error
        The estimate and its standard error; the error of a single trial is not known, and NaN.
    trials
        How many trials it comes from.
    """

    value: float
    error: float
    trials: int

    def within(self, low: float, high: float = inf, *, of: int = 1) -> bool | None:
        """Say whether the truth lies between two numbers; None where 95% is not reached.

        Of several estimates that a claim rests on (`of`), all shall be right in 95% of runs.

        >>> Estimate(1.0, 0.1, 50).within(0.5), Estimate(1.0, 0.1, 50).within(0.9)
        (True, None)
        """
        from scipy.special import stdtrit

        if isnan(self.value) or isnan(self.error):
            return None
        half = self.error * float(stdtrit(self.trials - 1, 1 - 0.025 / of))
        if low <= self.value - half and self.value + half <= high:
            return True
        return False if self.value + half < low or self.value - half > high else None

    def shown(self, digits: int) -> str:
        """Return the value and its error, for a person.

        >>> Estimate(0.5678, 0.0234, 50).shown(2), Estimate(3.0, float("nan"), 1).shown(0)
        ('0.57 ± 0.02', '3 ± ?')
        """
        error = "?" if isnan(self.error) else f"{self.error:.{digits}f}"
        return "unknown" if isnan(self.value) else f"{self.value:,.{digits}f} ± {error}"


def ratio(above: "pl.Series", below: "pl.Series") -> Estimate:
    """Return the ratio of two means over the same trials; its error is right to first order."""
    top, bottom = above.to_numpy(), below.to_numpy()
    value = float(top.mean() / bottom.mean())
    spread = top / bottom.mean() - value * bottom / bottom.mean()
    error = spread.std(ddof=1) / sqrt(len(spread)) if len(spread) > 1 else nan
    return Estimate(value, float(error), len(spread))


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return the difference, its error as if the two were independent."""
    return Estimate(one.value - other.value, hypot(one.error, other.error), one.trials)


def slope_estimates(slopes: "pl.DataFrame", *, trials: int) -> dict[tuple[str, str], Estimate]:
    """Return the slopes of :func:`seqbatch.simulation.slopes` by environment and line."""
    return {
        (row["environment"], row["policy"]): Estimate(
            nan if row["slope"] is None else row["slope"],
            nan if row["error"] is None else row["error"],
            trials,
        )
        for row in slopes.iter_rows(named=True)
    }


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False if any is, else None if any is, else True.

    >>> all_of([True, None]), all_of([None, False]), all_of([True])
    (None, False, True)
    """
    found = list(verdicts)
    return False if False in found else None if None in found else True


def claims_page(title: str, command: str, table: "pl.DataFrame", claims: Sequence[Claim]) -> str:
    """Return the claims as a page in Markdown, with what its numbers mean."""
    words = {True: "held", False: "**did not hold**", None: "not decided"}
    lines = [
        f"# {title}",
        "",
        f"Made by `{command}`. {_meaning(table)}",
        "",
        "| where | the claim | measured | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {c.source} | {c.text} | {c.measured} | {words[c.held]} |" for c in claims]
    return "\n".join(lines) + "\n"


def _meaning(table: "pl.DataFrame") -> str:
    if "campaigns" in table.columns:
        return (
            f"{min(table['campaigns']):,} campaigns or more in each of {table['cell'].n_unique()} "
            "cells; ± is one standard error. A claim is decided where its 95% interval, widened "
            "for the number of cells, leaves no doubt; else it is not decided."
        )
    if "trial" not in table.columns:
        return "Nothing in this run is random, so that one trial is exact."
    trials = table["trial"].n_unique()
    return (
        f"{trials} trial{'s' * (trials > 1)}; ± is one standard error over the trials (of slopes "
        "the jackknife's). A claim is decided where the 95% interval of what it is about, widened "
        "for the number of comparisons that it makes, leaves no doubt; else it is not decided."
    )
