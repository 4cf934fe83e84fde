"""Pooled estimates, wave levels, the joint ridge, and a greedy last batch."""

import numpy as np
import pytest

from seqbatch import Learner, grids
from seqbatch.core.averaged_regression import averaged_regression
from seqbatch.core.cross_validation import cross_validated
from seqbatch.core.joint_regression import JointSums
from seqbatch.core.statistics import Statistics
from seqbatch.policies import LBGL, RBGL, SBPE, SBUCB, JointRidge, ThompsonSampling
from tests.refusals import refused

K, P = 3, 4
ENDS = (90, 200, 400)


def world(seed, *, shocks=(0.0, 0.0, 0.0)):
    """Return contexts with a constant first, and the outcomes of all actions."""
    random = np.random.default_rng(seed)
    x = np.column_stack([np.ones(ENDS[-1]), random.standard_normal((ENDS[-1], P - 1))])
    theta = random.standard_normal(P) + 0.3 * random.standard_normal((K, P))
    level = np.repeat(shocks, np.diff([0, *ENDS]))
    return x, x @ theta.T + 0.5 * random.standard_normal((len(x), K)) + level[:, None]


def learner(policy, seed=3):
    return Learner(policy, grids.explicit(ENDS), actions=K, dim=P, layout="block", seed=seed)


LEVELED = [
    SBPE(first="uniform", waves="own level", constant=0),
    SBPE(first="uniform", waves="own level", constant=0, estimate="pooled"),
    RBGL(first="uniform", waves="own level", constant=0, ridge=2.0),
    SBUCB(first="uniform", waves="own level", constant=0, gamma=0.5),
    SBUCB(first="uniform", waves="own level", constant=0, estimate="pooled", noise="outcomes"),
    ThompsonSampling(first="uniform", waves="own level", constant=0, scale="outcomes", samples=64),
    ThompsonSampling(first="uniform", waves="own level", constant=0, estimate="pooled", samples=64),
    JointRidge(waves="own level", constant=0, start=0),
    JointRidge(waves="own level", constant=0, estimate="averaged"),
]


@pytest.mark.parametrize("policy", LEVELED, ids=str)
def test_wave_levels_are_invariant(policy):
    """A constant added to all outcomes of a wave changes no decision; without levels it does."""
    x, table = world(1)
    shocked = table + np.repeat([0.0, 1.5, -2.0], np.diff([0, *ENDS]))[:, None]
    plain, moved = learner(policy), learner(policy)
    assert np.array_equal(plain.replay(x, table), moved.replay(x, shocked))
    apart = plain.estimate.theta - moved.estimate.theta
    assert np.allclose(apart, 0, atol=1e-7)


def test_without_levels_a_shock_moves_estimates():
    x, table = world(1)
    shocked = table + np.repeat([0.0, 1.5, -2.0], np.diff([0, *ENDS]))[:, None]
    policy = SBPE(first="uniform")
    plain, moved = learner(policy), learner(policy)
    plain.replay(x, table), moved.replay(x, shocked)
    assert np.abs(plain.estimate.theta[:, 1:] - moved.estimate.theta[:, 1:]).max() > 0.05


def test_wave_levels_equal_dummies():
    """SBPE with levels is least squares with a column for each wave but the first."""
    x, table = world(4, shocks=(0.0, 2.0, -1.0))
    played = learner(SBPE(first="uniform", waves="own level", constant=0))
    actions = played.replay(x, table)
    own = np.zeros((len(x), K * P))
    for row, action in enumerate(actions):
        own[row, action * P : (action + 1) * P] = x[row]
    waves = np.searchsorted(ENDS, np.arange(len(x)), side="right")
    design = np.column_stack([own, waves == 1, waves == 2])
    rewards = table[np.arange(len(x)), actions]
    dense = np.linalg.lstsq(design, rewards, rcond=None)[0][: K * P].reshape(K, P)
    assert np.allclose(played.estimate.theta, dense, atol=1e-8)


def test_joint_ridge_is_cross_validated():
    """Folds are parts of each batch; the estimate is that of the sums of the folds."""
    x, table = world(2)
    policy = JointRidge(constant=0)
    state = learner(policy)
    actions = state.replay(x, table)
    rewards = table[np.arange(len(x)), actions]
    positions = np.concatenate([np.arange(size) for size in np.diff([0, *ENDS])])
    sizes = np.repeat(np.diff([0, *ENDS]), np.diff([0, *ENDS]))
    folds = ((positions + 1) * 5 - 1) // sizes
    parts = [
        JointSums.of(
            [Statistics.zero(K, P).add(x[folds == f], rewards[folds == f], actions[folds == f])]
        )
        for f in range(5)
    ]
    expected = cross_validated(parts, constant=0).fit.theta
    assert np.allclose(state.estimate.theta, expected, atol=1e-10)


