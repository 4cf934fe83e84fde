"""Plans for yes/no outcomes: the noise, the usual effect, and a first batch with enough events."""

import math
from functools import partial

import numpy as np
import pytest
from benchmarks.quality.study import Part, ends_of
from benchmarks.quality.worlds import WORLDS

from seqbatch.planning import plan as whole_plan
from seqbatch.planning.request import BatchLimits
from tests.refusals import refused

plan = partial(whole_plan, compare=False, quick=True)
SMALL = {"units": 6_000, "actions": 2, "features": 1, "batches": 3, "max_batches": 3}


@pytest.mark.usefixtures("few_trials")
def test_a_rate_gives_noise_effect_and_a_first_batch_with_ten_events_an_action():
    made = plan(**SMALL, base_rate="2%")
    assert {noise for _, noise in made.model.scenarios} == {math.sqrt(0.02 * 0.98)}
    assert made.request.law.guesses == pytest.approx((0.02 / 5,))
    # 10 events of each of 2 actions at 2%.
    assert all(row.sizes[0] >= 1_000 for row in made.rows)
    assert "yes for 2% of units without any action, so the first batch has at least" in str(made)
    assert made.as_dict()["base_rate"] == 0.02
    # Where yes is the rule, no is what is rare.
    assert plan(**SMALL, base_rate=0.98).request.limits.opening == 1_000
    # Lost outcomes are made up for, and half of all units are left to use what was learned.
    assert plan(**SMALL, base_rate=0.02, missing=0.5).request.limits.opening == 2_000
    assert plan(**SMALL, base_rate=0.002).grid.sizes[0] == 3_000


@pytest.mark.usefixtures("few_trials")
def test_what_you_say_of_the_first_batch_holds():
    assert plan(**SMALL, base_rate=0.02, first_batch=200).grid.sizes[0] == 200
    waves = plan(**SMALL, base_rate=0.02, waves=[500, 2_500, 3_000])
    assert waves.grid.sizes == (500, 2_500, 3_000)
    assert plan(**SMALL, base_rate=0.02, max_batch=2_500).grid.sizes[0] <= 2_500


def test_sizes_leave_room_for_other_limits():
    limits = BatchLimits(units=100, smallest=20, opening=70)
    assert limits.fit([10, 50, 100]) == (60, 20, 20)
    assert BatchLimits(units=100, largest=60, opening=70).fit([10, 100]) == (60, 40)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"base_rate": "4%", "noise": 0.2}, "noise"), ({"base_rate": 4}, "base_rate")],
)
def test_what_cannot_be_is_refused(change, field):
    with refused("invalid-argument", field=field):
        plan(**SMALL, **change)


@pytest.mark.thorough
def test_rare_events_earn_at_least_what_equal_waves_earn():
    """Five waves, 2% yes; the planner knows the rate alone."""
    world = WORLDS["logistic 2%"]
    features = world.draw(0, 0).rows.shape[1] - 1
    made = plan(
        units=world.units, actions=world.actions, features=features, base_rate=0.02, batches=5,
        max_batches=5,
    )  # fmt: skip
    scores = [
        np.array([
            row["score"]
            for row in Part(world.name, "JointRidge, wave levels", 5, "", ends, 7, 0, 80)()
        ])
        for ends in (made.grid.ends, ends_of(world.units, 5, "equal"))
    ]  # fmt: skip
    gap = scores[0] - scores[1]
    assert gap.std(ddof=1) / np.sqrt(len(gap)) < 1.5
    assert gap.mean() > 0
