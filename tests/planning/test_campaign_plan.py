"""Plans in the user's terms: what is typed, and that the page's numbers follow from the plan's."""

import math
from functools import cache, partial

import numpy as np
import pytest

from seqbatch.planning import CampaignPlan, CampaignTerms, plan_campaign
from seqbatch.planning.campaign_terms import in_money, money_of
from seqbatch.planning.detection import planned_lift
from tests.refusals import refused

#: What is claimed holds with few trials.
pytestmark = pytest.mark.usefixtures("few_trials")

BASE = {"customers": 50_000, "actions": 3, "base_rate": "4%", "smallest_lift": "0.5pp"}

AMOUNT = {"base_rate": None, "mean": 80, "spread": 60}


@cache
def made(**more) -> CampaignPlan:
    return plan_campaign(**{**BASE, "waves": 2, **more})


@pytest.mark.parametrize(
    ("given", "money"),
    [
        ("12EUR", (12.0, "EUR")), ("12 EUR", (12.0, "EUR")), ("€12.50", (12.5, "EUR")),
        ("0,08 EUR", (0.08, "EUR")), ("$3", (3.0, "USD")), ("7 kr", (7.0, "kr")), (12, (12.0, "")),
    ],
)  # fmt: skip
def test_money_is_read_as_people_write_it(given, money):
    assert money_of("value", given) == money


@pytest.mark.parametrize(
    "given", ["EUR", "12 EUR a year", "€12EUR", "1,200EUR", "-3EUR", "", "1.2.3"]
)
def test_money_that_could_mean_something_else_is_refused(given):
    with refused("invalid-argument", field="value"):
        money_of("value", given)


