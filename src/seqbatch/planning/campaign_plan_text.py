"""A plan in the user's terms, as a page: sentences, tables, a chart and one piece of advice."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from seqbatch.chart import Axis, BarMark, Chart, LineMark, Panel, PanelMark, TextMark
from seqbatch.display import counted, enumerated, number, percent_cut, sentence
from seqbatch.document import Heading, Part, Section, Table
from seqbatch.pictures import COLOURS, GREY
from seqbatch.planning.campaign_terms import in_money

if TYPE_CHECKING:
    from seqbatch.planning.campaign_plan import CampaignGain, CampaignPlan
    from seqbatch.planning.result import Plan

#: A further wave that adds less than this share of what perfect knowledge gains is not worth it.
LITTLE = 0.02
#: A lift that is found with at least this power counts as found.
ENOUGH = 0.8

# ----------------------------------------------------------------------
# The page.


def page(plan: "CampaignPlan") -> list[Part]:
    """Return the page, from the decision to the advice."""
    if not plan.terms.worthwhile:
        return [Heading("Do not send at this cost."), _too_expensive(plan)]
    return [
        Heading(_heading(plan)),
        f"Advice: {advice(plan)}",
        _how(plan),
        _finds(plan),
        *(
            [_chooses(plan)]
            if plan.choosing
            else [_gains(plan), *_rolled_out(plan), _nothing(plan)]
        ),
        alternatives(plan),
        waves_table(plan),
    ]


def details(made: "Plan") -> list[Section]:
    """Return the researcher's page as sections."""
    document = made.document()
    return [Section("details", "Details for statisticians", document.first.parts)]


def _heading(plan: "CampaignPlan") -> str:
    sizes = [f"{size:,}" for size in plan.sizes]
    if len(sizes) == 1:
        return f"Assign all {sizes[0]} customers in one wave, each action to equally many."
    return f"Assign {enumerated(sizes)} customers in {counted(plan.waves, 'wave')}."


def _how(plan: "CampaignPlan") -> str:
    share = percent_cut(plan.randomised)
    if plan.waves == 1 or plan.randomised == 1:
        return "Every customer gets a random action."
    first = 1 + plan.plan.model.conduct.delay
    opening = "the first wave" if first == 1 else f"the first {first} waves"
    later = f"; {share} still get a random one" if plan.randomised else ""
    best = (
        "mostly one that may still be the best"
        if plan.choosing
        else "the one that looks best by then"
    )
    return f"In {opening} every customer gets a random action, later {best}{later}."


def _finds(plan: "CampaignPlan") -> str:
    gain = plan.gain
    assert gain.power is not None
    assert gain.smallest_lift is not None
    return (
        f"Finds a lift of {plan.terms.text()} with {_chance(gain.power)} power (the chance that it "
        "is shown); the smallest lift found with 80% power is "
        f"{plan.terms.lift_text(gain.smallest_lift)}."
    )


def _if(plan: "CampaignPlan") -> str:
    terms = plan.terms
    dear = [terms.actions[place] for place in terms.unprofitable]
    which = f"an action other than {enumerated(dear)}" if dear else "one action"
    return f"If {which} lifts by {terms.lift_text(terms.lift)} and the others change nothing, "


def _chooses(plan: "CampaignPlan") -> str:
    text = f"{_if(plan)}it is chosen at the end with a probability of {_right(plan.gain)}"
    if plan.waves == 1:
        return f"{text}."
    return f"{text}; after an A/B test with as many customers, {_right(plan.test)}."


def _right(gain: "CampaignGain") -> str:
    if gain.right is None:
        return ""
    return "100%" if gain.right == 1 else _chance(gain.right)


def _rolled_out(plan: "CampaignPlan") -> list[str]:
    if not plan.after:
        return []
    return [
        f"The roll-out gives {plan.after:,} customers the action that looks best at the end, which "
        f"is the right one with a probability of {_right(plan.gain)} (after an A/B test, "
        f"{_right(plan.test)}). These figures are for waves that get what looks best; the campaign "
        "also weighs what a wave teaches."
    ]


