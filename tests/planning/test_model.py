"""What a plan assumes of the world: the stated gain, and what data say, as Bayes' rule has it."""

import numpy as np
import pytest
from numpy.random import SeedSequence

from seqbatch.core import Statistics
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.replanning import whitened
from seqbatch.planning.trials.draws import KeptDraws
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_runs import KnownPast
from tests.refusals import refused

NOISE = 2.0


def outcomes_of(units):
    """Return rows behind a constant, two actions and noisy rewards."""
    random = np.random.default_rng(4)
    features = 5 + random.standard_normal((units, 2)) @ [[2.0, 1.0], [0.0, 3.0]]
    rows = np.column_stack([np.ones(units), features])
    actions = random.integers(0, 2, units)
    rewards = np.where(actions == 1, 0.5 * rows[:, 1], 1.0) + NOISE * random.standard_normal(units)
    return rows, actions, rewards


@pytest.mark.parametrize("layout", ["shared", "block"])
def test_a_perfect_assignment_gains_the_stated_effect(layout):
    model = Model(layout=layout, actions=3, dim=4, scenarios=((0.2, 1.0), (0.6, 1.0)))
    # A uniform first batch loses all that could be gained.
    assert model.ensemble(64, seed=1).rates([1]).regret.mean() == pytest.approx(0.4)


def test_parameters_are_drawn_from_the_posterior():
    rows, actions, rewards = outcomes_of(30)
    rows[:, 1:] -= 5
    known = Statistics.zero(cells=2, dim=3).add(rows, rewards, actions)
    model = Model(
        layout="block", actions=2, dim=3, scenarios=((0.6, NOISE),),
        past=KnownPast(known.gram, known.moment),
    )  # fmt: skip
    drawn = model.ensemble(40_000, seed=1).theta
    spread = model.spread(0.6)
    for action in (0, 1):
        x, y = rows[actions == action], rewards[actions == action]
        covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(3) / spread**2)
        mean = covariance @ (x.T @ y) / NOISE**2
        error = np.sqrt(covariance.diagonal() / 40_000)
        assert (np.abs(drawn[:, action].mean(axis=0) - mean) < 4.5 * error).all()
        sizes = np.sqrt(covariance.diagonal())
        gap = (np.cov(drawn[:, action].T) - covariance) / np.outer(sizes, sizes)
        assert np.abs(gap).max() < 4.5 * np.sqrt(2 / 40_000)


def test_whitened_features_have_no_mean_and_unit_covariance():
    rows, actions, rewards = outcomes_of(400)
    known = Statistics.zero(cells=2, dim=3).add(rows, rewards, actions)
    model = Model(layout="block", actions=2, dim=3, scenarios=((0.6, NOISE),))
    past = whitened(known, None, model)
    np.testing.assert_allclose(past.gram.sum(axis=0) / 400, np.eye(3), atol=1e-9)
    # The same fit in other coordinates leaves the same squares unexplained.
    for cell in (0, 1):
        here = known.moment[cell] @ np.linalg.solve(known.gram[cell], known.moment[cell])
        there = past.moment[cell] @ np.linalg.solve(past.gram[cell], past.moment[cell])
        assert there == pytest.approx(here)


def test_the_first_batch_chooses_by_the_fit_to_what_is_known():
    """The fit is the truth, although the sums that it comes from point elsewhere."""
    theta = np.broadcast_to([[0.0, 0.3, 0.0], [0.0, 0.0, 0.3]], (20, 2, 3))
    gram = np.array([np.diag([50.0, 900.0, 30.0]) + 10, np.diag([50.0, 30.0, 40.0])])
    moment = np.einsum("aij,aj->ai", gram, theta[0])
    trials = BlockEnsemble(
        theta, np.ones(20), KeptDraws(SeedSequence(1)), past=KnownPast(gram, moment)
    )
    assert trials.rates([100]).regret.max() < 1e-6


@pytest.mark.parametrize("layout", ["shared", "block"])
def test_scenarios_count_by_their_weights(layout):
    """Nine in ten with an effect of 0.2, one with 2.2: 0.4 on average, each gained exactly."""
    model = Model(
        layout=layout, actions=3, dim=4, scenarios=((0.2, 1.0), (2.2, 1.0)), weights=(0.9, 0.1)
    )
    assert model.effect == pytest.approx(0.4)
    # Seven trials of the likely one for one of the other.
    assert model.strata == (0,) * 7 + (1,)
    trials = model.ensemble(63, seed=1)
    assert trials.trials == 64
    rates = trials.rates([1])
    assert (rates.weight * rates.uniform).mean() == pytest.approx(0.4)
    np.testing.assert_allclose(rates.by_scenario([1]), [0.9 * 0.2, 0.1 * 2.2])
    np.testing.assert_allclose(rates.uniform.reshape(-1, 8).mean(axis=0), [0.2] * 7 + [2.2])
    weights = [trial.weight for trial in model.thinned(3, seed=1)]
    assert weights == pytest.approx([0.9 / 7 * 8] * 7 + [0.1 * 8])


def test_scenarios_are_equally_likely_unless_weighted():
    model = Model(layout="shared", actions=2, dim=2, scenarios=((0.2, 1.0), (0.6, 1.0)))
    assert model.weights == (0.5, 0.5)


@pytest.mark.parametrize("weights", [(1.0,), (0.5, 0.6), (0.0, 1.0)])
def test_weights_that_are_not_those_of_the_scenarios(weights):
    with refused("invalid-argument", field="weights"):
        Model(layout="shared", actions=2, dim=2, scenarios=((1, 1), (2, 1)), weights=weights)
