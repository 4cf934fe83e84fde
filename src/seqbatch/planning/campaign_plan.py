"""A plan in the user's terms: what each wave is worth, and what else could be done instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.chart import Chart
from seqbatch.core import arguments
from seqbatch.display import percent
from seqbatch.document import Document, Picture, Section, as_notebook, plain_text, write
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import require_target
from seqbatch.planning.campaign_plan_text import LITTLE, advice, details, draw, gain_name, page
from seqbatch.planning.campaign_terms import CampaignTerms
from seqbatch.planning.detection import (
    least_share,
    planned_lift,
    planned_power,
    units_needed,
)
from seqbatch.planning.outcome_scale import share_of
from seqbatch.planning.plan import Report, plan
from seqbatch.planning.request import Request, Sizes
from seqbatch.planning.result import PICTURES, Plan
from seqbatch.planning.trials.conditions import Purpose
from seqbatch.planning.trials.exploration_sampling import ChoiceEnsemble
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble

#: The largest number of waves in the table, unless more are requested.
FEW_WAVES = 5
#: The power of the smallest lift that is stated.
POWER = 0.8
#: The share of customers that get a random action, unless another is stated.
RANDOMISED = 0.1


@dataclass(frozen=True, kw_only=True)
class CampaignGain:
    """What is gained compared with no action for anybody.

    Parameters
    ----------
    outcome, error
        How much more of the outcome there is during the campaign if one action lifts by the stated
        lift and the others change nothing, and the standard error of the simulation.
    later
        How much more of it there is in the roll-out.
    right
        The probability that the action with the highest worth is the one chosen at the end; None
        if nothing is decided at the end.
    spent
        What the actions then cost, in the campaign and in the roll-out.
    lost
        What they cost if none of them lifts anything.
    smallest_lift
        The smallest lift that is found with 80% power; None if nothing is compared.
    power
        The probability that the stated lift is found.
    """

    outcome: float = 0.0
    error: float = 0.0
    later: float = 0.0
    right: float | None = None
    spent: float = 0.0
    lost: float = 0.0
    smallest_lift: float | None = None
    power: float | None = None


@dataclass(frozen=True, kw_only=True)
class WaveRow:
    """What a number of waves gains: the customers in each, and the gain."""

    sizes: Sizes
    gain: CampaignGain

    @property
    def waves(self) -> int:
        """The number of waves."""
        return len(self.sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class CampaignPlan:
    """A plan in the user's terms; print it or save it.

    Parameters
    ----------
    terms
        The question.
    plan
        The plan in the researcher's terms.
    rows
        The gain by number of waves.
    test, blind, perfect
        The gain of an A/B test with the same customers, of one action that all customers get
        untested, and of perfect knowledge.
    needed
        How many customers an A/B test needs to find the lift with 80% power.
    enough
        The share of customers to randomise for the same power with these waves; None if not even
        all of them are enough.
    again
        Makes the researcher's plan with all its tables, which takes longer.
    """

    terms: CampaignTerms
    plan: Plan
    rows: tuple[WaveRow, ...]
    test: CampaignGain
    blind: CampaignGain
    perfect: CampaignGain
    needed: int
    enough: float | None
    again: Callable[[], Plan] = field(repr=False)

    @property
    def row(self) -> WaveRow:
        """The row of the plan's number of waves."""
        return next(row for row in self.rows if row.waves == self.waves)

    @property
    def waves(self) -> int:
        """The number of waves."""
        return self.plan.batches

    @property
    def sizes(self) -> Sizes:
        """The number of customers in each wave."""
        return tuple(self.plan.grid.sizes)

    @property
    def gain(self) -> CampaignGain:
        """What this plan gains."""
        return self.row.gain

    @property
    def randomised(self) -> float:
        """The share of customers that get a random action in every wave."""
        return self.plan.model.conduct.randomised

    @property
    def after(self) -> int:
        """The number of customers of the roll-out."""
        return self.plan.model.conduct.after

    @property
    def choosing(self) -> bool:
        """Whether only the action that is chosen for all units at the end counts."""
        return self.plan.choosing

    @property
    def better_waves(self) -> int:
        """The fewest waves that gain as much as any, or hardly less, and no less than a test.

        With a roll-out the planner's own number may gain less than an A/B test: it is best on
        average over effects, of which the stated lift is one.
        """
        worths = {row.waves: self.worth(row.gain) for row in self.rows}
        enough = max(worths.values()) - LITTLE * self.worth(self.perfect)
        enough = max(enough, self.worth(self.test))
        if worths[self.waves] >= enough:
            return self.waves
        return min(waves for waves, worth in worths.items() if worth >= enough)

    @property
    def advice(self) -> str:
        """What to do, in one sentence."""
        return advice(self)

    @cached_property
    def details(self) -> Plan:
        """The plan in the researcher's terms, with all its tables; computed on first use."""
        return self.again()

    def worth(self, gain: CampaignGain) -> float:
        """Return a gain after costs: in money if a value is stated, otherwise of the outcome.

        If only the choice at the end counts, it is the probability of the right one.
        """
        if self.choosing:
            return gain.right or 0.0
        outcome = gain.outcome + gain.later
        money = self.terms.money(outcome)
        return outcome if money is None else money - gain.spent

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        terms = self.terms
        return {
            "customers": terms.customers,
            "actions": list(terms.actions),
            "base_rate": terms.scale.base_rate,
            "mean": terms.mean,
            "spread": terms.scale.noise,
            "smallest_lift": terms.lift,
            "value": terms.value,
            "currency": terms.currency or None,
            "costs": dict(zip(terms.actions, terms.costs, strict=True)),
            "waves": self.waves,
            "sizes": list(self.sizes),
            "randomised": self.randomised,
            "purpose": "choose" if self.choosing else "earn",
            "after": self.after,
            "plan": self._plain(self.gain),
            "ab_test": self._plain(self.test),
            "untested": self._plain(self.blind),
            "perfect": self._plain(self.perfect),
            "table": [
                {"waves": row.waves, "sizes": list(row.sizes), **self._plain(row.gain)}
                for row in self.rows
            ],
            "customers_of_ab_test_with_80_power": self.needed,
            "randomised_for_80_power": self.enough,
            "advice": self.advice,
        }

    def _plain(self, gain: CampaignGain) -> dict[str, float | None]:
        if self.choosing:
            said = asdict(gain)
            return {name: said[name] for name in ("right", "smallest_lift", "power")}
        return {
            **asdict(gain),
            "share": self.terms.share(gain.outcome),
            "money": None if self.terms.value is None else self.worth(gain),
        }

    def document(self, *, with_details: bool = False) -> Document:
        """Return the page; the researcher's page follows it if wanted."""
        drawn = Picture(self.chart, f"{gain_name(self)} by number of waves")
        pictures = [drawn] if self.terms.worthwhile else []
        return Document(
            f"Plan for {self.terms.customers:,} customers",
            Section("plan", "The plan", [*page(self), *pictures]),
            details(self.details) if with_details else (),
            data=self.as_dict(),
        )

    def chart(self) -> Chart:
        """Return the picture: the gain by number of waves."""
        return draw(self)

    def save(self, path: str | Path, *, force: bool = False, with_details: bool = False) -> Path:
        """Write the picture as .png or .svg, or the page as .html.

        Parameters
        ----------
        path
            The file.
        force
            Overwrite an existing file.
        with_details
            Whether the researcher's page follows on an .html page.
        """
        target = require_target(path, name="path", force=force, endings=PICTURES)
        if target.suffix.lower() == ".html":
            return write(self.document(with_details=with_details), target, file_format="html")
        return self.chart().save(target)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{size:,}" for size in self.sizes)
        return f"<CampaignPlan: waves of {sizes} customers>"

    def _repr_html_(self) -> str:
        return as_notebook(self.document())

    def __str__(self) -> str:
        return plain_text(page(self))