def _gains(plan: "CampaignPlan") -> str:
    terms, gain = plan.terms, plan.gain
    text = f"{_if(plan)}you gain {_outcome(plan, gain)} during the campaign"
    if plan.after:
        later = _count(gain.later) if terms.yes_no else _money(plan, gain.later)
        text += f" and {later} in the roll-out"
    if terms.yes_no and terms.value is not None:
        text += f", worth about {_worth(plan, gain)}{_after_costs(plan)}"
    elif any(terms.costs):
        text += f", about {_worth(plan, gain)}{_after_costs(plan)}"
    more = plan.worth(gain) - plan.worth(plan.test)
    ideal = plan.worth(plan.perfect)
    text += f". That is {plan.worth(gain) / ideal:.0%} of what perfect knowledge would gain"
    if plan.waves > 1:
        side = "more" if more >= 0 else "less"
        text += (
            f", and about {_more(plan, abs(more))} {side} than an A/B test with as many customers"
        )
    return f"{text}."


def _after_costs(plan: "CampaignPlan") -> str:
    return " after costs" if any(plan.terms.costs) else ""


def _nothing(plan: "CampaignPlan") -> str:
    if not any(plan.terms.costs):
        return "If nothing lifts, you lose nothing."
    lost = _money(plan, plan.gain.lost)
    other = _money(plan, plan.test.lost)
    compared = "" if plan.waves == 1 else f" (in an A/B test, {other})"
    when = "in the campaign and the roll-out" if plan.after else "until that shows"
    return f"If nothing lifts, you lose what sending costs {when}: {lost}{compared}."


def _outcome(plan: "CampaignPlan", gain: "CampaignGain") -> str:
    """Return the gain before costs: in conversions or in money, and in percent."""
    terms = plan.terms
    more = f"{_count(gain.outcome)} conversions" if terms.yes_no else _money(plan, gain.outcome)
    return f"{more} (+{100 * terms.share(gain.outcome):.2g}%)"


def _worth(plan: "CampaignPlan", gain: "CampaignGain") -> str:
    return _amount(plan, plan.worth(gain))


def _amount(plan: "CampaignPlan", worth: float) -> str:
    if plan.terms.value is None:
        return f"{_count(worth)} conversions"
    return _money(plan, worth)


def _more(plan: "CampaignPlan", more: float) -> str:
    """Return a difference with two digits: it is less certain than its parts."""
    return _amount(plan, float(f"{more:.2g}"))


def _money(plan: "CampaignPlan", amount: float) -> str:
    return in_money(amount, plan.terms.currency)


def _count(outcome: float) -> str:
    """Return a number of conversions.

    >>> _count(1_234.5), _count(83.3), _count(4.26)
    ('1,234', '83', '4.3')
    """
    return f"{outcome:,.0f}" if abs(outcome) >= 10 else number(outcome, 2)


def _figure(plan: "CampaignPlan", worth: float) -> str:
    """Return a worth without its unit."""
    if plan.choosing:
        return _chance(worth)
    if plan.terms.value is None:
        return _count(worth)
    return in_money(worth, "") if worth else "0"


def _unit(plan: "CampaignPlan") -> str:
    if plan.choosing:
        return "right choice"
    if plan.terms.value is None:
        return "conversions"
    return f"{plan.terms.currency or 'amount'}{_after_costs(plan)}"


def _chance(power: float) -> str:
    """Return a power without false precision.

    >>> _chance(0.834), _chance(0.004), _chance(0.9987)
    ('83%', 'less than 1%', 'more than 99%')
    """
    if power < 0.01:
        return "less than 1%"
    return "more than 99%" if power > 0.99 else f"{power:.0%}"


def gain_name(plan: "CampaignPlan") -> str:
    """Return what the table and the chart show."""
    if plan.choosing:
        return "The probability of the right choice"
    roll_out = " and the roll-out" if plan.after else ""
    return f"The gain during the campaign{roll_out}"


# ----------------------------------------------------------------------
# The tables.


