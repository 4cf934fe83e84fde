"""What a campaign's numbers are measured in, and how many digits of them are shown."""

import re
from dataclasses import dataclass
from math import floor, isfinite, log10

from seqbatch.campaign.design.spec import Spec
from seqbatch.inference import Interval

#: What units are called in a sentence. Of any other word, such as "Kunden-Nr" or "company", nobody
#: here knows the plural, or whether it is English at all.
NOUNS = (
    "account", "client", "customer", "device", "donor", "employee", "guest", "hospital",
    "household", "lead", "member", "merchant", "order", "participant", "patient", "person",
    "player", "pupil", "reader", "respondent", "school", "shop", "store", "student", "subject",
    "subscriber", "teacher", "user", "viewer", "village", "visitor", "voter", "worker",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What an outcome is, and of whom.

    Parameters
    ----------
    reward, unit
        What the reward is called, and its unit of measure, None where none was declared.
    direction
        "max" where more is better, "min" where less is.
    binary
        Whether every outcome is 0 or 1: then numbers are shown per 100 units.
    of
        What a unit is called: "customer".
    costs
        Whether what actions cost is part of the numbers.
    """

    reward: str
    unit: str | None
    direction: str
    binary: bool
    of: str
    costs: bool

    @classmethod
    def of_spec(cls, spec: Spec, *, binary: bool, costs: bool) -> "Measure":
        """Return the measure of a campaign's reward."""
        return cls(
            reward=spec.reward.label,
            unit=spec.reward.unit,
            direction=spec.reward.direction,
            binary=binary,
            of=unit_word(spec.unit),
            costs=costs,
        )

    @property
    def scale(self) -> float:
        """What numbers are multiplied by when they are shown."""
        return 100.0 if self.binary else 1.0

    @property
    def per(self) -> str:
        """What numbers are counted by: "100 customers", or "customer"."""
        return f"100 {self.of}s" if self.binary else self.of

    @property
    def head(self) -> str:
        """What stands above a column of numbers."""
        return f"{self.unit or self.reward} per {self.per}"

    def number(self, value: float, error: float, *, digits: int | None = None) -> str:
        """Return a number as it is shown; see :func:`rounded`."""
        return rounded(value * self.scale, error * self.scale, digits=digits)

    def amount(self, value: float, error: float) -> str:
        """Return how much more or less: "6.8 more visits per 100 customers"."""
        size = self.number(abs(value), error)
        more = self.way(value)
        if self.unit is None:
            return f"{size} {more} per {self.per} ({self.reward})"
        said = f"{more} {self.unit}" if self.binary else f"{self.unit} {more}"
        return f"{size} {said} per {self.per}"

    def between(self, interval: Interval) -> str:
        """Return an interval as it is said after an amount: "95% interval 5.1 to 8.5".

        The amount before is without a sign, and so are the ends; where 0 is between them, they are
        told apart in words: "95% interval 1.2 fewer to 8.1 more".
        """
        side = -1 if interval.estimate < 0 else 1
        ends = sorted((side * interval.low, side * interval.high))
        if ends[0] >= 0:
            low, high = (self._size(end, interval.error) for end in ends)
            return f"{percent(interval.level)} interval {low} to {high}"
        low, high = (f"{self._size(end, interval.error)} {self.way(side * end)}" for end in ends)
        return f"{percent(interval.level)} interval {low} to {high}"

    def _size(self, end: float, error: float) -> str:
        """Return an end on one side of 0 without its sign, and not rounded to 0."""
        sizes = [self.number(abs(end), error, digits=digits) for digits in (None, 2, 3, 4)]
        return next((size for size in sizes if float(size.replace(",", ""))), sizes[0])

    def signed(self, interval: Interval) -> str:
        """Return a number with its interval and their signs: "-1.6 (95% interval -3.0 to -0.1)"."""
        values = (interval.estimate, interval.low, interval.high)
        one, low, high = (self.number(value, interval.error) for value in values)
        return f"{one} ({percent(interval.level)} interval {low} to {high})"

    def way(self, value: float) -> str:
        """Return what a difference of this sign is called: more, fewer or less."""
        return "more" if value >= 0 else "fewer" if self.binary else "less"

    def cells(self, interval: Interval) -> tuple[str, str, str]:
        """Return estimate, low and high as a table shows them, with two digits of the error."""
        if not interval.known:
            return "", "", ""
        return tuple(  # type: ignore[return-value]
            self.number(value, interval.error, digits=2)
            for value in (interval.estimate, interval.low, interval.high)
        )

    def better(self, value: float) -> bool:
        """Whether a difference of this sign is wanted."""
        return value > 0 if self.direction == "max" else value < 0


def rounded(value: float, error: float, *, digits: int | None = None) -> str:
    """Return a number with as many decimals as its standard error gives a meaning.

    Two significant digits of the error, or with `digits=None` as a person would: two where the
    error begins with a 1, 2 or 3, one otherwise.

    >>> rounded(6.8347, 0.87), rounded(6.8347, 0.87, digits=2), rounded(1234.5, 210)
    ('6.8', '6.83', '1,230')
    >>> rounded(-0.0001, 0.5), rounded(3.0, 0.0)
    ('0.0', '3')
    """
    if not isfinite(error) or error <= 0:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    power = floor(log10(error))
    if digits is None:
        digits = 2 if error / 10**power < 3.55 else 1
    decimals = digits - 1 - power
    # Adding 0 turns a minus zero into a zero.
    near = round(value, decimals) + 0.0
    return f"{near:,.{max(decimals, 0)}f}"


def percent(share: float) -> str:
    """Return a share in percent, with as many digits as it has.

    >>> percent(0.95), percent(0.999), percent(0.975)
    ('95%', '99.9%', '97.5%')
    """
    return f"{100 * share:.4g}%"


def unit_word(columns: tuple[str, ...]) -> str:
    """Return what one unit is called, by the column of its id.

    >>> [unit_word((column,)) for column in ("customer", "Customer_ID", "id", "Kunden-Nr")]
    ['customer', 'customer', 'unit', 'unit']
    """
    word = re.sub(r"[\s_-]*(id|nr|no|number|key)$", "", columns[0].strip().lower())
    return word if len(columns) == 1 and word in NOUNS else "unit"
