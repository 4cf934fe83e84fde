"""The log of a learner and of a simulation: all units, as rows for inference."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core import Contexts
from seqbatch.environments import ArrayEnvironment
from seqbatch.inference import evaluate
from seqbatch.policies import (
    RBGL,
    SBUCB,
    EpsilonGreedy,
    ThompsonSampling,
    UniformRandom,
)
from seqbatch.simulation import simulate
from tests.refusals import refused

random = np.random.default_rng(6)
X = np.column_stack([np.ones(90), random.standard_normal((90, 2))])
TABLE = random.standard_normal((90, 3))
MAY = np.column_stack([np.ones(90), random.random((90, 2)) < 0.7]).astype(bool)
GRID = grids.explicit([30, 60, 90])


def learner(policy=None, **options):
    made = policy or EpsilonGreedy(epsilon=0.3)
    return Learner(made, GRID, actions=3, dim=3, layout="block", keep_log=True, **options)


def shares_of(eligible):
    """Return uniform probabilities."""
    return eligible / eligible.sum(axis=1, keepdims=True)


def test_a_log_holds_what_was_decided_and_known(tmp_path):
    made, decisions = learner(), []
    for start in (0, 30):
        rows = slice(start, start + 30)
        decisions.append(made.assign(X[rows], eligible=MAY[rows]))
        outcomes = TABLE[rows][np.arange(30), decisions[-1].actions]
        outcomes[[2, 5]] = np.nan
        made.observe(outcomes, late={2: 4.0} if start else None)
    decisions.append(made.assign(X[60:75]))
    made.save(tmp_path / "learner")
    for each in (made, Learner.load(tmp_path / "learner")):
        log = each.log()
        for name in ("actions", "probabilities"):
            joined = np.concatenate([getattr(one, name) for one in decisions])
            assert np.array_equal(getattr(log, name), joined)
        assert log.waves.tolist() == [1] * 30 + [2] * 30 + [3] * 15
        assert np.flatnonzero(~log.returned).tolist() == [5, 32, 35, *range(60, 75)]
        assert log.outcomes[2] == 4.0
        assert np.array_equal(log.eligible[:60], MAY[:60])
        assert log.eligible[60:].all()
        assert np.array_equal(log.contexts, X[:75])
        # What units would have got in other waves; in its own, what each got.
        assert log.by_wave.shape == (75, 3, 3)
        own = log.by_wave[np.arange(75), log.waves - 1]
        assert np.array_equal(own, log.probabilities)
        assert np.array_equal(log.by_wave[:5, 0], shares_of(MAY[:5]))
        # A constant once, and the other columns standardised.
        assert log.features.mean(axis=0) == pytest.approx([1, 0, 0], abs=1e-12)
        assert log.features.std(axis=0) == pytest.approx([0, 1, 1])


def test_a_replay_is_logged_and_a_simulation_too():
    plain = Learner(SBUCB(gamma=0.4), GRID, actions=3, dim=3, layout="block", seed=2)
    made = learner(SBUCB(gamma=0.4), seed=2)
    actions = made.replay(X, TABLE)
    assert np.array_equal(actions, plain.replay(X, TABLE))
    assert np.array_equal(made.log().actions, actions)
    assert np.array_equal(made.log().outcomes, TABLE[np.arange(90), actions])
    world = ArrayEnvironment(X, TABLE)
    run = simulate(UniformRandom(), world, GRID, seed=1, keep_log=True)
    assert np.array_equal(run.rows.outcomes, TABLE[np.arange(90), run.rows.actions])
    assert np.array_equal(run.rows.waves, np.repeat([1, 2, 3], 30))
    assert simulate(UniformRandom(), world, GRID, seed=1).rows is None


@pytest.mark.parametrize("policy", [RBGL(ties="random"), ThompsonSampling(samples=8), SBUCB(0.5)])
def test_a_log_says_what_units_would_have_got_in_other_waves(policy):
    made, opened = learner(policy, seed=3), []
    for start in (0, 30, 60):
        opened.append(made.state)
        given = made.assign(X[start : start + 30]).actions
        made.observe(TABLE[np.arange(start, start + 30), given])
    log, units = made.log(), np.arange(90)
    for wave, state in enumerate(opened):
        decided = policy.assign(state, Contexts.of(X, made.problem), units / 90, units % 30)
        assert np.array_equal(log.by_wave[:, wave], decided.probabilities)
    simulated = simulate(policy, ArrayEnvironment(X, TABLE), GRID, seed=1, keep_log=True).rows
    own = simulated.by_wave[units, simulated.waves - 1]
    assert np.array_equal(own, simulated.probabilities)


def test_a_log_under_limits_or_of_many_waves_says_what_units_got_alone():
    limited = learner()
    limited.assign(X[:30], capacity={1: 5})
    assert limited.log().by_wave is None
    many = grids.uniform(units=90, batches=30)
    run = simulate(UniformRandom(), ArrayEnvironment(X, TABLE), many, keep_log=True)
    assert run.rows.by_wave is None


def test_a_learner_recommends_the_highest_estimated_mean():
    made = learner(UniformRandom())
    for start in (0, 30, 60):
        given = made.assign(X[start : start + 30]).actions
        made.observe(X[start : start + 30] @ [0.0, 1.0, 0.0] * (given == 1))
    shares = made.recommend(X, eligible=MAY)
    assert (shares[~MAY] == 0).all()
    assert (shares[(X[:, 1] > 0) & MAY[:, 1], 1] == 1).all()
    assert made.recommend([[1.0, -2.0, 0.0]])[0, 1] == 0
    log = learner(UniformRandom(), seed=5)
    log.replay(X, TABLE)
    by_hand = evaluate(log.log(), made.recommend(X))
    assert evaluate(log.log(), made) == by_hand


def test_a_log_that_there_is_not_is_refused():
    with refused("invalid-argument", field="log", received="no unit so far"):
        learner().log()
    with refused("invalid-argument", field="log"):
        Learner(UniformRandom(), GRID, actions=3, dim=3).log()
    with refused("invalid-argument", field="method"):
        simulate(UniformRandom(), ArrayEnvironment(X, TABLE), GRID, method="device", keep_log=True)