def plan_campaign(
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
    waves: int | Sequence[int] | None = None,
    randomised: float = RANDOMISED,
    power: float | str | None = None,
    missing: float = 0.0,
    delay: int = 0,
    after: int = 0,
    purpose: Purpose = "earn",
    seed: int = 0,
    progress: Report | None = None,
) -> CampaignPlan:
    """Plan a campaign in customers, percent and money.

    Parameters
    ----------
    customers
        The number of customers; each gets one action.
    actions
        The number of actions, one of which is the control; or their names, the control first. The
        default is the control and the actions that have a cost, or one action.
    base_rate
        For a yes/no outcome: the share of customers who say yes without any action, as "4%".
    smallest_lift
        The smallest lift that would matter to you: "0.5pp" with a base rate, "0.50EUR" with a mean.
    value
        With a base rate: what one yes is worth, as "12EUR"; a number alone is in the currency of
        the costs.
    costs
        What an action costs for each customer who gets it: ``{"mail": "0.08EUR"}``, or one cost
        for all actions but the control.
    mean, spread, zeros
        For an amount: its mean and standard deviation among customers who spend something, and the
        share of customers who spend nothing.
    history
        Past outcomes, from which base rate, or mean, spread and zeros are read. If it has orders
        only, state `zeros`.
    waves
        The number of waves, or their sizes; None recommends a number.
    randomised
        The share of customers in every wave that get a random action.
    power
        The probability with which the smallest lift must be found, as "80%": the randomised share
        is then the smallest one, from `randomised` up, that is enough for it.
    missing, delay
        The share of outcomes that never arrive, and by how many waves the others are late.
    after
        The number of customers who get the action that looks best after the campaign: the plan
        weighs what both gain.
    purpose
        ``"earn"``, or ``"choose"``: only the choice of one action for all units afterwards counts,
        and waves are planned for the probability that it is the right one.
    seed
        The same seed gives the same plan.
    progress
        A function that is called now and then with the share of work done.

    Examples
    --------
    >>> made = plan_campaign(
    ...     customers=50_000, actions=2, base_rate="4%", smallest_lift="0.5pp", value="12EUR",
    ...     waves=1,
    ... )
    >>> made.sizes, made.gain.outcome, made.terms.money(made.gain.outcome)
    ((50000,), 125.0, 1500.0)
    """
    terms = CampaignTerms.of(
        customers=customers, actions=actions, base_rate=base_rate, smallest_lift=smallest_lift,
        value=value, costs=costs, mean=mean, spread=spread, zeros=zeros, history=history,
    )  # fmt: skip
    sizes = None if waves is None or isinstance(waves, int) else list(waves)
    number = arguments.integer("waves", waves) if isinstance(waves, int) else None
    rate = terms.scale.base_rate
    asked: dict[str, Any] = {
        "units": terms.customers,
        "actions": len(terms.actions),
        "features": 0,
        "base_rate": rate,
        "noise": None if rate is not None else terms.scale.noise,
        "effect": terms.lift,
        "batches": number if sizes is None else len(sizes),
        "waves": sizes,
        "max_batches": None if sizes else max(FEW_WAVES, (number or 0) + 1),
        "randomised": randomised,
        "detect": None if power is None else terms.lift,
        "power": POWER if power is None else share_of("power", power),
        "missing": missing,
        "delay": delay,
        "after": after,
        "purpose": purpose,
        "seed": seed,
    }
    made = _campaign_plan(asked, terms, progress)
    free = after and waves is None
    if free and (better := made.better_waves) != made.waves:
        made = _campaign_plan({**asked, "batches": better}, terms, progress)
    return made


