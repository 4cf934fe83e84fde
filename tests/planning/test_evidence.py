"""What outcomes say of effect and noise: against the dense density, and that the truth is found."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.core import Statistics
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.replanning import centred, common_spread, learned, log_evidence, model_given
from seqbatch.planning.request import EffectLaw
from seqbatch.planning.trials.greedy_runs import KnownPast
from tests.oracles import evidence as oracle


def outcomes(units, *, models=3, dim=3, effect=0.5, noise=1.0, level=0.0, seed=1):
    """Return rows behind a constant, actions, rewards and their sums."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((units, dim))
    rows[:, 0] = 1.0
    model = Model(layout="block", actions=max(models, 2), dim=dim, scenarios=((effect, noise),))
    theta = model.spread(effect) * random.standard_normal((models, dim))
    theta[:, 0] += level
    actions = random.integers(0, models, units)
    rewards = (rows * theta[actions]).sum(axis=1) + noise * random.standard_normal(units)
    return rows, actions, rewards, Statistics.zero(models, dim).add(rows, rewards, actions)


scales = st.floats(0.05, 20.0)


@settings(max_examples=60, deadline=None)
@given(
    units=st.integers(1, 25), models=st.integers(1, 4), dim=st.integers(1, 4), spread=scales,
    noise=scales, common=st.sampled_from([0.0, 0.3, 5.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_the_closed_form_is_the_density_of_all_rewards(
    units, models, dim, spread, noise, common, seed
):
    rows, actions, rewards, known = outcomes(units, models=models, dim=dim, seed=seed)
    law = {"spread": spread, "noise": noise, "common": common}
    wanted = oracle.log_density(rows, actions, rewards, **law)
    assert log_evidence(known, **law) == pytest.approx(wanted, rel=1e-7, abs=1e-7)


def test_parameters_are_drawn_around_a_common_part():
    rows, actions, rewards, known = outcomes(40, models=2, level=3.0)
    model = Model(
        layout="block", actions=2, dim=3, scenarios=((0.6, 1.0),),
        past=KnownPast(known.gram, known.moment, common=7.0),
    )  # fmt: skip
    drawn = model.ensemble(40_000, seed=1).theta.reshape(-1, 6)
    mean, covariance = oracle.posterior(
        rows, actions, rewards, models=2, spread=model.spread(0.6), noise=1.0, common=7.0
    )
    sizes = np.sqrt(covariance.diagonal())
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * sizes / 200).all()
    gap = (np.cov(drawn.T) - covariance) / np.outer(sizes, sizes)
    assert np.abs(gap).max() < 4.5 * np.sqrt(2 / 40_000)


@pytest.mark.parametrize("stated", [0.05, 0.4, 3.2])
@pytest.mark.parametrize("layout", ["shared", "block"])
def test_effect_and_noise_are_found_however_wrong_the_guess(stated, layout):
    models = 8 if layout == "block" else 1
    rows, _, _, known = outcomes(4_000, models=models, dim=6, effect=0.4, noise=2.0, seed=3)
    model = Model(layout=layout, actions=8, dim=6, scenarios=((stated, 1.0),))
    found = np.array(learned(known, model, EffectLaw(guesses=(stated,))))
    assert len(found) == 32
    assert np.median(found[:, 1]) == pytest.approx(2.0, rel=0.05)
    if layout == "block":
        assert np.median(found[:, 0]) == pytest.approx(0.4, rel=0.3)
    assert len(rows) == 4_000


@settings(max_examples=15, deadline=None)
@given(level=st.floats(-1e4, 1e4), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 9))
def test_neither_level_nor_unit_of_measure_matter_where_nobody_stated_an_effect(level, scale, seed):
    _, _, _, known = outcomes(300, seed=seed)
    rows, actions, rewards, _ = outcomes(300, seed=seed)
    moved = Statistics.zero(3, 3).add(rows, scale * (rewards + level), actions)
    model = Model(layout="block", actions=3, dim=3, scenarios=((0.2, 1.0),))
    law = EffectLaw(guesses=(0.2,), stated=False)
    one = np.array(learned(centred(known), model, law))
    other = np.array(learned(centred(moved), model, law))
    # A boundary of equal parts may fall on another of the effects that are tried.
    np.testing.assert_allclose(np.log(other / scale / one).mean(axis=0), 0, atol=0.03)


def test_what_all_actions_share_is_no_effect():
    """Rewards that depend on the features alike under every action show no effect."""
    random = np.random.default_rng(5)
    rows = np.column_stack([np.ones(3_000), random.standard_normal((3_000, 2))])
    actions = random.integers(0, 3, 3_000)
    rewards = 40 + rows @ [0.0, 6.0, -3.0] + random.standard_normal(3_000)
    known = Statistics.zero(3, 3).add(rows, rewards, actions)
    model = Model(layout="block", actions=3, dim=3, scenarios=((0.5, 1.0),))
    after = model_given(model, EffectLaw(guesses=(0.5,)), known, None)
    assert np.median([effect for effect, _ in after.scenarios]) < 0.1
    # Nor do the draws: the actions' parameters differ by little, and all are near the slopes.
    theta = after.ensemble(64, seed=1).theta
    assert np.abs(theta - theta.mean(axis=1, keepdims=True)).max() < 0.3
    assert after.ensemble(64, seed=1).rates([1]).uniform.mean() < 0.1


def test_outcomes_that_are_all_zero_teach_nothing():
    known = Statistics.zero(3, 3)
    model = Model(layout="block", actions=3, dim=3, scenarios=((0.5, 1.0),))
    assert learned(known, model, EffectLaw(guesses=(0.5,))) == model.scenarios


def test_without_residuals_the_stated_noise_is_the_middle():
    _, _, _, known = outcomes(3, models=3, dim=3)
    known = replace(known, count=np.minimum(known.count, 1))
    model = Model(layout="block", actions=3, dim=3, scenarios=((0.5, 2.0),))
    noises = [noise for _, noise in learned(known, model, EffectLaw(guesses=(0.5,)))]
    assert 0.15 < min(noises) <= max(noises) < 25


def test_the_shared_model_has_no_common_part():
    _, _, _, known = outcomes(30, models=1)
    model = Model(layout="shared", actions=3, dim=3, scenarios=((0.5, 1.0),))
    assert common_spread(known, model) == 0
    assert common_spread(known, replace(model, layout="block")) > 0
