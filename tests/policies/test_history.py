"""Policies that start from the sums of an earlier experiment."""

import json
from dataclasses import replace

import numpy as np
import pytest

from seqbatch import Learner, checks, grids
from seqbatch.core import Statistics
from seqbatch.core.history import DRIFTS, GUESS, joint_noise, likeliest_ridge
from seqbatch.environments import Gaussian
from seqbatch.policies import RBGL, SBPE, SBUCB, History, JointRidge, ThompsonSampling, registry
from seqbatch.simulation import Study
from tests.oracles import history as oracle
from tests.oracles.pooling import joint_ridge
from tests.refusals import refused

K, P = 3, 4
ENDS = (80, 200, 400)
GRID = grids.explicit(ENDS)


def units(seed, count, theta, *, noise=0.7):
    random = np.random.default_rng(seed)
    x = np.column_stack([np.ones(count), random.standard_normal((count, P - 1))])
    return x, x @ theta.T + noise * random.standard_normal((count, len(theta)))


def world(seed=0, *, drift=0.0, count=300):
    """Return an earlier experiment's rows in two batches, and the new units with all outcomes."""
    random = np.random.default_rng(seed)
    theta = random.standard_normal(P) + 0.4 * random.standard_normal((K, P))
    x, table = units(seed + 1, count, theta)
    actions = random.integers(0, K, count)
    y = table[np.arange(count), actions]
    theta = theta + drift * random.standard_normal(theta.shape)
    return (x, actions, y), units(seed + 2, ENDS[-1], theta)


def history(rows, **settings):
    x, actions, y = rows
    half = len(x) // 2
    parts = [
        Statistics.zero(K, P).add(x[part], y[part], actions[part])
        for part in (slice(0, half), slice(half, None))
    ]
    return History.of(parts, constant=0, **settings)


def learner(policy, actions=K):
    return Learner(policy, GRID, actions=actions, dim=P, layout="block", seed=5)


def start(policy, **settings):
    return replace(policy, first="fixed", constant=0, **settings)