def test_money_is_shown_with_the_digits_that_matter():
    shown = [in_money(amount, "EUR") for amount in (1_995.7, 12.34, 3.2, 0.081, -0.5, 0.004)]
    assert shown == ["2,000 EUR", "12 EUR", "3.20 EUR", "0.08 EUR", "-0.50 EUR", "0.004 EUR"]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"base_rate": "4"}, "base_rate"),
        ({"smallest_lift": "0.5%"}, "smallest_lift"),
        ({"smallest_lift": None}, "smallest_lift"),
        ({"base_rate": None}, "base_rate"),
        ({"base_rate": None, "mean": 80}, "spread"),
        ({"mean": 80}, "mean"),
        ({"value": "12 EUR a year"}, "value"),
        ({"costs": {"mail": 0.08}}, "value"),
        ({"costs": {"a": 1, "b": 1, "c": 1}, "value": "12EUR"}, "cost"),
        ({"actions": ["none", "mail"], "costs": {"call": 1}, "value": "12EUR"}, "cost"),
        ({"actions": ["none", "mail"], "costs": {"none": 1}, "value": "12EUR"}, "cost"),
        ({"costs": {"mail": "0.08USD"}, "value": "12EUR"}, "cost"),
        ({"actions": ["none"]}, "actions"),
        ({"actions": ["mail", "mail"]}, "actions"),
        ({"customers": 0}, "customers"),
        ({**AMOUNT, "mean": "80EUR", "smallest_lift": "1USD"}, "smallest_lift"),
        ({**AMOUNT, "smallest_lift": 1, "value": "2EUR"}, "value"),
        ({"history": [0, 1, 1, 0]}, "base_rate"),
        ({"base_rate": None, "history": [20.0, 30.0]}, "zeros"),
        ({"base_rate": None, "history": [0.0, 20.0, 30.0], "zeros": 0.9}, "zeros"),
        ({"base_rate": None, "history": [0.0, np.nan]}, "history"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_with_its_name(more, name):
    with refused("invalid-argument", field=name):
        CampaignTerms.of(**{**BASE, **more})


def test_an_amount_has_the_mean_and_spread_of_all_customers():
    of = partial(CampaignTerms.of, customers=1_000, actions=2, smallest_lift="0.50EUR")
    stated = of(mean="80EUR", spread=60, zeros="96%")
    assert stated.mean == pytest.approx(3.2)
    assert stated.scale.noise == pytest.approx(math.sqrt(0.04 * (60**2 + 80**2) - 3.2**2))
    assert stated.value == 1.0
    # A history says the same as the numbers that are in it.
    orders = np.random.default_rng(1).gamma(2.0, 40.0, 400)
    everyone = np.concatenate([orders, np.zeros(9_600)])
    read, told = of(history=everyone), of(history=orders, zeros="96%")
    assert read.scale.noise == pytest.approx(told.scale.noise)
    assert read.scale.noise == pytest.approx(everyone.std(), rel=2e-3)
    assert read.mean == pytest.approx(everyone.mean())
    visits = np.repeat([1.0, 0.0], [30, 970])
    assert CampaignTerms.of(
        customers=1_000, actions=2, smallest_lift="1pp", history=visits
    ).scale.base_rate == pytest.approx(0.03)


def test_costs_are_known_by_name_or_one_for_all_actions():
    of = partial(CampaignTerms.of, **BASE, value="12EUR")
    assert of(costs={"mail": "0.01"}).actions == ("none", "mail", "action 2")
    assert of(costs="0.02").costs == (0.0, 0.02, 0.02)
    terms = of(costs={"mail": 0.03, "call": 0.12})
    # A lift of 0.5 points is worth 0.06 EUR for each customer.
    assert terms.worthwhile == (1,)
    assert terms.unprofitable == (2,)
    assert list(terms.worlds()) == [((0.0, 0.005 - 0.0025, -0.01), 1.0)]


def test_actions_and_currencies_may_be_left_to_the_costs():
    of = partial(CampaignTerms.of, customers=1_000, base_rate="4%", smallest_lift="0.5pp")
    assert of().actions == ("none", "action 1")
    assert of(value=12, costs={"mail": "0.08EUR", "call": 1}).actions == ("none", "mail", "call")
    assert of(value=12, costs={"mail": "0.08EUR"}).currency == "EUR"
    bare = of(value=30.0)
    assert (bare.value, bare.currency, bare.money(2.0)) == (30.0, "", 60.0)


def test_alternatives_follow_by_hand():
    plan = made(value="12EUR")
    # One of three actions lifts by 0.005 for 50,000 customers.
    assert plan.perfect.outcome == 250
    assert plan.test.outcome == pytest.approx(250 / 3)
    assert plan.blind.outcome == 125
    assert plan.rows[0].gain.outcome == pytest.approx(plan.test.outcome)
    assert [plan.worth(one) for one in (plan.perfect, plan.blind)] == [3_000, 1_500]
    assert plan.terms.share(plan.perfect.outcome) == pytest.approx(0.125)
    assert plan.gain.lost == plan.gain.spent == 0
    # Two waves: a random one, then what looks best; a tenth of the customers stay random.
    first, second = plan.sizes
    most = 0.005 * (first / 3 + second * (0.9 + 0.1 / 3))
    assert plan.test.outcome < plan.gain.outcome < most
    assert plan.gain.smallest_lift == planned_lift(
        plan.plan.model, plan.sizes, plan.plan.policy, power=0.8
    )
    even = plan_campaign(**{**BASE, "smallest_lift": plan.test.smallest_lift}, waves=1)
    assert even.gain.power == pytest.approx(0.8, abs=1e-6)


def test_a_second_wave_gives_the_better_looking_of_two_actions():
    """By hand: two actions, n customers each, and the normal law of the difference."""
    plan = plan_campaign(
        customers=20_000, actions=2, base_rate="10%", smallest_lift="1pp", waves=[4_000, 16_000],
        randomised=0.0,
    )  # fmt: skip
    error = math.sqrt(0.1 * 0.9 * 2 / 2_000)
    right = 0.5 * (1 + math.erf(0.01 / error / math.sqrt(2)))
    expected = 0.01 * (2_000 + 16_000 * right)
    assert plan.gain.outcome == pytest.approx(expected, abs=4 * plan.gain.error + 0.2)


def test_costs_are_part_of_what_is_gained_and_lost():
    plan = made(value="12EUR", costs=0.01)
    assert plan.test.spent == pytest.approx(50_000 * 2 / 3 * 0.01)
    assert plan.test.lost == pytest.approx(plan.test.spent)
    assert plan.blind.lost == pytest.approx(500)
    # Whoever gets no control costs 0.01: at least the customers of the first wave, at most all.
    assert plan.sizes[0] * 2 / 3 * 0.01 < plan.gain.lost < 500
    assert plan.gain.spent < 500
    assert plan.worth(plan.perfect) == pytest.approx(3_000 - 500)
    assert "you lose what sending costs until that shows" in str(plan)


def test_the_page_says_what_a_boss_asks():
    plan = made(value="12EUR")
    text = str(plan)
    first, second = (f"{size:,}" for size in plan.sizes)
    assert f"Assign {first} and {second} customers in 2 waves." in text
    assert "0.5 points (4% to 4.5%)" in text
    assert "If nothing lifts, you lose nothing." in text
    assert f"{plan.gain.outcome:,.0f} conversions" in text
    assert f"worth about {in_money(12 * plan.gain.outcome, 'EUR')}" in text
    assert "regret" not in text.lower()
    data = plan.as_dict()
    assert data["sizes"] == list(plan.sizes)
    assert data["plan"]["money"] == pytest.approx(12 * plan.gain.outcome)
    assert data["table"][0]["waves"] == 1
    assert data["advice"] == plan.advice
    # A statistician's page follows on request.
    document = plan.document(with_details=True)
    assert "regret" in str(document.sections[0].parts).lower()
    assert "<svg" in plan.chart().svg()


def test_a_cost_above_the_lifts_worth_is_told_first():
    dear = made(value="12EUR", costs="0.08")
    assert dear.perfect.outcome == 0
    assert "it pays from a lift of 0.67 points" in dear.advice
    assert "Do not send at this cost." in str(dear)
    some = plan_campaign(**BASE, value="12EUR", costs={"mail": "0.08"}, waves=2)
    assert some.advice.startswith("Mail pays only from a lift of 0.67 points: leave it out")
    assert "If an action other than mail lifts" in str(some)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "not to prove a lift of 0.5 points: that takes an A/B test with about 86,000"),
        ({"smallest_lift": "0.9pp"}, "to find it with 80% power, let"),
        ({"smallest_lift": "3pp"}, "Run these waves: they find a lift of 3 points"),
        ({"customers": 60}, "Run an A/B test in one wave"),
        ({"waves": 1}, "Consider a second wave"),
    ],
)
def test_the_advice_weighs_earning_and_proof(more, words):
    assert words in made(**more).advice


