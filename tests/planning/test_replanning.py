"""Proposals: as many units and batches as planned, within limits, and the planned ones if best."""

import json
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.core import Statistics
from seqbatch.planning import plan as whole_plan
from seqbatch.planning import replan
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.proposal import Proposal
from seqbatch.planning.replanning import propose
from seqbatch.planning.request import EffectLaw
from seqbatch.planning.trials.conditions import Conduct
from tests.refusals import refused

#: Policies are compared where a test is about them.
plan = partial(whole_plan, compare=False)


@cache
def seen(units, *, effect=0.2, seed=1):
    """Return the sums of a uniform first batch: two actions, a constant and a feature."""
    random = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(units), random.standard_normal(units)])
    actions = random.integers(0, 2, units)
    # A perfect assignment gains E|slope z| / 2 over a random one.
    slope = effect * np.sqrt(2 * np.pi)
    rewards = 5 + slope * rows[:, 1] * (actions == 1) + random.standard_normal(units)
    return Statistics.zero(2, 2).add(rows, rewards, actions)


def proposal(units, sizes, *, stated=0.2, effect=0.2, **options):
    model = Model(layout="block", actions=2, dim=2, scenarios=((stated, 1.0),))
    law = EffectLaw(guesses=(stated,))
    known = seen(units, effect=effect)
    return propose(model, law, seen=units, statistics=known, sizes=sizes, **options)


def test_a_small_effect_asks_for_a_larger_next_batch():
    """After a first batch that was planned for an effect of 1.6, and found next to none."""
    made = proposal(40, (100, 19_860), stated=1.6, effect=0.02)
    assert made.sizes[0] > 200
    assert sum(made.sizes) == 19_960
    assert made.saving > 3 * made.saving_error
    assert made.saving > 0.03 * made.regret
    assert made.effect.low < made.effect.mean < made.effect.high < 1.6
    assert made.noise.mean == pytest.approx(1, rel=0.2)


def test_the_planned_sizes_stay_where_they_are_good():
    good = proposal(400, (2_500, 17_100))
    assert not good.changes
    assert (good.sizes, good.explored, good.saving) == (good.planned, 0.0, 0.0)
    assert good.effect.mean == pytest.approx(0.2, rel=0.35)


def test_the_last_batch_stays():
    assert proposal(400, (600,)).sizes == (600,)


def test_the_same_seed_proposes_the_same():
    one, other = (proposal(40, (100, 1_860), stated=1.6, seed=3) for _ in range(2))
    assert one == other
    assert Proposal.of(json.loads(json.dumps(one.plain()))) == one


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(20, 3_000), min_size=2, max_size=4), low=st.integers(1, 60),
    high=st.integers(500, 4_000), stated=st.sampled_from([0.02, 1.5]),
)  # fmt: skip
def test_units_number_of_batches_and_limits_are_kept(sizes, low, high, stated):
    made = proposal(60, tuple(sizes), stated=stated, min_batch=low, max_batch=high)
    assert sum(made.sizes) == sum(sizes)
    assert len(made.sizes) == len(sizes)
    if made.sizes != made.planned:
        assert min(made.sizes) >= min(low, *sizes)
        if sum(sizes) <= high * len(sizes):
            assert max(made.sizes) <= high


def test_nonsense_is_refused():
    with refused("invalid-grid", field="sizes"):
        proposal(40, ())
    model = Model(layout="block", actions=2, dim=3, scenarios=((0.2, 1.0),))
    with refused("invalid-argument", field="statistics", received="2 cells and dimension 2"):
        propose(model, EffectLaw(guesses=(0.2,)), seen=40, statistics=seen(40), sizes=(9, 9))
    with refused("invalid-argument", field="statistics", received="None"):
        propose(model, EffectLaw(guesses=(0.2,)), seen=40, statistics=None, sizes=(9, 9))


def test_a_share_of_the_next_batch_can_be_left_to_chance():
    assert Conduct(explored=0.5).blind(3, informed=True).tolist() == [0.5, 0, 0]
    assert Conduct(explored=0.5, randomised=0.8).blind(3).tolist() == [1, 0.8, 0.8]
    assert Conduct(explored=0.5, delay=1).blind(4).tolist() == [1, 1, 0.5, 0]
    assert Conduct(explored=0.5).blind(1).tolist() == [1]


def test_a_plan_made_anew_says_what_was_learned():
    before = plan(units=4_000, actions=2, features=1, batches=3, max_batches=3, effect=1.6)
    after = replan(before, seen=1_000, statistics=seen(1_000), batches=2, max_batches=2)
    effects = [effect for effect, _ in after.model.scenarios]
    assert np.median(effects) < 0.8
    assert "Estimated from the outcomes so far: a perfect assignment gains 0." in str(after)
    assert after.sensitivity == ()
    assert after.as_dict()["seen"] == 1_000