def _campaign_plan(
    asked: Mapping[str, Any], terms: CampaignTerms, progress: Report | None
) -> CampaignPlan:
    """Return the plan that is asked of the planner."""
    made, after = _planned(asked, terms, progress), asked["after"]
    return CampaignPlan(
        terms=terms,
        plan=made,
        rows=tuple(
            WaveRow(sizes=row.sizes, gain=_gain(made, terms, row.sizes)) for row in made.rows
        ),
        test=_gain(made, terms, (terms.customers,)),
        blind=_untested(terms, after),
        perfect=_perfect(terms, after),
        needed=units_needed(made.model, made.policy, lift=terms.lift, power=POWER),
        enough=least_share(made.model, made.grid.sizes, made.policy, lift=terms.lift, power=POWER),
        again=lambda: plan(**asked),
    )


def _planned(asked: Mapping[str, Any], terms: CampaignTerms, progress: Report | None) -> Plan:
    """Make the plan; refuse a power that these customers cannot reach."""
    try:
        return plan(**asked, compare=False, progress=progress)
    except InvalidArgumentError as error:
        if error.name != "detect":
            raise
    one = plan(**{**asked, "detect": None, "batches": 1, "max_batches": 1}, compare=False)
    reached = planned_power(one.model, (terms.customers,), one.policy, lift=terms.lift)
    needed = units_needed(one.model, one.policy, lift=terms.lift, power=asked["power"])
    raise InvalidArgumentError(
        "power",
        f"at most {reached:.0%}, with which an A/B test of all {terms.customers:,} customers "
        f"finds a lift of {terms.lift_text(terms.lift)}",
        percent(asked["power"]),
        f"Plan for about {needed:,} customers, or for a larger smallest_lift.",
    )


