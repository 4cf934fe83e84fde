"""A campaign in the user's terms: customers, percent and money, and what they mean for a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.display import number, percent
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.outcome_scale import OutcomeScale, plain_number, share_of

# ----------------------------------------------------------------------
# Money: an amount with its currency.


#: An amount with its currency before or after it.
MONEY = re.compile(r"(?P<before>[^\d\s.,+-]*)\s*(?P<amount>[+-]?[\d.,]+)\s*(?P<after>[^\d\s.,]*)")
SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP"}
#: The name of the control if actions have no names.
CONTROL = "none"


def money_of(name: str, given: float | str, *, zero: bool = False) -> tuple[float, str]:
    """Return an amount and its currency; "" if none is stated.

    >>> money_of("value", "12EUR"), money_of("value", "€12.50"), money_of("value", "0,08 EUR")
    ((12.0, 'EUR'), (12.5, 'EUR'), (0.08, 'EUR'))
    """
    if not isinstance(given, str):
        return arguments.number(name, given, **({"at_least": 0} if zero else {"above": 0})), ""
    found = MONEY.fullmatch(given.strip())
    if found is None or (found["before"] and found["after"]):
        rule = "an amount with its currency, such as 12EUR"
        raise InvalidArgumentError(name, rule, repr(given))
    unit = found["before"] or found["after"]
    if zero and not found["amount"].strip("0.,"):
        return 0.0, SYMBOLS.get(unit, unit)
    return plain_number(name, found["amount"]), SYMBOLS.get(unit, unit)


def in_money(amount: float, currency: str) -> str:
    """Return money as people write it, with about three digits.

    >>> in_money(1_995.7, "EUR"), in_money(0.0812, "EUR"), in_money(-31.4, "EUR")
    ('2,000 EUR', '0.08 EUR', '-31 EUR')
    """
    rounded = float(f"{amount:.3g}")
    if abs(amount) < 10:
        text = f"{amount:,.2f}" if abs(amount) >= 0.01 else f"{rounded:g}"
    else:
        text = f"{rounded:,.0f}"
    return f"{text} {currency}".strip()


# ----------------------------------------------------------------------
# The question.


@dataclass(frozen=True, kw_only=True)
class CampaignTerms:
    """What is known before a campaign: the question of a plan.

    Parameters
    ----------
    customers
        The number of customers; each gets one action.
    actions
        The names of the actions, the control first.
    scale
        How much outcomes vary, and the smallest lift that matters.
    mean
        The mean outcome of a customer without any action.
    value
        The worth of one unit of the outcome, in the currency; None if not stated.
    currency
        The currency of value and costs; "" if none is stated.
    costs
        The cost of giving each action to one customer.
    """

    customers: int
    actions: tuple[str, ...]
    scale: OutcomeScale
    mean: float
    value: float | None
    currency: str
    costs: tuple[float, ...]

    @classmethod
    def of(
        cls,
        *,
        customers: int,
        actions: int | Sequence[str] | None = None,
        base_rate: float | str | None = None,
        smallest_lift: float | str | None = None,
        value: float | str | None = None,
        costs: Mapping[str, float | str] | float | str | None = None,
        mean: float | str | None = None,
        spread: float | str | None = None,
        zeros: float | str | None = None,
        history: ArrayLike | None = None,
    ) -> CampaignTerms:
        """Check what you know; see :func:`seqbatch.planning.plan_campaign`.

        Examples
        --------
        >>> terms = CampaignTerms.of(
        ...     customers=50_000, actions=3, base_rate="4%", smallest_lift="0.5pp", value="12 EUR",
        ...     costs={"mail": 0.01},
        ... )
        >>> terms.actions, terms.costs, terms.currency, terms.money(100)
        (('none', 'mail', 'action 2'), (0.0, 0.01, 0.0), 'EUR', 1200.0)
        """
        people = arguments.integer("customers", customers)
        amounts = {"mean": mean, "spread": spread, "zeros": zeros}
        if history is not None:
            base_rate, amounts = _read(history, base_rate, amounts)
        if base_rate is not None:
            _require_without(amounts, "base_rate", base_rate)
            scale = OutcomeScale.of(base_rate=base_rate, smallest_lift=smallest_lift)
            average, currency = scale.base_rate or 0.0, ""
        else:
            scale, average, currency = _of_amounts(smallest_lift, value, **amounts)
        worth = None if scale.base_rate is not None else 1.0
        if value is not None:
            worth, currency = money_of("value", value)
        names, prices, unit = _priced(actions, costs, currency)
        if any(prices) and worth is None:
            raise InvalidArgumentError(
                "value", "given with a cost: what one yes is worth, such as 12EUR", "none",
                "Or leave the cost out: it is then not weighed against the gain.",
            )  # fmt: skip
        return cls(
            customers=people, actions=names, scale=scale, mean=average, value=worth,
            currency=currency or unit, costs=prices,
        )  # fmt: skip

    @property
    def lift(self) -> float:
        """The smallest lift that matters, in units of the outcome."""
        assert self.scale.lift is not None
        return self.scale.lift

    @property
    def yes_no(self) -> bool:
        """Whether the outcome is yes or no, not an amount."""
        return self.scale.base_rate is not None

    @property
    def prices(self) -> tuple[float, ...]:
        """The costs of the actions in units of the outcome."""
        return tuple(cost / self.value if self.value else 0.0 for cost in self.costs)

    @property
    def worthwhile(self) -> tuple[int, ...]:
        """The places of the actions for which the lift is worth more than their cost."""
        return tuple(
            place for place, price in enumerate(self.prices) if place and price < self.lift
        )

    @property
    def unprofitable(self) -> tuple[int, ...]:
        """The places of the actions that cost more than the lift is worth."""
        return tuple(
            place for place, price in enumerate(self.prices) if place and price >= self.lift
        )

    def worlds(self) -> Iterator[tuple[tuple[float, ...], float]]:
        """Return worlds in which one worthwhile action lifts and all others change nothing.

        Each is the mean gain of every action over the control, after costs and in units of the
        outcome, with its probability. Actions of the same cost are equal: one of them stands for
        all.
        """
        paying = [self.prices[place] for place in self.worthwhile]
        for price in dict.fromkeys(paying):
            place = next(one for one in self.worthwhile if self.prices[one] == price)
            means = [-each for each in self.prices]
            means[place] += self.lift
            yield tuple(means), paying.count(price) / len(paying)

    def money(self, outcome: float) -> float | None:
        """Return what this much of the outcome is worth."""
        return None if self.value is None else self.value * outcome

    def share(self, outcome: float) -> float:
        """Return this much of the outcome as a share of what comes without any action."""
        return outcome / (self.customers * self.mean)

    def lift_text(self, lift: float) -> str:
        """Return a lift in percentage points or in money."""
        if not self.yes_no:
            return in_money(lift, self.currency)
        points = number(100 * lift, 2 if lift < 0.1 else 3)
        return f"{points} point{'s' * (points != '1')}"

    def text(self) -> str:
        """Return the lift and what it would change, as in "0.5 points (4% to 4.5%)"."""
        if not self.yes_no:
            to = in_money(self.mean + self.lift, self.currency)
            before = in_money(self.mean, self.currency)
        else:
            before, to = percent(self.mean), percent(self.mean + self.lift)
        return f"{self.lift_text(self.lift)} ({before} to {to})"


def _require_without(amounts: Mapping[str, object], name: str, given: object) -> None:
    for other, stated in amounts.items():
        if stated is not None:
            advice = (
                f"{name} = {given} is for a yes/no outcome; mean, spread and zeros are for an "
                "amount."
            )
            raise InvalidArgumentError(other, f"left out with {name}", stated, advice)


def _of_amounts(
    smallest_lift: float | str | None,
    value: float | str | None,
    *,
    mean: float | str | None,
    spread: float | str | None,
    zeros: float | str | None,
) -> tuple[OutcomeScale, float, str]:
    """Return the scale of an amount, its mean over all customers, and its currency."""
    if mean is None or spread is None:
        missing = "mean" if mean is None else "spread"
        raise InvalidArgumentError(
            "base_rate" if mean is None and spread is None else missing,
            "given",
            "none",
            "For a yes/no outcome, say how often it is yes without any action, as 4%. "
            "For an amount, state its mean and spread (standard deviation), with the share of "
            "zeros if many customers spend nothing, or read them from past orders (history).",
        )
    if smallest_lift is None:
        rule = "given: the smallest lift of the mean that would matter to you, as 0.50EUR"
        raise InvalidArgumentError("smallest_lift", rule, "none")
    if value is not None:
        raise InvalidArgumentError("value", "left out for an amount, which is money already", value)
    lift, currency = money_of("smallest_lift", smallest_lift)
    average, unit = money_of("mean", mean)
    deviation, other = money_of("spread", spread)
    known = {one for one in (currency, unit, other) if one}
    if len(known) > 1:
        rule = "in one currency, like mean and spread"
        raise InvalidArgumentError("smallest_lift", rule, ", ".join(sorted(known)))
    some = 1.0 if zeros is None else 1 - share_of("zeros", zeros)
    scale = OutcomeScale.of(noise=_noise(average, deviation, some), smallest_lift=lift)
    return scale, some * average, next(iter(known), "")


def _noise(mean: float, spread: float, some: float) -> float:
    """Return the standard deviation over all customers from those who spend something."""
    return sqrt(some * (spread**2 + mean**2) - (some * mean) ** 2)


def scale_of_amounts(
    *,
    smallest_lift: float | str | None,
    mean: float | str | None,
    spread: float | str,
    zeros: float | str | None,
    less: bool = False,
) -> OutcomeScale:
    """Return the scale of an amount or a count from what is known about it.

    Parameters
    ----------
    smallest_lift
        The smallest lift of the mean that would matter to you; None if not stated.
    mean, spread
        Mean and standard deviation of the customers who spend something; the mean is needed with
        `zeros`.
    zeros
        The share of customers who spend nothing; None if mean and spread are those of all.
    less
        Whether less is better.

    Examples
    --------
    >>> scale_of_amounts(smallest_lift="0.40 EUR", mean="50", spread="35", zeros="90%").lift
    0.4
    """
    if zeros is not None and mean is None:
        rule = "given with zeros: the mean of those who spend something"
        raise InvalidArgumentError("mean", rule, "none")
    lift = None if smallest_lift is None else money_of("smallest_lift", smallest_lift)[0]
    some = 1.0 if zeros is None else 1 - share_of("zeros", zeros)
    average = 0.0 if mean is None else money_of("mean", mean)[0]
    noise = _noise(average, money_of("spread", spread)[0], some)
    return OutcomeScale.of(noise=noise, smallest_lift=lift, less=less)


def _read(
    history: ArrayLike, base_rate: float | str | None, amounts: dict[str, float | str | None]
) -> tuple[float | str | None, dict[str, float | str | None]]:
    """Return the base rate, or mean, spread and share of zeros, of past outcomes."""
    values = np.asarray(history, dtype=np.float64).ravel()
    stated = {"base_rate": base_rate, "mean": amounts["mean"], "spread": amounts["spread"]}
    for name, given in stated.items():
        if given is not None:
            raise InvalidArgumentError(name, "left out with history, which gives it", given)
    if len(values) < 2 or not np.isfinite(values).all() or values.sum() < 0:
        rule = "at least two past outcomes, none of them missing and their sum not below 0"
        raise InvalidArgumentError("history", rule, f"{len(values)} outcomes")
    # A customer who returned more than was bought is below 0.
    some = values[values != 0]
    if set(np.unique(values)) == {0.0, 1.0}:
        return float(values.mean()), amounts
    if len(some) < 2 or len(np.unique(some)) < 2:
        rule = "outcomes that differ, or zeros and ones"
        raise InvalidArgumentError("history", rule, f"{len(values)} outcomes of {values.max():g}")
    zeros = amounts["zeros"]
    if len(some) == len(values):
        if zeros is None:
            raise InvalidArgumentError(
                "zeros", "given, such as 96%: the share of customers who spend nothing", "none",
                "The history has orders only: it has no row for a customer who ordered nothing.",
            )  # fmt: skip
    elif zeros is not None:
        rule = "left out: the history has zeros, so it tells their share"
        raise InvalidArgumentError("zeros", rule, zeros)
    else:
        zeros = 1 - len(some) / len(values)
    read: dict[str, float | str | None] = {
        "mean": float(some.mean()),
        "spread": float(some.std(ddof=1)),
        "zeros": zeros,
    }
    return None, read


def _priced(
    actions: int | Sequence[str] | None,
    costs: Mapping[str, float | str] | float | str | None,
    currency: str,
) -> tuple[tuple[str, ...], tuple[float, ...], str]:
    """Return the names of the actions, their costs, and the costs' currency."""
    stated = costs if isinstance(costs, Mapping) else {}
    names = _named(actions, [name for name in stated if name])
    if costs is not None and not isinstance(costs, Mapping):
        stated = dict.fromkeys(names[1:], costs)
    prices, found = dict.fromkeys(names, 0.0), currency
    for name, given in stated.items():
        if name not in names[1:]:
            rule = f"for an action other than the control: {', '.join(names[1:])}"
            raise InvalidArgumentError("cost", rule, f"{name}={given}")
        prices[name], unit = money_of("cost", given, zero=True)
        if unit and found and unit != found:
            raise InvalidArgumentError("cost", f"in {found}, like the value", f"{name}={given}")
        found = found or unit
    return names, tuple(prices.values()), found


