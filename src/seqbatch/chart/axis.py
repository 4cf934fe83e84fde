"""One side of a panel: the range of its values, its ticks and its title."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Axis:
    """One side of a panel: the range of its values, its ticks and its title.

    Make one with :meth:`numbers`, :meth:`logarithmic` or :meth:`categories`.

    Parameters
    ----------
    low, high
        The values at its ends.
    ticks
        The labelled values.
    title
        The name of the values.
    log
        Whether equal ratios have equal lengths.
    grid
        Whether ticks have lines across the panel.
    shown
        Whether the axis has labels.
    down
        Whether a vertical axis begins at the top.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    log: bool = False
    grid: bool = False
    shown: bool = True
    down: bool = False

    @classmethod
    def numbers(
        cls, values: Iterable[float], *, title: str = "", zero: bool = False, count: int = 5,
        percent: bool = False, padding: float = 0.05, grid: bool = False,
        ticks: Sequence[float] | None = None, form: Callable[[float], str] | None = None,
    ) -> "Axis":  # fmt: skip
        """Return an axis that fits finite numbers.

        Parameters
        ----------
        values
            The numbers that must fit; at least one is finite.
        title
            The name of the numbers.
        zero
            Whether 0 must fit too.
        count
            About how many ticks to have.
        percent
            Whether to label shares in percent.
        padding
            Space at both ends, as a share of the range.
        grid
            Whether ticks have lines across the panel.
        ticks
            The ticks; by default multiples of 1, 2 or 5 times a power of ten.
        form
            Formats a tick; by default all have the same decimals.

        Examples
        --------
        >>> Axis.numbers([0.1, 0.42], zero=True, percent=True, count=3).ticks
        ((0.0, '0%'), (0.2, '20%'), (0.4, '40%'))
        """
        known = [float(value) for value in values if math.isfinite(value)] + [0.0] * zero
        low, high = min(known), max(known)
        if low == high:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        pad = padding * (high - low)
        low, high = low - pad, high + pad
        step = _step((high - low) / count)
        if ticks is None:
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            ticks = [place * step for place in range(first, last + 1)]
        told = form or _same_decimals(step, percent=percent)
        return cls(low, high, tuple((tick, told(tick)) for tick in ticks), title, grid=grid)

    @classmethod
    def logarithmic(
        cls, values: Iterable[float | None], *, title: str = "", margin: float = 1.12
    ) -> "Axis":
        """Return a logarithmic axis with ticks at 1, 2 and 5; values that are not positive are ignored.

        >>> [label for _, label in Axis.logarithmic([90.0, 1_500.0, None, -3.0]).ticks]
        ['100', '200', '500', '1,000']
        """  # noqa: E501
        known = [value for value in values if value and value > 0]
        low, high = min(known) / margin, max(known) * margin
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [digit * 10.0**power for power, digit in product(powers, (1, 2, 5))]
        shown = tuple((tick, f"{tick:,.12g}") for tick in ticks if low <= tick <= high)
        return cls(low, high, shown, title, log=True)

    @classmethod
    def categories(
        cls, names: Sequence[str], *, title: str = "", down: bool = False, shown: bool = True
    ) -> "Axis":
        """Return an axis with equal room for each name; the n-th one's middle is at n + 0.5."""
        ticks = tuple((place + 0.5, name) for place, name in enumerate(names))
        return cls(0.0, float(len(names)), ticks, title, shown=shown, down=down)

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end, 1 at the high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def _step(rough: float) -> float:
    """Return the next larger number that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * (1 - 1e-9))


def _same_decimals(step: float, *, percent: bool) -> Callable[[float], str]:
    decimals = max(-math.floor(math.log10(step * (100 if percent else 1)) + 1e-9), 0)
    if percent:
        return lambda value: f"{100 * value + 0.0:.{decimals}f}%"
    return lambda value: f"{value + 0.0:,.{decimals}f}"
