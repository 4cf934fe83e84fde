"""A table of the page: what it measures, its rows, and the gains that it was expected to show."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.progress import paragraph
from seqbatch.core.arrays import Floats


@dataclass(frozen=True)
class Claim:
    """An expected gain in one row: less of a loss than another policy's, in percent of it.

    Parameters
    ----------
    text
        Who gains against whom; the same in all rows.
    gain
        The measured change in percent, negative where the loss is smaller, with standard errors.
    """

    text: str
    gain: tuple[float, float]

    @property
    def found(self) -> int:
        """1 if reproduced, -1 if the opposite was measured: beyond two standard errors."""
        return -round(np.sign(self.gain[0])) if clear(self.gain) else 0


@dataclass(frozen=True)
class Measured:
    """The rows of a table, below its columns, and its claims."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim]


@dataclass(frozen=True)
class Table:
    """A section of the page.

    Parameters
    ----------
    name
        What `--only` calls it.
    title, text
        The section's heading, and what its columns are.
    measure
        Measures it in this many runs, at most, of each setting.
    runs, quick
        The runs of a full and of a quick table.
    """

    name: str
    title: str
    text: str
    measure: Callable[[int], Measured]
    runs: int
    quick: int = 8

    def section(self, runs: int) -> str:
        """Measure the table; return its section of the page."""
        found = self.measure(runs)
        head = f"| {' | '.join(found.columns)} |\n|{'---|' * len(found.columns)}"
        rows = [f"| {' | '.join(row)} |" for row in found.rows]
        text = "\n".join(paragraph(self.text.format(runs=runs)))
        claims = ["", *judged(found.claims)] if found.claims else []
        return "\n".join([f"## {self.title}", "", text, head, *rows, *claims, ""])


def judged(claims: Sequence[Claim]) -> list[str]:
    """Return one line for each text: in how many rows it was reproduced, and the range."""
    lines = []
    for text in dict.fromkeys(claim.text for claim in claims):
        same = [claim for claim in claims if claim.text == text]
        gains = [claim.gain[0] for claim in same]
        against_it = sum(claim.found < 0 for claim in same)
        opposite = f", the opposite in {against_it}" if against_it else ""
        lines.append(
            f"- {text}: reproduced in {sum(claim.found > 0 for claim in same)} of {len(same)} "
            f"rows{opposite} ({min(gains):+.1f}% to {max(gains):+.1f}%)."
        )
    return lines


def against(part: Floats, base: Floats) -> tuple[float, float]:
    """Return by how many percent a mean exceeds another one of the same runs, and its error."""
    ratio = float(part.mean() / base.mean())
    error = float((part - ratio * base).std(ddof=1)) / math.sqrt(len(part)) / float(base.mean())
    return 100 * (ratio - 1), 100 * error


def clear(change: tuple[float, float]) -> bool:
    """Whether a change is more than two standard errors."""
    return abs(change[0]) > 2 * change[1]


def said(change: tuple[float, float]) -> str:
    """Return a change in percent, with a star if it is clear.

    >>> said((-12.345, 1.24)), said((1.2, 1.24))
    ('-12.3*', '+1.2')
    """
    return f"{change[0]:+.1f}{'*' if clear(change) else ''}"


def compared(losses: Mapping[str, Floats], base: str) -> list[str]:
    """Return the base's mean loss, and the change of every other policy."""
    means = losses[base]
    others = [said(against(each, means)) for name, each in losses.items() if name != base]
    mean = float(means.mean())
    return [f"{mean:,.0f}" if mean > 100 else f"{mean:.3g}", *others]
