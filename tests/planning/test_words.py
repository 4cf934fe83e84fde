"""The text of a plan: why this number of batches, and what is exact."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from seqbatch.document import as_html
from seqbatch.planning import plan
from seqbatch.planning.number_of_batches import choose
from seqbatch.planning.result_rows import Row

#: What is said about plans is the same with few trials.
pytestmark = pytest.mark.usefixtures("few_trials")


def row(batches, regret, cost=math.nan, error=1.0):
    """Return a table's row with what a choice looks at."""
    rest = dict.fromkeys(
        ("median", "of_online", "earned", "best_share", "lower_bound", "rate"), 0.0
    )
    sizes = (10,) * (batches or 0)
    return Row(batches=batches, sizes=sizes, regret=regret, error=error, total_cost=cost, **rest)


def asking(*, batches=None, batch_cost=None, within=0.05, delay=0, waves=None, noise=1.0):
    """Return a request of which 1,000 can be gained."""
    return SimpleNamespace(
        batches=batches, batch_cost=batch_cost, within=within, possible=1_000.0,
        model=SimpleNamespace(
            conduct=SimpleNamespace(delay=delay, purpose="earn"),
            scenarios=[(0.1, noise), (0.2, noise)],
        ),
        limits=SimpleNamespace(waves=waves, units=10_000),
    )  # fmt: skip


ROWS = [row(1, 1_000.0), row(2, 400.0), row(3, 130.0), row(4, 120.0)]
ONLINE = row(None, 100.0)


def test_a_gain_that_chance_hides_needs_no_batches():
    # The whole gain is 900, and chance moves the total reward by 100 times the noise.
    assert choose(asking(noise=170.0), ROWS, ONLINE).batches == 3
    made = choose(asking(noise=190.0), ROWS, ONLINE)
    assert made.batches == 1
    assert "chance varies the total reward by 19,000" in made.reason


def test_the_smallest_number_that_is_enough():
    made = choose(asking(), ROWS, ONLINE)
    assert (made.batches, made.met) == (3, True)
    assert made.reason == (
        "Recommended: the smallest number of batches that earns 95% of what learning after every "
        "outcome (fully online) would gain over a random assignment; it earns 96.6%."
    )


def test_a_rule_that_is_not_met_is_said_to_be_not_met():
    made = choose(asking(within=0.01), ROWS, ONLINE)
    assert (made.batches, made.met) == (4, False)
    assert made.reason.startswith("4 batches earn 97.7%, the most. No plan with up to 4 batches")
    assert "reaches the target, 99% of" in made.reason
    assert made.reason.endswith("More batches (max_batches) or looser limits may earn more.")
    wave = choose(asking(within=0.01), ROWS, ONLINE, noun="wave")
    assert wave.reason.startswith("4 waves earn 97.7%, the most. No plan with up to 4 waves")
    assert wave.reason.endswith("More waves or looser limits may earn more.")


def test_where_no_number_is_enough_more_batches_must_add_something():
    rows = [row(1, 1_000.0), row(2, 310.0), row(3, 304.0), row(4, 303.0)]
    made = choose(asking(), rows, ONLINE)
    assert (made.batches, made.met) == (2, False)
    assert "2 batches earn 76.6%, nearly as much as the best (77.4%)." in made.reason


def test_advice_that_nobody_can_follow_is_not_given():
    late = choose(asking(within=0.01, delay=1), ROWS, ONLINE).reason
    assert late.endswith(
        "Fully online assumes that outcomes arrive at once; here they arrive late."
    )
    waves = choose(asking(within=0.01, waves=(10, 10)), ROWS, ONLINE).reason
    assert waves.endswith("More and smaller waves may earn more.")


def test_a_number_that_was_asked_for_is_not_recommended():
    enough, poor = (choose(asking(batches=number), ROWS, ONLINE) for number in (4, 2))
    assert (enough.met, poor.met) == (True, False)
    assert "4 batches, as requested, earn 97.7% of what" in enough.reason
    assert "the target of 95% is not reached" in poor.reason
    assert "ecommended" not in enough.reason + poor.reason


def test_the_cheapest_number_at_the_tables_end_is_doubted():
    costs = [row(1, 1_000.0, 1_001.0), row(2, 400.0, 402.0)]
    made = choose(asking(batch_cost=1.0), costs, ONLINE)
    assert (made.batches, made.met) == (2, None)
    assert (
        "it is the last row of the table, so more batches (max_batches) might cost less"
        in made.reason
    )
    inner = choose(asking(batch_cost=1.0), [*costs, row(3, 130.0, 900.0)], ONLINE)
    assert "last row" not in inner.reason