TWO = {"customers": 20_000, "actions": 2, "base_rate": "10%", "smallest_lift": "1pp", "waves": 1}


def right_of_two(each: int, lift: float = 0.01) -> float:
    """The better of two actions looks better, by hand: the normal law of the difference."""
    error = math.sqrt(0.1 * 0.9 * 2 / each)
    return 0.5 * (1 + math.erf(lift / error / math.sqrt(2)))


def test_a_roll_out_gains_by_the_right_choice():
    plan = plan_campaign(**{**TWO, "customers": 2_000}, after=50_000, value="12EUR", costs=0.01)
    # What it costs, a lift less.
    assert plan.gain.right == pytest.approx(right_of_two(1_000, 0.01 - 0.01 / 12), abs=0.02)
    assert plan.gain.later == pytest.approx(50_000 * 0.01 * plan.gain.right)
    assert plan.gain.outcome == pytest.approx(10)
    # Half of the campaign's customers get the action, and those of the roll-out if it looks best.
    assert plan.gain.spent == pytest.approx(0.01 * (1_000 + 50_000 * plan.gain.right), rel=1e-6)
    assert plan.worth(plan.gain) == pytest.approx(12 * (10 + plan.gain.later) - plan.gain.spent)
    assert plan.worth(plan.perfect) == 52_000 * (0.12 - 0.01)
    assert "in the roll-out" in str(plan)
    assert f"probability of {plan.gain.right:.0%}" in str(plan)
    assert plan.as_dict()["after"] == 50_000


@pytest.mark.parametrize("customers", [2_000, 20_000])
def test_with_a_roll_out_the_own_number_of_waves_gains_no_less_than_a_test(customers):
    asked = {"customers": customers, "actions": ["none", "mail"], "base_rate": "4%",
             "smallest_lift": "0.5pp", "after": 10 * customers}  # fmt: skip
    plan = plan_campaign(**asked)
    assert plan.worth(plan.gain) >= plan.worth(plan.test)
    best = max(plan.worth(row.gain) for row in plan.rows)
    assert plan.worth(plan.gain) >= best - 0.02 * plan.worth(plan.perfect)
    # The researcher's page is of the same waves.
    assert plan.details.grid.sizes == plan.sizes
    # Waves that are asked for stay, and the advice names what is better.
    stated = plan_campaign(**asked, waves=2)
    assert stated.waves == 2
    if stated.worth(stated.gain) < stated.worth(stated.test):
        assert stated.advice.startswith("Run an A/B test in one wave: what it teaches for the")


def test_a_choice_for_everybody_is_planned_by_its_probability():
    plan = plan_campaign(**{**TWO, "customers": 2_000}, purpose="choose")
    assert plan.gain.right == pytest.approx(right_of_two(1_000), abs=1e-3)
    assert plan.test == plan.gain
    assert plan.worth(plan.gain) == plan.gain.right
    text = str(plan)
    assert "it is chosen at the end with a probability of 77%" in text
    assert "you gain" not in text
    assert plan.as_dict()["plan"] == {
        "right": plan.gain.right, "smallest_lift": plan.gain.smallest_lift,
        "power": plan.gain.power,
    }  # fmt: skip
    more = plan_campaign(
        customers=4_000, actions=6, base_rate="10%", smallest_lift="3pp", waves=3, purpose="choose"
    )
    assert more.gain.right > more.test.right + 0.02
    assert "Run these waves: they choose the right action" in more.advice
    with refused("invalid-argument", field="purpose"):
        plan_campaign(**TWO, purpose="choose", after=5)