def _gain(made: Plan, terms: CampaignTerms, sizes: Sizes) -> CampaignGain:
    """Return what waves of these sizes gain, in the planner's trials with the stated lift."""
    found = CampaignGain(
        smallest_lift=planned_lift(made.model, sizes, made.policy, power=POWER),
        power=planned_power(made.model, sizes, made.policy, lift=terms.lift),
    )
    ends = [(_ended(made.request, terms, means, sizes), max(means), chance)
            for means, chance in terms.worlds()]  # fmt: skip
    at_end = [chance * end.right for end, _, chance in ends if end.right is not None]
    found = replace(found, right=sum(at_end) if at_end else None)
    if made.choosing:
        return found
    people, after, value = terms.customers, made.model.conduct.after, terms.value or 0.0
    outcome = terms.lift * sum(chance * end.best for end, _, chance in ends)
    later = terms.lift * after * sum(at_end)
    net = sum(chance * (most * (people + after) - end.lost) for end, most, chance in ends)
    nothing = tuple(-price for price in terms.prices)
    wasted = _ended(made.request, terms, nothing, sizes).lost if any(terms.prices) else 0.0
    return replace(
        found,
        outcome=outcome,
        error=math.hypot(*(chance * end.error for end, _, chance in ends)),
        later=later,
        spent=value * (outcome + later - net) if any(terms.costs) else 0.0,
        lost=value * wasted,
    )


@dataclass(frozen=True)
class _Ended:
    """How the trials of one world end.

    Parameters
    ----------
    lost, error
        The regret in all, and its standard error.
    best
        The customers of the campaign who get the best action.
    right
        The probability that the choice at the end is the best action; None if there is none.
    """

    lost: float
    error: float
    best: float
    right: float | None


def _ended(request: Request, terms: CampaignTerms, means: Sequence[float], sizes: Sizes) -> _Ended:
    """Simulate waves with these means.

    The trials are those on which grids are judged, with the estimates of the stated lift.
    """
    trials = request.judging
    centred = np.array(means) - np.mean(means)
    theta = np.broadcast_to(centred, (trials.trials, len(centred)))
    noise = np.full(trials.trials, terms.scale.noise)
    if isinstance(trials, ChoiceEnsemble):
        chosen = replace(trials, theta=theta, noise=noise, gain=None, weight=1.0, strata=(0,))
        rates = chosen.rates(sizes)
    else:
        assert isinstance(trials, BlockEnsemble)
        penalty = (terms.scale.noise / request.model.spread(terms.lift)) ** 2
        fixed = replace(
            trials, theta=theta[..., None].copy(), noise=noise, gain=None, weight=1.0, scale=1.0,
            strata=(0,), penalty=penalty,
        )  # fmt: skip
        rates = fixed.rates(sizes)
    totals = rates.totals(sizes)
    lost, error = totals.mean()
    right = float(rates.weight @ rates.best[:, -1] / rates.weight.sum()) if rates.after else None
    return _Ended(lost, error, totals.best_units() - rates.after * (right or 0.0), right)


def _untested(terms: CampaignTerms, after: int) -> CampaignGain:
    """Return the gain of one action for all customers, chosen without a test."""
    others = len(terms.actions) - 1
    spent = (terms.customers + after) * sum(terms.costs) / others
    return CampaignGain(
        outcome=terms.customers * terms.lift / others,
        later=after * terms.lift / others,
        right=1 / others,
        spent=spent,
        lost=spent,
    )


def _perfect(terms: CampaignTerms, after: int) -> CampaignGain:
    """Return the gain if the action that lifts were known from the start."""
    paying = [terms.costs[place] for place in terms.worthwhile]
    if not paying:
        return CampaignGain()
    return CampaignGain(
        outcome=terms.customers * terms.lift,
        later=after * terms.lift,
        right=1.0,
        spent=(terms.customers + after) * sum(paying) / len(paying),
    )
