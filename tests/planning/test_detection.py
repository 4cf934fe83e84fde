"""What plans say about lifts: standard errors, powers, chances to stop, and the least share."""

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm

from seqbatch.inference import (
    boundaries,
    chances_to_stop,
    detectable_drift,
    dunnett_critical,
    plan_of_shares,
    planned_path,
)
from seqbatch.planning import plan as whole_plan
from seqbatch.planning.detection import (
    describe_detection,
    detection,
    least_share,
    planned_lift,
    units_needed,
)
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.policies import SBPE, ThompsonSampling
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)
GREEDY = SBPE(first="uniform", ties="random")
SIZES = (300, 900, 1_800)


def model(*, layout="block", dim=4, effect=0.2, **conduct):
    actions = 3
    return Model(
        layout=layout,
        actions=actions,
        dim=dim,
        scenarios=((effect, 1.0),),
        conduct=Conduct(actions=actions, **conduct),
    )


def error(*, sizes=SIZES, policy=GREEDY, **changes):
    """Return the standard error of the pooled lift."""
    return detection(model(**changes), sizes, policy).looks[-1].error


def test_one_uniform_batch_by_hand():
    """V is twice the law's variance for each of three features; sigma is 1, and C is 2K."""
    made = model(missing=0.25)
    price = 4 / (0.75 * 1_000 - 5)
    between = 2 * 3 * made.spread(0.2) ** 2
    expected = sqrt((6 * (1 + price) / 0.75 + between) / 3_000)
    found = detection(made, [3_000], GREEDY)
    assert found.error == pytest.approx(expected)
    # Dunnett's bound for two actions against a control of the same size, as tables print it.
    assert found.lift_80 == pytest.approx((2.212 + norm.ppf(0.8)) * expected, rel=1e-4)
    assert found.lift_90 == pytest.approx((2.212 + norm.ppf(0.9)) * expected, rel=1e-4)
    assert found.early == (0.0, 0.0)


def test_a_lift_over_all_units_by_hand():
    """Waves count by their units, not by their precision: n^2 v = 2 C n, with a cost C."""
    found = detection(model(randomised=0.2, dim=1), SIZES, GREEDY)
    low = 0.2 / 3
    later = 1 / 3 / (1 - 2 * low) + 2 / 3 / low
    expected = sqrt(2 * (3 * 300 + later * (900 + 1_800))) / 3_000
    # With one column a fitted model costs little.
    assert found.error == pytest.approx(expected, rel=2e-3)
    assert found.error > 1.05 * found.looks[-1].error


def test_scenarios_count_by_their_weights():
    sure = model(effect=0.2)
    unlikely = replace(sure, scenarios=((0.2, 1.0), (5.0, 1.0)), weights=(1 - 1e-9, 1e-9))
    found = detection(unlikely, SIZES, GREEDY).error
    assert found == pytest.approx(detection(sure, SIZES, GREEDY).error, rel=1e-6)


def test_whatever_adds_chance_or_outcomes_adds_precision():
    bare = error()
    assert error(randomised=0.05) < 0.9 * bare
    assert error(randomised=0.2) < 0.9 * error(randomised=0.05)
    assert error(floor=0.05) < error(randomised=0.05)
    assert error(randomised=0.1, missing=0.5) > 1.3 * error(randomised=0.1)
    assert error(randomised=0.1, delay=1) < 0.8 * error(randomised=0.1)
    assert error(randomised=0.1, policy=ThompsonSampling(scale=1.0)) < error(randomised=0.1)
    assert error(randomised=0.1, layout="shared") > error(randomised=0.1)
    assert error(randomised=0.1, sizes=(900, 900, 1_200)) < error(randomised=0.1)


def test_where_nothing_is_left_to_chance_only_uniform_batches_count():
    found = detection(model(), SIZES, GREEDY)
    assert found.error == detection(model(), SIZES[:1], GREEDY).error
    assert (len(found.looks), found.counting, found.batches) == (1, 1, 3)
    late = detection(model(delay=1), SIZES, GREEDY)
    assert [one.units for one in late.looks] == [300, 1_200]
    # The last step from hardly any chance to none is no jump.
    hardly = detection(model(randomised=1e-6), SIZES, GREEDY)
    assert hardly.looks[-1].error == pytest.approx(found.error, rel=1e-3)
    assert (len(hardly.looks), hardly.counting) == (1, 3)