def costs_of(texts: Sequence[str]) -> dict[str, str] | str | None:
    """Return costs given as ACTION=NUMBER, or one number for every action but the control.

    >>> costs_of(["mail=0.08", "call=4.50EUR"]), costs_of(["0.08"]), costs_of([])
    ({'mail': '0.08', 'call': '4.50EUR'}, '0.08', None)
    """
    named = {name.strip(): cost for name, _, cost in (text.rpartition("=") for text in texts)}
    if "" in named:
        if len(texts) > 1:
            rule = "one number for all actions, or ACTION=NUMBER for each, such as mail=0.08"
            raise InvalidArgumentError("cost", rule, ", ".join(texts))
        return named[""]
    return dict(named) or None


def _named(actions: int | Sequence[str] | None, costly: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the actions; those with a cost are known by name even if counted."""
    if actions is None:
        actions = max(1 + len(costly), 2)
    if isinstance(actions, int):
        count = arguments.integer("actions", actions, at_least=2)
        if len(costly) > count - 1:
            rule = f"for at most {count - 1} of {count} actions: one is the control"
            raise InvalidArgumentError("cost", rule, ", ".join(costly))
        more = range(len(costly) + 1, count)
        return (CONTROL, *costly, *(f"action {place}" for place in more))
    names = tuple(name.strip() for name in actions)
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        rule = "a number from 2 up, or different names with the control first: none,mail,call"
        raise InvalidArgumentError("actions", rule, ", ".join(names))
    return names