POLICIES = [
    JointRidge(constant=0),
    SBPE(estimate="pooled"),
    RBGL(estimate="pooled"),
    SBUCB(estimate="pooled", gamma=0.4, noise="outcomes"),
    ThompsonSampling(estimate="pooled", samples=64, scale="outcomes"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_estimate_is_the_posterior_of_both(policy):
    """With a stated drift, and batch by batch; the first batch follows from the history alone."""
    rows, (x, table) = world()
    made = start(policy, history=history(rows, drift=0.2))
    played = learner(made)
    _, penalty = likeliest_ridge(made.history.regression(0, leveled=False)[0], constant=0)
    none = np.zeros((0, P)), np.zeros(0, dtype=int), np.zeros(0)
    taken = np.zeros(0, dtype=int)
    for end in (0, *ENDS[:2]):
        if end:
            wave = np.arange(len(taken), end)
            taken = np.concatenate([taken, played.assign(x[wave]).actions])
            played.observe(table[wave, taken[wave]])
        new = (x[:end], taken, table[np.arange(end), taken]) if end else none
        variance = 0.37
        law = {
            "drift": 0.2,
            "deviations": np.full(P, np.sqrt(variance / penalty)),
            "open_sd": np.array([1e5, *[2 * np.sqrt(variance / penalty)] * (P - 1)]),
            "variance": variance,
        }
        mean, covariance = oracle.posterior(
            (*rows, np.zeros((len(rows[0]), 0))), (*new, np.zeros((end, 0))), K, **law
        )
        assert np.allclose(played.estimate.theta, mean, atol=1e-6)
        if isinstance(policy, SBUCB):
            root = played.estimate.root
            widths = np.einsum("aji,ajk->aik", root, root)
            scale = widths[0, 0, 0] / covariance[0, 0, 0]
            assert np.allclose(widths, scale * covariance, rtol=1e-4, atol=1e-6)
        if isinstance(policy, ThompsonSampling):
            draws = played.state.estimates[1].theta.reshape(64, K, P)
            assert np.allclose(draws.mean(axis=0), mean, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_learned_drift_is_an_average(policy):
    """Weighed by how likely the outcomes are under each drift, and without history."""
    rows, (x, table) = world(3, drift=0.1)
    earlier = history(rows)
    made = start(policy, history=earlier)
    played = learner(made)
    assert made.drifts(played.state) == {GUESS: 1.0}
    actions = played.replay(x[: ENDS[0]], table[: ENDS[0]])
    weights = made.drifts(played.state)
    assert list(weights) == [*DRIFTS, None]
    assert sum(weights.values()) == pytest.approx(1.0)
    y = table[np.arange(ENDS[0]), actions]
    sums, _ = earlier.regression(0, leveled=False)
    _, penalty = likeliest_ridge(sums, constant=0)
    alone = Statistics.zero(K, P).add(x[: ENDS[0]], y, actions)
    new = replace(history(rows), sums=History.of([alone], constant=0).sums).regression(
        0, leveled=False
    )[0]
    variance = joint_noise([sums, new])
    law = {
        "deviations": np.full(P, np.sqrt(variance / penalty)),
        "open_sd": np.array([1e4, *[2 * np.sqrt(variance / penalty)] * (P - 1)]),
        "variance": variance,
    }
    both = (
        (*rows, np.zeros((len(rows[0]), 0))),
        (x[: ENDS[0]], actions, y, np.zeros((ENDS[0], 0))),
    )
    logs = [oracle.log_density(*both, K, drift=drift, **law) for drift in DRIFTS]
    likely = np.exp(np.array(logs) - max(logs))
    found = np.array([weights[drift] for drift in DRIFTS])
    assert np.allclose(found / found.sum(), likely / likely.sum(), atol=1e-4)
    means = [oracle.posterior(*both, K, drift=drift, **law)[0] for drift in DRIFTS]
    without = made.without_history(made.joint_sums(played.state)[0]).fit.theta
    average = sum(weights[drift] * mean for drift, mean in zip(DRIFTS, means, strict=True))
    assert np.allclose(played.estimate.theta, average + weights[None] * without, atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES[:2], ids=lambda policy: type(policy).__name__)
def test_a_history_of_another_world_is_dropped(policy):
    rows, (x, table) = world(5)
    wrong = (rows[0], (rows[1] + 1) % K, 3 * rows[2])
    made, alone = start(policy, history=history(wrong)), replace(policy, constant=0)
    played = learner(replace(made, first="uniform"))
    played.replay(x[: ENDS[1]], table[: ENDS[1]])
    plain = learner(replace(alone, first="uniform"))
    plain.replay(x[: ENDS[0]], table[: ENDS[0]])
    assert made.drifts(played.state)[None] > 1 - 1e-9
    without = made.without_history(made.joint_sums(played.state)[0]).fit.theta
    assert np.allclose(played.estimate.theta, without, atol=1e-8)
    state = learner(replace(made, first="uniform"))
    state.replay(x[: ENDS[0]], table[: ENDS[0]])
    fit = made.without_history(made.joint_sums(state.state)[0]).fit.theta
    assert np.array_equal(fit, plain.estimate.theta)


def test_without_drift_the_sums_are_merged_and_with_a_huge_one_forgotten():
    rows, (x, table) = world(6)
    same, far = (
        learner(start(JointRidge(), history=history(rows, drift=drift))) for drift in (0.0, 1e5)
    )
    actions = [each.replay(x[: ENDS[0]], table[: ENDS[0]]) for each in (same, far)]
    y = table[np.arange(ENDS[0]), actions[1]]
    for action in range(K):
        own = actions[1] == action
        fitted = np.linalg.lstsq(x[: ENDS[0]][own], y[own], rcond=None)[0]
        assert np.allclose(far.estimate.theta[action], fitted, atol=1e-6)
    own = x[: ENDS[0]], actions[0], table[np.arange(ENDS[0]), actions[0]]
    merged = [np.concatenate([old, new]) for old, new in zip(rows, own, strict=True)]
    _, penalty = likeliest_ridge(history(rows).regression(0, leveled=False)[0], constant=0)
    common = np.full(P, penalty / 4)
    common[0] = 0.0
    theta, _ = joint_ridge(*merged, K, common=common, deviations=np.full(P, penalty))
    assert np.allclose(same.estimate.theta, theta, atol=1e-9)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_levels_of_batches_and_of_experiments_do_not_matter(policy):
    """A constant added to all outcomes of any batch, old or new, changes no decision."""
    rows, (x, table) = world(7)
    shift = np.repeat([4.0, -3.0], len(rows[0]) // 2)
    moved = (*rows[:2], rows[2] + shift)
    shocked = table + np.repeat([5.0, -2.0, 1.0], np.diff([0, *ENDS]))[:, None]
    one, two = (
        learner(start(policy, waves="own level", history=history(each))) for each in (rows, moved)
    )
    assert np.array_equal(one.replay(x, table), two.replay(x, shocked))
    assert np.allclose(one.estimate.theta[:, 1:], two.estimate.theta[:, 1:], atol=1e-6)
    weights = (each.policy.drifts(each.state).values() for each in (one, two))
    assert np.allclose(*map(list, weights), atol=1e-6)


def test_actions_are_matched_and_new_ones_have_what_the_others_share():
    rows, _ = world(8)
    earlier = history(rows)
    every = learner(start(JointRidge(), history=earlier)).estimate.theta
    policy = start(
        ThompsonSampling(estimate="pooled", samples=512),
        history=replace(earlier, places=(2, -1, 0, -1)),
    )
    made = learner(policy, actions=4)
    theta = made.estimate.theta
    assert np.allclose(theta[[0, 2]], every[[2, 0]])
    assert np.allclose(theta[1], theta[3])
    draws = made.state.estimates[1].theta.reshape(512, 4, P)
    spread = draws.std(axis=0)
    assert (spread[[1, 3], 1:] > 1.5 * spread[[0, 2], 1:]).all()
    # Two new actions are tied by what they share, but are not the same.
    assert 0.1 < np.corrcoef(draws[:, 1, 1], draws[:, 3, 1])[0, 1] < 0.9


def test_plain_values_and_files(tmp_path):
    rows, (x, table) = world(9)
    policy = start(JointRidge(), waves="own level", history=history(rows, drift=0.1))
    described = json.loads(json.dumps(registry.describe(policy)))
    assert registry.make(**described) == policy
    assert replace(policy.history, drift=0.2) != policy.history
    played = learner(policy)
    played.replay(x[: ENDS[0]], table[: ENDS[0]])
    played.save(tmp_path / "learner")
    again = Learner.load(tmp_path / "learner")
    assert again.policy == policy
    assert np.array_equal(again.assign(x[:120]).actions, played.assign(x[:120]).actions)
    assert "history" not in registry.describe(JointRidge())


@pytest.mark.slow
def test_conformance():
    earlier = history(world()[0])
    for policy in (JointRidge(history=earlier), RBGL(estimate="pooled", history=earlier)):
        assert len(checks.check_policy(policy).rules) == len(checks.POLICY_CHECKS)


def test_studies_start_from_a_history(tmp_path):
    (x, actions, y), _ = world()
    earlier = History.of([Statistics.zero(K, P).add(x, y, actions)])
    policies = {"with": JointRidge(first="fixed", history=earlier)}
    one = Study(environments={"known": Gaussian(dim=P, actions=K, layout="block")},
                policies=policies, horizons=[200], batches=[2], trials=1,
                method="device", device="numpy")  # fmt: skip
    assert Study.load(one.save(tmp_path / "study.toml")).policies == policies
    # Trials are simulated together.
    two = replace(one, trials=2).run().runs
    assert two["regret"][0] == one.run().runs["regret"][0] != two["regret"][1]


def test_many_trials_at_once_have_the_estimates_of_one():
    rows, (x, table) = world(11)
    policy = start(JointRidge(), waves="own level", history=history(rows))
    states = []
    for outcomes in (table, 1 - 2 * table):
        played = learner(policy)
        played.replay(x[: ENDS[0]], outcomes[: ENDS[0]])
        states.append(played.state)
    both = [
        Statistics(*(np.concatenate([getattr(part, name) for part in parts])
                     for name in ("gram", "moment", "squares", "count")))
        for parts in zip(*(state.evidence for state in states), strict=True)
    ]  # fmt: skip
    found = policy.refit(replace(states[0], evidence=tuple(both))).estimates[0].theta
    alone = [policy.refit(state).estimates[0].theta for state in states]
    assert np.array_equal(found, np.concatenate(alone))


def test_refusals():
    rows, _ = world()
    earlier = history(rows)
    with refused("invalid-argument", field="history"):
        SBPE(history=earlier)
    with refused("invalid-argument", field="history"):
        JointRidge(history={"sums": {}})
    with refused("invalid-argument", field="history"):
        learner(JointRidge(history=earlier), actions=2)
    with refused("invalid-argument", field="layout"):
        Learner(JointRidge(history=earlier), GRID, actions=K, dim=P)
    with refused("invalid-argument", field="places"):
        replace(earlier, places=(0, 1, 3))
    with refused("invalid-argument", field="places"):
        replace(earlier, places=(0, 1, 1))
    with refused("invalid-argument", field="drift"):
        replace(earlier, drift=-0.1)
    with refused("invalid-argument", field="history"):
        History.of([Statistics.zero(K, P)])