def alternatives(plan: "CampaignPlan") -> Table:
    """Return this plan next to an A/B test, one untested action for all, and perfect knowledge."""
    terms, lift = plan.terms, plan.terms.lift_text(plan.terms.lift)
    kinds = {
        "this plan": plan.gain,
        "A/B test": plan.test,
        "one action for all": plan.blind,
        "perfect knowledge": plan.perfect,
    }
    columns: dict[str, Callable[[CampaignGain], str]] = {}
    if terms.yes_no and not plan.choosing:
        columns["conversions"] = lambda gain: f"+{_count(gain.outcome)}"
    if not plan.choosing:
        columns["percent"] = lambda gain: f"+{100 * terms.share(gain.outcome):.2g}%"
    if plan.after:
        columns["in the roll-out"] = lambda gain: f"+{_count(gain.later)}"
    if terms.value is not None and not plan.choosing:
        columns[_unit(plan)] = lambda gain: _figure(plan, plan.worth(gain))
    if any(terms.costs) and not plan.choosing:
        columns["if nothing lifts"] = lambda gain: _figure(plan, -gain.lost)
    if plan.after or plan.choosing:
        columns["right choice"] = _right
    columns["finds the lift"] = lambda gain: "" if gain.power is None else _chance(gain.power)
    rows = [(name, *(told(gain) for told in columns.values())) for name, gain in kinds.items()]
    title = f"{gain_name(plan)}, if one action lifts by {lift}"
    return Table(title, ("you run", *columns), rows, words=("you run",))


def waves_table(plan: "CampaignPlan") -> Table:
    """Return what each further wave is worth."""
    rows, before = [], None
    for row in plan.rows:
        worth = plan.worth(row.gain)
        assert row.gain.smallest_lift is not None
        rows.append(
            (
                f"{row.waves} *" if row.waves == plan.waves else str(row.waves),
                ", ".join(f"{size:,}" for size in row.sizes),
                _figure(plan, worth),
                "" if before is None else _signed(plan, worth - before),
                plan.terms.lift_text(row.gain.smallest_lift),
            )
        )
        before = worth
    columns = ("waves", "customers in each", _unit(plan), "added", "smallest lift found")
    title = "What each further wave adds (* this plan; 1 wave is an A/B test)"
    return Table(title, columns, rows, words=("customers in each",))


def _signed(plan: "CampaignPlan", more: float) -> str:
    if plan.choosing:
        return f"{100 * more:+.2g} points"
    return f"{'+' * (more > 0)}{_figure(plan, float(f'{more:.2g}'))}"


# ----------------------------------------------------------------------
# The advice.


def advice(plan: "CampaignPlan") -> str:
    """Return what to do, in one sentence."""
    if not plan.terms.worthwhile:
        return _too_expensive(plan)
    if not plan.terms.unprofitable:
        return _waves_advice(plan)
    told = [
        f"{plan.terms.actions[place]} pays only from a lift of "
        f"{plan.terms.lift_text(plan.terms.prices[place])}"
        for place in plan.terms.unprofitable
    ]
    rest = _waves_advice(plan)
    it = "it" if len(told) == 1 else "them"
    return (
        f"{sentence(enumerated(told))[:-1]}: leave {it} out or make {it} cheaper, and "
        f"{rest[:1].lower()}{rest[1:]}"
    )


def _waves_advice(plan: "CampaignPlan") -> str:
    """Return which waves to run, and what they cannot prove."""
    if plan.choosing:
        return _choice_advice(plan)
    lift = plan.terms.lift_text(plan.terms.lift)
    power = plan.gain.power or 0.0
    if plan.after and plan.better_waves == 1:
        return (
            "Run an A/B test in one wave: what it teaches for the roll-out is worth more than what "
            f"more waves would earn if the lift is {lift}."
        )
    if not _clear_gain(plan):
        return (
            "Run an A/B test in one wave: with so few customers, more waves would gain hardly "
            f"anything if the lift is {lift}."
        )
    if plan.waves == 1:
        return _one_wave(plan, lift)
    best = max(plan.rows, key=lambda row: plan.worth(row.gain))
    better = plan.worth(best.gain) - plan.worth(plan.gain)
    if plan.after and better > LITTLE * plan.worth(plan.perfect):
        return (
            f"Consider {counted(best.waves, 'wave')}, which gain about {_more(plan, better)} more "
            "than these in the campaign and the roll-out."
        )
    if power >= ENOUGH:
        return (
            f"Run these waves: they find a lift of {lift} with {_chance(power)} power and gain "
            f"{_than_test(plan)}."
        )
    earn = f"Run these waves to earn ({_than_test(plan)}), not to prove a lift of {lift}"
    if plan.enough is not None:
        return (
            f"{earn}: to find it with 80% power, let {plan.enough:.0%} of each wave get a random "
            "action."
        )
    return f"{earn}: that takes {_proof(plan)}, more than you have."