def test_where_nothing_can_be_learned_one_batch_does():
    made = choose(asking(), [row(1, 1_000.0), row(2, 999.0)], row(None, 998.9, error=1.0))
    assert made.batches == 1
    assert "nothing can be learned in time" in made.reason


@pytest.fixture(scope="module")
def small():
    return plan(units=500, actions=2, features=1, batches=1, max_batches=2, min_batch=20,
                effect_spread=1)  # fmt: skip


def test_what_is_exact_has_no_error(small):
    text = str(small)
    assert small.row.lower_bound == small.row.regret == pytest.approx(100.0)
    assert "perfect assignment): 100, " in text
    assert "Every method loses exactly that" in text
    assert "All policies lose the same here" in text
    assert "± 0" not in text
    [costs, *_] = small.tables()
    assert costs.title.endswith("(* requested)")
    place = costs.columns.index("±")
    assert [line[place] == "" for line in costs.rows] == [True, False, False]
    assert "expected" in repr(small)


def test_the_page_states_limits_seed_and_defaults(small):
    written = as_html(small.document())
    for words in (
        "batches of at least 20 units, no maximum", "1, requested", "Seed: 0.",
        "target: 95% of the gain", "No effect was given: the default is a fifth of the noise.",
    ):  # fmt: skip
        assert words in written


def test_a_guarantee_that_says_nothing_is_called_so():
    asked = {"actions": 2, "dim": 2, "contexts": "adversarial", "max_batches": 3}
    made = plan(units=1_000, **asked)
    assert "Even new estimates after every unit would not change that" in str(made)
    assert [line[-1] for line in made.tables()[0].rows] == ["none"] * 4
    assert "(* the largest here)" in made.tables()[0].title
    assert "the last row of the table, not an optimum" in str(made)
    large = plan(units=10**7, **asked)
    needed = large.request.promises.fewest
    assert f"With about {needed:,} batches or more it guarantees something" in str(large)
    assert not math.isnan(large.request.promises.of(-(-(10**7) // needed)))
    assert math.isnan(large.request.promises.of(-(-(10**7) // (needed - 1)) + 1))
    some = plan(units=10**7, **{**asked, "max_batches": needed})
    assert some.row.rate < 2 * 10**7
    assert "Theorem 1 bounds the regret of UCB by" in str(some)


def test_where_little_can_be_learned_the_fewest_batches_do():
    made = choose(asking(), [row(1, 1_000.0), row(2, 930.0)], row(None, 920.0))
    assert (made.batches, made.met) == (1, True)
    assert "is only 8% of what a perfect assignment would gain" in made.reason
    assert choose(asking(), [row(1, 1_000.0), row(2, 890.0)], row(None, 885.0)).batches == 2


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1, 2.5])
def test_an_effect_that_cannot_be_found_needs_no_batches(spread):
    made = plan(units=20_000, actions=3, features=4, effect=0.001, effect_spread=spread)
    assert made.batches == 1
    assert "can be learned in time" in made.reason


def test_restrictions_take_the_place_of_what_will_be_detected():
    asked = {"units": 2_000, "actions": 2, "features": 0, "max_batches": 2, "effect": 0.3}
    text = str(plan(**asked, eligible=[1, 0.5]))
    assert "What will be detected is not predicted" in text
    assert "Assumed: no features, one mean per action;" in text
    free = plan(**asked, randomised=0.5)
    # The guess, not the mean of the law around it.
    assert free.detection.effect == pytest.approx(0.3)
    assert "If an action's lift is 0.3, as large as the effect assumed below" in str(free)
    greedy, usual, *_ = free.candidates
    equal = replace(free, candidates=(greedy, replace(usual, excess=0.0)))
    assert "lookahead as much" in str(equal)


def test_a_trial_that_is_all_at_random_has_equal_batches_and_says_why():
    made = plan(units=900, actions=2, features=0, batches=3, max_batches=3, randomised=1)
    assert made.grid.sizes == (300, 300, 300)
    assert str(made).count("uniformly at random") == 3
    assert "All policies lose the same here: all units are randomised." in str(made)
    assert "Every method loses exactly that: all units are randomised." in str(made)


def test_looks_are_about_the_lift_that_was_to_be_detected():
    asked = {"units": 3_000, "actions": 2, "features": 0, "batches": 2, "max_batches": 2}
    made = plan(**asked, effect=0.4, detect=0.2)
    assert made.detection.effect == 0.2
    assert "If an action's lift is 0.2, 1 look before the last batch" in str(made)
