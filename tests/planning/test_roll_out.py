"""A roll-out after the experiment: what is learned counts for its units as well."""

import math
from dataclasses import replace

import numpy as np
import pytest

from seqbatch.planning import plan
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.trials.conditions import Conduct
from tests.planning.test_conduct import exploitation
from tests.refusals import refused

SMALL = {"units": 3_000, "actions": 2, "features": 0, "batches": 2, "max_batches": 2}


@pytest.mark.parametrize("layout", ["shared", "block"])
def test_a_roll_out_is_a_last_batch_with_nothing_at_random(layout):
    plain = Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),))
    model = replace(plain, conduct=Conduct(actions=3, after=5_000))
    one, other = (each.ensemble(40, seed=1) for each in (model, plain))
    found, expected = one.rates([100, 400]), other.rates([100, 400, 5_000])
    np.testing.assert_array_equal(found.regret, expected.regret)
    assert found.total([100, 400]) == expected.total([100, 400, 5_000])
    half = replace(model, conduct=replace(model.conduct, randomised=0.5, delay=1))
    mixed = half.ensemble(40, seed=1).rates([100, 400, 400])
    assert mixed.blind.tolist() == [1.0, 1.0, 0.5, 0.0]
    assert mixed.regret[:, -1].mean() < 0.7 * mixed.regret[:, -2].mean()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["shared", "block"])
def test_the_final_rule_loses_what_the_policys_own_code_loses(layout):
    conduct, sizes = Conduct(actions=3, after=6_000, delay=1, missing=0.2), (100, 150, 600)
    model = Model(layout=layout, actions=3, dim=4, scenarios=((0.4, 1.0),), conduct=conduct)
    policy = exploitation(model)
    found = np.array([
        trial.regret(policy, sizes, np.random.default_rng(seed))
        for seed, trial in enumerate(model.thinned(200, seed=9))
    ])  # fmt: skip
    value, error = model.ensemble(1_024, seed=1).rates(sizes).total(sizes)
    spread = np.hypot(error, found.std(ddof=1) / np.sqrt(len(found)))
    assert spread < 0.06 * value
    assert abs(found.mean() - value) < 3.5 * spread


@pytest.mark.usefixtures("few_trials")
def test_a_roll_out_makes_learning_worth_more():
    now, later = (plan(**SMALL, after=after, effect_spread=1) for after in (0, 300_000))
    assert later.grid.sizes[0] > 2 * now.grid.sizes[0]
    assert later.policy.after == 300_000
    # All units count, and a perfect assignment gains a fifth of the noise for each.
    assert later.request.possible == pytest.approx(0.2 * 303_000)
    assert later.row.regret > 300_000 * later.row.final
    assert later.online.regret <= later.row.regret
    assert "the roll-out to 300,000 units, each of which loses" in str(later)
    assert math.isnan(now.row.final)
    assert later.as_dict()["after"] == 300_000
    # An A/B test and then a roll-out: everybody in the test is randomised.
    tested = plan(**SMALL, after=300_000, effect_spread=1, randomised=1)
    assert 0.5 < tested.row.earned < 1


@pytest.mark.parametrize(
    "change", [{"after": -1}, {"after": 10, "eligible": [1, 0.5]}, {"after": 1.5}]
)
def test_what_cannot_be_is_refused(change):
    with refused("invalid-argument", field="after"):
        plan(**SMALL, **change)