def _choice_advice(plan: "CampaignPlan") -> str:
    """Return which waves to run if only the choice at the end counts."""
    own, best = _right(plan.gain), max(plan.rows, key=lambda row: plan.worth(row.gain))
    if not _clear_gain(plan):
        return f"Run an A/B test in one wave: more waves hardly choose better than its {own}."
    if plan.waves == 1:
        return (
            f"Consider {counted(best.waves, 'wave')}, which choose right with a probability of "
            f"{_right(best.gain)} instead of {own}."
        )
    return (
        f"Run these waves: they choose the right action with a probability of {own}, an A/B test "
        f"with {_right(plan.test)}."
    )


def _one_wave(plan: "CampaignPlan", lift: str) -> str:
    further = plan.rows[1] if len(plan.rows) > 1 else None
    needed = f"to prove a lift of {lift} takes {_proof(plan)}"
    if further is None:
        return sentence(needed)
    more = plan.worth(further.gain) - plan.worth(plan.gain)
    return f"Consider a second wave, which gains about {_more(plan, more)} more: {needed}."


def _clear_gain(plan: "CampaignPlan") -> bool:
    """Return whether some number of waves gains clearly more than an A/B test."""
    ideal = plan.worth(plan.perfect)
    best = max(plan.worth(row.gain) for row in plan.rows)
    return best - plan.worth(plan.test) > LITTLE * ideal


def _than_test(plan: "CampaignPlan") -> str:
    more = plan.worth(plan.gain) - plan.worth(plan.test)
    side = "more" if more >= 0 else "less"
    return f"about {_more(plan, abs(more))} {side} than an A/B test"


def _too_expensive(plan: "CampaignPlan") -> str:
    terms = plan.terms
    cost = min(terms.costs[1:])
    worth = _money(plan, terms.value * terms.lift) if terms.value else ""
    return (
        f"A lift of {terms.lift_text(terms.lift)} is worth {worth} for "
        f"each customer, and sending costs {_money(plan, cost)}; it pays from a lift of "
        f"{terms.lift_text(min(terms.prices[1:]))}."
    )


def _proof(plan: "CampaignPlan") -> str:
    """Return what would find the lift with 80% power."""
    customers = f"{float(f'{plan.needed:.2g}'):,.0f}"
    return f"an A/B test with about {customers} customers"


# ----------------------------------------------------------------------
# The chart: the gain by number of waves.


WIDTH, HEIGHT = 360.0, 220.0


def draw(plan: "CampaignPlan") -> Chart:
    """Draw the gain of each number of waves, with perfect knowledge as a line above them."""
    gains = [plan.worth(row.gain) for row in plan.rows]
    ideal = plan.worth(plan.perfect)
    x = Axis.categories([str(row.waves) for row in plan.rows], title="number of waves")
    y = Axis.numbers([*gains, 1.08 * ideal], title=_unit(plan), zero=True, padding=0.02)
    marks: list[PanelMark] = []
    for place, (row, gain) in enumerate(zip(plan.rows, gains, strict=True)):
        chosen = row.waves == plan.waves
        colour = COLOURS[0] if chosen else "#9DC3DE"
        marks.append(BarMark(x=(place + 0.2, place + 0.8), y=(0.0, gain), colour=colour))
        text = _figure(plan, gain)
        marks.append(
            TextMark(x=place + 0.5, y=max(gain, 0.0), dy=-6, text=text, anchor="middle", halo=True)
        )
    if ideal > 0:
        ends = [(x.low, ideal), (x.high, ideal)]
        marks.append(LineMark(points=ends, colour=GREY, width=1, dash="6 4"))
        text = f"perfect knowledge {_figure(plan, ideal)}"
        marks.append(TextMark(x=x.low, y=ideal, dx=4, dy=-5, text=text, colour="#555555"))
    title = gain_name(plan).removeprefix("The ").capitalize()
    lift = plan.terms.lift_text(plan.terms.lift)
    subtitle = [f"if one action lifts by {lift}", "strong colour: this plan; 1 wave: an A/B test"]
    panel = Panel(x=x, y=y, marks=marks, width=WIDTH, height=HEIGHT, title=title, subtitle=subtitle)
    return Chart(rows=[[panel]])