@pytest.mark.parametrize("layout", ["block", "shared"])
def test_the_last_two_batches_are_averaged(layout):
    """Earlier ones, and all of the shared layout, are cross-validated."""
    random = np.random.default_rng(5)
    x = random.standard_normal((500, 2, 3))
    x[..., 0] = 1.0
    grid, kinds = grids.explicit((50, 110, 200, 350, 500)), []
    plain, averaged = (
        Learner(policy, grid, actions=2, dim=3, layout=layout, seed=1)
        for policy in (JointRidge(constant=0), JointRidge(constant=0, estimate="averaged"))
    )
    for start, end in zip((0, *grid.ends), grid.ends, strict=False):
        contexts = x[start:end, 0] if layout == "block" else x[start:end]
        outcomes = x[start:end, 0, 1] + random.standard_normal(end - start)
        actions = [made.assign(contexts).actions for made in (plain, averaged)]
        kinds.append(np.array_equal(plain.estimate.theta, averaged.estimate.theta))
        if not kinds[-1]:
            break
        assert np.array_equal(*actions)
        for made in (plain, averaged):
            made.observe(outcomes)
    assert kinds == ([True] * 3 + [False] if layout == "block" else [True] * 5)
    if layout == "block":
        state = averaged.state
        (folds,) = averaged.policy.joint_sums(state)
        sums = sum_of(folds)
        assert np.array_equal(averaged.estimate.theta, averaged_regression(sums, constant=0).theta)


def sum_of(folds):
    total = folds[0]
    for fold in folds[1:]:
        total = total.plus(fold)
    return total


def test_two_batches_are_cross_validated():
    x, table = world(2)
    thetas = []
    for policy in (JointRidge(constant=0), JointRidge(constant=0, estimate="averaged")):
        made = Learner(policy, grids.explicit((90, 400)), actions=K, dim=P, layout="block", seed=3)
        made.replay(x, table)
        thetas.append(made.estimate.theta)
    assert np.array_equal(*thetas)


def test_random_until_there_are_enough():
    grid = grids.explicit((10, 30, 70, 150, 300))
    for start, blind in ((0, 1), (3, 1), (4, 2), (20, 3), (1_000, 4)):
        policy = JointRidge(constant=0, start=start)
        made = Learner(policy, grid, actions=3, dim=2, layout="block")
        x = np.column_stack([np.ones(300), np.linspace(-1, 1, 300)])
        kinds = []
        for size in grid.sizes:
            kinds.append(policy.rule(made.state).kind)
            made.assign(x[:size])
            made.observe(np.linspace(0, 1, size))
        assert kinds == ["uniform"] * blind + ["highest"] * (5 - blind), start


def test_greedy_last_batch():
    x, table = world(3)
    policy = ThompsonSampling(first="uniform", last="greedy", samples=32)
    made = learner(policy)
    made.replay(x[: ENDS[1]], table[: ENDS[1]])
    decision = made.assign(x[ENDS[1] :])
    assert np.array_equal(decision.actions, (x[ENDS[1] :] @ made.estimate.theta.T).argmax(axis=1))
    assert set(np.unique(decision.probabilities)) == {0.0, 1.0}
    one = Learner(policy, grids.explicit([50]), actions=K, dim=P, layout="block")
    assert np.allclose(one.assign(x[:50]).probabilities, 1 / K)


def test_an_action_without_outcomes_has_the_common_part():
    """Pooled, it is as good as the others are on average; alone, it is avoided."""
    random = np.random.default_rng(0)
    x = np.column_stack([np.ones(60), random.standard_normal(60)])
    statistics = Statistics.zero(3, 2).add(
        x, 1.0 + x[:, 1] + 0.1 * random.standard_normal(60), np.arange(60) % 2
    )
    policy = SBPE(first="uniform", unknown="avoid", estimate="pooled", constant=0)
    start = learner(policy).problem
    state = policy.begin(type(start)(ends=(60, 90), actions=3, dim=2, layout="block"))
    state = policy.close(policy.absorb(state, 0, statistics))
    theta = state.estimates[0].theta
    assert np.allclose(theta[2], theta[:2].mean(axis=0), atol=0.02)
    assert policy.rule(state).among is None


@pytest.mark.parametrize("factor", [1e-3, 50.0])
def test_scale_of_outcomes(factor):
    """With the outcomes' own noise, shares do not depend on the outcomes' unit of measure."""
    x, table = world(6)
    for policy in (
        ThompsonSampling(first="uniform", scale="outcomes", samples=64),
        SBUCB(first="uniform", noise="outcomes", gamma=1.0),
        LBGL(noise="outcomes", scale=0.05),
        ThompsonSampling(
            first="uniform", scale="outcomes", samples=64, estimate="pooled", constant=0
        ),
        JointRidge(constant=0),
        JointRidge(constant=0, estimate="averaged"),
    ):
        plain, scaled = learner(policy), learner(policy)
        same = plain.replay(x, table) == scaled.replay(x, factor * table)
        assert same.mean() > 0.995, policy


def test_refusals():
    with refused("invalid-argument", field="constant"):
        SBPE(waves="own level")
    with refused("invalid-argument", field="constant"):
        learner(JointRidge(constant=P))
    with refused("invalid-argument", field="estimate"):
        SBPE(estimate="all")
    with refused("invalid-argument", field="estimate"):
        JointRidge(estimate="pooled")
    x, table = world(1)
    with refused("invalid-argument", field="constant"):
        learner(JointRidge(constant=1)).replay(x, table)
