"""The log of a learner and of a simulation: all units, as rows for inference."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.environments import ArrayEnvironment
from seqbatch.policies import SBUCB, EpsilonGreedy, UniformRandom
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


def test_a_log_that_there_is_not_is_refused():
    with refused("invalid-argument", field="log", received="no unit so far"):
        learner().log()
    with refused("invalid-argument", field="log"):
        Learner(UniformRandom(), GRID, actions=3, dim=3).log()
    with refused("invalid-argument", field="method"):
        simulate(UniformRandom(), ArrayEnvironment(X, TABLE), GRID, method="device", keep_log=True)