def test_chances_to_stop_are_those_of_simulated_paths():
    """Independent increments whose means are not proportional to the information."""
    times, means = np.array([0.2, 0.5, 1.0]), np.array([1.5, 1.9, 3.0])
    random = np.random.default_rng(1)
    steps = np.diff(times, prepend=0)
    drift = np.diff(means * np.sqrt(times), prepend=0)
    paths = (drift + np.sqrt(steps) * random.standard_normal((400_000, 3))).cumsum(axis=1)
    for rule in ("obrien-fleming", "pocock"):
        bounds = np.array(boundaries(times, rule=rule))
        z = paths / np.sqrt(times)
        going = np.ones(len(z), dtype=bool)
        for look, chance in enumerate(chances_to_stop(times, means, rule=rule)):
            assert (going & (z[:, look] >= bounds[look])).mean() == pytest.approx(chance, abs=3e-3)
            going &= np.abs(z[:, look]) < bounds[look]
    with refused("invalid-argument", field="means"):
        chances_to_stop([0.5, 1], [1.0], rule="pocock")


def test_looks_are_about_the_assumed_effect():
    small, large = (
        detection(model(effect=effect, randomised=0.2), SIZES, GREEDY) for effect in (0.05, 0.4)
    )
    assert small.effect == pytest.approx(0.05)
    assert small.early[0] < 0.05 < 0.6 < large.early[0] < large.early[1]
    shares = plan_of_shares(SIZES, actions=3, randomised=0.2, floor=0.0)
    assert [one.information for one in large.looks] == pytest.approx(shares.information)
    assert [one.error for one in large.looks] == sorted(
        (o.error for o in large.looks), reverse=True
    )
    bound = boundaries(shares.information, rule="pocock", alpha=0.025 / 2)[0]
    by_hand = norm.sf(bound - 0.4 / large.looks[0].error)
    assert large.looks[0].pocock == pytest.approx(by_hand, rel=1e-6)


def simulated(drift, bound, times=(1.0,), actions=3, campaigns=200_000):
    """Return how often the first of several actions is found; the others are like the control."""
    random = np.random.default_rng(11)
    steps = np.sqrt(np.diff(times, prepend=0))[:, None]
    paths = (steps * random.standard_normal((campaigns, len(times), actions))).cumsum(axis=1)
    z = (paths[:, :, 1:] - paths[:, :, :1]) / np.sqrt(2 * np.array(times))[:, None]
    z[:, :, 0] += drift * np.sqrt(times)
    crossed = z >= np.array(bound)[:, None]
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), len(times))
    # The campaign ends at the first look at which any action is shown to be better.
    return (first[:, 0] == first.min(axis=1)) & (first[:, 0] < len(times))


def test_power_with_several_actions_is_that_of_a_campaign_which_corrects_for_them():
    """Three arms: tested alone, the lift would be found in 85%; the campaign finds it in 77%."""
    made = replace(model(randomised=1.0), dim=1)
    sizes = (1_000, 1_000, 1_000)
    error = detection(made, sizes, GREEDY).error
    found = detection(made, sizes, GREEDY, lift=3.0 * error)
    times = [one.information for one in found.looks]
    # The campaign's boundaries until an action is shown: the error by the number of lifts.
    bound = boundaries(times, rule="obrien-fleming-spending", alpha=0.05 / 2 / 2)
    drift = 3.0 * error / found.looks[-1].error
    share = simulated(drift, bound, times).mean()
    alone = sum(chances_to_stop(times, [drift * t**0.5 for t in times],
                                rule="obrien-fleming-spending"))  # fmt: skip
    assert alone == pytest.approx(0.85, abs=0.01)
    assert found.looks[-1].obrien_fleming == pytest.approx(share, abs=0.006)
    assert share < alone - 0.06
    # One look at the end: joint intervals by Dunnett's method.
    once = dunnett_critical([0.5**0.5] * 2)
    assert simulated(found.lift_80 / error, [once]).mean() == pytest.approx(0.8, abs=0.008)
    assert found.comparisons == 2
    assert "for both lifts together" in describe_detection(found, asked=None, power=0.8)


def test_the_detectable_drift_is_found_as_often_as_asked():
    times = [0.3, 0.6, 1.0]
    for rule in ("pocock-classical", "obrien-fleming-spending"):
        drift = detectable_drift(times, rule=rule, alpha=0.0125, power=0.8)
        bound = boundaries(times, rule=rule, alpha=0.0125)
        found = simulated(drift, bound, times, actions=2).mean()
        assert found == pytest.approx(0.8, abs=0.005)


def test_more_uniform_waves_cost_as_much_as_the_first():
    shares = plan_of_shares(SIZES, actions=3, randomised=0.2, floor=0.0, uniform=2)
    assert shares.costs[:2] == (3.0, 3.0)
    assert shares.costs[2] > 3
    assert plan_of_shares(SIZES, actions=3, randomised=0, floor=0, uniform=3).costs == (3.0,) * 3
    errors = planned_path(shares, actions=3, columns=4, noise=1.0)
    alone = planned_path(
        plan_of_shares(SIZES[:1], actions=3, randomised=0, floor=0), actions=3, columns=4, noise=1.0
    )
    assert errors[0] == pytest.approx(alone[0])


