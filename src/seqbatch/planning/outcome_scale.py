"""The scale of outcomes for a plan: how much they vary, and the smallest lift worth finding.

A plan needs both in the outcome's own unit. For a yes/no outcome the base rate gives the noise.
"""

import re
from dataclasses import dataclass
from math import sqrt

from seqbatch.core import arguments
from seqbatch.display import number, percent
from seqbatch.errors import InvalidArgumentError

#: Spellings of a share and of percentage points.
PERCENT, POINTS = re.compile(r"(.+?)\s*(%|percent)"), re.compile(r"(.+?)\s*(pp|points?|%-points?)")

#: Text that may be thousands or have a decimal comma.
THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+")


@dataclass(frozen=True, kw_only=True)
class OutcomeScale:
    """How much outcomes vary, and the smallest lift worth finding.

    Parameters
    ----------
    noise
        The standard deviation of outcomes.
    lift
        The smallest lift worth finding; None if not stated.
    base_rate
        The share of yes among units that get no action; None if the outcome is not yes/no.
    less
        Whether less is better: the lift then lowers the outcome.
    """

    noise: float
    lift: float | None = None
    base_rate: float | None = None
    less: bool = False

    @classmethod
    def of(
        cls,
        *,
        base_rate: float | str | None = None,
        smallest_lift: float | str | None = None,
        noise: float | None = None,
        less: bool = False,
    ) -> "OutcomeScale":
        """Check what you know about the outcomes; a plan cannot do without it.

        Parameters
        ----------
        base_rate
            For a yes/no outcome: the share of yes without any action, such as 0.04 or "4%".
        smallest_lift
            The smallest lift that would matter to you, such as 0.005 or "0.5pp"; needed with
            `base_rate`.
        noise
            For an amount or a count: its standard deviation, in place of `base_rate`.
        less
            Whether less is better.

        Examples
        --------
        >>> OutcomeScale.of(base_rate="4%", smallest_lift="0.5pp")
        OutcomeScale(noise=0.19595917942265423, lift=0.005, base_rate=0.04, less=False)
        """
        if (base_rate is None) == (noise is None):
            raise InvalidArgumentError(
                "base_rate" if noise is None else "noise",
                "given if the waves are planned" if noise is None else "left out with base_rate",
                "neither a base rate nor a noise" if noise is None else noise,
                "For a yes/no outcome, say how often it is yes without any action, as 4%, and the "
                "smallest lift that matters, as 0.5pp. For an amount or a count, say its standard "
                "deviation (noise).",
            )
        if noise is not None:
            lift = None if smallest_lift is None else plain_number("smallest_lift", smallest_lift)
            return cls(noise=arguments.number("noise", noise, above=0), lift=lift, less=less)
        if smallest_lift is None:
            rule = "given with base_rate: the smallest lift that would matter to you, as 0.5pp"
            raise InvalidArgumentError("smallest_lift", rule, "none")
        assert base_rate is not None
        rate, lift = share_of("base_rate", base_rate), points_of("smallest_lift", smallest_lift)
        if not 0 <= (rate - lift if less else rate + lift) <= 1:
            most, side = (rate, "below") if less else (1 - rate, "above")
            rule = f"at most {percent(most)[:-1]} points {side} a base rate of {percent(rate)}"
            raise InvalidArgumentError("smallest_lift", rule, smallest_lift)
        return cls(noise=sqrt(rate * (1 - rate)), lift=lift, base_rate=rate, less=less)

    def text(self) -> str:
        """Return the assumption in words, without a full stop.

        >>> OutcomeScale.of(base_rate=0.04, smallest_lift=0.005).text()
        'a yes/no outcome, yes for 4% of units without any action, lifted by 0.5 points to 4.5%'
        """
        moved = "lowered" if self.less else "lifted"
        if self.base_rate is None or self.lift is None:
            lifted = "" if self.lift is None else f", {moved} by {number(self.lift)}"
            return f"an outcome with standard deviation {number(self.noise)}{lifted}"
        to = percent(self.base_rate + (-self.lift if self.less else self.lift))
        points = f"{number(100 * self.lift)} point{'s' * (number(100 * self.lift) != '1')}"
        return (
            f"a yes/no outcome, yes for {percent(self.base_rate)} of units without any action, "
            f"{moved} by {points} to {to}"
        )


def share_of(name: str, given: float | str) -> float:
    """Return a share above 0 and below 1, given as a number or in percent.

    >>> share_of("base_rate", "4%"), share_of("base_rate", "0.04"), share_of("base_rate", 0.04)
    (0.04, 0.04, 0.04)
    """
    text = given.strip().lower() if isinstance(given, str) else ""
    in_percent = PERCENT.fullmatch(text)
    share = plain_number(name, in_percent[1]) / 100 if in_percent else plain_number(name, given)
    if not 0 < share < 1:
        raise InvalidArgumentError(name, "above 0% and below 100%, as 4% or 0.04", given)
    return share


def points_of(name: str, given: float | str) -> float:
    """Return a difference between two shares, given as a number or in percentage points.

    >>> points_of("smallest_lift", "0.5pp"), points_of("smallest_lift", 0.005)
    (0.005, 0.005)
    """
    text = given.strip().lower() if isinstance(given, str) else ""
    if in_points := POINTS.fullmatch(text):
        return plain_number(name, in_points[1]) / 100
    if PERCENT.fullmatch(text):
        rule = "in percentage points, as 0.5pp: percent might be of the base rate"
        raise InvalidArgumentError(name, rule, given)
    return plain_number(name, given)


def plain_number(name: str, given: float | str) -> float:
    """Return a number above 0; text may have a decimal comma.

    >>> plain_number("value", "0,5"), plain_number("value", "1200")
    (0.5, 1200.0)
    """
    if isinstance(given, str):
        if THOUSANDS.fullmatch(given.strip()):
            rule = "a number without a separator of thousands, such as 1200 or 1.2"
            raise InvalidArgumentError(name, rule, repr(given))
        try:
            given = float(given.strip().replace(",", "."))
        except ValueError:
            raise InvalidArgumentError(name, "a number such as 0.5", repr(given)) from None
    return arguments.number(name, given, above=0)