def test_the_least_share_is_enough_and_less_is_not():
    made = model()
    share = least_share(made, SIZES, GREEDY, lift=0.2, power=0.9)
    enough, less = (
        planned_lift(
            replace(made, conduct=replace(made.conduct, randomised=one)), SIZES, GREEDY, power=0.9
        )
        for one in (share, share - 1e-3)
    )
    assert enough <= 0.2 < less
    assert 0 < share < 1
    assert least_share(made, SIZES, GREEDY, lift=2.0, power=0.9) == 0
    assert least_share(made, SIZES, GREEDY, lift=0.01, power=0.9) is None


def test_the_units_that_are_needed_are_the_fewest():
    made = model(missing=0.3)
    everyone = replace(made, conduct=replace(made.conduct, randomised=1.0))
    for lift in (0.5, 0.02):
        needed = units_needed(made, GREEDY, lift=lift, power=0.8)
        enough, less = (
            planned_lift(everyone, [n], GREEDY, power=0.8) for n in (needed, needed - 1)
        )
        assert enough <= lift < less


ASKED = {"units": 4_000, "actions": 2, "features": 1, "batches": 2, "max_batches": 2}


@pytest.fixture(scope="module")
def asked():
    return plan(**ASKED, detect=0.12)


@pytest.mark.slow
def test_a_plan_detects_what_it_was_asked_to(asked):
    """Its own grid belongs to its own share, and does it; the same plan with less does not."""
    share = asked.model.conduct.randomised
    assert 0 < share < 1
    assert 0.115 < asked.detection.lift_80 <= 0.12
    again = plan(**ASKED, randomised=share)
    assert again.grid == asked.grid
    assert plan(**ASKED, randomised=share - 0.02).detection.lift_80 > 0.12
    words = str(asked)
    assert "is the smallest that detects a lift of 0.12 with 80% power" in words
    assert "would detect it with probability" in words
    table = asked.tables()[-1]
    assert [row[0] for row in table.rows] == [1, 2]
    values = json.loads(json.dumps(asked.as_dict()))
    assert values["detect"] == 0.12
    assert values["detection"]["lift_80"] == asked.detection.lift_80
    assert len(values["detection"]["looks"]) == 2


@pytest.mark.slow
def test_the_trade_goes_from_no_randomised_units_to_all(asked, tmp_path):
    trade = asked.trade
    shares = [one.randomised for one in trade.points]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert asked.model.conduct.randomised in shares
    for less, more in pairwise(trade.points):
        assert less.regret < more.regret
    # Without chance only the first batch counts; a little adds batches that say little.
    for less, more in pairwise(trade.points[1:]):
        assert less.lift > more.lift
    assert trade.points[-1].regret == pytest.approx(4_000 * asked.model.effect)
    assert trade.points[-1].error == 0
    # The same trials as the plan's own row.
    assert trade.chosen.regret == pytest.approx(asked.row.regret)
    assert trade.chosen.lift == pytest.approx(asked.detection.lift_80)
    assert "Randomise " in str(trade)
    page = trade.save(tmp_path / "trade.html").read_text(encoding="utf-8")
    assert "image/svg+xml" in page
    assert "lift detected with 80% power" in page
    assert len(trade.as_dict()["points"]) == len(trade.points)


def test_what_no_plan_can_detect_is_refused_with_what_could_be():
    with refused("invalid-argument", field="detect") as caught:
        plan(**ASKED, detect=0.01, power=0.9)
    assert "4,000 units detect with 90% power if all of them are randomised" in str(caught.value)
    assert "To detect it, plan for about" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"detect": 0.0}, "detect"),
        ({"detect": 0.1, "power": 1.0}, "power"),
        (
            {"detect": 0.1, "contexts": "adversarial"},
            "randomised, floor, missing, delay, eligible, capacity, after, purpose and detect",
        ),
    ],
)
def test_what_cannot_be_is_refused(change, field):
    with refused("invalid-argument", field=field):
        plan(**ASKED, **change)


def test_where_nothing_can_be_said_of_lifts_nothing_is():
    worst = plan(**ASKED, contexts="adversarial")
    assert worst.detection is None
    assert worst.as_dict()["detection"] is None
    assert "detected" not in str(worst)
    with refused("invalid-argument", field="trade"):
        _ = worst.trade
    bare = plan(**ASKED)
    assert "Only the first batch counts" in str(bare)
